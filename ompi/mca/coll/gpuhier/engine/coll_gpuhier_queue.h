/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The queue of a team's calls. They run one after the other in the order in which they were posted, which MPI makes the
 * same on all ranks. So slots, tags and exchange states serve one call at a time. Teams do not wait for each other.
 *
 *     post -> last .. first --begin--> runs --(DONE)--> out; the next one begins
 *
 * A thread that waits drives all that is pending: each team's first call, and UCX. One thread does so at a time, for
 * all: a waiter of any call, or progress (coll_gpuhier_request.c). The others see without a lock that their call is
 * over. A call that no thread waits for has an `ended` function: the thread that drove the call to its end puts it on a
 * list and calls this function after unlocking.
 */
#ifndef GPUHIER_QUEUE_H
#define GPUHIER_QUEUE_H

#include "engine/coll_gpuhier_engine.h"

/*
 * Posts an all-reduce behind the team's others. Local; begins it when it is the first. The call is the
 * queue's until its state is DONE. The engine's lock is held. *ended_p: see gpuhier_queue_tell().
 */
void gpuhier_queue_post(gpuhier_call_t *call, gpuhier_team_t *team, const gpuhier_call_args_t *args,
                        gpuhier_call_t **ended_p);

/* Calls the `ended` function of each call on a list of ended calls, which its owner has set to NULL at first. The
 * engine's lock is not held. */
void gpuhier_queue_tell(gpuhier_call_t *ended);

/*
 * Posts a call and waits until it is over; drives all that is pending and Open MPI's progress meanwhile, and
 * watches for dead peers. The lock is not held. Returns call->status.
 */
int gpuhier_queue_run(gpuhier_call_t *call, gpuhier_team_t *team, const gpuhier_call_args_t *args);

/* Waits until the team has no calls. The lock is not held. */
void gpuhier_queue_drain(gpuhier_team_t *team);

/* Drives each team that has calls, and UCX at times even if no call waits for it. The lock is held. Returns the number
 * of events. */
int gpuhier_queue_drive_all(gpuhier_call_t **ended_p);

/* Are there calls that no thread waits for? The lock is held. */
bool gpuhier_queue_is_busy(void);

/*
 * Ends all calls of all teams with an error, waiting for none, and releases what must go before UCX and CUDA do; the
 * teams serve no more calls. The lock is held. *ended_p: see gpuhier_queue_tell().
 */
void gpuhier_queue_quiesce(gpuhier_call_t **ended_p);

/* Registers the functions that the layers below call: the engine's part of a team, and UCX in Open MPI's progress.
 * Called at each opening of the component. */
void gpuhier_queue_open(void);

#endif /* GPUHIER_QUEUE_H */
