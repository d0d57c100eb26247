/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A node as the component would see it: this machine, or one that a file describes.
 */
#ifndef INFO_MACHINE_H
#define INFO_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "gpuhier_info.h"
#include "plan/coll_gpuhier_hierarchy.h"
#include "plan/coll_gpuhier_levels.h"
#include "topology/coll_gpuhier_topology_internal.h"

#define INFO_GPUS_MAX 64

/* The way between two devices, by the names of nvidia-smi topo -m; the nearest first. */
typedef enum info_way {
    INFO_WAY_SELF,
    INFO_WAY_SLICE, /* MIG slices of one GPU */
    INFO_WAY_PIX,
    INFO_WAY_PXB,
    INFO_WAY_PHB,
    INFO_WAY_NODE,
    INFO_WAY_SYS,
    INFO_WAY_UNKNOWN,
    INFO_WAY_COUNT
} info_way_t;

extern const char *const info_way_names[INFO_WAY_COUNT];
extern const char *const info_way_texts[INFO_WAY_COUNT];

typedef struct info_gpu {
    gpuhier_gpu_info_t id;
    char name[96];
    char slice[16];    /* MIG profile, empty: a whole GPU */
    uint64_t memory;   /* bytes, 0: not known */
    char failure[128]; /* empty: it answers. Else it is left out of groups. */
} info_gpu_t;

typedef struct info_nic {
    gpuhier_found_nic_t found;
    bool is_efa;
    int gbit; /* 0: not known */
} info_nic_t;

/* All of it owned by the struct; constant once made. */
typedef struct info_machine {
    char title[128];
    bool is_described;
    bool is_emulated;
    char blind[512]; /* what could not be looked at, and what follows; empty: all was */
    int cuda_version;
    int nodes;
    int levels_bytes;      /* the key of coll_gpuhier_tune */
    int nvlink_generation; /* 0: not known */
    int pcie_generation;
    int switch_links; /* of each GPU to NVSwitches */
    bool is_fabric;   /* and these reach other nodes' GPUs */
    int ngpus;
    info_gpu_t gpu[INFO_GPUS_MAX];
    gpuhier_record_t record[INFO_GPUS_MAX]; /* of one rank on each GPU; the first also without GPUs */
    gpuhier_record_t tcp[INFO_GPUS_MAX];    /* the same where UCX cannot use the RDMA ports ... */
    bool has_tcp;                           /* ... false: coll_gpuhier_devices names such a port */
    uint8_t links[INFO_GPUS_MAX][INFO_GPUS_MAX];
    info_way_t way[INFO_GPUS_MAX][INFO_GPUS_MAX];
    bool peer[INFO_GPUS_MAX][INFO_GPUS_MAX]; /* the driver grants access */
    int nnics;
    info_nic_t nic[GPUHIER_FOUND_NICS_MAX];
    info_way_t nic_way[INFO_GPUS_MAX][GPUHIER_FOUND_NICS_MAX];
} info_machine_t;

/*
 * Looks at this machine (at the copy of its files below options->root), or reads options->machine. Returns an exit
 * status, after a message where it is not INFO_OK. *machine_p is for info_machine_free().
 */
int info_machine_load(const info_options_t *options, info_machine_t **machine_p);
void info_machine_free(info_machine_t *machine);

/* The two ways to fill a machine in; called by info_machine_load(). topology_p: for hwloc_topology_destroy(), or NULL.
 */
int info_described_load(const char *path, info_machine_t *machine, hwloc_topology_t *topology_p);
int info_live_load(const char *root, info_machine_t *machine, hwloc_topology_t *topology_p);

/*
 * The groups of one rank on each GPU that answers. ranks_p[i] is rank i's GPU; returns the number of ranks. 0: there
 * are none, and nothing to free. *by_host_p: they work together through host memory, since one cannot map the others.
 */
int info_machine_groups(const info_machine_t *machine, gpuhier_hierarchy_t *h, int ranks_p[INFO_GPUS_MAX],
                        bool *by_host_p);

/* Can the owners of each piece, one in every group, map each other's memory, so that groups exchange over links? */
bool info_machine_links(const info_machine_t *machine, const gpuhier_hierarchy_t *h, const int *gpus);

/* Finds the levels of a group of info_machine_groups(). Returns whether there are any. parts_p->member has ranks of
 * `h`.
 */
bool info_machine_levels(const info_machine_t *machine, const gpuhier_hierarchy_t *h, int group, const int *gpus,
                         bool by_host, gpuhier_parts_t *parts_p);

/* The rails of the rank on a GPU among one rank on each. tcp: where UCX cannot use the RDMA ports. Returns their
 * number.
 */
int info_machine_rails(const info_machine_t *machine, int gpu, bool tcp, const char *rails_p[GPUHIER_RAILS_MAX]);

/* Of all rails: rdma if every device is. Empty machines are tcp. */
bool info_machine_is_rdma(const info_machine_t *machine);

/* Is there an RDMA port among the rails? */
bool info_machine_has_rdma(const info_machine_t *machine);

/* Are there EFA ports among the devices that are taken? */
bool info_machine_is_efa(const info_machine_t *machine);

void info_machine_blind(info_machine_t *machine, const char *text);

/* "NV4", or the name of the PCI way. */
const char *info_way_text(const info_machine_t *machine, int gpu, int other, char text[8]);

/* How data goes between groups of one node, of which there are several. gpus: of the ranks in `h`. */
const char *info_node_path_text(const info_machine_t *machine, const gpuhier_hierarchy_t *h, const int *gpus);

#endif /* INFO_MACHINE_H */
