/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The NVLink neighbours of a GPU.
 */
#ifndef GPUHIER_INFO_NVLINK_H
#define GPUHIER_INFO_NVLINK_H

#include "topology/coll_gpuhier_topology.h"

#define INFO_NVLINKS_MAX 18 /* neighbours of a GPU: one behind each of its links */

typedef struct info_nvlink {
    gpuhier_pci_id_t pci; /* of the neighbour: a GPU, or an NVSwitch */
    int links;            /* links to it */
    bool is_switch;
} info_nvlink_t;

/* Finds the neighbours of the GPU with this UUID, at most max. Returns their number: 0 without NVML or NVLink. */
int info_nvlinks_find(const uint8_t uuid[16], info_nvlink_t *links, int max);

#endif /* GPUHIER_INFO_NVLINK_H */
