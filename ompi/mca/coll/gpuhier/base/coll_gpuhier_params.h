/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The MCA parameters of the component.
 */
#ifndef GPUHIER_PARAMS_H
#define GPUHIER_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/coll_gpuhier_compat.h"

/*
 * MCA parameters, coll_gpuhier_*. Written by the MCA system (and by MPI_T for
 * `enable`), read by everyone. Those marked "path" decide which path a call
 * takes, so all ranks must have the same: their hash is exchanged at start.
 */
typedef struct gpuhier_params {
    int priority;           /* path: below 0, or below another component's, calls do not come here */
    bool enable;            /* path: as it is at start; false: calls do not come here */
    int ipc;                /* gpuhier_ipc_mode_t; a rank's own business: the peers read it from the record */
    int net;                /* gpuhier_net_mode_t */
    char *devices;          /* rails by name, or NULL: chosen by place */
    int algorithm;          /* path: exchange between groups, gpuhier_algorithm_t */
    size_t slice_bytes;     /* path: a slice of the message */
    size_t slice_bytes_max; /* path: a slice of a long one between groups; not less */
    int slices_in_flight;   /* path: scratch slots, 2 to 4 */
    size_t small_bytes;     /* path: messages up to that length are reduced by the host; 0: none */
    int probe;              /* path: false leaves every call to the saved collective */
    int ipc_uses;           /* uses of a user's buffer before it is mapped directly */
    size_t ipc_cache_bytes; /* bytes of peers' user buffers kept mapped, 0: a quarter of the GPU's memory */
    double ipc_idle;        /* seconds after which an unused one of them is unmapped; 0: only to make room */
    size_t stage_bytes;     /* page-locked host memory kept for staging */
    double timeout;         /* seconds without progress after which a call is an error; 0: never */
    double report_after;    /* seconds without progress after which every rank's state is printed */
    bool sync_before;       /* synchronise the device before reading the send buffer */
    bool print_info;        /* say which path each kind of call takes, and why */
} gpuhier_params_t;

typedef enum gpuhier_ipc_mode { GPUHIER_IPC_AUTO, GPUHIER_IPC_SCRATCH, GPUHIER_IPC_USER } gpuhier_ipc_mode_t;
typedef enum gpuhier_net_mode { GPUHIER_NET_AUTO, GPUHIER_NET_DIRECT, GPUHIER_NET_STAGED } gpuhier_net_mode_t;

extern gpuhier_params_t gpuhier_params;

/*
 * Registers the parameters as those of a component. algorithms: the names of the values of `algorithm`, count of
 * them, from 0 on. Returns an Open MPI code.
 */
int gpuhier_params_register(const mca_base_component_t *component, const char *const *algorithms, int count);

/* Hash of the parameters marked "path". */
uint64_t gpuhier_params_hash(void);

#endif /* GPUHIER_PARAMS_H */
