/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Where the slices of a call lie: elements of a slice in the members' inputs, outputs and scratch, the ranks with which
 * this rank works on them, and the stream on which it does. Used by the stages, which are in coll_gpuhier_pipeline.c
 * and coll_gpuhier_circle.c.
 */
#ifndef GPUHIER_PLACE_H
#define GPUHIER_PLACE_H

#include "base/coll_gpuhier_params.h"
#include "engine/coll_gpuhier_call.h"
#include "team/coll_gpuhier_switch.h"

/* Place of slice buffer number `buffer` in the scratch of a member; those for output follow those for input. */
static inline size_t gpuhier_place_buffer(const gpuhier_call_t *call, int buffer)
{
    const gpuhier_hostmem_t *hostmem = &call->team->hostmem;
    if (call->in_switch) {
        return gpuhier_switch_place(call->team, buffer);
    }
    return gpuhier_hostmem_is_used(hostmem) ? gpuhier_hostmem_place(hostmem, buffer)
                                            : gpuhier_scratch_in(call->is_long, buffer);
}

/* An element of a slice in the slice buffer for input of a member: its input, or in levels a partial sum. */
static inline CUdeviceptr gpuhier_place_scratch(const gpuhier_call_t *call, int index, uint64_t slice, uint64_t element)
{
    return call->slices.member[index].scratch
           + gpuhier_place_buffer(call, gpuhier_plan_buffer(&call->slices.plan, slice))
           + (element - gpuhier_plan_slice(&call->slices.plan, slice).begin) * call->elem_bytes;
}

/* An element of a slice in what a member reduces: its own buffer, or scratch. */
static inline CUdeviceptr gpuhier_place_input(const gpuhier_call_t *call, int index, uint64_t slice, uint64_t element)
{
    const gpuhier_member_t *member = &call->slices.member[index];
    return member->via_scratch ? gpuhier_place_scratch(call, index, slice, element)
                               : member->in + element * call->elem_bytes;
}

static inline CUdeviceptr gpuhier_place_output(const gpuhier_call_t *call, int index, uint64_t slice, uint64_t element)
{
    const gpuhier_member_t *member = &call->slices.member[index];
    if (!member->via_scratch) {
        return member->out + element * call->elem_bytes;
    }
    if (call->in_switch) {
        return gpuhier_place_scratch(call, index, slice, element);
    }
    return member->scratch
           + gpuhier_place_buffer(call,
                                  call->slices.plan.slice_buffers + gpuhier_plan_buffer(&call->slices.plan, slice))
           + (element - gpuhier_plan_slice(&call->slices.plan, slice).begin) * call->elem_bytes;
}

/* The levels of a call: 1 if it is flat. */
static inline int gpuhier_call_levels(const gpuhier_call_t *call)
{
    return call->in_levels ? call->team->levels.count : 1;
}

/* The ranks with which this rank works at a level: in a flat call its group. */
static inline const gpuhier_circle_t *gpuhier_call_circle(const gpuhier_call_t *call, int level)
{
    const gpuhier_levels_t *levels = &call->team->levels;
    return call->in_levels ? &levels->circle[level] : &levels->whole;
}

/* What this rank reduces of a slice in a circle. */
static inline gpuhier_range_t gpuhier_circle_shard(const gpuhier_call_t *call, const gpuhier_circle_t *circle,
                                                   uint64_t slice)
{
    return gpuhier_plan_part(&call->slices.plan, slice, circle->shard, circle->shards);
}

/* Sets the outputs of a circle as a kernel's destinations, this rank's neighbour first and its own output last: all
 * ranks storing to one peer at once would wait for its link. */
static inline void gpuhier_circle_outputs(const gpuhier_call_t *call, const gpuhier_circle_t *circle, uint64_t slice,
                                          uint64_t element, gpuhier_kernel_args_t *args)
{
    for (int k = 0; k < circle->size; ++k) {
        const int place = (circle->place + 1 + k) % circle->size;
        args->dst[k] = gpuhier_place_output(call, circle->member[place], slice, element);
    }
    args->ndst = (uint32_t) circle->size;
}

/*
 * The stream of a slice in a stage. Slices of RS take turns on two streams, and so do those of AG, so that the links do
 * not idle during the latencies of one kernel, which add a fifth to the time of a slice of 8 MiB. The other stream is
 * that of a stage that a call of this kind does not need, or needs seldom:
 *
 *                       one group, NVSwitches   two groups, NVSwitches   several groups, the user's own buffers
 *     odd slices of RS  AG                      RS                       IN
 *     odd slices of AG  -                       EXCHANGE                 OUT
 *
 * With two groups recursive doubling leaves EXCHANGE no reductions, so its stream is free, unless links copy on it. A
 * relay also copies on the stream of OUT.
 */
static inline CUstream gpuhier_place_stream(const gpuhier_call_t *call, gpuhier_stage_t stage, uint64_t slice)
{
    const gpuhier_team_t *team = call->team;
    const bool one_group = 1 == team->ngroups;
    const bool is_direct = !one_group && !call->in_levels && !call->slices.member[team->index].via_scratch;
    if (0 == slice % 2) {
        return call->lane->stream[stage];
    }
    if (GPUHIER_STAGE_RS == stage && (is_direct || (one_group && call->in_switch))) {
        stage = is_direct ? GPUHIER_STAGE_IN : GPUHIER_STAGE_AG;
    } else if (GPUHIER_STAGE_AG == stage && is_direct && !team->has_relay) {
        stage = GPUHIER_STAGE_OUT;
    } else if (GPUHIER_STAGE_AG == stage && call->in_switch && 2 == team->ngroups && NULL == team->linked) {
        stage = GPUHIER_STAGE_EXCHANGE;
    }
    return call->lane->stream[stage];
}

#endif /* GPUHIER_PLACE_H */
