/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The queue of a team's calls. They run one after the other in the order in which
 * they were posted, which MPI makes the same on all ranks: so slots, tags and
 * exchange states are those of one call. Teams do not wait for each other.
 *
 *     post -> last .. first --begin--> runs --(DONE)--> out; the next one begins
 *
 * Whoever holds the engine's lock drives the first call: its own waiter, the
 * waiter of a later one, or another thread.
 */
#ifndef GPUHIER_QUEUE_H
#define GPUHIER_QUEUE_H

#include "coll_gpuhier_engine.h"

/*
 * Posts an all-reduce (see gpuhier_engine_prepare()) behind the team's others. Local; begins it when it is the first.
 * The call is the queue's until its state is DONE. The engine's lock is held.
 */
void gpuhier_queue_post(gpuhier_call_t *call, gpuhier_team_t *team, int kernel, size_t elem_bytes, const void *in, void *out,
                        uint64_t count);

/*
 * Waits until a posted call is done; drives its team and Open MPI's progress meanwhile, and
 * watches for dead peers. The lock is not held. Returns call->status.
 */
int gpuhier_queue_wait(gpuhier_call_t *call);

/* Drives the team's calls until none is left. Not under the lock. */
void gpuhier_queue_drain(gpuhier_team_t *team);

#endif /* GPUHIER_QUEUE_H */
