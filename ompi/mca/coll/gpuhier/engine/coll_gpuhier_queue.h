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

/*
 * What a call checks while nothing moves: has a member failed or died, has the
 * call waited longer than the user's limit, is it time to print which ranks are missing? And what it tells the user.
 */

/*
 * Called after each poll of a running call that brought no event, under the engine's lock.
 * The queue sets call->idle.polls to 0 at an event. Looks at the peers some 20 times a second.
 * OMPI_SUCCESS: go on waiting; else the code with which the call must end.
 */
int gpuhier_watch_idle(gpuhier_call_t *call);

/* Tells the user that a call is about to end with this error. Only a rank that detects a failure itself calls it; a
 * rank that hears of a failure from another does not. */
void gpuhier_watch_tell(const gpuhier_call_t *call, int status);

/* How many bytes a rank takes of those that another rank gives, if it has room for so many. If that is not all, sets
 * *is_cut_short_p, and tells the user once. */
uint64_t gpuhier_watch_cut(const gpuhier_team_t *team, int giver, uint64_t given, uint64_t room, bool *is_cut_short_p);

/*
 * The code that MPI returns for a call that has ended: its own, or, where Open MPI tells programs of faults,
 * MPI_ERR_REVOKED or MPI_ERR_PROC_FAILED if that is why it failed. Not under the engine's lock.
 */
int gpuhier_watch_code(const gpuhier_call_t *call);

#endif /* GPUHIER_QUEUE_H */
