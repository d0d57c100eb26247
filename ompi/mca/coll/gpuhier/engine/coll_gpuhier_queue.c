/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the order of a team's calls and the waiting for them. What a call does when
 * it is driven is the engine's. Called by allreduce, and by requests.
 */
#include "ompi_config.h"

#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "team/coll_gpuhier_process.h"
#include "engine/coll_gpuhier_queue.h"
#include "engine/coll_gpuhier_watch.h"
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

static opal_list_t busy; /* teams with calls that nobody waits for, by their member of that name */
static bool listed;      /* busy is constructed */
static unsigned on_device; /* calls under way whose messages UCX moves from and to GPU memory */

static gpuhier_team_t *team_of(opal_list_item_t *item)
{
    return (gpuhier_team_t *) (void *) ((char *) item - offsetof(gpuhier_team_t, busy));
}

static void unwaited_add(gpuhier_team_t *team)
{
    if (!listed) {
        OBJ_CONSTRUCT(&busy, opal_list_t);
        listed = true;
    }
    if (0 == team->unwaited++) {
        OBJ_CONSTRUCT(&team->busy, opal_list_item_t);
        opal_list_append(&busy, &team->busy);
    }
}

static void unwaited_remove(gpuhier_team_t *team)
{
    if (0 == --team->unwaited) {
        opal_list_remove_item(&busy, &team->busy);
        OBJ_DESTRUCT(&team->busy);
    }
}

bool gpuhier_queue_is_busy(void)
{
    return listed && !opal_list_is_empty(&busy);
}

bool gpuhier_queue_wants_context(void)
{
    return on_device > 0;
}

/* Takes the first call, which has ended, out of the queue. */
static void first_remove(gpuhier_team_t *team, gpuhier_call_t **ended_p)
{
    gpuhier_call_t *call = team->first;
    team->first = call->next;
    on_device -= call->net_on_device;
    if (NULL == call->ended) {
        return;
    }
    if (call->status >= 0 && NULL != call->outcome_p) {
        *call->outcome_p |= (uint8_t) call->mask;
    }
    call->next = *ended_p;
    *ended_p = call;
    unwaited_remove(team);
}

/* Takes calls that have ended out of the queue, and begins the next one. The context is current, unless the team is broken. */
static void queue_advance(gpuhier_team_t *team, gpuhier_call_t **ended_p)
{
    while (NULL != team->first && GPUHIER_CALL_DONE == team->first->state) {
        first_remove(team, ended_p);
        if (NULL != team->first) {
            gpuhier_engine_begin(team->first);
        }
    }
}

void gpuhier_queue_post(gpuhier_call_t *call, gpuhier_team_t *team, const gpuhier_call_args_t *args, gpuhier_call_t **ended_p)
{
    gpuhier_cuda_scope_t scope;
    (void) gpuhier_team_check(team);
    int rc = team_enter(team, &scope);
    gpuhier_engine_prepare(call, team, args);
    call->net_on_device = team->net_on_device;
    on_device += call->net_on_device;
    if (NULL != call->ended) {
        unwaited_add(team);
    }
    if (NULL != team->first) {
        team->last->next = call;
        team->last = call;
    } else {
        team->first = team->last = call;
        gpuhier_engine_begin(call);
        if (OMPI_SUCCESS == rc) {
            (void) gpuhier_engine_step(call); /* a short message may need no more than this */
        }
        queue_advance(team, ended_p);
    }
    if (OMPI_SUCCESS == rc) {
        gpuhier_cuda_leave(&scope);
    }
}

void gpuhier_queue_tell(gpuhier_call_t *ended)
{
    while (NULL != ended) {
        gpuhier_call_t *call = ended;
        ended = call->next; /* the call may be gone when its owner has been told */
        call->ended(call);
    }
}
#define STEP_EVERY 64 /* looks at shared memory for which a short message is not stepped */

/* Does what can be done now for the first call. Returns the number of events. */
static int team_drive(gpuhier_team_t *team, gpuhier_call_t **ended_p)
{
    gpuhier_call_t *call = team->first;
    gpuhier_cuda_scope_t scope;
    if (NULL == call) {
        return 0;
    }
    if (0 != (call->idle.polls + 1) % STEP_EVERY && !call->net_on_device && gpuhier_small_is_idle(call)) {
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
        gpuhier_watch_tell(call, rc);
        gpuhier_engine_fail(call, rc);
    }
    if (0 != events) {
        call->idle.polls = 0;
    }
    queue_advance(team, ended_p);
    if (OMPI_SUCCESS == rc) {
        gpuhier_cuda_leave(&scope);
    }
    return events;
}

/*
 * A process that polls beside others on its core takes it from the one that all wait for: yielding, it
 * still looks busy to the kernel, which then moves nobody to where there is room. So after some polls
 * in vain it sleeps, each time a little longer, but for no more than about a sixteenth of the time that it has waited. The
 * kernel's usual slack, 50 us, would be most of that. Between groups much is waited for that takes some 100 us and
 * needs polls of both sides, as the steps of a rendezvous do: patience lasts for about a millisecond there (2 nodes x 1 rank, 512 KiB, 2026-11-22:
 * 290 us without naps, 490 to 1190 us with naps after 64 polls).
 */
#define VAIN_POLLS 64
#define VAIN_POLLS_NET 512
#define NAP_MIN_US 25u
#define NAP_MAX_US 400u
#define NAP_SLACK_NS 1000ul

/* Open MPI's progress makes system calls, and other messages can wait for so many polls of ours. */
#define PROGRESS_EVERY 8

static void nap(unsigned us)
{
    const int slack = prctl(PR_GET_TIMERSLACK);
    prctl(PR_SET_TIMERSLACK, NAP_SLACK_NS);
    usleep(us);
    if (slack > 0) {
        prctl(PR_SET_TIMERSLACK, (unsigned long) slack);
    }
}

/* Between two polls that moved no slice. vain: how many there were since one did; patience: so many without a nap. *nap_us: the next. */
static void poll_pause(unsigned vain, unsigned patience, bool net_moved, unsigned *nap_us)
{
    const bool shares = gpuhier_process_shares_cores();
    if (vain > patience || 1 == vain % PROGRESS_EVERY) {
        opal_progress(); /* yields too where cores are shared */
    } else if (shares) {
        sched_yield();
    }
    if (net_moved) {
        *nap_us = NAP_MIN_US;
    } else if (shares && vain > patience) {
        nap(*nap_us);
        *nap_us += *nap_us < NAP_MAX_US ? *nap_us / 16 : 0;
    }
}

int gpuhier_queue_wait(gpuhier_call_t *call)
{
    gpuhier_team_t *team = call->team;
    uint64_t net_events = 0;
    unsigned vain = 0, nap_us = NAP_MIN_US;
    for (;;) {
        gpuhier_call_t *ended = NULL;
        gpuhier_engine_lock();
        int events = GPUHIER_CALL_DONE == call->state ? 0 : team_drive(team, &ended);
        bool done = GPUHIER_CALL_DONE == call->state;
        bool net_moved = net_events != team->net_events;
        net_events = team->net_events;
        gpuhier_engine_unlock();
        gpuhier_queue_tell(ended);
        if (done) {
            return call->status;
        }
        if (0 != events) {
            vain = 0;
            nap_us = NAP_MIN_US;
        } else {
            poll_pause(++vain, 1 == team->ngroups ? VAIN_POLLS : VAIN_POLLS_NET, net_moved, &nap_us);
        }
    }
}

void gpuhier_queue_drain(gpuhier_team_t *team)
{
    for (bool empty = false; !empty;) {
        gpuhier_call_t *ended = NULL;
        gpuhier_engine_lock();
        int events = team_drive(team, &ended);
        empty = NULL == team->first;
        gpuhier_engine_unlock();
        gpuhier_queue_tell(ended);
        if (0 == events && !empty) {
            opal_progress();
        }
    }
}

int gpuhier_queue_drive_all(gpuhier_call_t **ended_p)
{
    int events = 0;
    if (gpuhier_queue_is_busy()) {
        opal_list_item_t *item, *next;
        OPAL_LIST_FOREACH_SAFE(item, next, &busy, opal_list_item_t) {
            events += team_drive(team_of(item), ended_p);
        }
    }
    return events;
}

void gpuhier_queue_abandon(gpuhier_team_t *team, int status, gpuhier_call_t **ended_p)
{
    if (NULL != team->first) {
        gpuhier_engine_abandon(team->first, status);
    }
    for (gpuhier_call_t *call = team->first; NULL != call; call = team->first) {
        if (GPUHIER_CALL_DONE != call->state) {
            gpuhier_engine_drop(call, status);
        }
        first_remove(team, ended_p);
    }
}
