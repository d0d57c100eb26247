/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the files of topology/ share with one another and with their tests.
 *
 *   coll_gpuhier_topology.c          the record, nodes, processes, choice of rails
 *   coll_gpuhier_topology_nics.c     which network devices there are
 *   coll_gpuhier_topology_pci.c      how far they are from the GPU (hwloc)
 *   coll_gpuhier_topology_nvlink.c   the GPU's neighbours (NVML)
 */
#ifndef GPUHIER_TOPOLOGY_INTERNAL_H
#define GPUHIER_TOPOLOGY_INTERNAL_H

#include "topology/coll_gpuhier_topology.h"

#include <hwloc.h>
#include <sys/socket.h>

#define GPUHIER_FOUND_NICS_MAX 64
#define GPUHIER_NIC_REASON_MAX 96

/* A network device of this machine, while the local record is being made. */
typedef struct {
    char device[GPUHIER_RECORD_DEVICE_MAX]; /* UCX's name: "mlx5_0:1", "eth0" */
    bool is_rdma;
    bool is_ethernet; /* RoCE */
    bool is_virtual;  /* of a bridge or a container: taken only if there is nothing else */
    bool is_usable;   /* up, with an address or an active port */
    bool is_closed;   /* an active port of a device that this process may not open; not usable */
    bool is_failed;   /* a port that UCX has failed to use; not usable */
    bool is_taken;
    bool has_pci;
    gpuhier_pci_id_t pci;
    unsigned mbit; /* 0: unknown */
    uint8_t distance;
    char reason[GPUHIER_NIC_REASON_MAX]; /* why it is taken, or why not */
} gpuhier_found_nic_t;

/* A text that grows. Zero it before the first use, free text at the end. Text is left out if memory runs out. */
typedef struct {
    char *text;
    size_t length;
} gpuhier_text_t;

__attribute__((format(printf, 2, 3))) void gpuhier_text_add(gpuhier_text_t *text, const char *format, ...);

/*
 * Finds the network devices below sys and dev: "/sys" and "/dev", or a test's own folders. If there are more than
 * max, usable ones have precedence. An interface is usable when up(arg, name) says so. Returns the number of devices,
 * which are sorted: RDMA ports first, then by name.
 */
int gpuhier_nics_find(const char *sys, const char *dev, bool (*up)(void *arg, const char *name), void *arg,
                      gpuhier_found_nic_t *nics, int max);

/*
 * May an interface with this address be a rail? NULL means that it has none: no. A link-local address does not count.
 * UCX ignores those of IPv6, and those of IPv4 belong to a board's management, or mean that no server gave an address.
 */
bool gpuhier_nics_address_counts(const struct sockaddr *address);

/* The up() of the running machine: the interface is up and has an address that counts. */
bool gpuhier_nics_interface_is_up(void *arg, const char *name);

/*
 * Sets is_taken and reason of each device: by the list, unless it is NULL or "", otherwise by the rules at the top of
 * coll_gpuhier_topology_nics.c. Errors: OMPI_ERR_NOT_FOUND (a listed device does not exist or cannot be used); the
 * report then says which.
 */
int gpuhier_nics_choose(gpuhier_found_nic_t *nics, int count, const char *list, gpuhier_text_t *report);

/*
 * Sets each device's distance to the GPU, or GPUHIER_DISTANCE_UNKNOWN for all devices if gpu is NULL or not in the
 * topology. Returns the GPU's NUMA node, or -1.
 *   0 .. 31     below the same PCI bridge: the number of bridges below it on both ways
 *   32 .. 63    the same for a host bridge
 *   64          on one NUMA node
 *   96          on one package
 *   128         on one machine
 */
int gpuhier_topology_distances(hwloc_topology_t topology, const gpuhier_pci_id_t *gpu, gpuhier_found_nic_t *nics,
                               int count);

/* The package (socket) of a GPU, by hwloc's number. -1 if the GPU is not in the topology or not on one package. */
int gpuhier_topology_package(hwloc_topology_t topology, const gpuhier_pci_id_t *gpu);

/*
 * The PCI switch of a GPU: a number made of the address of the host bridge's port that its traffic passes. GPUs below
 * one port have the same number. A GPU that has a port for itself has a number of its own. -1 where the GPU is not in
 * the topology, or where nothing lies between it and a host bridge, as in many virtual machines.
 */
int gpuhier_topology_switch(hwloc_topology_t topology, const gpuhier_pci_id_t *gpu);

/*
 * Does nothing unless more devices are taken than a rank can have rails. Then it leaves out those that are nearest to
 * none of the machine's GPUs, such as a storage network's, so that each other device can be a rail. All GPUs count,
 * even those that this process may not use, so that all ranks of the machine leave out the same devices. Sets is_taken
 * and reason. Afterwards the distances have no meaning.
 */
void gpuhier_topology_leave_far(hwloc_topology_t topology, gpuhier_found_nic_t *nics, int count);

/* The machine's topology, with the devices on its PCI buses. NULL if hwloc fails: then all distances are unknown. */
hwloc_topology_t gpuhier_topology_load(void);

/*
 * Makes the record of a process of this machine that uses this GPU (NULL: none), from the devices that were found and
 * chosen. Sets their distances in nics. topology may be NULL. gpuhier_topology_local() calls this for the real machine.
 */
void gpuhier_topology_place(const gpuhier_gpu_info_t *gpu, const char *device_list, hwloc_topology_t topology,
                            gpuhier_found_nic_t *nics, int count, gpuhier_record_t *record_p);

/* A distance in words: "below the GPU's PCI switch". */
const char *gpuhier_distance_text(uint8_t distance);

#endif /* GPUHIER_TOPOLOGY_INTERNAL_H */
