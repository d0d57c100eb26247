/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns a call's states: its begin, its steps, its end, and what follows an error. What it does in between is its
 * form's. A rank whose call fails tells the other ranks. Its call is over when no live member has GPU work left on this
 * rank's buffers. Called by the queue.
 */
#include "ompi_config.h"

#include <string.h>

#include "engine/coll_gpuhier_arrival.h"
#include "engine/coll_gpuhier_engine.h"
#include "engine/coll_gpuhier_exchange.h"
#include "engine/coll_gpuhier_form.h"
#include "engine/coll_gpuhier_order.h"
#include "engine/coll_gpuhier_queue.h"
#include "team/coll_gpuhier_partners.h"

/* Bytes of this rank's buffer, from its begin to the end of the last block in the list. */
static uint64_t list_bytes(const gpuhier_call_t *call, const gpuhier_block_t *list)
{
    uint64_t end = 0;
    for (int i = 0; i < call->team->nranks; ++i) {
        const uint64_t ends = list[i].begin + list[i].length;
        end = 0 != list[i].length && ends > end ? ends : end;
    }
    return end * call->elem_bytes;
}

/* Which rank is the root, how long the buffers are, and whether this rank can take part, where not all give and take
 * all. */
static __attribute__((noinline)) void parts_find(gpuhier_call_t *call, const gpuhier_call_args_t *args)
{
    const gpuhier_collective_t *row = call->row;
    const gpuhier_team_t *team = call->team;
    call->declining = args->declines;
    call->given = args->given;
    call->taken = args->taken;
    call->heard = args->heard;
    call->is_cut_short = args->is_cut_short;
    call->is_packed = args->is_packed;
    if (GPUHIER_RANKS_ROOT == row->from || GPUHIER_RANKS_ROOT == row->to) {
        call->root_rank = args->root;
        call->root_group = team->hierarchy.group_of[args->root];
        call->root = call->root_group == team->group ? team->hierarchy.index_of[args->root] : -1;
    }
    call->axis_bytes = gpuhier_collective_lists_pairs(row) ? UINT64_MAX
                       : 0 != args->listed                 ? args->listed * call->elem_bytes
                                                           : gpuhier_choice_axis(row, team->nranks, call->axis_bytes);
    call->in_bytes *= (uint64_t) gpuhier_collective_blocks(row, row->from, team->nranks);
    call->out_bytes *= (uint64_t) gpuhier_collective_blocks(row, row->to, team->nranks);
    if (NULL != args->given || NULL != args->taken) {
        call->in_bytes =
            NULL != args->given ? list_bytes(call, args->given) : args->taken[team->rank].length * call->elem_bytes;
        call->out_bytes =
            NULL != args->taken ? list_bytes(call, args->taken) : args->given[team->rank].length * call->elem_bytes;
    }
    const bool is_root = team->rank == call->root_rank;
    call->give_begin = GPUHIER_RANKS_OWNER == row->from  ? gpuhier_call_block_begin(call, team->rank)
                       : GPUHIER_RANKS_PAIR == row->from ? (uint64_t) team->rank * call->in_bytes
                                                         : 0;
    call->give_bytes = gpuhier_collective_gives(row, is_root) && !call->declining ? call->in_bytes : 0;
    call->take_bytes = gpuhier_collective_takes(row, is_root) ? call->out_bytes : 0;
}

_Static_assert(GPUHIER_CHOICE_ONESHOT_UNIT == GPUHIER_ONESHOT_UNIT, "one-shot kernels move whole units");

/* The form of a call that is being prepared, by what all ranks know. */
static const gpuhier_form_t *form_choose(const gpuhier_call_t *call)
{
    static const gpuhier_form_t *const forms[] = {[GPUHIER_FORM_SMALL] = &gpuhier_form_small,
                                                  [GPUHIER_FORM_ONESHOT] = &gpuhier_form_oneshot,
                                                  [GPUHIER_FORM_SWITCHED] = &gpuhier_form_switched,
                                                  [GPUHIER_FORM_SLICES] = &gpuhier_form_slices};
    const gpuhier_team_t *team = call->team;
    const bool has_switch = GPUHIER_SWITCH_READY == team->switch_state;
    gpuhier_facts_t facts = gpuhier_team_facts(team);
    facts.bytes = call->axis_bytes;
    if (!gpuhier_collective_is_all_to_all(call->row)) {
        gpuhier_choice_narrow(&facts, call->row, team->nranks, call->count * call->elem_bytes);
    }
    facts.is_blocking = NULL == call->ended;
    facts.has_gaps = call->has_gaps;
    facts.switch_bytes =
        has_switch && gpuhier_switch_suits(team, call->kernel, call->axis_bytes) ? team->switch_from : 0;
    return forms[gpuhier_choice_form(&facts)];
}

void gpuhier_engine_prepare(gpuhier_call_t *call, gpuhier_team_t *team, const gpuhier_call_args_t *args)
{
    memset(call, 0, offsetof(gpuhier_call_t, slices));
    call->team = team;
    call->kernel = args->kernel;
    call->elem_bytes = args->elem_bytes;
    call->has_gaps = gpuhier_reduce_has_gaps(args->kernel);
    call->count = args->count;
    call->row = args->row;
    call->in_bytes = call->out_bytes = call->axis_bytes = call->give_bytes = call->take_bytes =
        call->count * call->elem_bytes;
    if (!gpuhier_collective_is_all_to_all(args->row)) {
        parts_find(call, args);
    }
    call->in = (CUdeviceptr) (uintptr_t) args->in;
    call->out = (CUdeviceptr) (uintptr_t) args->out;
    call->trace = args->trace;
    call->ended = args->ended;
    call->hear = args->hear;
    call->outcome_p = args->outcome_p;
    call->dtype = args->dtype;
    call->tag = args->tag;
    gpuhier_buffer_inspect(args->in, &call->from);
    if (args->in == args->out) {
        call->to = call->from;
    } else {
        gpuhier_buffer_inspect(args->out, &call->to);
    }
    call->form = form_choose(call);
    call->form->prepare(call);
}

/* Lets go of mappings, lane and marks. failed: the GPU and UCX may still work on the lane, and on what the team has for
 * calls between groups. So the kept list gets these. */
static void give(gpuhier_call_t *call, bool failed)
{
    if (NULL != call->form->release) {
        call->form->release(call);
    }
    if (failed && OMPI_SUCCESS != call->team->failed) {
        gpuhier_order_leave(call);
        gpuhier_leaders_leave(call->team);
        gpuhier_partners_leave(call->team, true);
        gpuhier_exchange_leave(call->team, call->lane);
    } else if (NULL != call->lane) {
        gpuhier_lane_give(call->lane);
    }
    call->lane = NULL;
    gpuhier_order_forget(call);
}

void gpuhier_engine_end(gpuhier_call_t *call, int status)
{
    give(call, OMPI_SUCCESS != status && GPUHIER_DECLINED != status);
    if (NULL != call->ended) { /* a call that a thread waits for never becomes a host call */
        gpuhier_hostcall_end(call);
    }
    call->status = status;
    call->state = GPUHIER_CALL_DONE;
}

static void arrive(gpuhier_call_t *call)
{
    if (NULL == call->form->offer) {
        call->form->begin(call);
    } else {
        gpuhier_arrival_begin(call);
    }
}

void gpuhier_engine_begin(gpuhier_call_t *call)
{
    gpuhier_team_t *team = call->team;
    call->sequence = ++team->sequence;
    if (OMPI_SUCCESS != team->failed) {
        gpuhier_engine_end(
            call, team->failed); /* the call that failed has told the other ranks for all later calls: quiet_say() */
    } else if (NULL == call->hear) {
        arrive(call);
    }
}

static int hear_step(gpuhier_call_t *call)
{
    const int heard = NULL == call->hear ? 0 : call->hear(call);
    if (heard > 0) {
        call->hear = NULL;
        arrive(call);
    }
    return heard;
}

/* Ends a call that the ranks voted down, or continues it on the host. All ranks do so, and none has written a user's
 * buffer. */
static void decline(gpuhier_call_t *call)
{
    if (NULL == call->ended) {
        gpuhier_engine_end(call, GPUHIER_DECLINED);
        return;
    }
    give(call, false);
    gpuhier_hostcall_begin(call);
    call->state = GPUHIER_CALL_HOST;
}

/* All members of the group have left the steps of the call's form. */
static void begin_again(gpuhier_call_t *call)
{
    call->form->again(call);
    if (NULL != call->lane) {
        gpuhier_lane_give(call->lane);
        call->lane = NULL;
    }
    call->mask = 0;
    call->input_done = false;
    gpuhier_engine_begin(call);
}

static int host_step(gpuhier_call_t *call)
{
    bool done;
    int status, events = gpuhier_hostcall_step(call, &done, &status);
    if (events >= 0 && done) {
        call->outcome_known = true; /* even if the copy to this rank's buffer failed, which no other rank hears of */
        gpuhier_engine_end(call, status);
        call->on_host = true;
    }
    return events;
}

static int run_step(gpuhier_call_t *call)
{
    bool done = false;
    const int events = call->form->step(call, &done);
    if (events < 0 || !done) {
        return events;
    }
    if (0 != (call->mask & GPUHIER_MASK_FAIL)) {
        if (gpuhier_call_has_failed_member(call)) {
            return OMPI_ERROR; /* it has returned, and would be missing where the others continue */
        }
        decline(call);
    } else if (0 != (call->mask & GPUHIER_MASK_NO_LONG)) {
        begin_again(call);
    } else {
        gpuhier_engine_end(call, call->is_cut_short ? MPI_ERR_TRUNCATE : OMPI_SUCCESS);
    }
    return events + 1;
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
    return NULL == call->form->is_quiet || call->form->is_quiet(call);
}

#define LOOKS_APART 1024u  /* polls between two checks that the members live */
#define NOTICE_POLLS 1000u /* polls that a call waits for its notices to leave; connections also deliver them later */

/* Has every other member come to rest: has it no GPU work on this rank's buffers? One that has left the call by the
 * vote on it has none. Only forms in slices claim. Revokes the claim of members that have not begun. A member that has
 * begun will see that this rank failed, or is dead. */
static bool members_quiet(gpuhier_call_t *call)
{
    const gpuhier_team_t *team = call->team;
    const bool look = 0 == call->polls++ % LOOKS_APART;
    for (int i = 0; i < team->group_size; ++i) {
        gpuhier_slot_t *slot = gpuhier_call_slot(call, i);
        if (i == team->index
            || gpuhier_word(call->sequence, GPUHIER_CLAIM_TAKEN)
                   != gpuhier_word_advance(&slot->claim, call->sequence, GPUHIER_CLAIM_REVOKED, GPUHIER_CLAIM_TAKEN)) {
            continue;
        }
        if (!gpuhier_word_reached(&slot->failed, call->sequence, GPUHIER_FAILED_QUIET)
            && !gpuhier_word_reached(&slot->ag_done[0], call->sequence, call->slices.plan.nslices)
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
        gpuhier_word_publish(&gpuhier_slot_of(team, team->index, call->sequence + (uint64_t) slot)->failed,
                             GPUHIER_WORD_SEQUENCE_MAX, GPUHIER_FAILED_QUIET);
    }
}

static int failed_step(gpuhier_call_t *call)
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
    call->outcome_known = call->form->outcome_known(call);
    gpuhier_engine_end(call, call->status);
    return 1;
}

void gpuhier_engine_fail(gpuhier_call_t *call, int status)
{
    gpuhier_team_t *team = call->team;
    team->failed = status;
    if (NULL != call->form->fail) {
        call->form->fail(call);
    }
    gpuhier_word_publish(&gpuhier_call_my_slot(call)->failed, call->sequence, GPUHIER_FAILED_SAID);
    gpuhier_partners_give_up(team); /* the other groups wait for messages */
    /*
     * Other communicators share the connections, so these stay open. Messages of this call may never be received, and
     * their memory outlives the call.
     */
    for (int rank = 0; NULL != team->peers && rank < team->nranks; ++rank) {
        gpuhier_net_peer_destroy(team->peers[rank], true);
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
            (void) gpuhier_stream_await(call->lane->stream[s]);
        }
    }
    while (entered && NULL != call->form->is_quiet && !call->form->is_quiet(call)) { /* it has been told to leave */
    }
    if (entered) {
        gpuhier_cuda_leave(&scope);
    }
    quiet_say(call);
    if (NULL != call->lane) {
        call->lane->peers_work = !members_quiet(call);
    }
    gpuhier_engine_end(call, status);
}

bool gpuhier_engine_wants_net(const gpuhier_call_t *call)
{
    return call->team->ngroups > 1
           && (GPUHIER_CALL_RUN != call->state || NULL == call->form->wants_net || call->form->wants_net(call));
}

bool gpuhier_engine_is_idle(const gpuhier_call_t *call)
{
    switch (call->state) {
    case GPUHIER_CALL_GATHER:
    case GPUHIER_CALL_OPENED:
        return gpuhier_arrival_is_idle(call);
    case GPUHIER_CALL_RUN:
        return call->form->is_idle(call);
    default:
        return false;
    }
}

/* Records in the call's trace event where the call runs, its phase and its stages. */
static void note(const gpuhier_call_t *call)
{
    static const gpuhier_trace_phase_t phases[] = {[GPUHIER_CALL_QUEUED] = GPUHIER_TRACE_QUEUED,
                                                   [GPUHIER_CALL_GATHER] = GPUHIER_TRACE_ARRIVAL,
                                                   [GPUHIER_CALL_OPENED] = GPUHIER_TRACE_MAPPING,
                                                   [GPUHIER_CALL_HOST] = GPUHIER_TRACE_ON_HOST};
    if (GPUHIER_CALL_RUN != call->state && GPUHIER_CALL_FAILED != call->state && GPUHIER_CALL_DONE != call->state) {
        gpuhier_trace_phase(call->trace, phases[call->state]);
    }
    call->trace->path = (uint8_t) call->form->path;
    call->form->note(call);
    if (call->on_host) {
        call->trace->path = GPUHIER_TRACE_PATH_HOST;
    }
}

int gpuhier_engine_step(gpuhier_call_t *call)
{
    int rc = 0;
    switch (call->state) {
    case GPUHIER_CALL_GATHER:
    case GPUHIER_CALL_OPENED:
        rc = gpuhier_arrival_step(call);
        break;
    case GPUHIER_CALL_RUN:
        rc = run_step(call);
        break;
    case GPUHIER_CALL_HOST:
        rc = host_step(call);
        break;
    case GPUHIER_CALL_FAILED:
        rc = failed_step(call);
        break;
    case GPUHIER_CALL_QUEUED:
        rc = hear_step(call);
        break;
    case GPUHIER_CALL_DONE:
        break;
    }
    if (rc < 0) {
        gpuhier_watch_tell(call, rc);
        gpuhier_engine_fail(call, rc);
        return 1;
    }
    if (__builtin_expect(NULL != call->trace, 0)) {
        note(call);
    }
    return rc;
}
