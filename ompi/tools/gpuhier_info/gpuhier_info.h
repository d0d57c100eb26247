/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The two things that gpuhier_info explains.
 */
#ifndef GPUHIER_INFO_H
#define GPUHIER_INFO_H

#include <stdint.h>

#define INFO_NODES_MAX 256

typedef struct {
    const char *devices; /* list of network devices, as coll_gpuhier_devices; NULL: all */
    /* the call to explain; nodes 0: explain the machine */
    int nodes;
    int ranks[INFO_NODES_MAX];
    uint64_t bytes;
    uint64_t elem_bytes;
    uint64_t slice_bytes;
    uint64_t slice_bytes_max; /* 0: not told */
    uint64_t small_bytes;
    int slices_in_flight;
    const char *algorithm; /* name, NULL: auto */
    const char *wire;      /* name, NULL: the first */
    double rail_gbit;      /* rate of a rail in Gbit/s, 0: not told */
    double memory_gbyte;   /* rate of a GPU's memory in Gbyte/s, 0: not told */
} info_settings_t;

/* Print what this process sees of its machine. Returns 0, or 1 with a message on stderr. */
int info_machine(const info_settings_t *settings);

/* Print groups, pieces, pipeline, and traffic of one call. Returns 0, or 1 with a message on stderr. */
int info_schedule(const info_settings_t *settings);

#endif /* GPUHIER_INFO_H */
