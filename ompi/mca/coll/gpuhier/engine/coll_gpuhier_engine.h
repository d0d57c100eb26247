/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The engine: one call as a state machine that never blocks.
 *
 * This folder owns calls, from posting to their end: their states (engine), their order in a team (queue), the order
 * behind the program's own work (order), their forms (form: small, oneshot, switched, slices), the arrival of the
 * members (arrival) and the buffers that they offer each other (offer, known), the vote, the stages that move slices
 * (pipeline, exchange, link), the host's arithmetic (host_reduce) and its messages (leaders), the host form
 * (hostcall), and what a call does while nothing moves (wait, watch).
 *
 * It uses base, topology, plan, gpu, net, host and team. Coll and the top of the component use it.
 *
 *   QUEUED --(first in its team's queue)--> GATHER --(all have arrived)--> OPENED --(all can map)--> RUN --> DONE
 *                                    |         |                              ^^
 *                                    |         +-- nothing to map ------------+|
 *                                    +-- the form has no arrival records ------+
 *
 * What a call does in RUN is its form's (coll_gpuhier_form.h). A call that the ranks vote down leaves RUN before any
 * data moves: to DONE, with GPUHIER_DECLINED, when a thread waits for it; else to HOST, which completes it in host
 * memory. A call may also begin again, with the next sequence number.
 *
 *   any but QUEUED --(error)--> FAILED --(no GPU works on this rank's buffers)--> DONE
 *
 * Calls of one team run one after the other, in the order in which they were
 * posted: coll_gpuhier_queue.h.
 */
#ifndef GPUHIER_ENGINE_H
#define GPUHIER_ENGINE_H

#include "engine/coll_gpuhier_call.h"

/*
 * Describes an all-reduce on the team, and marks the point in the program's own work that the call
 * must not overtake. Local. The team's context is current, unless team->context_lost. A failure
 * here becomes this rank's vote when the call begins.
 */
void gpuhier_engine_prepare(gpuhier_call_t *call, gpuhier_team_t *team, const gpuhier_call_args_t *args);

/*
 * Begins a prepared call: publishes this rank's arrival, even if it cannot take part. All members begin the
 * same calls in the same order. On a failed team the call is DONE at once, with the error of the call that failed.
 */
void gpuhier_engine_begin(gpuhier_call_t *call);

/* Can progress of UCX help the call? */
bool gpuhier_engine_wants_net(const gpuhier_call_t *call);

/* True only if a step can do nothing before a peer's word in shared memory changes. The context need not be current to
 * see that. */
bool gpuhier_engine_is_idle(const gpuhier_call_t *call);

/* Takes the steps that are possible now, except for driving UCX. Returns the number of events; the new state is in
 * call->state. The team's context is current. */
int gpuhier_engine_step(gpuhier_call_t *call);

/* Lets go of all that the call has, which may not have begun, and makes it DONE with this status. */
void gpuhier_engine_end(gpuhier_call_t *call, int status);

/*
 * Ends the call with an error: tells the group and the other groups. The call is DONE when no live member has GPU work
 * left on this rank's buffers; steps find that out. (A member may be stopped, or wait for another thread of this
 * process, so this function does not wait while it holds the lock.) The team has failed from now on: its peers
 * are released (connections, which others share, stay open), and its members see that this rank failed in any later
 * call. It is called once for a call.
 */
void gpuhier_engine_fail(gpuhier_call_t *call, int status);

/* Does the same without waiting for other ranks: for the end of MPI in this process. */
void gpuhier_engine_abandon(gpuhier_call_t *call, int status);

#endif /* GPUHIER_ENGINE_H */
