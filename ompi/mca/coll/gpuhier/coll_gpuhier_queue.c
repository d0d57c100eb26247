/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the order of a team's calls and the waiting for them. What a call does when
 * it is driven is the engine's. Called by allreduce.
 */
#include "ompi_config.h"

#include <unistd.h>

#include "coll_gpuhier_process.h"
#include "coll_gpuhier_queue.h"
#include "coll_gpuhier_watch.h"
#include "opal/runtime/opal_progress.h"

/* Makes the team's context current. A failure means that the context is gone: I vote against every call until the team is made anew. */
static int team_enter(gpuhier_team_t *team, gpuhier_cuda_scope_t *scope)
{
    int rc = gpuhier_cuda_enter(team->device->context, scope);
    if (OMPI_SUCCESS != rc) {
        team->broken = rc;
    }
    return rc;
}

/* Takes calls that have ended out of the queue, and begins the next one. The context is current, unless the team is broken. */
static void queue_advance(gpuhier_team_t *team)
{
    while (NULL != team->first && GPUHIER_CALL_DONE == team->first->state) {
        team->first = team->first->next;
        if (NULL != team->first) {
            gpuhier_engine_begin(team->first);
        }
    }
}

void gpuhier_queue_post(gpuhier_call_t *call, gpuhier_team_t *team, int kernel, size_t elem_bytes, const void *in, void *out,
                        uint64_t count)
{
    gpuhier_cuda_scope_t scope;
    (void) gpuhier_device_check(team->device);
    int rc = team_enter(team, &scope);
    gpuhier_engine_prepare(call, team, kernel, elem_bytes, in, out, count);
    if (NULL != team->first) {
        team->last->next = call;
        team->last = call;
    } else {
        team->first = team->last = call;
        gpuhier_engine_begin(call);
        if (OMPI_SUCCESS == rc) {
            (void) gpuhier_engine_step(call); /* a short message may need no more than this */
        }
        queue_advance(team);
    }
    if (OMPI_SUCCESS == rc) {
        gpuhier_cuda_leave(&scope);
    }
}

#define STEP_EVERY 64 /* looks at shared memory for which a short message is not stepped */

/* Does what can be done now for the first call. Returns the number of events. */
static int team_drive(gpuhier_team_t *team)
{
    gpuhier_call_t *call = team->first;
    gpuhier_cuda_scope_t scope;
    if (NULL == call) {
        return 0;
    }
    if (0 != (call->idle.polls + 1) % STEP_EVERY && gpuhier_small_is_idle(call)) {
        ++call->idle.polls;
        return 0;
    }
    int events = 1, rc = team_enter(team, &scope);
    if (OMPI_SUCCESS == rc || call->declining || GPUHIER_CALL_FAILED == call->state) {
        events = gpuhier_engine_step(call);
        int problem = 0 == events && GPUHIER_CALL_FAILED != call->state ? gpuhier_watch_idle(call) : OMPI_SUCCESS;
        if (OMPI_SUCCESS != problem) {
            gpuhier_engine_fail(call, problem);
        }
    } else {
        gpuhier_engine_fail(call, rc);
    }
    if (0 != events) {
        call->idle.polls = 0;
    }
    queue_advance(team);
    if (OMPI_SUCCESS == rc) {
        gpuhier_cuda_leave(&scope);
    }
    return events;
}

/*
 * A process that polls beside others on its core takes it from the one that all wait for: yielding, it
 * still looks busy to the kernel, which then moves nobody to where there is room. So after some polls
 * in vain it sleeps for a moment; longer than asked, as the kernel has some 50 us of slack.
 */
#define NAP_AFTER_POLLS 64
#define NAP_US 20

int gpuhier_queue_wait(gpuhier_call_t *call)
{
    gpuhier_team_t *team = call->team;
    uint64_t net_events = 0;
    unsigned vain = 0; /* polls that moved nothing, here or in UCX */
    for (;;) {
        gpuhier_engine_lock();
        int events = GPUHIER_CALL_DONE == call->state ? 0 : team_drive(team);
        bool done = GPUHIER_CALL_DONE == call->state;
        vain = 0 == events && net_events == team->net_events ? vain + 1 : 0;
        net_events = team->net_events;
        gpuhier_engine_unlock();
        if (done) {
            return call->status;
        }
        if (0 == events) {
            opal_progress(); /* yields too, when Open MPI knows that cores are shared */
        }
        if (vain > NAP_AFTER_POLLS && gpuhier_process_shares_cores()) {
            usleep(NAP_US);
        }
    }
}

void gpuhier_queue_drain(gpuhier_team_t *team)
{
    for (bool empty = false; !empty;) {
        gpuhier_engine_lock();
        int events = team_drive(team);
        empty = NULL == team->first;
        gpuhier_engine_unlock();
        if (0 == events && !empty) {
            opal_progress();
        }
    }
}
