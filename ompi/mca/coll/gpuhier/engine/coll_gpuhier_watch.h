/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What a call checks while nothing moves: has a member failed or died, has the
 * call waited longer than the user's limit, is it time to print which ranks are missing? And what it tells the user.
 */
#ifndef GPUHIER_WATCH_H
#define GPUHIER_WATCH_H

#include "engine/coll_gpuhier_call.h"

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

#endif /* GPUHIER_WATCH_H */
