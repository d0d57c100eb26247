/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Where a rank is: its node, process, GPU and network devices, as
 * one record of fixed size that ranks exchange as bytes. And what follows from
 * the records of one node: which rails each of its ranks drives.
 *
 * No MPI and no CUDA calls: the caller names the GPU. Errors are Open MPI codes.
 */
#ifndef GPUHIER_TOPOLOGY_H
#define GPUHIER_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/coll_gpuhier_limits.h"

#define GPUHIER_RECORD_DEVICE_MAX 32 /* characters of a device's name with the final NUL */
#define GPUHIER_RECORD_NICS_MAX 16   /* network devices in a record; the nearest are kept */

/* Distance of a network device whose place is unknown: all such are equally near. */
#define GPUHIER_DISTANCE_UNKNOWN 255u

typedef struct gpuhier_pci_id {
    uint32_t domain;
    uint8_t bus;
    uint8_t device;
    uint8_t function;
    uint8_t reserved;
} gpuhier_pci_id_t;

/* What the caller knows of its GPU from CUDA. */
typedef struct gpuhier_gpu_info {
    uint8_t uuid[16];
    gpuhier_pci_id_t pci;
    int ordinal; /* CUDA's, in this process */
    int cc_major;
    int cc_minor;
} gpuhier_gpu_info_t;

/*
 * What makes two ranks' shared memory the same: they are on one node only if all
 * of it is equal. A container with its own /dev/shm is a node of its own.
 */
typedef struct gpuhier_node_id {
    uint8_t boot_id[16]; /* of the kernel; a hash of the host name where it cannot be read */
    uint64_t ipc_device; /* the IPC namespace */
    uint64_t ipc_inode;
    uint64_t shm_device; /* /dev/shm */
    uint64_t shm_inode;
} gpuhier_node_id_t;

typedef struct gpuhier_nic {
    char device[GPUHIER_RECORD_DEVICE_MAX]; /* UCX's name */
    uint8_t distance;                       /* to this rank's GPU, see gpuhier_topology_distances; 0 is nearest */
    uint8_t is_rdma;                        /* 1: an RDMA port, 0: a network interface */
    uint8_t reserved[6];
} gpuhier_nic_t;

/*
 * One rank's record. Written by gpuhier_topology_local, then constant; portable
 * between processes of one build (native byte order). Unused entries are zero,
 * so that records may be compared and hashed as bytes.
 *
 *     0  version, bytes          who can read this
 *     8  node                    48 bytes
 *    56  process                 pid, its namespace, start time
 *    80  GPU                     UUID, PCI, ordinal, compute capability, NUMA node
 *   120  network devices         16 x 40 bytes, nearest first
 */
typedef struct gpuhier_record {
    uint32_t version;
    uint32_t bytes;
    gpuhier_node_id_t node;
    uint64_t start_time; /* of the process, in clock ticks since boot; 0: /proc does not tell, or is another pid
                            namespace's */
    uint64_t pid_inode;  /* pid namespace in which pid is meant */
    int32_t pid;
    uint8_t has_gpu;
    uint8_t nics;
    uint8_t reserved[2];
    uint8_t gpu_uuid[16];
    gpuhier_pci_id_t gpu_pci;
    int32_t gpu_ordinal;
    int16_t cc_major;
    int16_t cc_minor;
    int32_t numa_node; /* of the GPU, -1 unknown */
    uint32_t reserved2;
    gpuhier_nic_t nic[GPUHIER_RECORD_NICS_MAX];
} gpuhier_record_t;

_Static_assert(8 == sizeof(gpuhier_pci_id_t), "gpuhier_record_t is a wire format");
_Static_assert(40 == sizeof(gpuhier_nic_t), "gpuhier_record_t is a wire format");
_Static_assert(8 == offsetof(gpuhier_record_t, node), "gpuhier_record_t is a wire format");
_Static_assert(56 == offsetof(gpuhier_record_t, start_time), "gpuhier_record_t is a wire format");
_Static_assert(80 == offsetof(gpuhier_record_t, gpu_uuid), "gpuhier_record_t is a wire format");
_Static_assert(120 == offsetof(gpuhier_record_t, nic), "gpuhier_record_t is a wire format");
_Static_assert(760 == sizeof(gpuhier_record_t), "gpuhier_record_t is a wire format");

/*
 * Make this process's record. gpu may be NULL (a rank without one). device_list
 * restricts the network devices to those it names, "mlx5_0:1,mlx5_1:1"; NULL or
 * "" lets gpuhier find them. report_p, if not NULL, receives a text of several
 * lines that says which devices there are and why each was taken or not; it is
 * for free(), and is set on errors, too, if there was anything to say.
 * Errors: OMPI_ERR_NOT_FOUND (a listed device does not exist),
 * OMPI_ERR_BAD_PARAM (a listed name is too long, or too many),
 * OMPI_ERR_OUT_OF_RESOURCE.
 */
int gpuhier_topology_local(const gpuhier_gpu_info_t *gpu, const char *device_list, gpuhier_record_t *record_p,
                           char **report_p);

/* Is what another rank sent a record that this build can read? Check before any use. */
bool gpuhier_record_is_valid(const void *data, size_t bytes);

bool gpuhier_record_same_node(const gpuhier_record_t *a, const gpuhier_record_t *b);

/*
 * Number the nodes of count ranks: nodes_p[i] is the lowest rank on the node of
 * rank i. O(count * nodes).
 */
void gpuhier_topology_number_nodes(const gpuhier_record_t *records, int count, uint64_t *nodes_p);

/*
 * The rails of rank me among the count ranks of one node, whose records come in
 * rank order. Every rank of the node computes all ranks' rails alike:
 *   1. each rank takes the least used of its nearest devices (ranks with the
 *      fewest to choose from first);
 *   2. a device that nobody took goes to the rank near it with the fewest rails.
 * A rank alone on its node takes all. Pure.
 * rails_p receives pointers to names inside records[me]. Returns the number of
 * rails: 0 if the rank's record has no device, else 1 .. GPUHIER_RAILS_MAX.
 */
int gpuhier_topology_pick_rails(const gpuhier_record_t *const *records, int count, int me,
                                const char *rails_p[GPUHIER_RAILS_MAX]);

/* Do the two records' pids mean the same: are they of one node and one pid namespace? False, too, when it is not known.
 */
bool gpuhier_record_same_pids(const gpuhier_record_t *a, const gpuhier_record_t *b);

/*
 * Does the process of the record live? Only for records of one's own node and
 * pid namespace; otherwise true: nothing is known. The kernel is asked whether the pid
 * has ended, which a zombie has, and /proc, where it shows the process, whether the pid is
 * another one's by now. A live process is never taken for dead, whatever /proc hides.
 */
bool gpuhier_record_process_lives(const gpuhier_record_t *mine, const gpuhier_record_t *other);

#endif /* GPUHIER_TOPOLOGY_H */
