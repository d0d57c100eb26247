/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What a call or a team has left behind while UCX or a GPU may still touch it: a failed call's lane, the memory of
 * messages that nobody has received yet. It is kept on one list, and given back as soon as they let go.
 *
 * How it works: an object that may have to be kept has a gpuhier_kept_t inside, so that keeping it needs no memory.
 * Its owner hands it over with gpuhier_keep(), and does not look at it any more. The list asks the object's own
 * function whether it is still in use: at once, whenever a lane is taken, now and then in Open MPI's progress, and at
 * the end. Nothing waits for it. An empty list costs a comparison.
 *
 * The engine's lock is held in all calls.
 */
#ifndef GPUHIER_KEPT_H
#define GPUHIER_KEPT_H

#include <stdbool.h>
#include <stddef.h>

/* Owned by the object that it lies in. */
typedef struct gpuhier_kept {
    struct gpuhier_kept *next;
    /*
     * Gives back what nobody touches any more, and returns true; the object may be gone then. Returns false while it is
     * in use. May keep other objects.
     */
    bool (*give_back)(struct gpuhier_kept *kept);
} gpuhier_kept_t;

/* Has the object given back as soon as that is possible, perhaps at once. */
void gpuhier_keep(gpuhier_kept_t *kept, bool (*give_back)(gpuhier_kept_t *kept));

extern gpuhier_kept_t *gpuhier_kept_list;
void gpuhier_kept_poll_all(void);

/* Gives back what is not in use any more. Costs a comparison when nothing is kept. */
static inline void gpuhier_kept_poll(void)
{
    if (NULL != gpuhier_kept_list) {
        gpuhier_kept_poll_all();
    }
}

/* The same, at every few calls: for progress. */
void gpuhier_kept_poll_at_times(void);

/* The last look, when UCX has been closed. What is still in use is left to the end of the process. */
void gpuhier_kept_finalize(void);

#endif /* GPUHIER_KEPT_H */
