/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The component: its MCA descriptor, its parameters and its counters.
 */
#ifndef GPUHIER_COMPONENT_H
#define GPUHIER_COMPONENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/coll_gpuhier_compat.h"

#define GPUHIER_RAILS_MAX 8

typedef struct gpuhier_component {
    mca_coll_base_component_t super;
} gpuhier_component_t;

extern gpuhier_component_t mca_coll_gpuhier_component;

/*
 * MCA parameters, coll_gpuhier_*. Written by the MCA system (and by MPI_T for
 * `enable`), read by everyone. Those marked "path" decide which path a call
 * takes, so all ranks must have the same: their hash is exchanged at start.
 */
typedef struct gpuhier_params {
    int priority;          /* path: below 0, or below another component's, calls do not come here */
    bool enable;           /* path: as it is at start; false: calls do not come here */
    int ipc;               /* gpuhier_ipc_mode_t; a rank's own business: the peers read it from the record */
    int net;               /* gpuhier_net_mode_t */
    char *devices;         /* rails by name, or NULL: chosen by place */
    int algorithm;         /* path: exchange between groups, gpuhier_algorithm_t */
    size_t slice_bytes;    /* path: a slice of the message */
    size_t slice_bytes_max; /* path: a slice of a long one between groups; not less */
    int slices_in_flight;  /* path: scratch slots, 2 to 4 */
    size_t small_bytes;    /* path: messages up to that length are reduced by the host; 0: none */
    int probe;             /* path: false leaves every call to the saved collective */
    int ipc_uses;          /* uses of a user's buffer before it is mapped directly */
    size_t ipc_cache_bytes; /* bytes of peers' user buffers kept mapped, 0: a quarter of the GPU's memory */
    double ipc_idle;       /* seconds after which an unused one of them is unmapped; 0: only to make room */
    size_t stage_bytes;    /* page-locked host memory kept for staging */
    double timeout;        /* seconds without progress after which a call is an error; 0: never */
    double report_after;   /* seconds without progress after which every rank's state is printed */
    bool sync_before;      /* synchronise the device before reading the send buffer */
    bool print_info;       /* say which path each kind of call takes, and why */
} gpuhier_params_t;

typedef enum gpuhier_ipc_mode { GPUHIER_IPC_AUTO, GPUHIER_IPC_SCRATCH, GPUHIER_IPC_USER } gpuhier_ipc_mode_t;
typedef enum gpuhier_net_mode { GPUHIER_NET_AUTO, GPUHIER_NET_DIRECT, GPUHIER_NET_STAGED } gpuhier_net_mode_t;

extern gpuhier_params_t gpuhier_params;

/* Counters of this process, shown as MPI_T performance variables coll_gpuhier_*. Monotone, relaxed. */
typedef struct gpuhier_counters {
    _Atomic uint64_t calls_accelerated; /* calls that ran on the engine to the end */
    _Atomic uint64_t calls_small;       /* of those, the ones in the small form */
    _Atomic uint64_t calls_long;        /* of those, the ones in slices longer than slice_bytes */
    _Atomic uint64_t calls_nonblocking; /* of those, nonblocking ones and starts of persistent requests */
    _Atomic uint64_t calls_on_host;     /* nonblocking calls that were voted down, and ended on the engine in host memory */
    _Atomic uint64_t calls_saved;       /* calls handed to the saved collective */
    _Atomic uint64_t calls_staged;      /* of those, the ones whose device buffers we staged through the host */
    _Atomic uint64_t probes;            /* probes sent */
    _Atomic uint64_t net_bytes_sent[GPUHIER_RAILS_MAX]; /* payload bytes handed to UCX, by rail */
    _Atomic uint64_t net_steps_sent;    /* steps of exchanges in which this rank sent payload, whatever the number of stripes */
} gpuhier_counters_t;

extern gpuhier_counters_t gpuhier_counters;

/* An atomic addition takes 1 % of a short call in host memory, so only a program with threads pays for it. */
static inline void gpuhier_count(_Atomic uint64_t *counter, uint64_t n)
{
    if (opal_using_threads()) {
        atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
    } else {
        atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n, memory_order_relaxed);
    }
}

/* coll_gpuhier_params.c */
int gpuhier_params_register(void);

/* Hash of the parameters marked "path". */
uint64_t gpuhier_params_hash(void);

/* coll_gpuhier_rescue.c: makes `--mca coll gpuhier` work, which would leave the other collectives without a component. */
int gpuhier_rescue_framework(void);

/* The framework's output stream, for opal_output_verbose(). */
static inline int gpuhier_output(void)
{
    return ompi_coll_base_framework.framework_output;
}

#endif /* GPUHIER_COMPONENT_H */
