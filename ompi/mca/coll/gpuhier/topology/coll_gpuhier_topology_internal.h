/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the files of the topology share with each other and with their tests.
 *
 *   coll_gpuhier_topology.c          the record, nodes, processes, choice of rails
 *   coll_gpuhier_topology_nics.c     which network devices there are
 *   coll_gpuhier_topology_pci.c      how far they are from the GPU (hwloc)
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
    bool is_virtual; /* of a bridge or container: taken only if there is no other */
    bool is_usable;  /* up, with an address or an active port */
    bool is_closed;  /* not usable: an active port of a device that this process may not open */
    bool is_taken;
    bool has_pci;
    gpuhier_pci_id_t pci;
    unsigned mbit; /* 0: unknown */
    uint8_t distance;
    char reason[GPUHIER_NIC_REASON_MAX]; /* why taken, or why not */
} gpuhier_found_nic_t;

/* A text that grows. Zero it before first use; text is NULL while empty or after memory ran out. */
typedef struct {
    char *text;
    size_t length;
} gpuhier_text_t;

__attribute__((format(printf, 2, 3))) void gpuhier_text_add(gpuhier_text_t *text, const char *format, ...);

/*
 * Find the devices below sys and dev ("/sys", "/dev"; tests bring folders of their own), at most
 * max. Interfaces count as usable when up(arg, name) says so. Returns their number.
 */
int gpuhier_nics_find(const char *sys, const char *dev, bool (*up)(void *arg, const char *name), void *arg,
                      gpuhier_found_nic_t *nics, int max);

/*
 * May an interface with this address be a rail? Not with one of its link only: UCX leaves those of IPv6 alone, and
 * those of IPv4 are a board's own management's, or stand for an address that nobody gave. NULL: no.
 */
bool gpuhier_nics_address_counts(const struct sockaddr *address);

/* up() for the running machine: the interface is up and has an address that counts. */
bool gpuhier_nics_interface_is_up(void *arg, const char *name);

/*
 * Set is_taken and reason of each device, by the rules that the file's head
 * gives, or by list where it is not NULL or "". Errors as gpuhier_topology_local.
 */
int gpuhier_nics_choose(gpuhier_found_nic_t *nics, int count, const char *list, gpuhier_text_t *report);

/*
 * Set each device's distance to the GPU, or GPUHIER_DISTANCE_UNKNOWN for all
 * where gpu is NULL or not in the topology. Returns the GPU's NUMA node, or -1.
 *   0 .. 31     below one PCI bridge: hops from both up to it
 *   32 .. 63    below one host bridge
 *   64          one NUMA node
 *   96          one package
 *   128         one machine
 */
int gpuhier_topology_distances(hwloc_topology_t topology, const gpuhier_pci_id_t *gpu, gpuhier_found_nic_t *nics,
                               int count);

/*
 * Where more devices are taken than a rank can have rails, leaves out those that are nearest to none of the machine's
 * GPUs (storage has such of its own), so that each of the others is one rail. All GPUs count, also those that this
 * process may not use: all ranks of the machine leave out the same. Sets is_taken and reason; the distances are of no
 * use afterwards.
 */
void gpuhier_topology_leave_far(hwloc_topology_t topology, gpuhier_found_nic_t *nics, int count);

/* In words: "below the same PCI switch". */
const char *gpuhier_distance_text(uint8_t distance);

#endif /* GPUHIER_TOPOLOGY_INTERNAL_H */
