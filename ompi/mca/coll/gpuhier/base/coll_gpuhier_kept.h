/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Objects that a call or a team leaves behind while UCX or a GPU may still touch them: the lane of a failed call, the
 * memory of messages that no rank has received yet. One list keeps them, and gives them back once UCX and the GPU have
 * let go.
 *
 * How it works: an object that may have to be kept contains a gpuhier_kept_t, so keeping it needs no memory. Its owner
 * hands it over with gpuhier_keep() and does not touch it again. The list asks the object's own function whether the
 * object is still in use: at once, whenever a lane is taken, at times in Open MPI's progress, and at the end. Nothing
 * waits for a kept object. An empty list costs a comparison.
 *
 * Callers hold the engine's lock.
 */
#ifndef GPUHIER_KEPT_H
#define GPUHIER_KEPT_H

#include <stdbool.h>

/* Owned by the object that it lies in. */
typedef struct gpuhier_kept {
    struct gpuhier_kept *next;
    /*
     * Gives the object back if it is no longer in use, and returns true; the object may be freed by then. Returns false
     * while it is in use. May keep other objects.
     */
    bool (*give_back)(struct gpuhier_kept *kept);
} gpuhier_kept_t;

/* Gives the object back as soon as that is possible, perhaps at once. */
void gpuhier_keep(gpuhier_kept_t *kept, bool (*give_back)(gpuhier_kept_t *kept));

/* Gives back all objects that are no longer in use. The list is NULL when nothing is kept. */
extern gpuhier_kept_t *gpuhier_kept_list;
void gpuhier_kept_poll_all(void);

/* The same, but at every few calls only. Open MPI's progress calls it. */
void gpuhier_kept_poll_at_times(void);

/* Looks for the last time, after UCX has been closed. Objects still in use remain until the process ends. */
void gpuhier_kept_finalize(void);

#endif /* GPUHIER_KEPT_H */
