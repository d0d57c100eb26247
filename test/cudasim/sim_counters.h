/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Counters of bytes per link, and of calls.
 */
#ifndef SIM_COUNTERS_H
#define SIM_COUNTERS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "sim_topology.h"

#define SIM_HOST SIM_MAX_GPUS         /* the host's place in the matrix of links */
#define SIM_FABRIC (SIM_MAX_GPUS + 1) /* that of all GPUs of other nodes in the NVLink domain */
#define SIM_SWITCH (SIM_MAX_GPUS + 2) /* that of the NVSwitches, for multicast only */
#define SIM_PLACES (SIM_MAX_GPUS + 3)

#define SIM_COUNTER_LIST(X) \
    X(launches)             \
    X(copies)               \
    X(memsets)              \
    X(allocs)               \
    X(frees)                \
    X(syncs)                \
    X(queries)              \
    X(ipc_exports)          \
    X(ipc_opens)            \
    X(ipc_closes)           \
    X(event_records)        \
    X(gdr_reads)            \
    X(gdr_writes)           \
    X(model_late_ns)        \
    X(model_worst_ns)

/* Things that exist now; a reset leaves them alone. */
#define SIM_GAUGE_LIST(X) \
    X(events_live)        \
    X(allocs_live)        \
    X(host_allocs_live)   \
    X(ipc_live)           \
    X(multicast_live)     \
    X(gdr_live)

#define SIM_COUNTER_FIELD(name) _Atomic uint64_t name;

struct sim_counters {
    SIM_COUNTER_LIST(SIM_COUNTER_FIELD)
    SIM_GAUGE_LIST(SIM_COUNTER_FIELD)
    _Atomic uint64_t links[SIM_PLACES][SIM_PLACES];
};

/* This process's; any thread adds to it. */
extern struct sim_counters sim_counters;

#define sim_count(name) atomic_fetch_add_explicit(&sim_counters.name, 1, memory_order_relaxed)
#define sim_uncount(name) atomic_fetch_sub_explicit(&sim_counters.name, 1, memory_order_relaxed)

/*
 * Adds bytes that went from memory of one place to another (physical GPU, SIM_HOST, SIM_FABRIC or SIM_SWITCH), and
 * takes as long as a link needs that the description calls slow.
 */
void sim_count_link(int from, int to, size_t bytes);

#endif /* SIM_COUNTERS_H */
