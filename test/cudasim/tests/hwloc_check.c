/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The topology that cudasim_topo --hwloc-xml writes is one that hwloc takes, with every device at its place.
 *
 *   hwloc_check FILE.xml      made from three.topo
 */
#include <hwloc.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        unsigned bus, numa;
    } expected[] = {{"cuda0", 0x17, 0}, {"cuda1", 0x65, 1}, {"cuda2", 0x66, 1}, {"eth1", 0x18, 0}, {"eth2", 0x67, 1}};
    hwloc_topology_t topology;
    hwloc_obj_t device, place;
    size_t i, found = 0;

    if (2 != argc || 0 != hwloc_topology_init(&topology) || 0 != hwloc_topology_set_xml(topology, argv[1])) {
        fprintf(stderr, "hwloc does not take the file\n");
        return 1;
    }
    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL);
    if (0 != hwloc_topology_load(topology)) {
        fprintf(stderr, "hwloc does not load the topology\n");
        return 1;
    }
    hwloc_topology_check(topology);
    for (device = NULL; NULL != (device = hwloc_get_next_osdev(topology, device));) {
        for (i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
            if (0 != strcmp(expected[i].name, device->name)) {
                continue;
            }
            place = hwloc_get_non_io_ancestor_obj(topology, device);
            if (expected[i].bus != device->parent->attr->pcidev.bus || 1 != hwloc_bitmap_weight(place->nodeset)
                || !hwloc_bitmap_isset(place->nodeset, expected[i].numa)) {
                fprintf(stderr, "%s is at the wrong place\n", device->name);
                return 1;
            }
            found++;
        }
    }
    hwloc_topology_destroy(topology);
    if (found != sizeof(expected) / sizeof(expected[0])) {
        fprintf(stderr, "%zu devices found\n", found);
        return 1;
    }
    return 0;
}
