/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the plan of a call: the slices of a message, the ranges of shards, pieces and chunks, what a step moves of them,
 * and the exact traffic. Does not own buffers, messages or time: the engine runs the plan.
 *
 * Nothing is stored for a slice or step: a plan adds ranges to the steps of coll_gpuhier_schedule.c, or, for
 * collectives other than all-reduce, coll_gpuhier_part.c. All ranges come from gpuhier_cut(), so the two ranks of a
 * message compute the same bytes.
 *
 * Called by the engine (one plan per call), gpuhier_info and the unit tests. No Open MPI header; errors are negative
 * errno values.
 */
#include <errno.h>

#include "plan/coll_gpuhier_part.h"

/* The longest part of width num/den of elems elements, in elements: ceil(units * num / den) units. */
static uint64_t part_bound(uint64_t elems, uint64_t unit, uint64_t num, uint64_t den)
{
    const uint64_t units = gpuhier_unit_count(elems, unit);
    const uint64_t bound = unit * (units / den * num + (units % den * num + den - 1) / den);
    return bound < elems ? bound : elems;
}

int gpuhier_plan_init(gpuhier_plan_t *plan_p, const gpuhier_shape_t *shape, int rank, uint64_t count, size_t elem_bytes,
                      const gpuhier_limits_t *limits)
{
    const gpuhier_hierarchy_t *h = shape->hierarchy;
    gpuhier_plan_t plan = {.shape = shape, .rank = rank, .count = count, .elem_bytes = elem_bytes};
    if (rank < 0 || rank >= h->nranks || 0 == elem_bytes || count > (uint64_t) INT64_MAX / elem_bytes
        || 0 == limits->slice_bytes || limits->slice_buffers < GPUHIER_SLICE_BUFFERS_MIN
        || limits->slice_buffers > GPUHIER_SLICE_BUFFERS_MAX || (unsigned) limits->algorithm >= GPUHIER_ALGORITHM_COUNT
        || (unsigned) limits->wire >= GPUHIER_WIRE_COUNT) {
        return -EINVAL;
    }
    plan.group = h->group_of[rank];
    plan.index = h->index_of[rank];
    plan.group_size = gpuhier_hierarchy_group_size(h, plan.group);
    int end_piece;
    gpuhier_shape_pieces(shape, rank, &plan.first_piece, &end_piece);
    plan.npieces = end_piece - plan.first_piece;
    plan.slice_buffers = limits->slice_buffers;
    /* As few slices as the limit allows, all of nearly the same length: a much shorter last slice would not overlap. */
    plan.unit = gpuhier_unit_elems(elem_bytes);
    const uint64_t units = gpuhier_unit_count(count, plan.unit);
    const uint64_t limit_units = limits->slice_bytes / (plan.unit * elem_bytes);
    plan.nslices = gpuhier_unit_count(units, 0 == limit_units ? 1 : limit_units);
    if (plan.nslices > 0) {
        plan.slice_units = units / plan.nslices;
        plan.wide_slices = units % plan.nslices;
        plan.slice_elems_max = gpuhier_range_length(gpuhier_plan_slice(&plan, 0));
    }
    plan.shard_elems_max = part_bound(plan.slice_elems_max, plan.unit, 1, (uint64_t) plan.group_size);
    plan.piece_elems_max = part_bound(plan.slice_elems_max, plan.unit, shape->widest.num, shape->widest.den);
    plan.by_host = gpuhier_plan_by_host(shape, limits, count * elem_bytes);
    plan.algorithm = gpuhier_algorithm_pick(limits->algorithm, limits->wire, h->ngroups,
                                            plan.piece_elems_max * elem_bytes, plan.slice_buffers, plan.by_host);
    plan.nsteps = gpuhier_schedule_steps(plan.algorithm, h->ngroups);
    plan.nchunks = gpuhier_schedule_chunks(plan.algorithm, h->ngroups);
    *plan_p = plan;
    return 0;
}

/* Where a slice begins; slice == nslices gives the end of the message. */
static uint64_t slice_begin(const gpuhier_plan_t *plan, uint64_t slice)
{
    const uint64_t wide = slice < plan->wide_slices ? slice : plan->wide_slices;
    const uint64_t begin = plan->unit * (slice * plan->slice_units + wide);
    return begin < plan->count ? begin : plan->count;
}

gpuhier_range_t gpuhier_plan_slice(const gpuhier_plan_t *plan, uint64_t slice)
{
    return (gpuhier_range_t){.begin = slice_begin(plan, slice), .end = slice_begin(plan, slice + 1)};
}

/* Parts [begin, end) of `parts` equal ones of a range. */
static gpuhier_range_t range_parts(gpuhier_range_t range, uint64_t unit, int begin, int end, int parts)
{
    const uint64_t elems = gpuhier_range_length(range);
    return (gpuhier_range_t){.begin = range.begin + gpuhier_cut(elems, unit, (uint32_t) begin, (uint32_t) parts),
                             .end = range.begin + gpuhier_cut(elems, unit, (uint32_t) end, (uint32_t) parts)};
}

gpuhier_range_t gpuhier_plan_part(const gpuhier_plan_t *plan, uint64_t slice, int part, int parts)
{
    return range_parts(gpuhier_plan_slice(plan, slice), plan->unit, part, part + 1, parts);
}

/* The part of a slice that a piece has of a shard, in the whole of which the slice lies; or of a whole slice: shard 0
 * of 1. */
static gpuhier_range_t piece_of(const gpuhier_plan_t *plan, uint64_t slice, int piece, uint32_t shard, uint32_t shards)
{
    const gpuhier_fraction_t *cut = &plan->shape->cuts[piece];
    const gpuhier_range_t range = gpuhier_plan_slice(plan, slice);
    const uint64_t elems = gpuhier_range_length(range);
    return (gpuhier_range_t){
        .begin = range.begin + gpuhier_cut(elems, plan->unit, cut[0].num * shards - shard * cut[0].den, cut[0].den),
        .end = range.begin + gpuhier_cut(elems, plan->unit, cut[1].num * shards - shard * cut[1].den, cut[1].den)};
}

gpuhier_range_t gpuhier_plan_piece(const gpuhier_plan_t *plan, uint64_t slice, int piece)
{
    if (plan->stride > 0) {
        const uint64_t length = (uint64_t) plan->shape->hierarchy->ngroups * plan->stride;
        return (gpuhier_range_t){.begin = (uint64_t) piece * length, .end = (uint64_t) (piece + 1) * length};
    }
    return piece_of(plan, slice, piece, 0, 1);
}

gpuhier_range_t gpuhier_plan_block(const gpuhier_plan_t *plan, uint64_t slice, int piece, int group)
{
    const int size = gpuhier_hierarchy_group_size(plan->shape->hierarchy, group);
    const uint32_t shard = (uint32_t) gpuhier_shape_shard(plan->shape, piece, size);
    const gpuhier_range_t part = piece_of(plan, slice, piece, shard, (uint32_t) size);
    return NULL == plan->list
               ? part
               : gpuhier_range_cap(part, plan->list[gpuhier_shape_owner(plan->shape, piece, group)].length);
}

gpuhier_range_t gpuhier_plan_pairs(const gpuhier_plan_t *plan, uint64_t slice, int piece, int group, bool given)
{
    const gpuhier_hierarchy_t *h = plan->shape->hierarchy;
    const int giver = given ? plan->group : group, taker = given ? group : plan->group;
    const uint64_t begin = gpuhier_plan_piece(plan, slice, piece).begin + (uint64_t) group * plan->stride;
    const uint64_t each = gpuhier_range_length(gpuhier_plan_block(plan, slice, piece, taker));
    return (gpuhier_range_t){.begin = begin, .end = begin + each * (uint64_t) gpuhier_hierarchy_group_size(h, giver)};
}

/* A step of this rank's pieces. */
static void plan_step(const gpuhier_plan_t *plan, int step, gpuhier_step_t *step_p)
{
    if (NULL == plan->row) {
        gpuhier_schedule_step(plan->algorithm, plan->shape->hierarchy->ngroups, plan->group, step, step_p);
    } else {
        gpuhier_part_step(plan, step, step_p);
    }
}

/* Chunks of blocks, as far as there is anything in them: one of them, or of unequal length, has its exact end. */
static gpuhier_range_t block_chunks(const gpuhier_plan_t *plan, uint64_t slice, int piece, int begin, int end)
{
    const uint64_t at = gpuhier_plan_piece(plan, slice, piece).begin;
    gpuhier_range_t range = {.begin = at + (uint64_t) begin * plan->stride,
                             .end = at + (uint64_t) begin * plan->stride};
    bool any = false;
    for (int group = 0; group < plan->shape->hierarchy->ngroups; ++group) {
        const int chunk = gpuhier_part_chunk(plan, group);
        const uint64_t elems =
            chunk < begin || chunk >= end ? 0 : gpuhier_range_length(gpuhier_plan_block(plan, slice, piece, group));
        const uint64_t first = at + (uint64_t) chunk * plan->stride;
        if (elems > 0) {
            range.begin = any && range.begin < first ? range.begin : first;
            range.end = range.end > first + elems ? range.end : first + elems;
            any = true;
        }
    }
    return range;
}

gpuhier_range_t gpuhier_plan_chunks(const gpuhier_plan_t *plan, uint64_t slice, int piece, int begin, int end)
{
    const gpuhier_range_t whole = gpuhier_plan_piece(plan, slice, piece);
    if (0 == plan->stride) {
        return range_parts(whole, plan->unit, begin, end, plan->nchunks);
    }
    return NULL != plan->list || end == begin + 1
               ? block_chunks(plan, slice, piece, begin, end)
               : (gpuhier_range_t){.begin = whole.begin + (uint64_t) begin * plan->stride,
                                   .end = whole.begin + (uint64_t) end * plan->stride};
}

void gpuhier_plan_transfer(const gpuhier_plan_t *plan, uint64_t slice, int piece, int step,
                           gpuhier_transfer_t *transfer_p)
{
    gpuhier_transfer_t transfer = {.send_to = -1, .recv_from = -1, .action = GPUHIER_ACTION_NONE};
    const bool pairs = NULL != plan->row && GPUHIER_RANKS_PAIR == plan->row->from;
    gpuhier_step_t s;
    plan_step(plan, step, &s);
    if (-1 != s.send_to) {
        transfer.send = pairs ? gpuhier_plan_pairs(plan, slice, piece, s.send_to, true)
                              : gpuhier_plan_chunks(plan, slice, piece, s.send_begin, s.send_end);
        if (0 != gpuhier_range_length(transfer.send)) {
            transfer.send_to = gpuhier_shape_owner(plan->shape, piece, s.send_to);
        }
    }
    if (-1 != s.recv_from) {
        transfer.recv = pairs ? gpuhier_plan_pairs(plan, slice, piece, s.recv_from, false)
                              : gpuhier_plan_chunks(plan, slice, piece, s.recv_begin, s.recv_end);
        if (0 != gpuhier_range_length(transfer.recv)) {
            transfer.recv_from = gpuhier_shape_owner(plan->shape, piece, s.recv_from);
            transfer.action = s.action;
        }
    }
    *transfer_p = transfer;
}

gpuhier_action_t gpuhier_plan_last_action(const gpuhier_plan_t *plan)
{
    gpuhier_step_t s;
    if (!gpuhier_schedule_last_is_left(plan->algorithm, plan->shape->hierarchy->ngroups)) {
        return GPUHIER_ACTION_NONE;
    }
    plan_step(plan, plan->nsteps - 1, &s);
    return GPUHIER_ACTION_COPY == s.action ? GPUHIER_ACTION_NONE : s.action;
}
