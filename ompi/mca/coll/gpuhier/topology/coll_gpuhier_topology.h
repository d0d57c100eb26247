/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * topology/: what a machine looks like to a rank.
 *
 * The folder owns the record: the rank's node, process, GPU and network devices, in a fixed number of bytes that ranks
 * exchange. It also says what follows from the records of a node: whether a process lives, and which rails each rank
 * drives. It reads /proc, /sys and /dev, asks hwloc and NVML, and uses base/. It calls no MPI, no CUDA and no UCX: the
 * caller names the GPU, and devices have the names that UCX gives them. plan/ numbers nodes and chooses rails with it,
 * team/ makes the record and asks whether a process lives, and gpuhier_info prints what it finds.
 *
 * Threads and locks. There are none, and no state: any thread may call. Making a record takes milliseconds; all other
 * functions are cheap. Errors are Open MPI codes.
 */
#ifndef GPUHIER_TOPOLOGY_H
#define GPUHIER_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/coll_gpuhier_limits.h"

#define GPUHIER_RECORD_DEVICE_MAX 32 /* bytes of a device's name, with the final NUL */
#define GPUHIER_RECORD_NICS_MAX 16   /* network devices in a record; the nearest are kept */

/* The distance of a network device whose place is unknown. All such devices are equally near. */
#define GPUHIER_DISTANCE_UNKNOWN 255u

typedef struct gpuhier_pci_id {
    uint32_t domain;
    uint8_t bus;
    uint8_t device;
    uint8_t function;
    uint8_t reserved;
} gpuhier_pci_id_t;

#define GPUHIER_NVLINKS_MAX 18      /* NVLinks of a GPU, and so its neighbours */
#define GPUHIER_NVLINKS_UNKNOWN 255 /* in a record: NVML does not tell */

/* A neighbour by NVLink. */
typedef struct gpuhier_nvlink {
    gpuhier_pci_id_t pci;
    int links; /* to it */
    bool is_switch;
} gpuhier_nvlink_t;

typedef struct gpuhier_nvlinks {
    int count;            /* of neighbours; -1: not known */
    int others;           /* other GPUs of the machine, whether this process may use them or not */
    bool is_confidential; /* the machine hides the host's memory from its GPUs */
    gpuhier_nvlink_t to[GPUHIER_NVLINKS_MAX];
} gpuhier_nvlinks_t;

/* Asks NVML for the neighbours of the GPU with this UUID, and about its machine. */
void gpuhier_nvlinks_find(const uint8_t uuid[16], gpuhier_nvlinks_t *nvlinks_p);

/* What the caller has learnt about its GPU. */
typedef struct gpuhier_gpu_info {
    uint8_t uuid[16];
    gpuhier_pci_id_t pci;
    int ordinal; /* CUDA's number of the GPU in this process */
    int cc_major;
    int cc_minor;
    gpuhier_nvlinks_t nvlinks;
} gpuhier_gpu_info_t;

/*
 * Identifies a node: two ranks share memory, and so are on one node, only if all fields are equal. A container with its
 * own /dev/shm is a node of its own.
 */
typedef struct gpuhier_node_id {
    uint8_t boot_id[16]; /* a hash of the kernel's, or of the host name where that cannot be read; then zeros */
    uint64_t ipc_device; /* of the IPC namespace */
    uint64_t ipc_inode;
    uint64_t shm_device; /* of /dev/shm */
    uint64_t shm_inode;
} gpuhier_node_id_t;

typedef struct gpuhier_nic {
    char device[GPUHIER_RECORD_DEVICE_MAX]; /* UCX's name */
    uint8_t distance;                       /* to this rank's GPU, see gpuhier_topology_distances(); 0 is nearest */
    uint8_t is_rdma;                        /* 1: an RDMA port, 0: a network interface */
    uint8_t reserved[6];
} gpuhier_nic_t;

/*
 * One rank's record. gpuhier_topology_local() writes it, and then it is constant. It has the native byte order, since
 * all ranks run the same build. Unused entries are zero, so that records can be compared and hashed as bytes.
 *
 *     0  version, bytes          of this format
 *     8  node                    48 bytes
 *    56  process                 pid, its namespace, start time
 *    80  GPU                     UUID, PCI, ordinal, compute capability, NUMA node, package, PCI switch, NVLinks
 *   200  network devices         16 x 40 bytes, nearest first
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
    uint8_t nvlinks;  /* GPUs in nvlink[], or GPUHIER_NVLINKS_UNKNOWN */
    uint8_t nvswitch; /* 1: NVLinks lead to a switch, which joins all GPUs that have such links */
    uint8_t gpu_uuid[16];
    gpuhier_pci_id_t gpu_pci;
    int32_t gpu_ordinal;
    int16_t cc_major;
    int16_t cc_minor;
    int32_t numa_node;  /* of the GPU, -1 unknown */
    int32_t package;    /* the socket of the GPU, by hwloc's number; -1 unknown */
    int32_t pci_switch; /* what GPUs below one PCI switch have in common, see gpuhier_topology_switch(); -1: nothing */
    uint32_t nvlink[GPUHIER_NVLINKS_MAX]; /* places on the PCI bus of the GPUs to which NVLinks lead */
    uint8_t is_confidential;              /* 1: the machine hides the host's memory from its GPUs */
    uint8_t unused[3];
    gpuhier_nic_t nic[GPUHIER_RECORD_NICS_MAX];
} gpuhier_record_t;

_Static_assert(8 == sizeof(gpuhier_pci_id_t), "gpuhier_record_t is a wire format");
_Static_assert(40 == sizeof(gpuhier_nic_t), "gpuhier_record_t is a wire format");
_Static_assert(8 == offsetof(gpuhier_record_t, node), "gpuhier_record_t is a wire format");
_Static_assert(56 == offsetof(gpuhier_record_t, start_time), "gpuhier_record_t is a wire format");
_Static_assert(80 == offsetof(gpuhier_record_t, gpu_uuid), "gpuhier_record_t is a wire format");
_Static_assert(200 == offsetof(gpuhier_record_t, nic), "gpuhier_record_t is a wire format");
_Static_assert(840 == sizeof(gpuhier_record_t), "gpuhier_record_t is a wire format");

/* Which network devices a record may have. */
typedef enum gpuhier_devices {
    GPUHIER_DEVICES_ALL,
    GPUHIER_DEVICES_TCP, /* no RDMA ports, which UCX has failed to use */
    GPUHIER_DEVICES_NONE /* they are not looked for */
} gpuhier_devices_t;

/*
 * Makes this process's record. gpu is NULL for a rank without a GPU. device_list, "mlx5_0:1,mlx5_1:1", restricts the
 * network devices to those that it names; with NULL or "" gpuhier chooses. *report_p, unless report_p is NULL, becomes
 * a text of several lines that says for each device why it was taken or not. The caller frees it with free(). It may be
 * set on errors, too, and is NULL when there is nothing to say.
 * Errors: OMPI_ERR_NOT_FOUND (a listed device does not exist or cannot be used), OMPI_ERR_OUT_OF_RESOURCE.
 */
int gpuhier_topology_local(const gpuhier_gpu_info_t *gpu, gpuhier_devices_t devices, const char *device_list,
                           gpuhier_record_t *record_p, char **report_p);

/* Is this an intact record of this format version? Check what another rank sent before any use. */
bool gpuhier_record_is_valid(const void *data, size_t bytes);

/* Are both ranks on one node? */
bool gpuhier_record_same_node(const gpuhier_record_t *a, const gpuhier_record_t *b);

/* A place on the PCI bus, as nvlink[] has it. */
static inline uint32_t gpuhier_pci_place(const gpuhier_pci_id_t *pci)
{
    return pci->domain << 16 | (uint32_t) pci->bus << 8 | pci->device;
}

static inline bool gpuhier_record_leads_to(const gpuhier_record_t *record, const gpuhier_pci_id_t *pci)
{
    bool any = false;
    for (int i = 0; i < record->nvlinks; ++i) {
        any = any || gpuhier_pci_place(pci) == record->nvlink[i];
    }
    return any;
}

/* Does NVLink join the two GPUs, directly or by a switch? True, too, where that is not known. */
static inline bool gpuhier_record_linked(const gpuhier_record_t *a, const gpuhier_record_t *b)
{
    return GPUHIER_NVLINKS_UNKNOWN == a->nvlinks || GPUHIER_NVLINKS_UNKNOWN == b->nvlinks
           || (a->nvswitch && b->nvswitch) || gpuhier_record_leads_to(a, &b->gpu_pci)
           || gpuhier_record_leads_to(b, &a->gpu_pci);
}

/*
 * Numbers the nodes of `count` ranks: nodes_p[i] becomes the lowest rank on the node of rank i. Takes
 * O(count * nodes) comparisons.
 */
void gpuhier_topology_number_nodes(const gpuhier_record_t *records, int count, uint64_t *nodes_p);

/*
 * Finds the rails of rank `me` among the `count` ranks of one node, whose records are in rank order. Each rank of the
 * node computes the rails of all ranks alike:
 *   1. Each rank takes the device with the fewest ranks among its nearest ones. Ranks with the fewest nearest devices
 *      choose first.
 *   2. A device that no rank took goes to the rank with the fewest rails among those that it is nearest to.
 * A rank that is alone on its node takes all its devices. The result depends on the arguments only.
 * rails_p receives pointers to names inside records[me]. Returns the number of rails: 0 if the record has no device,
 * otherwise 1 to GPUHIER_RAILS_MAX; or -1 if there is no memory.
 */
int gpuhier_topology_pick_rails(const gpuhier_record_t *const *records, int count, int me,
                                const char *rails_p[GPUHIER_RAILS_MAX]);

/* Do the two records' pids mean the same: are they of one node and one pid namespace? False, too, when not known. */
bool gpuhier_record_same_pids(const gpuhier_record_t *a, const gpuhier_record_t *b);

/*
 * Does the process of the record `other` live? True for a process of another node or pid namespace, about which nothing
 * is known. Asks the kernel whether the process has ended; a zombie has. Then asks /proc, if it shows the process,
 * whether another process has the pid now. The answer for a live process is always true, whatever /proc hides.
 */
bool gpuhier_record_process_lives(const gpuhier_record_t *mine, const gpuhier_record_t *other);

#endif /* GPUHIER_TOPOLOGY_H */
