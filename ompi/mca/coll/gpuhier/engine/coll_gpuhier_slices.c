/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the form in which a call moves in slices that kernels reduce: what a rank offers, the plan, and the vote between
 * groups. The stages are in coll_gpuhier_pipeline.c, the kernels of a slice in coll_gpuhier_slice.c.
 *
 *   --(all have arrived)--> the round of mapping --(all can map)--> vote and slices --> done
 *            |                                        ^
 *            +-- all via scratch, none of it new; or all known
 *
 * While the groups vote, the stages already reduce slices into scratch. Messages and writes to the users' buffers wait
 * for the vote. When a rank has no room for the scratch of a long call, all begin the call again as one that is not
 * long, with the next sequence number.
 */
#include "ompi_config.h"

#include <string.h>

#include "engine/coll_gpuhier_arrival.h"
#include "engine/coll_gpuhier_order.h"
#include "engine/coll_gpuhier_place.h"
#include "engine/coll_gpuhier_slices.h"
#include "engine/coll_gpuhier_exchange.h"
#include "engine/coll_gpuhier_queue.h"
#include "opal/util/output.h"

void gpuhier_slices_clear(gpuhier_call_t *call)
{
    gpuhier_slices_t *slices = &call->slices;
    memset(slices, 0, offsetof(gpuhier_slices_t, member));
    memset(slices->member, 0, sizeof(slices->member[0]) * (size_t) call->team->group_size);
    slices->levels = 1;
}

void gpuhier_slices_prepare(gpuhier_call_t *call)
{
    gpuhier_slices_clear(call);
    if (gpuhier_order_can(call)) {
        (void) gpuhier_order_mark(call);
    }
}

static int lane_take(gpuhier_call_t *call)
{
    gpuhier_team_t *team = call->team;
    const bool is_long = call->slices.is_long;
    const bool by_host =
        !call->row->has_blocks && gpuhier_plan_by_host(&team->shape, &team->limits, call->count * call->elem_bytes);
    const bool is_short = team->net_all_on_device && by_host && !team->device->short_refused;
    const gpuhier_exchange_kind_t kind = is_short ? GPUHIER_EXCHANGE_SHORT : team->exchange_kind;
    const size_t exchange_bytes =
        GPUHIER_EXCHANGE_SHORT == kind ? gpuhier_lane_exchange_short_bytes()
        : is_long
            ? gpuhier_choice_longest(&team->shape, &team->limits) / (size_t) team->group_size + 4 * GPUHIER_UNIT_BYTES
            : gpuhier_slice_buffer_bytes(false);
    int rc = gpuhier_lane_take(team->device, is_long ? GPUHIER_LANE_LONG : GPUHIER_LANE_SLICES, team->by_ipc, kind,
                               exchange_bytes, &call->lane);
    if (OMPI_SUCCESS == rc && call->slices.levels > 1) {
        rc = gpuhier_lane_levels(call->lane, call->slices.levels);
    }
    if (OMPI_SUCCESS == rc && team->ngroups > 1) {
        rc = gpuhier_lane_exchange_use(&call->lane->exchange, kind, exchange_bytes);
        if (OMPI_SUCCESS == rc && NULL != team->linked && !team->has_relay
            && !gpuhier_lane_exchange_is_mappable(&call->lane->exchange)) {
            gpuhier_lane_exchange_free(&call->lane->exchange,
                                       kind); /* the next call that takes the lane makes others */
            rc = OMPI_ERR_NOT_SUPPORTED;
        }
    }
    if (OMPI_SUCCESS != rc && is_short && NULL != call->lane) {
        team->device->short_refused = true;
        gpuhier_lane_give(call->lane);
        call->lane = NULL;
        return lane_take(call);
    }
    return rc;
}

uint32_t gpuhier_slices_lane(gpuhier_call_t *call, gpuhier_arrival_t *arrival)
{
    const gpuhier_team_t *team = call->team;
    const gpuhier_block_t *list = gpuhier_call_told(call);
    call->slices.is_long =
        !call->row->has_blocks && gpuhier_choice_is_long(&team->shape, call->count * call->elem_bytes, &team->limits);
    if (OMPI_SUCCESS != lane_take(call)) {
        return call->slices.is_long ? GPUHIER_MASK_NO_LONG : GPUHIER_MASK_FAIL;
    }
    if (NULL != arrival) {
        gpuhier_arrival_scratch(call, arrival);
    }
    if (NULL != arrival && NULL != list) {
        memcpy(gpuhier_area_of(team, team->index, call->sequence)->data, list, (size_t) team->nranks * sizeof(*list));
        arrival->longest = call->count;
    }
    return 0;
}

void gpuhier_slices_hear(gpuhier_call_t *call)
{
    const gpuhier_team_t *team = call->team;
    if (NULL == call->given || NULL == call->taken || team->ngroups > 1) {
        return;
    }
    call->count = 1;
    for (int i = 0; i < team->group_size; ++i) {
        const uint64_t longest = gpuhier_call_slot(call, i)->arrival.longest;
        const int giver = gpuhier_hierarchy_member(&team->hierarchy, team->group, i);
        call->count = longest > call->count ? longest : call->count;
        call->taken[giver].length = gpuhier_watch_cut(team, giver, gpuhier_call_list(call, i)[team->rank].length,
                                                      call->taken[giver].length, &call->is_cut_short);
    }
}

static uint32_t offer(gpuhier_call_t *call, gpuhier_arrival_t *arrival)
{
    const gpuhier_team_t *team = call->team;
    const bool in_levels = gpuhier_collective_is_all_to_all(call->row)
                           && gpuhier_levels_take(&team->levels, call->count * call->elem_bytes);
    call->slices.levels = in_levels ? team->levels.count : 1;
    const uint32_t refused = gpuhier_slices_lane(call, arrival);
    if (0 == refused && !gpuhier_hostmem_is_used(&team->hostmem)) {
        gpuhier_offer(call, arrival);
    }
    return refused;
}

void gpuhier_slices_plan(gpuhier_call_t *call, uint64_t slice_bytes)
{
    const gpuhier_team_t *team = call->team;
    gpuhier_limits_t limits = team->limits;
    limits.slice_bytes = slice_bytes;
    if (team->has_relay && GPUHIER_RANKS_PAIR == call->row->from) { /* there a buffer is as long as a shard */
        limits.slice_bytes /= (uint64_t) team->shape.max_group_size;
    }
    const gpuhier_collective_t *part = gpuhier_call_part(call);
    gpuhier_plan_t *plan = &call->slices.plan;
    const int rc = NULL == part
                       ? gpuhier_choice_plan(plan, &team->shape, team->rank, call->count, call->elem_bytes, &limits)
                       : gpuhier_choice_part(plan, &team->shape, team->rank, call->count, call->elem_bytes, part,
                                             call->root_group, &limits);
    plan->list = NULL == part || GPUHIER_RANKS_PAIR == part->from ? NULL : gpuhier_call_lengths(call, true);
    if (0 != rc || call->slices.plan.nslices > GPUHIER_WORD_PROGRESS_MAX) {
        call->mask |= GPUHIER_MASK_FAIL;
    }
}

static void plan_make(gpuhier_call_t *call, bool all_direct)
{
    const gpuhier_team_t *team = call->team;
    uint64_t slice_bytes = 1 == team->ngroups ? gpuhier_choice_block_slice(&team->shape, call->row, &team->limits)
                                              : team->limits.slice_bytes; /* of which the plan gives blocks shares */
    if (1 == team->ngroups && call->slices.levels > 1) {
        slice_bytes = gpuhier_levels_slice_bytes(&team->levels, call->count * call->elem_bytes, slice_bytes);
    } else if (1 == team->ngroups && all_direct) {
        slice_bytes = INT64_MAX; /* nothing to overlap: one kernel */
    }
    gpuhier_slices_plan(call, slice_bytes);
}

/* In levels each rank reads the scratch of the members of all its circles but the first, even when all work on their
 * own buffers. Scratch of the team's first lanes is mapped already, unless it was closed meanwhile. */
static int partners_find(gpuhier_call_t *call)
{
    const gpuhier_team_t *team = call->team;
    int rc = OMPI_SUCCESS;
    call->slices.member[team->index].scratch = call->lane->scratch;
    for (int level = 1; level < call->slices.levels; ++level) {
        const gpuhier_circle_t *circle = &team->levels.circle[level];
        for (int i = 0; i < circle->size && OMPI_SUCCESS == rc; ++i) {
            if (circle->member[i] != team->index) {
                rc = gpuhier_arrival_find(call, circle->member[i]);
            }
        }
    }
    return rc;
}

/* Maps scratch that the call does not need while its descriptors are there. Later calls may need it. */
static void fresh_find(gpuhier_call_t *call)
{
    for (int i = 0; i < call->team->group_size; ++i) {
        if (0 != gpuhier_call_slot(call, i)->arrival.fresh && i != call->team->index) {
            (void) gpuhier_arrival_find(call, i);
        }
    }
}

/* All members work directly, and no mask has a bit. An error is one of the call, since no vote follows in which this
 * rank could decline. */
static int recall(gpuhier_call_t *call)
{
    if (!gpuhier_known_use(call)) {
        gpuhier_arrival_unmap(call);
        return 0;
    }
    fresh_find(call);
    gpuhier_slices_hear(call);
    const int rc = partners_find(call);
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    if (!gpuhier_known_plan(call)) {
        plan_make(call, true);
        gpuhier_known_plan_keep(call);
    }
    return 1;
}

static bool all_direct(const gpuhier_call_t *call)
{
    for (int i = 0; i < call->team->group_size; ++i) {
        if (call->slices.member[i].via_scratch) {
            return false;
        }
    }
    return true;
}

static int agreed(gpuhier_call_t *call, bool opened)
{
    const bool direct = all_direct(call);
    if (opened && direct && 0 == (call->mask & (GPUHIER_MASK_FAIL | GPUHIER_MASK_NO_LONG))) {
        gpuhier_known_add(call);
    }
    if (0 == (call->mask & GPUHIER_MASK_FAIL)) {
        gpuhier_slices_hear(call);
    }
    plan_make(call, direct);
    return OMPI_SUCCESS;
}

int gpuhier_slices_step(gpuhier_call_t *call, bool *done_p)
{
    int events = call->slices.mask_known ? 0 : gpuhier_leaders_vote(call);
    if (events < 0) {
        return events;
    }
    const bool quits = 0 != (call->mask & (GPUHIER_MASK_FAIL | GPUHIER_MASK_NO_LONG));
    if (quits && !call->slices.mask_known) {
        return events; /* this group does nothing but vote */
    }
    if (0 != (call->mask & GPUHIER_MASK_FAIL) && 1 == call->team->ngroups) {
        *done_p = true;
        return events + 1;
    }
    const int moved = quits ? gpuhier_pipeline_quit(call, done_p) : gpuhier_pipeline_step(call, done_p);
    return moved < 0 ? moved : events + moved;
}

void gpuhier_slices_again(gpuhier_call_t *call)
{
    call->team->limits.slice_bytes_max = 0;
    opal_output_verbose(
        1, gpuhier_output(),
        "coll:gpuhier: a rank of communicator %s has no GPU memory for long messages: all use set-up's scratch",
        call->team->comm->c_name);
    gpuhier_arrival_unmap(call);
    gpuhier_slices_clear(call);
}

bool gpuhier_slices_is_idle(const gpuhier_call_t *call)
{
    return call->slices.mask_known && 0 == (call->mask & (GPUHIER_MASK_FAIL | GPUHIER_MASK_NO_LONG))
           && gpuhier_pipeline_is_idle(call);
}

bool gpuhier_slices_outcome_known(gpuhier_call_t *call)
{
    return call->slices.mask_known
           && gpuhier_call_all_reached(call, offsetof(gpuhier_slot_t, ag_done[0]), call->slices.plan.nslices);
}

void gpuhier_slices_report(const gpuhier_call_t *call)
{
    const gpuhier_team_t *team = call->team;
    for (int i = 0; i < team->group_size; ++i) {
        gpuhier_slot_t *slot = gpuhier_call_slot(call, i);
        bool arrived = gpuhier_word_reached(&slot->arrived, call->sequence, 1);
        uint64_t begin = gpuhier_word(call->sequence, 0);
#define DONE_OF(word) \
    (unsigned long long) (gpuhier_word_read(&slot->word) >= begin ? gpuhier_word_read(&slot->word) - begin : 0)
        opal_output(0, "coll:gpuhier:   rank %d %s; slices ready %llu, reduced %llu, gathered %llu, copied out %llu",
                    gpuhier_hierarchy_member(&team->hierarchy, team->group, i),
                    arrived ? "has arrived" : "has not arrived", DONE_OF(in_ready), DONE_OF(rs_done[0]),
                    DONE_OF(ag_done[0]), DONE_OF(out_done));
        for (int level = 1; level < call->slices.levels; ++level) {
            opal_output(0, "coll:gpuhier:     at level %d: reduced %llu, gathered %llu", level, DONE_OF(rs_done[level]),
                        DONE_OF(ag_done[level]));
        }
#undef DONE_OF
    }
}

_Static_assert(GPUHIER_STAGES == GPUHIER_TRACE_STAGES, "the trace has a line for each stage");

void gpuhier_slices_note(const gpuhier_call_t *call)
{
    if (GPUHIER_CALL_RUN == call->state) {
        gpuhier_trace_phase(call->trace, GPUHIER_TRACE_SLICES);
    }
    if (&gpuhier_form_slices == call->form && all_direct(call)) {
        call->trace->path = GPUHIER_TRACE_PATH_DIRECT;
    }
    for (int s = 0; s < GPUHIER_STAGES; ++s) {
        const gpuhier_cursor_t *stage = &call->slices.stage[s];
        gpuhier_trace_stage(call->trace, s, stage->begun, stage->done, call->slices.plan.nslices);
    }
}

const gpuhier_form_t gpuhier_form_slices = {.kind = GPUHIER_FORM_SLICES,
                                            .doing = "moving slices",
                                            .path = GPUHIER_TRACE_PATH_SCRATCH, /* or DIRECT */
                                            .ops = &gpuhier_slices_kernels,
                                            .prepare = gpuhier_slices_prepare,
                                            .offer = offer,
                                            .recall = recall,
                                            .agreed = agreed,
                                            .step = gpuhier_slices_step,
                                            .again = gpuhier_slices_again,
                                            .is_idle = gpuhier_slices_is_idle,
                                            .outcome_known = gpuhier_slices_outcome_known,
                                            .release = gpuhier_arrival_unmap,
                                            .report = gpuhier_slices_report,
                                            .note = gpuhier_slices_note};
