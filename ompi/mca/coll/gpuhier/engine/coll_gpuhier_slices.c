/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the form in which a call moves in slices that kernels reduce: what a rank offers, the plan, the vote between
 * groups, and the kernels of a slice. The stages are in coll_gpuhier_pipeline.c.
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

#include "base/coll_gpuhier_counters.h"
#include "base/coll_gpuhier_params.h"
#include "engine/coll_gpuhier_arrival.h"
#include "engine/coll_gpuhier_known.h"
#include "engine/coll_gpuhier_offer.h"
#include "engine/coll_gpuhier_order.h"
#include "engine/coll_gpuhier_pipeline.h"
#include "engine/coll_gpuhier_place.h"
#include "engine/coll_gpuhier_slices.h"
#include "engine/coll_gpuhier_vote.h"
#include "plan/coll_gpuhier_part.h"
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
    gpuhier_order_decide(call);
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

uint32_t gpuhier_slices_lane(gpuhier_call_t *call)
{
    const gpuhier_team_t *team = call->team;
    call->slices.is_long =
        !call->row->has_blocks && gpuhier_choice_is_long(&team->shape, call->count * call->elem_bytes, &team->limits);
    return OMPI_SUCCESS == lane_take(call) ? 0 : call->slices.is_long ? GPUHIER_MASK_NO_LONG : GPUHIER_MASK_FAIL;
}

/* Puts into this rank's area what peers must know of its blocks. */
static void lists_tell(const gpuhier_call_t *call, gpuhier_arrival_t *arrival)
{
    const gpuhier_team_t *team = call->team;
    const gpuhier_block_t *list = gpuhier_call_told(call);
    if (NULL != list) {
        memcpy(gpuhier_area_of(team, team->index, call->sequence)->data, list, (size_t) team->nranks * sizeof(*list));
        arrival->longest = call->count;
    }
}

/* Pairs with lists in one group: the longest block of all, and how much of each block this rank takes. */
static void lists_agree(gpuhier_call_t *call)
{
    const gpuhier_team_t *team = call->team;
    if (NULL == call->given || NULL == call->taken || team->ngroups > 1) {
        return;
    }
    call->count = 1;
    for (int i = 0; i < team->group_size; ++i) {
        const uint64_t longest = gpuhier_slot_of(team, i, call->sequence)->arrival.longest;
        const uint64_t theirs = gpuhier_call_list(call, i)[team->rank].length;
        gpuhier_block_t *block = &call->taken[gpuhier_hierarchy_member(&team->hierarchy, team->group, i)];
        call->count = longest > call->count ? longest : call->count;
        call->is_cut_short = call->is_cut_short || theirs > block->length;
        block->length = theirs < block->length ? theirs : block->length;
    }
}

static uint32_t offer(gpuhier_call_t *call, gpuhier_arrival_t *arrival)
{
    const gpuhier_team_t *team = call->team;
    const bool in_levels = gpuhier_collective_is_all_to_all(call->row)
                           && gpuhier_levels_take(&team->levels, call->count * call->elem_bytes);
    call->slices.levels = in_levels ? team->levels.count : 1;
    const uint32_t refused = gpuhier_slices_lane(call);
    if (0 != refused) {
        return refused;
    }
    gpuhier_arrival_scratch(call, arrival);
    lists_tell(call, arrival);
    if (!gpuhier_hostmem_is_used(&team->hostmem)) {
        gpuhier_offer_identify(call);
        if (!gpuhier_offer_overwrites(call) && !gpuhier_known_take(call, arrival)) {
            gpuhier_offer_make(call, arrival);
        }
        gpuhier_offer_send(call, arrival);
    }
    return 0;
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
    const bool shares = 1 == team->ngroups && call->row->has_blocks; /* between groups the plan sees to it */
    uint64_t slice_bytes = team->limits.slice_bytes / (uint64_t) (shares ? team->nranks : 1);
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

/* All members work directly, and no mask has a bit. An error is one of the call, since no vote follows in which this
 * rank could decline. */
static int recall(gpuhier_call_t *call)
{
    if (!gpuhier_known_use(call)) {
        return 0;
    }
    gpuhier_arrival_find_fresh(call);
    lists_agree(call);
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
        lists_agree(call);
    }
    plan_make(call, direct);
    return OMPI_SUCCESS;
}

int gpuhier_slices_step(gpuhier_call_t *call, bool *done_p)
{
    int events = call->slices.mask_known ? 0 : gpuhier_vote_step(call);
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

static void count(const gpuhier_call_t *call)
{
    gpuhier_count(&gpuhier_counters.calls_long, call->slices.is_long);
}

void gpuhier_slices_report(const gpuhier_call_t *call)
{
    const gpuhier_team_t *team = call->team;
    for (int i = 0; i < team->group_size; ++i) {
        gpuhier_slot_t *slot = gpuhier_slot_of(team, i, call->sequence);
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

void gpuhier_slices_note(const gpuhier_call_t *call, gpuhier_trace_path_t path)
{
    if (GPUHIER_CALL_RUN == call->state) {
        gpuhier_trace_phase(call->trace, GPUHIER_TRACE_SLICES);
    }
    call->trace->path = (uint8_t) path;
    for (int s = 0; s < GPUHIER_STAGES; ++s) {
        const gpuhier_cursor_t *stage = &call->slices.stage[s];
        gpuhier_trace_stage(call->trace, s, stage->begun, stage->done, call->slices.plan.nslices);
    }
}

static void note(const gpuhier_call_t *call)
{
    gpuhier_slices_note(call, all_direct(call) ? GPUHIER_TRACE_PATH_DIRECT : GPUHIER_TRACE_PATH_SCRATCH);
}

/* -- the kernels ------------------------------------------------------------------------ */

static size_t place(const gpuhier_call_t *call, int buffer)
{
    const gpuhier_hostmem_t *hostmem = &call->team->hostmem;
    return gpuhier_hostmem_is_used(hostmem) ? gpuhier_hostmem_place(hostmem, buffer)
                                            : gpuhier_scratch_in(call->slices.is_long, buffer);
}

/* Does a member give, or take, what this rank works on? What has an owner is this rank's own. */
static bool has_part(const gpuhier_call_t *call, gpuhier_ranks_t side, int index)
{
    return GPUHIER_RANKS_OWNER != side || index == call->team->index;
}

/* A rank's block in a member's input or output, of those that lie there. */
static int block_of(const gpuhier_call_t *call, gpuhier_ranks_t side, int rank)
{
    return call->row->has_blocks && GPUHIER_RANKS_OWNER != side ? rank : 0;
}

/* The block of this rank in a member's input or output. */
static int block_in(const gpuhier_call_t *call, gpuhier_ranks_t side)
{
    return block_of(call, side, call->team->rank);
}

/* Sets the outputs of a circle as a kernel's destinations, this rank's neighbour first and its own output last: all
 * ranks storing to one peer at once would wait for its link. */
static void outputs_set(const gpuhier_call_t *call, const gpuhier_circle_t *circle, int block, uint64_t slice,
                        uint64_t element, gpuhier_kernel_args_t *args)
{
    args->ndst = 0;
    for (int k = 0; k < circle->size; ++k) {
        const int member = circle->member[(circle->place + 1 + k) % circle->size];
        if (gpuhier_call_takes(call, member) > 0 && has_part(call, call->row->to, member)) {
            args->dst[args->ndst++] = gpuhier_place_output(call, member, block, slice, element);
        }
    }
}

/* One group: reads this rank's block of each member, each rank another member's at a time, and writes it to where
 * only this rank knows that it belongs. */
static int blocks_read(const gpuhier_call_t *call, const gpuhier_circle_t *circle, uint64_t slice, CUstream stream)
{
    const gpuhier_team_t *team = call->team;
    const gpuhier_collective_t *row = call->row;
    int rc = OMPI_SUCCESS;
    for (int k = 0; k < circle->size && OMPI_SUCCESS == rc; ++k) {
        const int index = circle->member[(circle->place + 1 + k) % circle->size];
        const int rank = gpuhier_hierarchy_member(&team->hierarchy, team->group, index);
        const gpuhier_range_t part = gpuhier_call_range(call, call->taken, rank, slice);
        gpuhier_kernel_args_t args = {.ndst = 1, .count = gpuhier_range_length(part)};
        args.src[0] = gpuhier_place_input(call, index, block_in(call, row->from), slice, part.begin);
        args.dst[0] = gpuhier_place_output(call, team->index, block_of(call, row->to, rank), slice, part.begin);
        if (args.src[0] != args.dst[0] && args.count > 0) { /* in place, MPI_Allgatherv has its own block there */
            rc = gpuhier_reduce_push(&call->lane->device->reduce, call->kernel, &args, stream);
        }
    }
    return rc;
}

/* One group, a flat call: takes the elements of this rank's part of the slice from those who give them, and writes the
 * result to those who take it. */
static int reduce_fused(const gpuhier_call_t *call, const gpuhier_circle_t *circle, uint64_t slice, CUstream stream)
{
    const gpuhier_collective_t *row = call->row;
    if (GPUHIER_RANKS_PAIR == row->to || NULL != call->taken) {
        return blocks_read(call, circle, slice, stream);
    }
    const gpuhier_range_t part = row->has_blocks ? gpuhier_call_range(call, call->given, call->team->rank, slice)
                                                 : gpuhier_circle_shard(call, circle, slice);
    gpuhier_reduce_t *kernels = &call->lane->device->reduce;
    gpuhier_kernel_args_t args;
    args.count = gpuhier_range_length(part);
    args.nsrc = 0;
    for (int i = 0; i < circle->size; ++i) {
        const int index = circle->member[i];
        if (gpuhier_call_gives(call, index) > 0 && has_part(call, row->from, index)) {
            args.src[args.nsrc++] = gpuhier_place_input(call, index, block_in(call, row->from), slice, part.begin);
        }
    }
    outputs_set(call, circle, block_in(call, row->to), slice, part.begin, &args);
    return 0 == args.count                  ? OMPI_SUCCESS
           : GPUHIER_RANKS_ALL == row->from ? gpuhier_reduce_launch(kernels, call->kernel, &args, stream)
                                            : gpuhier_reduce_push(kernels, call->kernel, &args, stream);
}

/* -- several groups: what a part of an all-reduce leaves, see plan/coll_gpuhier_part.h -------- */

/* Where the chunk of a group in one of this rank's pieces lies in its shard buffer. */
static uint64_t place_of_chunk(const gpuhier_call_t *call, uint64_t slice, int piece, int group)
{
    const gpuhier_plan_t *plan = &call->slices.plan;
    const int chunk = gpuhier_part_chunk(plan, group);
    const uint64_t at = gpuhier_plan_chunks(plan, slice, piece, chunk, chunk + 1).begin
                        - gpuhier_plan_piece(plan, slice, plan->first_piece).begin;
    return (uint64_t) (uintptr_t) call->lane->exchange.now->shard[gpuhier_plan_buffer(plan, slice)]
           + at * call->elem_bytes;
}

/* Blocks with owners: reduces this rank's chunks of the blocks of all groups into its shard buffer, or copies those of
 * its own block there. */
static int chunks_reduce(const gpuhier_call_t *call, const gpuhier_circle_t *circle, uint64_t slice, CUstream stream)
{
    const gpuhier_team_t *team = call->team;
    const gpuhier_plan_t *plan = &call->slices.plan;
    const bool reduces = GPUHIER_RANKS_ALL == call->row->from;
    gpuhier_reduce_t *kernels = &call->lane->device->reduce;
    int rc = OMPI_SUCCESS;
    for (int piece = plan->first_piece; piece < plan->first_piece + plan->npieces; ++piece) {
        for (int group = reduces ? 0 : team->group; group < (reduces ? team->ngroups : team->group + 1); ++group) {
            const gpuhier_range_t part = gpuhier_plan_block(plan, slice, piece, group);
            const int block = reduces ? gpuhier_shape_owner(&team->shape, piece, group) : 0;
            gpuhier_kernel_args_t args = {.ndst = 1, .count = gpuhier_range_length(part)};
            args.dst[0] = place_of_chunk(call, slice, piece, group);
            for (int i = 0; i < circle->size; ++i) {
                if (has_part(call, call->row->from, circle->member[i])) {
                    args.src[args.nsrc++] = gpuhier_place_input(call, circle->member[i], block, slice, part.begin);
                }
            }
            if (OMPI_SUCCESS == rc && args.count > 0) {
                rc = reduces ? gpuhier_reduce_launch(kernels, call->kernel, &args, stream)
                             : gpuhier_reduce_push(kernels, call->kernel, &args, stream);
            }
        }
    }
    return rc;
}

/* The same after the exchange: pushes the chunks of all groups' blocks into the outputs of the circle, or that of its
 * own block into its own. */
static int chunks_push(const gpuhier_call_t *call, const gpuhier_circle_t *circle, uint64_t slice, CUstream stream)
{
    const gpuhier_team_t *team = call->team;
    const gpuhier_plan_t *plan = &call->slices.plan;
    const bool gathers = GPUHIER_RANKS_ALL == call->row->to;
    int rc = OMPI_SUCCESS;
    for (int piece = plan->first_piece; piece < plan->first_piece + plan->npieces; ++piece) {
        for (int group = gathers ? 0 : team->group; group < (gathers ? team->ngroups : team->group + 1); ++group) {
            const gpuhier_range_t part = gpuhier_plan_block(plan, slice, piece, group);
            const int block = gathers ? gpuhier_shape_owner(&team->shape, piece, group) : 0;
            gpuhier_kernel_args_t args = {.count = gpuhier_range_length(part)};
            args.src[0] = place_of_chunk(call, slice, piece, group);
            outputs_set(call, circle, block, slice, part.begin, &args);
            if (OMPI_SUCCESS == rc && args.count > 0) {
                rc = gpuhier_reduce_push(&call->lane->device->reduce, call->kernel, &args, stream);
            }
        }
    }
    return rc;
}

/* Pairs: copies this rank's chunks for all groups into its shard buffer; or after the exchange those of all groups into
 * its output, that of its own group from its shard buffer. */
static int pairs_copy(const gpuhier_call_t *call, bool given, uint64_t slice, CUstream stream)
{
    const gpuhier_team_t *team = call->team;
    const gpuhier_plan_t *plan = &call->slices.plan;
    const gpuhier_exchange_buffers_t *buffers = call->lane->exchange.now;
    const int buffer = gpuhier_plan_buffer(plan, slice), pieces = plan->npieces * team->ngroups;
    int rc = OMPI_SUCCESS;
    for (int i = 0; i < pieces; ++i) {
        const int piece = plan->first_piece + i / team->ngroups, group = i % team->ngroups;
        const gpuhier_range_t part = gpuhier_plan_block(plan, slice, piece, given ? group : team->group);
        const uint64_t first = gpuhier_plan_pairs(plan, slice, piece, group, given).begin
                               - gpuhier_plan_piece(plan, slice, plan->first_piece).begin;
        uint64_t at = (uint64_t) (uintptr_t) (given || group == team->group ? buffers->shard : buffers->recv)[buffer]
                      + first * call->elem_bytes;
        const int givers = gpuhier_hierarchy_group_size(&team->hierarchy, given ? team->group : group);
        for (int k = 0; k < givers && OMPI_SUCCESS == rc; ++k) {
            int block;
            const uint64_t length = gpuhier_call_pair(call, given, piece, group, k, part, &block);
            gpuhier_kernel_args_t args = {.ndst = 1, .count = length};
            args.src[0] = given ? gpuhier_place_input(call, k, block, slice, part.begin) : at;
            args.dst[0] = given ? at : gpuhier_place_output(call, team->index, block, slice, part.begin);
            if (!given && NULL != call->taken) { /* which may be less */
                args.count = gpuhier_range_length(gpuhier_range_cap(part, call->taken[block].length));
            }
            rc = 0 == args.count ? OMPI_SUCCESS
                                 : gpuhier_reduce_push(&call->lane->device->reduce, call->kernel, &args, stream);
            at += length * call->elem_bytes;
        }
    }
    return rc;
}

/* MPI_Bcast: in the root's group, reads this rank's shard from the root. */
static int root_read(const gpuhier_call_t *call, uint64_t slice, gpuhier_range_t shard, CUstream stream)
{
    gpuhier_kernel_args_t args = {.ndst = 1, .count = gpuhier_range_length(shard)};
    if (-1 == call->root || 0 == args.count) {
        return OMPI_SUCCESS;
    }
    args.src[0] = gpuhier_place_input(call, call->root, 0, slice, shard.begin);
    args.dst[0] =
        (uint64_t) (uintptr_t) call->lane->exchange.now->shard[gpuhier_plan_buffer(&call->slices.plan, slice)];
    return gpuhier_reduce_push(&call->lane->device->reduce, call->kernel, &args, stream);
}

/* Queues the reduction of this rank's shard of a slice: into its shard buffer, or into its scratch for the next level.
 */
static int reduce(const gpuhier_call_t *call, int level, uint64_t slice, CUstream stream)
{
    const gpuhier_circle_t *circle = gpuhier_call_circle(call, level);
    const gpuhier_range_t shard = gpuhier_circle_shard(call, circle, slice);
    gpuhier_lane_t *lane = call->lane;
    gpuhier_kernel_args_t args;
    if (gpuhier_call_is_fused(call)) {
        return reduce_fused(call, circle, slice, stream);
    }
    if (GPUHIER_RANKS_PAIR == call->row->from) {
        return pairs_copy(call, true, slice, stream);
    }
    if (call->row->has_blocks) {
        return chunks_reduce(call, circle, slice, stream);
    }
    if (GPUHIER_RANKS_ROOT == call->row->from) {
        return root_read(call, slice, shard, stream);
    }
    if (0 == gpuhier_range_length(shard)) {
        return OMPI_SUCCESS;
    }
    for (int i = 0; i < circle->size; ++i) {
        const int index = circle->member[i];
        args.src[i] = 0 == level ? gpuhier_place_input(call, index, 0, slice, shard.begin)
                                 : gpuhier_place_scratch(call, index, 0, slice, shard.begin);
    }
    args.nsrc = (uint32_t) circle->size;
    args.ndst = 1;
    if (gpuhier_call_fills_shard(call, level)) {
        args.dst[0] = (uint64_t) (uintptr_t) lane->exchange.now->shard[gpuhier_plan_buffer(&call->slices.plan, slice)];
    } else {
        args.dst[0] = gpuhier_place_scratch(call, call->team->index, 0, slice, shard.begin);
    }
    args.count = gpuhier_range_length(shard);
    return gpuhier_reduce_launch(&lane->device->reduce, call->kernel, &args, stream);
}

/* Pushes this rank's shard, which is complete in its own output, into those of the rest of the circle. */
static int pass(const gpuhier_call_t *call, const gpuhier_circle_t *circle, uint64_t slice, gpuhier_range_t shard,
                CUstream stream)
{
    gpuhier_kernel_args_t args;
    args.count = gpuhier_range_length(shard);
    args.src[0] = gpuhier_place_output(call, call->team->index, 0, slice, shard.begin);
    outputs_set(call, circle, 0, slice, shard.begin, &args);
    --args.ndst; /* its own output, which is the last one */
    return gpuhier_reduce_push(&call->lane->device->reduce, call->kernel, &args, stream);
}

/* One group, at the last level but one: reduces the sums of the circle of the last level, and pushes the result into
 * the outputs of this level's circle. */
static int combine(const gpuhier_call_t *call, int level, uint64_t slice, gpuhier_range_t shard, CUstream stream)
{
    const gpuhier_circle_t *last = gpuhier_call_circle(call, level + 1);
    gpuhier_kernel_args_t args;
    args.count = gpuhier_range_length(shard);
    args.nsrc = (uint32_t) last->size;
    for (int i = 0; i < last->size; ++i) {
        args.src[i] = gpuhier_place_scratch(call, last->member[i], 0, slice, shard.begin);
    }
    outputs_set(call, gpuhier_call_circle(call, level), 0, slice, shard.begin, &args);
    return gpuhier_reduce_launch(&call->lane->device->reduce, call->kernel, &args, stream);
}

/* Pushes this rank's finished shard into the outputs of the circle: as it is, or reduced with what the last step of the
 * exchange has received, which lies at the same place of the receive buffer. */
static int finish(const gpuhier_call_t *call, const gpuhier_circle_t *circle, uint64_t slice, gpuhier_range_t shard,
                  CUstream stream)
{
    const gpuhier_plan_t *plan = &call->slices.plan;
    gpuhier_lane_t *lane = call->lane;
    const int buffer = gpuhier_plan_buffer(plan, slice);
    const gpuhier_action_t action = gpuhier_plan_last_action(plan);
    const int own = GPUHIER_ACTION_REDUCE_RECEIVED_FIRST == action ? 1 : 0;
    gpuhier_kernel_args_t args;
    args.count = gpuhier_range_length(shard);
    args.src[own] = (uint64_t) (uintptr_t) lane->exchange.now->shard[buffer];
    outputs_set(call, circle, 0, slice, shard.begin, &args);
    if (0 == args.ndst) {
        return OMPI_SUCCESS; /* MPI_Reduce, and the root is in another group */
    }
    if (GPUHIER_ACTION_NONE == action) {
        return gpuhier_reduce_push(&lane->device->reduce, call->kernel, &args, stream);
    }
    args.src[1 - own] = (uint64_t) (uintptr_t) lane->exchange.now->recv[buffer];
    args.nsrc = 2;
    return gpuhier_reduce_launch(&lane->device->reduce, call->kernel, &args, stream);
}

static int gather(const gpuhier_call_t *call, int level, uint64_t slice, CUstream stream)
{
    const gpuhier_circle_t *circle = gpuhier_call_circle(call, level);
    const gpuhier_range_t shard = gpuhier_circle_shard(call, circle, slice);
    if (GPUHIER_RANKS_PAIR == call->row->from) {
        return pairs_copy(call, false, slice, stream);
    }
    if (call->row->has_blocks) {
        return chunks_push(call, circle, slice, stream);
    }
    return 0 == gpuhier_range_length(shard)          ? OMPI_SUCCESS
           : level < gpuhier_call_first_gather(call) ? pass(call, circle, slice, shard, stream)
           : 1 == call->team->ngroups                ? combine(call, level, slice, shard, stream)
                                                     : finish(call, circle, slice, shard, stream);
}

/* With several groups a rank that works on its own buffers needs no IN and no OUT. A relay copies on the stream of
 * OUT. */
static gpuhier_stage_t second(const gpuhier_call_t *call, gpuhier_stage_t stage)
{
    const gpuhier_team_t *team = call->team;
    if (1 == team->ngroups || call->slices.levels > 1 || call->slices.member[team->index].via_scratch) {
        return stage;
    }
    return GPUHIER_STAGE_RS == stage                       ? GPUHIER_STAGE_IN
           : GPUHIER_STAGE_AG == stage && !team->has_relay ? GPUHIER_STAGE_OUT
                                                           : stage;
}

const gpuhier_slices_ops_t gpuhier_slices_kernels = {
    .place = place, .reduce = reduce, .gather = gather, .second = second};

const gpuhier_form_t gpuhier_form_slices = {.kind = GPUHIER_FORM_SLICES,
                                            .doing = "moving slices",
                                            .maps = true,
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
                                            .count = count,
                                            .report = gpuhier_slices_report,
                                            .note = note};
