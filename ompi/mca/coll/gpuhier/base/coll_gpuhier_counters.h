/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What this process counts. MPI_T shows the counters as performance variables coll_gpuhier_*; docs/tuning.md explains
 * them. Any thread may count, without a lock.
 */
#ifndef GPUHIER_COUNTERS_H
#define GPUHIER_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/coll_gpuhier_compat.h"
#include "base/coll_gpuhier_limits.h"
#include "base/coll_gpuhier_reasons.h"

/* Counters only grow. They are relaxed atomics, which order no other memory. */
typedef struct gpuhier_counters {
    _Atomic uint64_t calls_accelerated; /* calls that ran on the engine to the end */
    _Atomic uint64_t calls_small;       /* of calls_accelerated: calls in the small form */
    _Atomic uint64_t calls_mapped;      /* of calls_small: calls in which the host read and wrote GPU memory itself */
    _Atomic uint64_t calls_oneshot;     /* of calls_accelerated: calls in the one-shot form */
    _Atomic uint64_t calls_long;        /* of calls_accelerated: calls with long messages between groups */
    _Atomic uint64_t calls_switch;      /* of calls_accelerated: calls that NVSwitches reduced */
    _Atomic uint64_t calls_nonblocking; /* of calls_accelerated: nonblocking calls and starts of persistent requests */
    _Atomic uint64_t calls_on_host;     /* nonblocking calls that were voted down and ended in the host form */
    _Atomic uint64_t saved_because[GPUHIER_REASON_COUNT]; /* calls handed to the saved collective, by reason */
    _Atomic uint64_t calls_staged;                        /* of these, calls whose device buffers had host copies */
    _Atomic uint64_t probes;                              /* probes sent */
    _Atomic uint64_t net_bytes_sent[GPUHIER_RAILS_MAX];   /* payload bytes handed to UCX, by rail */
    _Atomic uint64_t
        link_bytes; /* payload bytes that this rank has copied out of memory of partners, or out of a relay */
    _Atomic uint64_t net_steps_sent; /* steps of exchanges in which this rank sent payload, in one or more stripes */
} gpuhier_counters_t;

extern gpuhier_counters_t gpuhier_counters;

/* Calls handed to the saved collective, for any reason. */
uint64_t gpuhier_calls_saved(void);

/* Adds n. */
static inline void gpuhier_count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* Registers the counters as performance variables of a component. Returns an Open MPI code. */
int gpuhier_counters_register(const mca_base_component_t *component);

#endif /* GPUHIER_COUNTERS_H */
