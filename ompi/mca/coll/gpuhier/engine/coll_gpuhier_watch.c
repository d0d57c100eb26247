/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the clock of a call that waits, the checks of its peers, the report of their states, and the reason that MPI
 * gives for a failure. Called by the queue and the engine, and by path and requests for the reason.
 *
 * Only time in which this process polls counts: a program that computes between
 * two calls of MPI_Test does not wait for other ranks.
 */
#include "ompi_config.h"

#include "base/coll_gpuhier_end.h"
#include "base/coll_gpuhier_clock.h"
#include "base/coll_gpuhier_help.h"
#include "base/coll_gpuhier_params.h"
#include "team/coll_gpuhier_partners.h"
#include "engine/coll_gpuhier_form.h"
#include "engine/coll_gpuhier_queue.h"
#include "opal/runtime/opal_progress.h"
#include "opal/util/output.h"

#define POLLS_PER_CLOCK 64u /* polls without an event between two readings of the clock */
#define LOOK_EVERY 0.05     /* seconds between two checks that the peers live */
#define GAP_MAX 1.0         /* seconds: a longer gap between polls counts as this, since the program computes */
#define GAPS_MIN 4          /* coll_gpuhier_timeout takes at least so many gaps: the peers may have been stopped, too */

/* What the call does. */
static const char *doing(const gpuhier_call_t *call)
{
    static const char *const names[] = {[GPUHIER_CALL_QUEUED] = "waiting to begin",
                                        [GPUHIER_CALL_GATHER] = "waiting for the group's arrival",
                                        [GPUHIER_CALL_OPENED] = "waiting until all have mapped the buffers",
                                        [GPUHIER_CALL_HOST] = "reducing on the host",
                                        [GPUHIER_CALL_FAILED] = "failed, waiting for the others to come to rest",
                                        [GPUHIER_CALL_DONE] = "done"};
    return GPUHIER_CALL_RUN == call->state ? call->form->doing : names[call->state];
}

/* Prints how far every member of the group has come, for a user who wonders why nothing moves. */
static void report(const gpuhier_call_t *call, double waited)
{
    const gpuhier_team_t *team = call->team;
    opal_output(0, "coll:gpuhier: rank %d has waited %.0f s in call %llu of communicator %s, %s", team->rank, waited,
                (unsigned long long) call->sequence, team->comm->c_name, doing(call));
    call->form->report(call);
}

void gpuhier_watch_tell(const gpuhier_call_t *call, int status)
{
    gpuhier_help("call failed", call->row->name, ompi_process_info.nodename, call->team->rank, call->team->comm->c_name,
                 doing(call), opal_strerror(status));
}

uint64_t gpuhier_watch_cut(const gpuhier_team_t *team, int giver, uint64_t given, uint64_t room, bool *is_cut_short_p)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    if (given <= room) {
        return given;
    }
    *is_cut_short_p = true;
    if (!atomic_flag_test_and_set(&told)) {
        gpuhier_help("cut short", ompi_process_info.nodename, team->rank, team->comm->c_name, (unsigned long long) room,
                     giver, (unsigned long long) given, giver, team->rank, team->rank, giver);
    }
    return room;
}

/* Checks the members, the partners and the user's limit. OMPI_SUCCESS: go on waiting. */
static int look(gpuhier_call_t *call, double waited)
{
    const gpuhier_team_t *team = call->team;
    if (gpuhier_comm_is_revoked(team->comm)) {
        return OMPI_ERR_NOT_AVAILABLE; /* the program revoked it: there is nothing to tell the user */
    }
    if (gpuhier_call_has_failed_member(call)) {
        return OMPI_ERROR;
    }
    const int partners = gpuhier_partners_check(team);
    if (OMPI_SUCCESS != partners) {
        gpuhier_watch_tell(call, partners);
        return partners;
    }
    const int dead = gpuhier_team_find_dead(team);
    /* Does Open MPI know that any member has died? A rank that knows gets the error from Open MPI, and never comes
     * here. */
    const bool told = gpuhier_faults_are_told() && MPI_SUCCESS != gpuhier_comm_fault(team->comm, false);
    const bool was_dead = call->idle.found_dead;
    call->idle.found_dead = dead >= 0 || told;
    if (call->idle.found_dead && !was_dead) {
        /* It may have done its part before it died: steps come first, and then another look. */
        call->idle.next_look = waited;
    } else if (dead >= 0) {
        gpuhier_help("dead peer", call->row->name, ompi_process_info.nodename, dead,
                     (int) team->members[team->hierarchy.index_of[dead]].pid, doing(call));
        return OMPI_ERR_UNREACH;
    } else if (told) {
        gpuhier_watch_tell(call, OMPI_ERR_UNREACH);
        return OMPI_ERR_UNREACH;
    }
    if (gpuhier_params.timeout > 0 && waited > gpuhier_params.timeout) {
        report(call, waited);
        return OMPI_ERR_TIMEOUT;
    }
    return OMPI_SUCCESS;
}

int gpuhier_watch_idle(gpuhier_call_t *call)
{
    gpuhier_idle_t *idle = &call->idle;
    if (0 != ++idle->polls % POLLS_PER_CLOCK) {
        return OMPI_SUCCESS;
    }
    const double time = gpuhier_clock(), gap = time - idle->last, timeout = gpuhier_params.timeout;
    const double most = timeout > 0 && timeout / GAPS_MIN < GAP_MAX ? timeout / GAPS_MIN : GAP_MAX;
    if (POLLS_PER_CLOCK == idle->polls) {
        idle->waited = 0;
        idle->found_dead = false;
        idle->next_look = LOOK_EVERY;
        idle->next_report = gpuhier_params.report_after;
    } else {
        idle->waited += gap < most ? gap : most;
    }
    idle->last = time;
    int rc = OMPI_SUCCESS;
    if (idle->waited >= idle->next_look) {
        idle->next_look = idle->waited + LOOK_EVERY;
        rc = look(call, idle->waited);
    }
    if (gpuhier_params.report_after > 0 && idle->waited >= idle->next_report) {
        report(call, idle->waited);
        idle->next_report = idle->waited + gpuhier_params.report_after;
    }
    return rc;
}

#define REASON_AFTER 0.5 /* seconds to wait for the reason */

/*
 * This rank may hear of another's failure before Open MPI reports the reason here. A team's first failed call waits for
 * the reason; later ones end at once.
 */
int gpuhier_watch_code(const gpuhier_call_t *call)
{
    gpuhier_team_t *team = call->team;
    if (call->status >= 0 || !gpuhier_faults_are_told()) {
        return call->status;
    }
    int code = gpuhier_comm_fault(team->comm, gpuhier_team_find_dead(team) >= 0);
    const bool waits = !team->reason_sought && !gpuhier_end_has_begun();
    team->reason_sought = true;
    for (const double begin = gpuhier_clock();
         waits && MPI_SUCCESS == code && gpuhier_clock() - begin < REASON_AFTER;) {
        opal_progress();
        code = gpuhier_comm_fault(team->comm, gpuhier_team_find_dead(team) >= 0);
    }
    if (MPI_SUCCESS == code) {
        code = gpuhier_comm_fault(team->comm, OMPI_ERR_UNREACH == call->status);
    }
    return MPI_SUCCESS != code ? code : call->status;
}
