/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The MCA parameters of the component. All layers read them.
 */
#ifndef GPUHIER_PARAMS_H
#define GPUHIER_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/coll_gpuhier_compat.h"

/*
 * MCA parameters, coll_gpuhier_*. The MCA system writes them when the component is registered, and MPI_T may write
 * `enable` later. Parameters marked "path" decide which path a call takes, so they must be equal on all ranks: ranks
 * exchange their hash at start. Those marked "tune" are keys of coll_gpuhier_tune.
 */
typedef struct gpuhier_params {
    int priority;           /* path: below 0, or below that of another component, gpuhier gets no calls */
    bool enable;            /* path, by its value at start: false: gpuhier gets no calls */
    int ipc;                /* gpuhier_ipc_mode_t; may differ between ranks: a record says what its rank has chosen */
    int net;                /* gpuhier_net_mode_t */
    char *devices;          /* rails by name; NULL: the topology chooses */
    int algorithm;          /* path: the exchange between groups, gpuhier_algorithm_t */
    size_t slice_bytes;     /* path: longest slice, in bytes of the message */
    size_t slice_bytes_max; /* path: the same for long messages between groups; at least slice_bytes */
    int slices_in_flight;   /* path, tune: slice buffers of a lane, 2 to 4 */
    size_t small_bytes;     /* path: the host reduces messages of at most this many bytes; 0: none */
    int oneshot_bytes;    /* path, tune: kernels that wait for each other reduce messages of at most this many bytes */
    int oneshot_shared;   /* path, tune: 1: also those of ranks that share a GPU, for tests */
    int gdr_bytes;        /* path, tune: the host reads and writes GPU memory for messages of at most this many bytes;
                             0: none */
    int host_shard_bytes; /* path, tune: between groups the host reduces messages of at most this many bytes for each
                             rank of a group; 0: none */
    int levels_bytes;     /* path, tune: messages of at least this many bytes run in levels; 0: none */
    bool reproducible;    /* path: results have the same bits in every run of one layout */
    int switch_bytes; /* path, tune: NVSwitches reduce messages of at least this many bytes, where they can; 0: none;
                         -1: gpuhier_choice_switch_from() decides */
    int probe;        /* path: 0 leaves every call to the saved collective */
    int ipc_uses;     /* tune: calls that use a buffer before it is mapped */
    size_t ipc_cache_bytes; /* bytes of peers' user buffers kept mapped; 0: a quarter of the GPU's memory */
    double ipc_idle;        /* tune: seconds until an unused mapping is closed; 0: only to make room */
    size_t stage_bytes;     /* bytes of page-locked host memory kept for staging */
    double timeout;         /* seconds without progress after which a call is an error; 0: never */
    double report_after;    /* seconds without progress after which every rank's state is printed; 0: never */
    bool sync_before;       /* synchronise the device before the send buffer is read */
    bool print_info;        /* print groups and rails, and why a call is left to the saved collective */
    bool report;            /* measure blocking calls, and print the report at the end */
    char *tune;             /* the list of those marked "tune", as the user writes it */
    char *trace;            /* path, whether it is set: the file of the timeline; NULL: none */
} gpuhier_params_t;

typedef enum gpuhier_ipc_mode { GPUHIER_IPC_AUTO, GPUHIER_IPC_SCRATCH, GPUHIER_IPC_USER } gpuhier_ipc_mode_t;
typedef enum gpuhier_net_mode { GPUHIER_NET_AUTO, GPUHIER_NET_DIRECT, GPUHIER_NET_STAGED } gpuhier_net_mode_t;

extern gpuhier_params_t gpuhier_params;

/*
 * Registers the parameters as those of a component. algorithms: [count] the names of the values of `algorithm`, from 0
 * on. An entry of `tune` that cannot be read is reported and ignored. The folder of the help text must be known to Open
 * MPI. Returns an Open MPI code.
 */
int gpuhier_params_register(const mca_base_component_t *component, const char *const *algorithms, int count);

/* The hash of the parameters marked "path". */
uint64_t gpuhier_params_hash(void);

#endif /* GPUHIER_PARAMS_H */
