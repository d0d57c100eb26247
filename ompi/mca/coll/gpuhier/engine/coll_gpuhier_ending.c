/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the end of a call: how it releases what it holds, and what follows an error. A rank whose call fails tells the
 * other ranks. Its call is over when no live member has GPU work left on this rank's buffers. Called by the engine and
 * the queue.
 */
#include "ompi_config.h"

#include <string.h>

#include "engine/coll_gpuhier_engine.h"
#include "engine/coll_gpuhier_engine_internal.h"
#include "engine/coll_gpuhier_exchange.h"
#include "engine/coll_gpuhier_oneshot.h"
#include "engine/coll_gpuhier_order.h"
#include "engine/coll_gpuhier_pipeline.h"
#include "engine/coll_gpuhier_small_exchange.h"
#include "engine/coll_gpuhier_vote.h"
#include "team/coll_gpuhier_partners.h"

void gpuhier_engine_unmap(gpuhier_call_t *call)
{
    for (int i = 0; !call->is_small && i < call->team->group_size; ++i) {
        for (int p = 0; p < 3; ++p) {
            gpuhier_unmap(call->slices.member[i].pins[p]);
            call->slices.member[i].pins[p] = NULL;
        }
    }
}

/* Hands the resources of a failed call to the kept list, since UCX and the GPU may still work on them. */
static void lane_leave(gpuhier_call_t *call)
{
    gpuhier_lane_t *lane = call->lane;
    gpuhier_order_leave(call);
    gpuhier_small_exchange_leave(call->team);
    gpuhier_vote_leave(call->team);
    gpuhier_partners_leave(call->team);
    gpuhier_exchange_leave(call->team, lane);
}

static __attribute__((noinline)) void slices_give(gpuhier_call_t *call)
{
    gpuhier_oneshot_release(call);
    gpuhier_engine_unmap(call);
}

void gpuhier_engine_give(gpuhier_call_t *call, bool failed)
{
    if (!call->is_small) {
        slices_give(call);
    }
    if (failed && OMPI_SUCCESS != call->team->failed) {
        lane_leave(call);
    } else if (NULL != call->lane) {
        gpuhier_lane_give(call->lane);
    }
    call->lane = NULL;
    gpuhier_order_forget(call);
}

void gpuhier_engine_end(gpuhier_call_t *call, int status)
{
    gpuhier_engine_give(call, OMPI_SUCCESS != status && GPUHIER_DECLINED != status);
    if (NULL != call->ended) { /* a call that a thread waits for never becomes a host call */
        gpuhier_hostcall_end(call);
    }
    call->status = status;
    call->state = GPUHIER_CALL_DONE;
}

void gpuhier_engine_drop(gpuhier_call_t *call, int status)
{
    if (!call->is_small) {
        memset(call->slices.member, 0, sizeof(call->slices.member[0]) * (size_t) call->team->group_size);
    }
    gpuhier_engine_end(call, status);
}

/* Has this rank's GPU finished its work for the call? It soon will: kernels that wait for other ranks have been told to
 * leave. A lost context has no work. */
static bool streams_idle(const gpuhier_call_t *call)
{
    for (int s = 0; NULL != call->lane && NULL != call->team->device->context && s < GPUHIER_STAGES; ++s) {
        if (NULL != call->lane->stream[s] && CUDA_ERROR_NOT_READY == gpuhier_cu.cuStreamQuery(call->lane->stream[s])) {
            return false;
        }
    }
    return !gpuhier_oneshot_runs(call);
}

#define LOOKS_APART 1024u  /* polls between two checks that the members live */
#define NOTICE_POLLS 1000u /* polls that a call waits for its notices to leave; connections also deliver them later */

/* Has every other member come to rest: has it no GPU work on this rank's buffers? One that has left the call by the
 * vote on it has none. Revokes the claim of members that have not begun. A member that has begun will see that this
 * rank failed, or is dead. */
static bool members_quiet(gpuhier_call_t *call)
{
    const gpuhier_team_t *team = call->team;
    const bool look = 0 == call->polls++ % LOOKS_APART;
    const uint64_t nslices = call->is_small ? 0 : call->slices.plan.nslices;
    for (int i = 0; i < team->group_size; ++i) {
        gpuhier_slot_t *slot = gpuhier_team_slot(team, i, call->sequence);
        if (i == team->index
            || gpuhier_word(call->sequence, GPUHIER_CLAIM_TAKEN)
                   != gpuhier_word_advance(&slot->claim, call->sequence, GPUHIER_CLAIM_REVOKED, GPUHIER_CLAIM_TAKEN)) {
            continue;
        }
        if (!gpuhier_word_reached(&slot->failed, call->sequence, GPUHIER_FAILED_QUIET)
            && !gpuhier_word_reached(&slot->ag_done[0], call->sequence, nslices)
            && !gpuhier_word_reached(&slot->rs_done[0], call->sequence, GPUHIER_WORD_PROGRESS_MAX)
            && !(look && !gpuhier_team_member_lives(team, i))) {
            return false;
        }
    }
    return true;
}

/* Says for all later calls that this rank failed and is at rest. A member that completed this call sees it in the next
 * one, even if this rank never calls again. */
static void quiet_say(const gpuhier_call_t *call)
{
    const gpuhier_team_t *team = call->team;
    for (int slot = 0; slot < GPUHIER_SLOTS; ++slot) {
        gpuhier_word_publish(&gpuhier_team_slot(team, team->index, call->sequence + (uint64_t) slot)->failed,
                             GPUHIER_WORD_SEQUENCE_MAX, GPUHIER_FAILED_QUIET);
    }
}

int gpuhier_engine_failed_step(gpuhier_call_t *call)
{
    if (!call->quiet) {
        if (!streams_idle(call)) {
            return 0;
        }
        quiet_say(call);
        call->quiet = true;
    }
    if (!members_quiet(call) || (call->polls < NOTICE_POLLS && gpuhier_partners_is_giving_up(call->team))) {
        return 0;
    }
    call->outcome_known =
        call->is_small ? gpuhier_small_outcome_known(call) : call->slices.mask_known && gpuhier_pipeline_gathered(call);
    gpuhier_engine_end(call, call->status);
    return 1;
}

void gpuhier_engine_fail(gpuhier_call_t *call, int status)
{
    gpuhier_team_t *team = call->team;
    team->failed = status;
    if (call->is_small && !gpuhier_small_mask_learn(call)) {
        gpuhier_word_publish(&gpuhier_team_slot(team, team->index, call->sequence)->undecided, call->sequence, 1);
    }
    gpuhier_word_publish(&gpuhier_team_slot(team, team->index, call->sequence)->failed, call->sequence,
                         GPUHIER_FAILED_SAID);
    gpuhier_oneshot_abort(call);
    gpuhier_partners_give_up(team); /* the other groups wait for messages */
    /*
     * Other communicators share the connections, so these stay open. Messages of this call may never be received, and
     * their memory outlives the call.
     */
    for (int rank = 0; NULL != team->peers && rank < team->nranks; ++rank) {
        gpuhier_net_peer_abandon(team->peers[rank]);
        team->peers[rank] = NULL;
    }
    call->status = status;
    call->state = GPUHIER_CALL_FAILED;
}

void gpuhier_engine_abandon(gpuhier_call_t *call, int status)
{
    if (GPUHIER_CALL_FAILED != call->state) {
        gpuhier_engine_fail(call, status);
    }
    gpuhier_cuda_scope_t scope;
    bool entered = NULL != call->lane && OMPI_SUCCESS == gpuhier_cuda_enter(call->team->device->context, &scope);
    for (int s = 0; entered && s < GPUHIER_STAGES; ++s) {
        if (NULL != call->lane->stream[s]) { /* returns, since kernels that wait have been told to leave */
            (void) gpuhier_cu.cuStreamSynchronize(call->lane->stream[s]);
        }
    }
    while (entered && gpuhier_oneshot_runs(call)) { /* it has been told to leave */
    }
    if (entered) {
        gpuhier_cuda_leave(&scope);
    }
    quiet_say(call);
    if (NULL != call->lane) {
        call->lane->peers_work = !members_quiet(call);
        if (call->lane->peers_work && call->in_switch) {
            gpuhier_multicast_leave(&call->team->multicast);
        }
    }
    gpuhier_engine_end(call, status);
}
