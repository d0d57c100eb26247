/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Where the slices of a call lie: elements of a slice in the members' inputs, outputs and scratch, the ranks with which
 * this rank works on them, and the stream on which it does. Used by the stages.
 */
#ifndef GPUHIER_PLACE_H
#define GPUHIER_PLACE_H

#include "engine/coll_gpuhier_form.h"

/* Bytes from the beginning of a slice buffer to an element of a slice in a block. A slice cuts all blocks alike, and
 * lies in the buffer as its ranges of them, each as long as the longest slice. */
static inline uint64_t gpuhier_place_in_buffer(const gpuhier_call_t *call, int block, uint64_t slice, uint64_t element)
{
    const gpuhier_plan_t *plan = &call->slices.plan;
    return ((uint64_t) block * plan->slice_elems_max + element - gpuhier_plan_slice(plan, slice).begin)
           * call->elem_bytes;
}

/* Blocks that a member gives, and that it takes. */
static inline int gpuhier_call_gives(const gpuhier_call_t *call, int index)
{
    return !gpuhier_collective_gives(call->row, index == call->root)
               ? 0
               : gpuhier_collective_blocks(call->row, call->row->from, call->team->nranks);
}

static inline int gpuhier_call_takes(const gpuhier_call_t *call, int index)
{
    return !gpuhier_collective_takes(call->row, index == call->root)
               ? 0
               : gpuhier_collective_blocks(call->row, call->row->to, call->team->nranks);
}

/* The list of blocks that peers read or write, and of which only their rank knows where they begin; NULL: all know. */
static inline const gpuhier_block_t *gpuhier_call_told(const gpuhier_call_t *call)
{
    return GPUHIER_RANKS_PAIR == call->row->from ? call->given : call->taken;
}

/* What a member has told of its list. */
static inline const gpuhier_block_t *gpuhier_call_list(const gpuhier_call_t *call, int index)
{
    return (const gpuhier_block_t *) (const void *) gpuhier_area_of(call->team, index, call->sequence)->data;
}

/* Elements before a block of a member's input or output, of which `mine` is this rank's list. */
static inline uint64_t gpuhier_call_begin(const gpuhier_call_t *call, int index, const gpuhier_block_t *mine, int block)
{
    return NULL == mine ? (uint64_t) block * call->count
           : index == call->team->index || mine != gpuhier_call_told(call)
               ? mine[block].begin
               : gpuhier_call_list(call, index)[block].begin;
}

/* What a slice has of the block of a rank, in a list or, where there is none, of equal length. */
static inline gpuhier_range_t gpuhier_call_range(const gpuhier_call_t *call, const gpuhier_block_t *list, int rank,
                                                 uint64_t slice)
{
    const gpuhier_range_t range = gpuhier_plan_slice(&call->slices.plan, slice);
    return NULL == list ? range : gpuhier_range_cap(range, list[rank].length);
}

/* The rank whose block is one of this rank's, on a side that has several or only its own. */
static inline int gpuhier_call_owner(const gpuhier_call_t *call, gpuhier_ranks_t side, int block)
{
    return GPUHIER_RANKS_OWNER == side ? call->team->rank : block;
}

/* Pairs between groups: elements of number k of the parts that lie in a chunk for a group, or of it, and the block that
 * the part is of in its giver's input, or in this rank's output. */
static inline uint64_t gpuhier_call_pair(const gpuhier_call_t *call, bool given, int piece, int group, int k,
                                         gpuhier_range_t part, int *block_p)
{
    const gpuhier_team_t *team = call->team;
    const gpuhier_block_t *list = !given || NULL == call->given ? call->heard : gpuhier_call_list(call, k);
    *block_p =
        given ? gpuhier_shape_owner(&team->shape, piece, group) : gpuhier_hierarchy_member(&team->hierarchy, group, k);
    return gpuhier_range_length(NULL == list ? part : gpuhier_range_cap(part, list[*block_p].length));
}

/* Pairs with lists: elements in a chunk. */
static inline uint64_t gpuhier_call_pairs(const gpuhier_call_t *call, bool given, uint64_t slice, int piece, int group)
{
    const gpuhier_team_t *team = call->team;
    const int giving = given ? team->group : group, taking = given ? group : team->group;
    const gpuhier_range_t part = gpuhier_plan_block(&call->slices.plan, slice, piece, taking);
    uint64_t elems = 0;
    int block;
    for (int k = 0; k < gpuhier_hierarchy_group_size(&team->hierarchy, giving); ++k) {
        elems += gpuhier_call_pair(call, given, piece, group, k, part, &block);
    }
    return elems;
}

/* An element of a slice in the slice buffer for input of a member: its input, or in levels a partial sum. */
static inline CUdeviceptr gpuhier_place_scratch(const gpuhier_call_t *call, int index, int block, uint64_t slice,
                                                uint64_t element)
{
    return call->slices.member[index].scratch
           + call->form->ops->place(call, gpuhier_plan_buffer(&call->slices.plan, slice))
           + gpuhier_place_in_buffer(call, block, slice, element);
}

/* An element of a slice in what a member reduces: its own buffer, or scratch. */
static inline CUdeviceptr gpuhier_place_input(const gpuhier_call_t *call, int index, int block, uint64_t slice,
                                              uint64_t element)
{
    const gpuhier_member_t *member = &call->slices.member[index];
    return member->via_scratch
               ? gpuhier_place_scratch(call, index, block, slice, element)
               : member->in + (gpuhier_call_begin(call, index, call->given, block) + element) * call->elem_bytes;
}

static inline CUdeviceptr gpuhier_place_output(const gpuhier_call_t *call, int index, int block, uint64_t slice,
                                               uint64_t element)
{
    const gpuhier_member_t *member = &call->slices.member[index];
    if (!member->via_scratch) {
        return member->out + (gpuhier_call_begin(call, index, call->taken, block) + element) * call->elem_bytes;
    }
    if (call->form->ops->has_one_buffer) {
        return gpuhier_place_scratch(call, index, block, slice, element);
    }
    return member->scratch
           + call->form->ops->place(call,
                                    call->slices.plan.slice_buffers + gpuhier_plan_buffer(&call->slices.plan, slice))
           + gpuhier_place_in_buffer(call, block, slice, element);
}

/* The ranks with which this rank works at a level: in a flat call its group. */
static inline const gpuhier_circle_t *gpuhier_call_circle(const gpuhier_call_t *call, int level)
{
    const gpuhier_levels_t *levels = &call->team->levels;
    return call->slices.levels > 1 ? &levels->circle[level] : &levels->whole;
}

/* Are RS and AG one kernel? */
static inline bool gpuhier_call_is_fused(const gpuhier_call_t *call)
{
    return 1 == call->team->ngroups && 1 == call->slices.levels;
}

/* Does RS of this level put its shard into the shard buffer? */
static inline bool gpuhier_call_fills_shard(const gpuhier_call_t *call, int level)
{
    return call->team->ngroups > 1 && level + 1 == call->slices.levels;
}

/* The level of a slice's first AG: the last level, or with one group the level before it. */
static inline int gpuhier_call_first_gather(const gpuhier_call_t *call)
{
    return call->slices.levels - (1 == call->team->ngroups ? 2 : 1);
}

/* What this rank reduces of a slice in a circle. */
static inline gpuhier_range_t gpuhier_circle_shard(const gpuhier_call_t *call, const gpuhier_circle_t *circle,
                                                   uint64_t slice)
{
    return gpuhier_plan_part(&call->slices.plan, slice, circle->shard, circle->shards);
}

/*
 * The stream of a slice in a stage. Slices of RS may take turns on two streams, and so do those of AG, so that the
 * links do not idle during the latencies of one kernel, which add a fifth to the time of a slice of 8 MiB. The other
 * stream is that of a stage that a call of this form does not need, or needs seldom.
 */
static inline CUstream gpuhier_place_stream(const gpuhier_call_t *call, gpuhier_stage_t stage, uint64_t slice)
{
    return call->lane->stream[0 == slice % 2 ? stage : call->form->ops->second(call, stage)];
}

#endif /* GPUHIER_PLACE_H */
