/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A machine drawn as hwloc's XML; see the header.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ompi_config.h"

#include "topology_draw.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int next_index;

static void draw_pci(FILE *xml, int bus, int device, const char *type, const char *osdev)
{
    fprintf(
        xml,
        "<object type=\"PCIDev\" gp_index=\"%d\" pci_busid=\"0000:%02x:%02x.0\" pci_type=\"%s\" pci_link_speed=\"0\"",
        next_index++, (unsigned) bus, (unsigned) device, type);
    if (NULL == osdev) {
        fprintf(xml, "/>\n");
    } else {
        fprintf(xml, "><object type=\"OSDev\" gp_index=\"%d\" name=\"%s\" osdev_type=\"3\"/></object>\n", next_index++,
                osdev);
    }
}

static void draw_nic(FILE *xml, machine_t *machine, int bus, int device)
{
    char name[16];

    snprintf(name, sizeof(name), "mlx5_%d", machine->nnics++);
    draw_pci(xml, bus, device, "0207 [15b3:1021] [15b3:0041] 00", name);
}

static void draw_host_bridge(FILE *xml, machine_t *machine, int *bus)
{
    int first = *bus;
    int last = first + machine->switches * 2;
    int i;
    int j;

    fprintf(
        xml,
        "<object type=\"Bridge\" gp_index=\"%d\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"0000:[%02x-%02x]\">\n",
        next_index++, (unsigned) first, (unsigned) last);
    for (i = 0; i < machine->switches; ++i) {
        int below = first + 1 + i * 2;

        fprintf(
            xml,
            "<object type=\"Bridge\" gp_index=\"%d\" bridge_type=\"1-1\" depth=\"1\" bridge_pci=\"0000:[%02x-%02x]\" "
            "pci_busid=\"0000:%02x:%02x.0\" pci_type=\"0604 [10b5:8747] [0000:0000] ca\" pci_link_speed=\"0\">\n",
            next_index++, (unsigned) below, (unsigned) below + 1, (unsigned) first, (unsigned) i + 1);
        for (j = 0; j < machine->gpus; ++j) {
            draw_pci(xml, below, j, "0302 [10de:2330] [10de:16c1] a1", NULL);
            machine->gpu[machine->ngpus++] = (gpuhier_pci_id_t){.bus = (uint8_t) below, .device = (uint8_t) j};
        }
        for (j = 0; j < machine->nics; ++j) {
            draw_nic(xml, machine, below + 1, j);
        }
        fprintf(xml, "</object>\n");
    }
    fprintf(xml, "</object>\n");
    *bus = last + 1;
}

static void draw_lone_nic(FILE *xml, machine_t *machine, int *bus)
{
    fprintf(
        xml,
        "<object type=\"Bridge\" gp_index=\"%d\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"0000:[%02x-%02x]\">\n",
        next_index++, (unsigned) *bus, (unsigned) *bus);
    draw_nic(xml, machine, *bus, 0);
    fprintf(xml, "</object>\n");
    ++*bus;
}

hwloc_topology_t topology_draw(machine_t *machine)
{
    const unsigned all = (1u << machine->packages) - 1;
    hwloc_topology_t topology;
    char *text = NULL;
    size_t bytes = 0;
    FILE *xml = open_memstream(&text, &bytes);
    int bus = 0;
    int p;
    int i;

    assert_non_null(xml);
    next_index = 1;
    fprintf(xml, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
                 "<topology version=\"2.0\">\n");
#define SETS "cpuset=\"0x%x\" complete_cpuset=\"0x%x\" nodeset=\"0x%x\" complete_nodeset=\"0x%x\""
    fprintf(xml,
            "<object type=\"Machine\" os_index=\"0\" " SETS
            " allowed_cpuset=\"0x%x\" allowed_nodeset=\"0x%x\" gp_index=\"%d\">\n",
            all, all, all, all, all, all, next_index++);
    for (p = 0; p < machine->packages; ++p) {
        unsigned set = 1u << p;

        fprintf(xml, "<object type=\"Package\" os_index=\"%d\" " SETS " gp_index=\"%d\">\n", p, set, set, set, set,
                next_index++);
        fprintf(xml,
                "<object type=\"NUMANode\" os_index=\"%d\" " SETS " gp_index=\"%d\" local_memory=\"1073741824\"/>\n", p,
                set, set, set, set, next_index++);
        fprintf(xml, "<object type=\"PU\" os_index=\"%d\" " SETS " gp_index=\"%d\"/>\n", p, set, set, set, set,
                next_index++);
        for (i = 0; i < machine->host_bridges; ++i) {
            draw_host_bridge(xml, machine, &bus);
        }
        for (i = 0; i < machine->lone_nics; ++i) {
            draw_lone_nic(xml, machine, &bus);
        }
        fprintf(xml, "</object>\n");
    }
    fprintf(xml, "</object>\n</topology>\n");
    fclose(xml);
    assert_int_equal(0, hwloc_topology_init(&topology));
    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL);
    assert_int_equal(0, hwloc_topology_set_xmlbuffer(topology, text, (int) bytes + 1));
    assert_int_equal(0, hwloc_topology_load(topology));
    free(text);
    return topology;
}

void topology_name_nics(gpuhier_found_nic_t *nics, int count)
{
    int i;

    memset(nics, 0, sizeof(*nics) * (size_t) count);
    for (i = 0; i < count; ++i) {
        snprintf(nics[i].device, sizeof(nics[i].device), "mlx5_%d:1", i);
        nics[i].is_rdma = true;
        nics[i].is_taken = true;
    }
}
