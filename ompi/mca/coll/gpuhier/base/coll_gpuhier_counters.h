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

/*
 * X(name, text, remedy). The first reason is that of a kind of call that has not been tried yet. The warning about
 * calls that are staged again and again prints the remedy. NULL: there is no remedy, or the user wants it so; then
 * there is no warning.
 */
#define GPUHIER_REASONS(X)                                                                                 \
    X(not_tried, "nonblocking, and no blocking call or barrier has asked the ranks since the first",       \
      "Make one blocking call of this collective, type, operation and length on the communicator first, "  \
      "or call MPI_Barrier on it after the first nonblocking one.")                                        \
    X(empty, "no elements", NULL)                                                                          \
    X(type, "no kernel for this type and operation",                                                       \
      "Use a type and an operation that docs/types.md lists, for example the elements of a derived type.") \
    X(host_here, "host memory on this rank", "Pass GPU memory in both buffers, on all ranks.")             \
    X(host_elsewhere, "host memory on another rank, or a rank that cannot run the call on its GPU",        \
      "Pass GPU memory in both buffers, on all ranks, and see that all ranks have a GPU.")                 \
    X(declined, "a rank could not run the call on its GPU",                                                \
      "Look at the ranks' output with --mca coll_base_verbose 5; GPU memory may be short.")                \
    X(members, "not all members have gpuhier, the same parameters and a CUDA driver",                      \
      "Install the same gpuhier on all nodes, set the same parameters, give all ranks a GPU.")             \
    X(alone, "one rank, or an inter-communicator", NULL)                                                   \
    X(off, "coll_gpuhier_probe is 0", NULL)                                                                \
    X(set_up, "the set-up of the communicator failed",                                                     \
      "Run with --mca coll_base_verbose 5 to see why, and \"gpuhier_info doctor\" on the nodes.")          \
    X(memory, "memory ran out on a rank", "Let the program use less host memory.")                         \
    X(collective, "a collective that does not run on the GPUs", NULL)                                      \
    X(end, "MPI_Finalize has begun", NULL)

#define GPUHIER_REASON_NUMBER(name, text, remedy) GPUHIER_REASON_##name,
typedef enum gpuhier_reason { GPUHIER_REASONS(GPUHIER_REASON_NUMBER) GPUHIER_REASON_COUNT } gpuhier_reason_t;
#undef GPUHIER_REASON_NUMBER

/* The text of a reason. */
static inline const char *gpuhier_reason_text(gpuhier_reason_t reason)
{
#define GPUHIER_REASON_TEXT(name, text, remedy) text,
    static const char *const texts[] = {GPUHIER_REASONS(GPUHIER_REASON_TEXT)};
#undef GPUHIER_REASON_TEXT
    return texts[reason];
}

/* What the user can do about a reason; may be NULL. */
static inline const char *gpuhier_reason_remedy(gpuhier_reason_t reason)
{
#define GPUHIER_REASON_REMEDY(name, text, remedy) remedy,
    static const char *const remedies[] = {GPUHIER_REASONS(GPUHIER_REASON_REMEDY)};
#undef GPUHIER_REASON_REMEDY
    return remedies[reason];
}

/* X(name, text), but for those that are counted for each reason and for each rail. */
#define GPUHIER_COUNTERS(X)                                                                                   \
    X(calls_accelerated, "Calls that ran on the GPUs from beginning to end")                                  \
    X(calls_small, "Of calls_accelerated, calls that the host reduced because they were short")               \
    X(calls_mapped, "Of calls_small, calls in which the host read and wrote GPU memory itself")               \
    X(calls_oneshot, "Of calls_accelerated, calls whose kernels waited for each other")                       \
    X(calls_long, "Of calls_accelerated, calls with long messages between groups")                            \
    X(calls_switch, "Of calls_accelerated, calls that NVSwitches reduced")                                    \
    X(calls_nonblocking, "Of calls_accelerated, nonblocking calls and starts of persistent requests")         \
    X(calls_on_host, "Nonblocking calls that could not continue on the GPUs and were reduced in host memory") \
    X(calls_staged, "Of calls_saved, calls whose device buffers gpuhier copied to host memory")               \
    X(probes, "Probes that asked all ranks whether they pass device memory")                                  \
    X(link_bytes, "Payload bytes copied from memory of GPUs of other groups, or from a relay")                \
    X(net_steps_sent, "Steps of exchanges between groups in which this rank sent payload")

/* Counters only grow. They are relaxed atomics, which order no other memory. */
typedef struct gpuhier_counters {
#define GPUHIER_COUNTER_FIELD(name, text) _Atomic uint64_t name;
    GPUHIER_COUNTERS(GPUHIER_COUNTER_FIELD)
#undef GPUHIER_COUNTER_FIELD
    _Atomic uint64_t saved_because[GPUHIER_REASON_COUNT]; /* calls handed to the saved collective, by reason */
    _Atomic uint64_t net_bytes_sent[GPUHIER_RAILS_MAX];   /* payload bytes handed to UCX, by rail */
} gpuhier_counters_t;

extern gpuhier_counters_t gpuhier_counters;

/* Calls handed to the saved collective, for any reason. */
unsigned long long gpuhier_calls_saved(void);

/* Adds n. The next one returns the sum. */
static inline void gpuhier_count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static inline unsigned long long gpuhier_counted(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/* Registers the counters as performance variables of a component. Returns an Open MPI code. */
int gpuhier_counters_register(const mca_base_component_t *component);

#endif /* GPUHIER_COUNTERS_H */
