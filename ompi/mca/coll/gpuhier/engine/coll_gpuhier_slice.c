/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the kernels of a slice, where kernels reduce: from where to where elements move in the stages RS and AG. What a
 * rank works on follows from the collective's row: its shard of the slice, its part of each block, its own block, or
 * its blocks of all others.
 *
 * Called by the stages, for the forms that take slices.
 */
#include "ompi_config.h"

#include "engine/coll_gpuhier_place.h"
#include "engine/coll_gpuhier_slices.h"
#include "plan/coll_gpuhier_part.h"

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

/* One group: reads this rank's block of each member, all at the same time, and writes it to where only this rank knows
 * that it belongs. A GPU that is busy begins with the first, which is another member's on each rank. */
static int blocks_read(const gpuhier_call_t *call, const gpuhier_circle_t *circle, uint64_t slice, CUstream stream)
{
    const gpuhier_team_t *team = call->team;
    const gpuhier_collective_t *row = call->row;
    gpuhier_reduce_t *kernels = &call->lane->device->reduce;
    gpuhier_moves_args_t moves;
    int rc = OMPI_SUCCESS;
    moves.count = 0;
    for (int i = 0; i < circle->size && OMPI_SUCCESS == rc; ++i) {
        const int index = circle->member[(circle->place + 1 + i) % circle->size];
        const int rank = gpuhier_hierarchy_member(&team->hierarchy, team->group, index);
        const gpuhier_range_t part = gpuhier_call_range(call, call->taken, rank, slice);
        const CUdeviceptr to =
            gpuhier_place_output(call, team->index, block_of(call, row->to, rank), slice, part.begin);
        const CUdeviceptr from = gpuhier_place_input(call, index, block_in(call, row->from), slice, part.begin);
        rc = gpuhier_reduce_move(kernels, &moves, to, from, gpuhier_range_length(part) * call->elem_bytes, stream);
    }
    return OMPI_SUCCESS == rc ? gpuhier_reduce_moves(kernels, &moves, stream) : rc;
}

/* This rank's shard of a flat call in one group. A root has none, since its link carries the whole message anyway; of
 * two ranks both have one, which moves no more. */
static gpuhier_range_t fused_shard(const gpuhier_call_t *call, const gpuhier_circle_t *circle, uint64_t slice)
{
    const gpuhier_collective_t *row = call->row;
    if ((GPUHIER_RANKS_ROOT != row->from && GPUHIER_RANKS_ROOT != row->to) || circle->size < 3) {
        return gpuhier_circle_shard(call, circle, slice);
    }
    const int index = call->team->index;
    return index == call->root
               ? (gpuhier_range_t){0}
               : gpuhier_plan_part(&call->slices.plan, slice, index - (index > call->root), circle->size - 1);
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
                                                 : fused_shard(call, circle, slice);
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

/* Blocks with owners. given: reduces this rank's chunks of the blocks of all groups into its shard buffer, or copies
 * those of its own block there. Else, after the exchange: pushes the chunks of all groups' blocks into the outputs of
 * the circle, or that of its own block into its own. */
static int chunks_move(const gpuhier_call_t *call, bool given, const gpuhier_circle_t *circle, uint64_t slice,
                       CUstream stream)
{
    const gpuhier_team_t *team = call->team;
    const gpuhier_plan_t *plan = &call->slices.plan;
    const bool all = GPUHIER_RANKS_ALL == (given ? call->row->from : call->row->to);
    gpuhier_reduce_t *kernels = &call->lane->device->reduce;
    int rc = OMPI_SUCCESS;
    for (int piece = plan->first_piece; piece < plan->first_piece + plan->npieces; ++piece) {
        for (int group = all ? 0 : team->group; group < (all ? team->ngroups : team->group + 1); ++group) {
            const gpuhier_range_t part = gpuhier_plan_block(plan, slice, piece, group);
            const int block = all ? gpuhier_shape_owner(&team->shape, piece, group) : 0;
            gpuhier_kernel_args_t args = {.ndst = 1, .count = gpuhier_range_length(part)};
            (given ? args.dst : args.src)[0] = place_of_chunk(call, slice, piece, group);
            if (!given) {
                outputs_set(call, circle, block, slice, part.begin, &args);
            }
            for (int i = 0; given && i < circle->size; ++i) {
                if (has_part(call, call->row->from, circle->member[i])) {
                    args.src[args.nsrc++] = gpuhier_place_input(call, circle->member[i], block, slice, part.begin);
                }
            }
            if (OMPI_SUCCESS == rc && args.count > 0) {
                rc = given && all ? gpuhier_reduce_launch(kernels, call->kernel, &args, stream)
                                  : gpuhier_reduce_push(kernels, call->kernel, &args, stream);
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
    gpuhier_reduce_t *kernels = &call->lane->device->reduce;
    gpuhier_moves_args_t moves;
    int rc = OMPI_SUCCESS;
    moves.count = 0;
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
            const uint64_t taken = given || NULL == call->taken /* which may be less */
                                       ? length
                                       : gpuhier_range_length(gpuhier_range_cap(part, call->taken[block].length));
            const CUdeviceptr to = given ? at : gpuhier_place_output(call, team->index, block, slice, part.begin);
            const CUdeviceptr from = given ? gpuhier_place_input(call, k, block, slice, part.begin) : at;
            rc = gpuhier_reduce_move(kernels, &moves, to, from, taken * call->elem_bytes, stream);
            at += length * call->elem_bytes;
        }
    }
    return OMPI_SUCCESS == rc ? gpuhier_reduce_moves(kernels, &moves, stream) : rc;
}

/* MPI_Bcast: in the root's group, reads this rank's shard from the root. */
static int root_read(const gpuhier_call_t *call, uint64_t slice, gpuhier_range_t shard, CUstream stream)
{
    const void *to = call->lane->exchange.now->shard[gpuhier_plan_buffer(&call->slices.plan, slice)];
    return -1 == call->root ? OMPI_SUCCESS
                            : gpuhier_reduce_copy(&call->lane->device->reduce, (CUdeviceptr) (uintptr_t) to,
                                                  gpuhier_place_input(call, call->root, 0, slice, shard.begin),
                                                  gpuhier_range_length(shard) * call->elem_bytes, stream);
}

/* Queues the reduction of this rank's shard of a slice: into its shard buffer, or its scratch for the next level. */
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
        return chunks_move(call, true, circle, slice, stream);
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
        return chunks_move(call, false, circle, slice, stream);
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
