/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The engine: one call as a state machine that never blocks.
 *
 *   QUEUED --(first in its team's queue)--> GATHER --(all have arrived)--> OPENED --(all can map)--> RUN --> DONE
 *                                              |                             ^                       ^
 *                                              +-- nobody's memory is new ---------------------------+
 *
 * A call that is voted down leaves RUN (or SMALL) before anything was moved: to DONE, with GPUHIER_DECLINED, when
 * somebody waits for it; else to HOST, where it is brought to its end in host memory. One for whose long slices a rank
 * has no room goes from RUN to GATHER again, for short ones, with the next sequence number.
 *
 *   any but QUEUED --(error)--> FAILED --(nobody's GPU works on my buffers)--> DONE
 *
 * A message of the small form takes another way: QUEUED --> SMALL --> DONE, see coll_gpuhier_small.h.
 *
 * Calls of one team run one after the other, in the order in which they were
 * posted: coll_gpuhier_queue.h.
 */
#ifndef GPUHIER_ENGINE_H
#define GPUHIER_ENGINE_H

#include "engine/coll_gpuhier_call.h"

/*
 * Describes an all-reduce on the team, and marks the point in the program's own work that it
 * must not overtake. Local. The team's context is current, unless team->context_lost. Whatever
 * goes wrong here is voted when the call begins.
 */
void gpuhier_engine_prepare(gpuhier_call_t *call, gpuhier_team_t *team, const gpuhier_call_args_t *args);

/*
 * Begins a prepared call: publishes my arrival, whatever happened to me. All members begin the
 * same calls in the same order. On a failed team the call is DONE at once, with the error of the call that failed.
 */
void gpuhier_engine_begin(gpuhier_call_t *call);

/* Does the call wait for UCX, as far as it knows? */
bool gpuhier_engine_wants_net(const gpuhier_call_t *call);

/* Does what can be done now, but for UCX. Returns the number of events, 0 when there was nothing; look at call->state.
 * The team's context is current. */
int gpuhier_engine_step(gpuhier_call_t *call);

/* Ends a call that has not begun. */
void gpuhier_engine_drop(gpuhier_call_t *call, int status);

/*
 * Has the call end with an error: tells the group and the other groups; the call is DONE when
 * no live member has GPU work on my buffers, which steps find out. (A member may be stopped, or be waiting
 * for another thread of this process: hence no waiting here, with the lock held.) The team has
 * failed from now on: its connections are gone, and its members see that I failed in whatever later call they
 * make. Must not be called again for the same call.
 */
void gpuhier_engine_fail(gpuhier_call_t *call, int status);

/* The same, without waiting for anybody: at the end of the process's MPI life. */
void gpuhier_engine_abandon(gpuhier_call_t *call, int status);

#endif /* GPUHIER_ENGINE_H */
