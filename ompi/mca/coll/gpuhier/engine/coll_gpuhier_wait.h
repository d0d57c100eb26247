/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns how a thread waits: when it polls, yields the core, and sleeps. The queue, the only caller, decides what is
 * polled.
 *
 * On a shared core polling starves the process that the others wait for. Yielding does not help enough: the polling
 * process still looks busy to the kernel, which then moves no process to a free core, and the starved process may get
 * its core again only after the others have used up slices of milliseconds. So a thread that has polled in vain for
 * some time sleeps, each time a little longer, but for no more than about a sixteenth of the time that it has waited.
 * Where processes do not share cores, no thread sleeps.
 */
#ifndef GPUHIER_WAIT_H
#define GPUHIER_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * A thread polls for at least this time, and at least this many times, before its first nap. A poll ends with a yield,
 * which takes as long as the others on the core want to work: where the yield takes long it helps, and naps would only
 * add to the wait; where it returns at once it does not help. Between groups a wait of some 100 us is common, and needs
 * polls on both sides, as in the steps of a rendezvous (docs/decisions.md has the figures).
 */
typedef struct gpuhier_patience {
    unsigned us;
    unsigned polls;
} gpuhier_patience_t;

#define GPUHIER_PATIENCE ((gpuhier_patience_t){.us = 100, .polls = 64})
#define GPUHIER_PATIENCE_NET ((gpuhier_patience_t){.us = 1000, .polls = 512})

/* Open MPI's progress makes system calls, and yields where cores are shared, so it is called once in so many polls. */
#define GPUHIER_PROGRESS_EVERY 8

/* How long a thread in a blocking call has polled in vain. All zero: it has not. */
typedef struct gpuhier_wait {
    unsigned polls;
    uint64_t since_us; /* when it began */
    unsigned nap_us;   /* the next; 0: no naps yet */
} gpuhier_wait_t;

/* Counts a poll in vain. Returns whether Open MPI's progress is to be called after it. */
static inline bool gpuhier_wait_add(gpuhier_wait_t *wait)
{
    return 0 == wait->polls++ % GPUHIER_PROGRESS_EVERY;
}

/*
 * The same for all threads that wait inside Open MPI. They call its progress repeatedly and yield in between;
 * Linux 6.18 can leave such a thread on the core for seconds while the process that it waits for starves. Open MPI does
 * not tell a callback when such a wait begins, so after GPUHIER_REST_GAP_US without a question the next question begins
 * a new wait.
 */
#define GPUHIER_REST_GAP_US 10000u

typedef struct gpuhier_rest {
    _Atomic bool moved;        /* set by the thread that moves something; cleared by the next question */
    _Atomic uint64_t moved_us; /* when something moved last, or the wait began */
    _Atomic unsigned asked;    /* questions since then */
    _Atomic uint64_t asked_us; /* the last of them */
} gpuhier_rest_t;

/* Whether a thread that finds nothing to do in Open MPI's progress sleeps, if processes share cores. now_us: the
 * present time. Two threads may ask at once. */
static inline bool gpuhier_rest_is_due(gpuhier_rest_t *rest, uint64_t now_us)
{
    const uint64_t asked_us = atomic_exchange_explicit(&rest->asked_us, now_us, memory_order_relaxed);
    const gpuhier_patience_t patience = GPUHIER_PATIENCE_NET;
    if (atomic_exchange_explicit(&rest->moved, false, memory_order_relaxed)
        || now_us > asked_us + GPUHIER_REST_GAP_US) {
        atomic_store_explicit(&rest->moved_us, now_us, memory_order_relaxed);
        atomic_store_explicit(&rest->asked, 0, memory_order_relaxed);
        return false;
    }
    return atomic_fetch_add_explicit(&rest->asked, 1, memory_order_relaxed) >= patience.polls
           && now_us > atomic_load_explicit(&rest->moved_us, memory_order_relaxed) + patience.us;
}

#endif /* GPUHIER_WAIT_H */
