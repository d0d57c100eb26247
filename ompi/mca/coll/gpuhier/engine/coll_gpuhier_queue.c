/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the order of a team's calls and the waiting for them. The engine owns what a call does when it is driven. Called
 * by path, and by requests.
 */
#include "ompi_config.h"

#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/coll_gpuhier_clock.h"
#include "base/coll_gpuhier_compat.h"
#include "base/coll_gpuhier_lock.h"
#include "base/coll_gpuhier_end.h"
#include "base/coll_gpuhier_kept.h"
#include "engine/coll_gpuhier_exchange.h"
#include "engine/coll_gpuhier_arrival.h"
#include "team/coll_gpuhier_process.h"
#include "engine/coll_gpuhier_queue.h"
#include "engine/coll_gpuhier_wait.h"
#include "opal/runtime/opal_progress.h"

/* The kernel's usual timer slack, 50 us, would be most of a nap. */
#define NAP_MIN_US 25u
#define NAP_MAX_US 400u
#define NAP_SLACK_NS 1000ul

/* Did Open MPI find, or the user say, that processes share cores? (mpi_yield_when_idle) */
static bool shares_cores(void)
{
    static opal_mutex_t lock = OPAL_MUTEX_STATIC_INIT;
    static _Atomic int shares = -1;
    if (shares < 0) {
        opal_mutex_lock(&lock); /* a second thread would see the value that the first one sets */
        /* Open MPI tells the value only to a caller that sets a new one. It is final by the end of MPI_Init. */
        const bool yields = opal_progress_set_yield_when_idle(true);
        if (!yields) {
            opal_progress_set_yield_when_idle(false);
        }
        shares = yields;
        opal_mutex_unlock(&lock);
    }
    return 0 != shares;
}

static void nap(unsigned us)
{
    const int slack = prctl(PR_GET_TIMERSLACK);
    prctl(PR_SET_TIMERSLACK, NAP_SLACK_NS);
    usleep(us);
    if (slack > 0) {
        prctl(PR_SET_TIMERSLACK, (unsigned long) slack);
    }
}

/* After a poll in vain, which has been counted: yields, naps, or neither. progressed: Open MPI's progress was called
 * and has yielded. The engine's lock is not held. */
static void pause_after(gpuhier_wait_t *wait, bool progressed, gpuhier_patience_t patience)
{
    if (!shares_cores()) {
        return;
    }
    if (1 == wait->polls) {
        wait->since_us = gpuhier_clock_us();
    }
    if (!progressed && 0 == wait->nap_us) {
        sched_yield();
    }
    if (wait->nap_us > 0) {
        nap(wait->nap_us);
        wait->nap_us += wait->nap_us < NAP_MAX_US ? wait->nap_us / 16 : 0;
    } else if (wait->polls > patience.polls && gpuhier_clock_us() - wait->since_us > patience.us) {
        wait->nap_us = NAP_MIN_US;
    }
}

/* The context that this thread works in. It stays current from one poll to the next, until the thread runs code that is
 * not the engine's. */
typedef struct visit {
    CUcontext context; /* NULL: the program's own is current */
    gpuhier_cuda_scope_t scope;
} visit_t;

static void visit_end(visit_t *visit)
{
    if (NULL != visit->context) {
        gpuhier_cuda_leave(&visit->scope);
        visit->context = NULL;
    }
}

/* Makes the team's context current. A failure means that the context is gone: this rank then votes against every call
 * until set-up makes the team anew. */
static int team_enter(gpuhier_team_t *team, visit_t *visit)
{
    CUcontext context = team->device->context;
    if (NULL != context && context == visit->context) {
        return OMPI_SUCCESS;
    }
    visit_end(visit);
    int rc = gpuhier_cuda_enter(context, &visit->scope);
    if (OMPI_SUCCESS != rc) {
        team->context_lost = rc;
    } else {
        visit->context = context;
    }
    return rc;
}

static gpuhier_team_t *busy; /* teams with calls, by busy_next */
static unsigned unwaited;    /* calls that no thread waits for */
static unsigned on_device;   /* calls under way whose messages UCX moves from and to GPU memory */

static gpuhier_rest_t waiting; /* of all threads in Open MPI */

bool gpuhier_queue_is_busy(void)
{
    return unwaited > 0;
}

/* Takes the first call, which has ended, out of the queue. If a thread waits for it, that thread owns it again. */
static void first_remove(gpuhier_team_t *team, gpuhier_call_t **ended_p)
{
    gpuhier_call_t *call = team->first;
    team->first = call->next;
    on_device -= team->net_on_device;
    if (NULL == team->first) {
        *team->busy_place = team->busy_next;
        if (NULL != team->busy_next) {
            team->busy_next->busy_place = team->busy_place;
        }
    }
    if (NULL == call->ended) {
        atomic_store_explicit(&call->over, true, memory_order_release);
        return;
    }
    if ((call->status >= 0 || call->outcome_known) && NULL != call->outcome_p) {
        *call->outcome_p |= (uint8_t) call->mask;
    }
    call->next = *ended_p;
    *ended_p = call;
    --unwaited;
}

/* Takes calls that have ended out of the queue, and begins the next one. The context is current, unless the team has
 * lost it. */
static void queue_advance(gpuhier_team_t *team, gpuhier_call_t **ended_p)
{
    while (NULL != team->first && GPUHIER_CALL_DONE == team->first->state) {
        first_remove(team, ended_p);
        if (NULL != team->first) {
            gpuhier_engine_begin(team->first);
        }
    }
}

static void post(gpuhier_call_t *call, gpuhier_team_t *team, const gpuhier_call_args_t *args, visit_t *visit,
                 gpuhier_call_t **ended_p)
{
    (void) gpuhier_team_check(team);
    int rc = team_enter(team, visit);
    gpuhier_engine_prepare(call, team, args);
    on_device += team->net_on_device;
    unwaited += NULL != call->ended;
    if (NULL != team->first) {
        team->last->next = call;
        team->last = call;
    } else {
        team->first = team->last = call;
        team->busy_next = busy;
        team->busy_place = &busy;
        if (NULL != busy) {
            busy->busy_place = &team->busy_next;
        }
        busy = team;
        gpuhier_engine_begin(call);
        if (OMPI_SUCCESS == rc) {
            (void) gpuhier_engine_step(call); /* the small form may need no more than this */
        }
        queue_advance(team, ended_p);
    }
}

void gpuhier_queue_post(gpuhier_call_t *call, gpuhier_team_t *team, const gpuhier_call_args_t *args,
                        gpuhier_call_t **ended_p)
{
    visit_t visit = {0};
    post(call, team, args, &visit, ended_p);
    visit_end(&visit);
}

void gpuhier_queue_tell(gpuhier_call_t *ended)
{
    while (NULL != ended) {
        gpuhier_call_t *call = ended;
        ended = call->next; /* its owner may free the call in this function */
        call->ended(call);
    }
}

#define STEP_EVERY 64 /* an idle call is stepped once in so many looks at shared memory */
#define NET_EVERY 64  /* UCX is driven once in so many rounds in which no call wants it */

/* One look at all that is pending. */
typedef struct round {
    visit_t *visit;
    gpuhier_call_t *ended; /* see gpuhier_queue_tell() */
    int events;
    bool net_driven;
} round_t;

static void net_drive(round_t *round)
{
    round->events += gpuhier_process_net_progress();
    round->net_driven = true;
}

/* Does what can be done now for the first call. */
static void team_drive(gpuhier_team_t *team, round_t *round)
{
    gpuhier_call_t *call = team->first;
    if (0 != (call->idle.polls + 1) % STEP_EVERY && !team->net_on_device && gpuhier_engine_is_idle(call)) {
        ++call->idle.polls;
        return;
    }
    int events = 1, rc = team_enter(team, round->visit);
    if (OMPI_SUCCESS == rc || call->declining || GPUHIER_CALL_FAILED == call->state
        || GPUHIER_CALL_QUEUED == call->state) { /* its vote is still to come */
        if ((team->net_on_device || !round->net_driven) && gpuhier_engine_wants_net(call)) {
            net_drive(round); /* UCX can have events while nothing moves here */
        }
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
    queue_advance(team, &round->ended);
    round->events += events;
}

/*
 * Drives all teams, for all threads that wait for their calls. Where no call has driven UCX, drives it last, every few
 * rounds or, if thorough, in this one: UCX may still hold the end of what earlier calls sent, or a message that other
 * ranks wait for.
 */
static void all_drive(round_t *round, bool thorough)
{
    static unsigned rounds;
    gpuhier_team_t *next;
    for (gpuhier_team_t *team = busy; NULL != team; team = next) {
        next = team->busy_next;
        team_drive(team, round);
    }
    if ((thorough || 0 == ++rounds % NET_EVERY) && !round->net_driven && 0 == on_device && gpuhier_process_has_net()) {
        visit_end(round->visit);
        net_drive(round);
    }
    if (0 != round->events) {
        atomic_store_explicit(&waiting.moved, true, memory_order_relaxed);
    }
}

/*
 * A callback of Open MPI's progress. UCX may still hold the end of what a call sent after the call has returned: a
 * socket was full, or an answer waits its turn. Any thread inside MPI then drives it, between two calls as well, and
 * while the calls under way do not need UCX. The notices of partners arrive this way, too. Where UCX moves GPU memory,
 * only the calls for which it does so drive it, since they make the context current that its copies need.
 *
 * In MPI_Finalize a program's callback on MPI_COMM_SELF may run before gpuhier's, and wait for a rank that in turn
 * waits, in gpuhier's callback, for this rank to leave. So this rank begins to leave here.
 */
static int net_progress(void)
{
    int events = 0;
    bool pending = true;
    if (gpuhier_engine_trylock()) {
        if (gpuhier_process_has_net() && 0 == on_device) {
            if (gpuhier_end_is_finalizing() && !gpuhier_queue_is_busy()) {
                gpuhier_process_leave_begin();
            }
            events = gpuhier_process_net_progress();
            gpuhier_kept_poll_at_times();
        }
        pending = NULL != busy;
        gpuhier_engine_unlock();
    }
    if (0 != events) {
        atomic_store_explicit(&waiting.moved, true, memory_order_relaxed);
    } else if (pending && shares_cores() && gpuhier_rest_is_due(&waiting, gpuhier_clock_us())) {
        nap(NAP_MIN_US);
    }
    return events;
}

/* Tells the owners of ended calls, in the program's context. */
static void tell(gpuhier_call_t *ended, visit_t *visit)
{
    if (NULL != ended) {
        visit_end(visit);
        gpuhier_queue_tell(ended);
    }
}

/* Drives all teams once. The caller ends the visit. */
static int drive(bool thorough, visit_t *visit)
{
    round_t round = {.visit = visit};
    if (!gpuhier_engine_trylock()) {
        return 0;
    }
    all_drive(&round, thorough);
    gpuhier_engine_unlock();
    tell(round.ended, visit);
    return round.events;
}

/* The same as gpuhier_queue_drive_all(), but takes the lock itself. thorough: drives UCX in this round. Returns 0 as
 * well when another thread has the lock, or waits for it. */
static int drive_and_tell(bool thorough)
{
    visit_t visit = {0};
    int events = drive(thorough, &visit);
    visit_end(&visit);
    return events;
}

int gpuhier_queue_run(gpuhier_call_t *call, gpuhier_team_t *team, const gpuhier_call_args_t *args)
{
    const gpuhier_patience_t patience = 1 == team->ngroups ? GPUHIER_PATIENCE : GPUHIER_PATIENCE_NET;
    unsigned moved = 0;
    gpuhier_wait_t wait = {0};
    visit_t visit = {0};
    gpuhier_call_t *ended = NULL;
    gpuhier_engine_lock();
    post(call, team, args, &visit, &ended);
    gpuhier_engine_unlock();
    tell(ended, &visit);
    while (!atomic_load_explicit(&call->over, memory_order_acquire)) {
        if (0 != drive(wait.nap_us > 0, &visit)) {
            wait.polls = wait.nap_us = 0;
            if (0 == ++moved % GPUHIER_PROGRESS_EVERY) {
                visit_end(&visit);
                opal_progress(); /* other threads' calls may keep moving for long */
            }
        } else if (!atomic_load_explicit(&call->over, memory_order_acquire)) {
            const bool progress = gpuhier_wait_add(&wait);
            if (progress) {
                visit_end(&visit);
                opal_progress();
            }
            pause_after(&wait, progress, patience);
        }
    }
    visit_end(&visit);
    return call->status;
}

void gpuhier_queue_drain(gpuhier_team_t *team)
{
    for (bool empty = false; !empty;) {
        int events = drive_and_tell(true);
        gpuhier_engine_lock();
        empty = NULL == team->first;
        gpuhier_engine_unlock();
        if (0 == events && !empty) {
            opal_progress();
        }
    }
}

int gpuhier_queue_drive_all(gpuhier_call_t **ended_p)
{
    visit_t visit = {0};
    round_t round = {.visit = &visit, .ended = *ended_p};
    all_drive(&round, false);
    visit_end(&visit);
    *ended_p = round.ended;
    return round.events;
}

/* Ends all calls of the team with an error, without waiting. */
static void abandon(gpuhier_team_t *team, int status, gpuhier_call_t **ended_p)
{
    if (NULL != team->first) {
        gpuhier_engine_abandon(team->first, status);
    }
    for (gpuhier_call_t *call = team->first; NULL != call; call = team->first) {
        if (GPUHIER_CALL_DONE != call->state) {
            gpuhier_engine_end(call, status);
        }
        first_remove(team, ended_p);
    }
}

void gpuhier_queue_quiesce(gpuhier_call_t **ended_p)
{
    for (gpuhier_team_t *team = gpuhier_teams_next(NULL); NULL != team; team = gpuhier_teams_next(team)) {
        abandon(team, OMPI_ERR_NOT_AVAILABLE, ended_p);
        team->failed = OMPI_ERR_NOT_AVAILABLE;
        gpuhier_team_release(team);
    }
}

static int parts_make(gpuhier_team_t *team)
{
    int rc = gpuhier_exchange_init(team);
    return OMPI_SUCCESS != rc ? rc : gpuhier_leaders_init(team);
}

static void parts_release(gpuhier_team_t *team)
{
    gpuhier_leaders_leave(team);
    gpuhier_exchange_leave(team, NULL);
    gpuhier_known_leave(team);
}

void gpuhier_queue_open(void)
{
    static const gpuhier_team_engine_t engine = {.slot_bytes = sizeof(gpuhier_slot_t),
                                                 .area_bytes = sizeof(gpuhier_area_t),
                                                 .block_bytes = sizeof(gpuhier_block_t),
                                                 .make = parts_make,
                                                 .release = parts_release,
                                                 .drive = drive_and_tell,
                                                 .net_progress = net_progress};
    gpuhier_team_engine = &engine;
}
