/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * How far network devices are from a GPU, in hwloc's tree of PCI bridges, NUMA nodes and packages; which devices are
 * left out as too far where there are many; and a GPU's package and PCI switch.
 *
 * A device is looked up by its name first, since hwloc knows "eth0" and "mlx5_0" as devices of the operating system,
 * and by its PCI address second. So the lookup also works for interfaces whose PCI address is not known, in a topology
 * from a file.
 *
 * Called by coll_gpuhier_topology.c, and by tests with topologies from files.
 */
#include "ompi_config.h"

#include "topology/coll_gpuhier_topology_internal.h"

#include <stdio.h>
#include <string.h>

#define PCI_VENDOR_NVIDIA 0x10de
#define PCI_CLASS_DISPLAY 0x03 /* the upper byte of the class of display controllers, with or without a screen */

enum {
    DISTANCE_BRIDGE = 0,
    DISTANCE_HOST_BRIDGE = 32,
    DISTANCE_NUMA = 64,
    DISTANCE_PACKAGE = 96,
    DISTANCE_MACHINE = 128,
    HOPS_MAX = 31
};

const char *gpuhier_distance_text(uint8_t distance)
{
    return GPUHIER_DISTANCE_UNKNOWN == distance ? "at an unknown place"
           : distance >= DISTANCE_MACHINE       ? "on another package than the GPU"
           : distance >= DISTANCE_PACKAGE       ? "on the GPU's package"
           : distance >= DISTANCE_NUMA          ? "on the GPU's NUMA node"
           : distance >= DISTANCE_HOST_BRIDGE   ? "below the GPU's PCI host bridge"
                                                : "below the GPU's PCI switch";
}

static hwloc_obj_t pci_object(hwloc_topology_t topology, const gpuhier_pci_id_t *pci)
{
    return hwloc_get_pcidev_by_busid(topology, pci->domain, pci->bus, pci->device, pci->function);
}

/* Finds a network device of the operating system by its name up to the colon, "mlx5_0" for "mlx5_0:1". */
static hwloc_obj_t named_object(hwloc_topology_t topology, const char *device)
{
    const size_t length = strcspn(device, ":");
    hwloc_obj_t object = NULL;
    while (NULL != (object = hwloc_get_next_osdev(topology, object))) {
        if (NULL != object->name && strlen(object->name) == length && 0 == strncmp(object->name, device, length)
            && (HWLOC_OBJ_OSDEV_NETWORK == object->attr->osdev.type
                || HWLOC_OBJ_OSDEV_OPENFABRICS == object->attr->osdev.type)) {
            return object;
        }
    }
    return NULL;
}

static bool is_host_bridge(hwloc_obj_t object)
{
    return HWLOC_OBJ_BRIDGE == object->type && HWLOC_OBJ_BRIDGE_HOST == object->attr->bridge.upstream_type;
}

/* Finds the lowest bridge above both, or NULL. *hops_p becomes the number of bridges below it on both ways. */
static hwloc_obj_t common_bridge(hwloc_obj_t a, hwloc_obj_t b, int *hops_p)
{
    int up_a = 0;
    for (hwloc_obj_t i = a->parent; NULL != i && HWLOC_OBJ_BRIDGE == i->type; i = i->parent) {
        int up_b = 0;
        up_a++;
        for (hwloc_obj_t j = b->parent; NULL != j && !hwloc_obj_type_is_normal(j->type); j = j->parent) {
            up_b++;
            if (i == j) {
                *hops_p = up_a + up_b - 2;
                return i;
            }
        }
    }
    return NULL;
}

/* The package that the object lies in, or that it is; NULL if the object is larger. The object is not a device. */
static hwloc_obj_t package_of(hwloc_topology_t topology, hwloc_obj_t object)
{
    return HWLOC_OBJ_PACKAGE == object->type ? object
                                             : hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, object);
}

static uint8_t distance(hwloc_topology_t topology, hwloc_obj_t gpu, hwloc_obj_t nic)
{
    const hwloc_obj_t near_gpu = hwloc_get_non_io_ancestor_obj(topology, gpu);
    const hwloc_obj_t near_nic = hwloc_get_non_io_ancestor_obj(topology, nic);
    /* Starts at the card, which may have several devices of the operating system. */
    while (HWLOC_OBJ_OS_DEVICE == nic->type) {
        nic = nic->parent;
    }
    if (hwloc_obj_type_is_io(nic->type)) {
        int hops = 0;
        const hwloc_obj_t bridge = common_bridge(gpu, nic, &hops);
        if (NULL != bridge) {
            hops = (hops > HOPS_MAX) ? HOPS_MAX : hops;
            return (uint8_t) (hops + (is_host_bridge(bridge) ? DISTANCE_HOST_BRIDGE : DISTANCE_BRIDGE));
        }
    }
    if (NULL == near_gpu || NULL == near_nic) {
        return GPUHIER_DISTANCE_UNKNOWN;
    }
    if (NULL != near_gpu->nodeset && NULL != near_nic->nodeset
        && hwloc_bitmap_isequal(near_gpu->nodeset, near_nic->nodeset)) {
        return DISTANCE_NUMA;
    }
    const hwloc_obj_t package = package_of(topology, near_gpu);
    if (NULL != package && NULL != near_nic->cpuset
        && hwloc_bitmap_isincluded(near_nic->complete_cpuset, package->complete_cpuset)) {
        return DISTANCE_PACKAGE;
    }
    return DISTANCE_MACHINE;
}

int gpuhier_topology_distances(hwloc_topology_t topology, const gpuhier_pci_id_t *gpu, gpuhier_found_nic_t *nics,
                               int count)
{
    const hwloc_obj_t gpu_object = (NULL == gpu) ? NULL : pci_object(topology, gpu);
    for (int i = 0; i < count; ++i) {
        hwloc_obj_t nic = NULL;
        nics[i].distance = GPUHIER_DISTANCE_UNKNOWN;
        if (NULL != gpu_object) {
            nic = named_object(topology, nics[i].device);
            if (NULL == nic && nics[i].has_pci) {
                nic = pci_object(topology, &nics[i].pci);
            }
        }
        if (NULL != nic) {
            nics[i].distance = distance(topology, gpu_object, nic);
        }
    }
    if (NULL == gpu_object) {
        return -1;
    }
    const hwloc_obj_t near_gpu = hwloc_get_non_io_ancestor_obj(topology, gpu_object);
    if (NULL == near_gpu || NULL == near_gpu->nodeset || 1 != hwloc_bitmap_weight(near_gpu->nodeset)) {
        return -1;
    }
    return hwloc_bitmap_first(near_gpu->nodeset);
}

int gpuhier_topology_package(hwloc_topology_t topology, const gpuhier_pci_id_t *gpu)
{
    const hwloc_obj_t object = pci_object(topology, gpu);
    const hwloc_obj_t near = NULL == object ? NULL : hwloc_get_non_io_ancestor_obj(topology, object);
    const hwloc_obj_t package = NULL == near ? NULL : package_of(topology, near);
    return NULL == package ? -1 : (int) package->logical_index;
}

int gpuhier_topology_switch(hwloc_topology_t topology, const gpuhier_pci_id_t *gpu)
{
    const hwloc_obj_t object = pci_object(topology, gpu);
    hwloc_obj_t port = NULL;
    for (hwloc_obj_t i = NULL == object ? NULL : object->parent; NULL != i && HWLOC_OBJ_BRIDGE == i->type;
         i = i->parent) {
        port = is_host_bridge(i) ? port : i;
    }
    if (NULL == port) {
        return -1;
    }
    const struct hwloc_pcidev_attr_s *at = &port->attr->bridge.upstream.pci;
    return (int) (((unsigned) at->domain << 16 | (unsigned) at->bus << 8 | (unsigned) at->dev << 3 | at->func)
                  & INT32_MAX);
}

static bool is_gpu(hwloc_obj_t pci)
{
    return PCI_VENDOR_NVIDIA == pci->attr->pcidev.vendor_id && PCI_CLASS_DISPLAY == pci->attr->pcidev.class_id >> 8;
}

void gpuhier_topology_leave_far(hwloc_topology_t topology, gpuhier_found_nic_t *nics, int count)
{
    int taken = 0;
    for (int i = 0; i < count; ++i) {
        taken += nics[i].is_taken;
    }
    if (taken <= GPUHIER_RAILS_MAX) {
        return;
    }
    bool near[GPUHIER_FOUND_NICS_MAX] = {false};
    bool any = false;
    hwloc_obj_t object = NULL;
    while (NULL != (object = hwloc_get_next_pcidev(topology, object))) {
        if (!is_gpu(object)) {
            continue;
        }
        const gpuhier_pci_id_t gpu = {.domain = object->attr->pcidev.domain,
                                      .bus = object->attr->pcidev.bus,
                                      .device = object->attr->pcidev.dev,
                                      .function = object->attr->pcidev.func};
        uint8_t nearest = GPUHIER_DISTANCE_UNKNOWN;
        any = true;
        gpuhier_topology_distances(topology, &gpu, nics, count);
        for (int i = 0; i < count; ++i) {
            nearest = (nics[i].is_taken && nics[i].distance < nearest) ? nics[i].distance : nearest;
        }
        for (int i = 0; i < count; ++i) {
            near[i] = near[i] || (nics[i].is_taken && nics[i].distance == nearest);
        }
    }
    for (int i = 0; any && i < count; ++i) {
        if (nics[i].is_taken && !near[i]) {
            nics[i].is_taken = false;
            snprintf(nics[i].reason, sizeof(nics[i].reason), "is nearest to no GPU, and there are more than %d",
                     GPUHIER_RAILS_MAX);
        }
    }
}
