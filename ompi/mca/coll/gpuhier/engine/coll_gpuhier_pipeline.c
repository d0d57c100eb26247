/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the stages of a call. Each takes slices in order, has at most one slice in
 * a slice buffer, and starts on slice k when
 *
 *   IN        the buffer is free: every member has reduced slice k - S       (ranks via scratch only)
 *   RS        every member's input of k is ready; with several groups, the
 *             rank's shard buffer is free: its AG of k - S is done
 *   EXCHANGE  its RS of k is done, and all groups take part                   (several groups only)
 *   AG        its EXCHANGE of k is done; every member via scratch has
 *             copied slice k - S out
 *   OUT       every member's AG of k is done                                 (ranks via scratch only)
 *
 * S is the number of slices in flight. With one group RS and AG are one fused kernel, which waits for the conditions of
 * both. Progress is published in the rank's slot.
 *
 * In levels (plan/coll_gpuhier_levels.h) a rank's RS puts the partial sum of its part of the group into its own
 * scratch, at its shard's place in the slice buffer for input: nothing else of a part reads that place after RS. AG
 * reduces the partial sums of all parts and pushes the result. So there
 *
 *   IN, RS    also wait until every member's AG of k - S is done, since it reads that slice buffer
 *   AG        waits for RS of k on the ranks at this rank's place of all parts, and for no EXCHANGE
 *
 * In switches (coll_gpuhier_switched.h) all ranks are via scratch, and a slice has one buffer in each member's copy,
 * for input and output. Only its owner reads or writes a shard of it, so
 *
 *   IN        waits for the rank's own OUT of k - S, before which every member's AG of k - S was done
 *
 * and a member's IN of k says that its copy is free for AG.
 *
 * In place is safe: element i of all buffers is read by RS and written by AG of
 * one rank only, its shard's owner, in that order.
 */
#include "ompi_config.h"

#include "base/coll_gpuhier_compat.h"
#include "base/coll_gpuhier_params.h"
#include "engine/coll_gpuhier_exchange.h"
#include "engine/coll_gpuhier_order.h"
#include "engine/coll_gpuhier_oneshot.h"
#include "engine/coll_gpuhier_pipeline.h"
#include "engine/coll_gpuhier_switched.h"
#include "team/coll_gpuhier_switch.h"

static gpuhier_slot_t *slot_of(const gpuhier_call_t *call, int index)
{
    return gpuhier_team_slot(call->team, index, call->sequence);
}

static gpuhier_slot_t *my_slot(const gpuhier_call_t *call)
{
    return slot_of(call, call->team->index);
}

static bool fused(const gpuhier_call_t *call)
{
    return 1 == call->team->ngroups && !call->in_levels;
}

/* Have all members come to `slices` in the progress word at this offset? via_scratch_only: those that work directly do
 * not count. */
static bool members_at(const gpuhier_call_t *call, size_t word_offset, uint64_t slices, bool via_scratch_only)
{
    for (int i = 0; i < call->team->group_size; ++i) {
        gpuhier_word_t *word = (gpuhier_word_t *) ((char *) slot_of(call, i) + word_offset);
        if (!(via_scratch_only && !call->slices.member[i].via_scratch)
            && !gpuhier_word_reached(word, call->sequence, slices)) {
            return false;
        }
    }
    return true;
}

#define ALL_AT(call, word, slices) members_at(call, offsetof(gpuhier_slot_t, word), slices, false)
#define VIA_SCRATCH_AT(call, word, slices) members_at(call, offsetof(gpuhier_slot_t, word), slices, true)

/* Does a slice have to wait for an earlier one in the same slice buffer? The first S slices find theirs free. */
static bool has_predecessor(const gpuhier_call_t *call, uint64_t slice, uint64_t *predecessors_p)
{
    uint64_t buffers = (uint64_t) call->slices.plan.slice_buffers;
    *predecessors_p = slice >= buffers ? slice - buffers + 1 : 0;
    return slice >= buffers;
}

/* Place of slice buffer number `buffer` in the scratch of a member; those for output follow those for input. */
static size_t buffer_place(const gpuhier_call_t *call, int buffer)
{
    const gpuhier_hostmem_t *hostmem = &call->team->hostmem;
    if (call->in_switch) {
        return gpuhier_switch_place(call->team, buffer);
    }
    return gpuhier_hostmem_is_used(hostmem) ? gpuhier_hostmem_place(hostmem, buffer)
                                            : gpuhier_scratch_in(call->is_long, buffer);
}

static CUdeviceptr scratch_input_at(const gpuhier_call_t *call, int index, uint64_t slice, uint64_t element)
{
    return call->slices.member[index].scratch + buffer_place(call, gpuhier_plan_buffer(&call->slices.plan, slice))
           + (element - gpuhier_plan_slice(&call->slices.plan, slice).begin) * call->elem_bytes;
}

static CUdeviceptr input_at(const gpuhier_call_t *call, int index, uint64_t slice, uint64_t element)
{
    const gpuhier_member_t *member = &call->slices.member[index];
    return member->via_scratch ? scratch_input_at(call, index, slice, element)
                               : member->in + element * call->elem_bytes;
}

static CUdeviceptr output_at(const gpuhier_call_t *call, int index, uint64_t slice, uint64_t element)
{
    const gpuhier_member_t *member = &call->slices.member[index];
    if (!member->via_scratch) {
        return member->out + element * call->elem_bytes;
    }
    if (call->in_switch) {
        return scratch_input_at(call, index, slice, element);
    }
    return member->scratch
           + buffer_place(call, gpuhier_params.slices_in_flight + gpuhier_plan_buffer(&call->slices.plan, slice))
           + (element - gpuhier_plan_slice(&call->slices.plan, slice).begin) * call->elem_bytes;
}

/* Ends a stage's work on a slice that has just been queued: an event, and the cursor moves. */
static int stage_queued(gpuhier_call_t *call, gpuhier_stage_t stage)
{
    gpuhier_lane_t *lane = call->lane;
    const uint64_t slice = call->slices.stage[stage].begun;
    const int buffer = gpuhier_plan_buffer(&call->slices.plan, slice);
    CUstream stream =
        call->in_switch && GPUHIER_STAGE_RS == stage ? gpuhier_switched_stream(call, slice) : lane->stream[stage];
    int rc = gpuhier_cuda_error(gpuhier_cu.cuEventRecord(lane->done[stage][buffer], stream), "cuEventRecord");
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    ++call->slices.stage[stage].begun;
    return 1;
}

/* Sees whether the oldest queued slice of a stage is complete. Returns 1 if so, 0 if not, < 0 for an error. */
static int stage_complete(gpuhier_call_t *call, gpuhier_stage_t stage)
{
    gpuhier_cursor_t *cursor = &call->slices.stage[stage];
    if (cursor->done == cursor->begun) {
        return 0;
    }
    CUresult result =
        gpuhier_cu.cuEventQuery(call->lane->done[stage][gpuhier_plan_buffer(&call->slices.plan, cursor->done)]);
    if (CUDA_ERROR_NOT_READY == result) {
        return 0;
    }
    int rc = gpuhier_cuda_error(result, "work on a slice");
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    ++cursor->done;
    return 1;
}

/* May this stage put one more slice into its buffers? */
static bool stage_open(const gpuhier_call_t *call, gpuhier_stage_t stage)
{
    const gpuhier_cursor_t *cursor = &call->slices.stage[stage];
    return cursor->begun < call->slices.plan.nslices
           && cursor->begun - cursor->done < (uint64_t) call->slices.plan.slice_buffers;
}

/* The whole input of a rank that is not via scratch is ready when the program's earlier work is complete. */
static int input_direct(gpuhier_call_t *call)
{
    if (call->input_done) {
        return 0;
    }
    const int rc = gpuhier_order_reached(call, 1);
    if (1 != rc) {
        return rc;
    }
    gpuhier_word_publish(&my_slot(call)->in_ready, call->sequence, call->slices.plan.nslices);
    return 1;
}

/* Is a slice buffer for input free again, once so many slices have left it? */
static bool input_free(const gpuhier_call_t *call, uint64_t slices)
{
    return call->in_switch   ? call->slices.stage[GPUHIER_STAGE_OUT].done >= slices
           : call->in_levels ? ALL_AT(call, ag_done, slices)
                             : ALL_AT(call, rs_done, slices);
}

static int stage_in(gpuhier_call_t *call)
{
    if (call->slices.oneshot && !call->slices.member[call->team->index].via_scratch) {
        return 0; /* the kernel's stream has the order */
    }
    if (!call->slices.member[call->team->index].via_scratch) {
        return input_direct(call);
    }
    int events = stage_complete(call, GPUHIER_STAGE_IN);
    if (events < 0) {
        return events;
    }
    if (events > 0) {
        gpuhier_word_publish(&my_slot(call)->in_ready, call->sequence, call->slices.stage[GPUHIER_STAGE_IN].done);
    }
    uint64_t slice = call->slices.stage[GPUHIER_STAGE_IN].begun, before;
    if (!stage_open(call, GPUHIER_STAGE_IN) || (has_predecessor(call, slice, &before) && !input_free(call, before))) {
        return events;
    }
    if (!call->input_done) {
        /* The driver may copy pageable memory within the call that asks for it, and wait there for the stream. */
        const bool on_device = gpuhier_buffer_on_device(&call->from);
        const int rc = on_device ? gpuhier_order_queue(call) : gpuhier_order_reached(call, 1);
        if (!call->input_done) {
            return rc < 0 ? rc : events;
        }
    }
    gpuhier_range_t range = gpuhier_plan_slice(&call->slices.plan, slice);
    const CUdeviceptr to = input_at(call, call->team->index, slice, range.begin);
    const CUdeviceptr from = call->in + range.begin * call->elem_bytes;
    const size_t bytes = gpuhier_reduce_span(call->kernel, gpuhier_range_length(range));
    CUstream stream = call->lane->stream[GPUHIER_STAGE_IN];
    int rc = gpuhier_cuda_error(gpuhier_cu.cuMemcpyAsync(to, from, bytes, stream), "cuMemcpyAsync");
    rc = OMPI_SUCCESS != rc ? rc : stage_queued(call, GPUHIER_STAGE_IN);
    return rc < 0 ? rc : events + rc;
}

/* Claims the right to work on the peers' buffers, before the first such work: the peers must still wait for it. */
static int claim(gpuhier_call_t *call)
{
    uint64_t word =
        gpuhier_word_advance(&my_slot(call)->claim, call->sequence, GPUHIER_CLAIM_TAKEN, GPUHIER_CLAIM_TAKEN);
    call->slices.claimed = gpuhier_word(call->sequence, GPUHIER_CLAIM_TAKEN) == word;
    return call->slices.claimed ? OMPI_SUCCESS : OMPI_ERR_UNREACH;
}

/* The ranks that this rank reduces for, and where it is among them: those of its part in levels, else its group. */
static int circle_size(const gpuhier_call_t *call)
{
    return call->in_levels ? call->team->levels.part_size : call->team->group_size;
}

static int circle_place(const gpuhier_call_t *call)
{
    return call->in_levels ? call->team->levels.place : call->team->index;
}

static int circle_member(const gpuhier_call_t *call, int place)
{
    const gpuhier_levels_t *levels = &call->team->levels;
    return call->in_levels ? gpuhier_levels_member(levels, levels->part, place) : place;
}

static gpuhier_range_t circle_shard(const gpuhier_call_t *call, uint64_t slice)
{
    const gpuhier_plan_t *plan = &call->slices.plan;
    return call->in_levels ? gpuhier_levels_shard(&call->team->levels, plan, slice)
                           : gpuhier_plan_shard(plan, slice, call->team->index);
}

/* Sets all members' outputs as destinations, this rank's neighbour first: all ranks storing to one peer at once would
 * wait for its link. */
static void outputs_set(const gpuhier_call_t *call, uint64_t slice, uint64_t element, gpuhier_kernel_args_t *args)
{
    const int size = circle_size(call);
    for (int k = 0; k < size; ++k) {
        args->dst[k] = output_at(call, circle_member(call, (circle_place(call) + 1 + k) % size), slice, element);
    }
    args->ndst = (uint32_t) size;
}

/* Queues the reduction of this rank's shard of a slice: into its shard buffer, or, fused, into every member's output.
 */
static int reduce_queue(gpuhier_call_t *call, uint64_t slice)
{
    if (!call->slices.claimed) {
        int rc = claim(call);
        if (OMPI_SUCCESS != rc) {
            return rc;
        }
    }
    const gpuhier_team_t *team = call->team;
    gpuhier_lane_t *lane = call->lane;
    gpuhier_range_t shard = circle_shard(call, slice);
    if (call->in_switch) {
        int rc = gpuhier_switched_reduce(call, slice, shard);
        return OMPI_SUCCESS != rc ? rc : stage_queued(call, GPUHIER_STAGE_RS);
    }
    if (gpuhier_range_length(shard) > 0) {
        gpuhier_kernel_args_t args;
        for (int i = 0; i < circle_size(call); ++i) {
            args.src[i] = input_at(call, circle_member(call, i), slice, shard.begin);
        }
        if (fused(call)) {
            outputs_set(call, slice, shard.begin, &args);
        } else if (call->in_levels) {
            args.dst[0] = scratch_input_at(call, team->index, slice, shard.begin);
            args.ndst = 1;
        } else {
            args.dst[0] =
                (uint64_t) (uintptr_t) lane->exchange.now->shard[gpuhier_plan_buffer(&call->slices.plan, slice)];
            args.ndst = 1;
        }
        args.nsrc = (uint32_t) circle_size(call);
        args.count = gpuhier_range_length(shard);
        int rc = gpuhier_reduce_launch(&lane->device->reduce, call->kernel, &args, lane->stream[GPUHIER_STAGE_RS]);
        if (OMPI_SUCCESS != rc) {
            return rc;
        }
    }
    return stage_queued(call, GPUHIER_STAGE_RS);
}

static bool reduce_may_begin(const gpuhier_call_t *call, uint64_t slice)
{
    uint64_t before;
    if (call->slices.oneshot) {
        return stage_open(call, GPUHIER_STAGE_RS)
               && (!call->slices.member[call->team->index].via_scratch
                   || gpuhier_word_reached(&my_slot(call)->in_ready, call->sequence, 1));
    }
    if (!stage_open(call, GPUHIER_STAGE_RS) || !ALL_AT(call, in_ready, slice + 1)) {
        return false;
    }
    if (!has_predecessor(call, slice, &before)) {
        return true;
    }
    if (call->in_levels) {
        return ALL_AT(call, ag_done, before);
    }
    return fused(call) ? VIA_SCRATCH_AT(call, out_done, before) : call->slices.stage[GPUHIER_STAGE_AG].done >= before;
}

/* The same as reduce_queue() and stage_complete() in the one-shot form. */
static int oneshot_queue(gpuhier_call_t *call)
{
    const int me = call->team->index;
    int rc = claim(call);
    rc = OMPI_SUCCESS != rc ? rc : gpuhier_oneshot_launch(call, input_at(call, me, 0, 0), output_at(call, me, 0, 0));
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    ++call->slices.stage[GPUHIER_STAGE_RS].begun;
    return 1;
}

static int oneshot_complete(gpuhier_call_t *call)
{
    gpuhier_cursor_t *cursor = &call->slices.stage[GPUHIER_STAGE_RS];
    int rc = cursor->done == cursor->begun ? 0 : gpuhier_oneshot_ended(call);
    cursor->done += rc > 0;
    return rc;
}

static int stage_reduce(gpuhier_call_t *call)
{
    int events = call->slices.oneshot ? oneshot_complete(call) : stage_complete(call, GPUHIER_STAGE_RS);
    if (events < 0) {
        return events;
    }
    if (events > 0) {
        uint64_t done = call->slices.stage[GPUHIER_STAGE_RS].done;
        gpuhier_word_publish(&my_slot(call)->rs_done, call->sequence, done);
        if (fused(call)) {
            gpuhier_word_publish(&my_slot(call)->ag_done, call->sequence, done);
        }
    }
    uint64_t slice = call->slices.stage[GPUHIER_STAGE_RS].begun;
    if (!reduce_may_begin(call, slice)) {
        return events;
    }
    int rc = call->slices.oneshot ? oneshot_queue(call) : reduce_queue(call, slice);
    return rc < 0 ? rc : events + rc;
}

static int stage_exchange(gpuhier_call_t *call)
{
    gpuhier_cursor_t *cursor = &call->slices.stage[GPUHIER_STAGE_EXCHANGE];
    int events = 0;
    if (!call->slices.mask_known) {
        return 0; /* a call that the ranks vote down must leave no message behind */
    }
    while (cursor->begun < call->slices.stage[GPUHIER_STAGE_RS].done) {
        gpuhier_exchange_begin(call, cursor->begun++);
        ++events;
    }
    bool in_order = true;
    for (uint64_t slice = cursor->done; slice < cursor->begun; ++slice) {
        bool done = false;
        int rc = gpuhier_exchange_progress(call, slice, &done);
        if (rc < 0) {
            return rc;
        }
        events += rc;
        in_order = in_order && done;
        cursor->done += in_order ? 1 : 0;
    }
    return events;
}

/* Queues the push of this rank's shard of a slice into every member's output: as it is, or reduced with what the last
 * step of the exchange has received, which mirrors it. */
static int gather_queue(gpuhier_call_t *call, uint64_t slice)
{
    const gpuhier_plan_t *plan = &call->slices.plan;
    gpuhier_lane_t *lane = call->lane;
    gpuhier_range_t shard = gpuhier_plan_shard(plan, slice, call->team->index);
    if (call->in_switch) {
        int rc = gpuhier_switched_gather(call, slice, shard);
        return OMPI_SUCCESS != rc ? rc : stage_queued(call, GPUHIER_STAGE_AG);
    }
    if (gpuhier_range_length(shard) > 0) {
        const int buffer = gpuhier_plan_buffer(plan, slice);
        const gpuhier_action_t action = gpuhier_plan_last_action(plan);
        const int own = GPUHIER_ACTION_REDUCE_RECEIVED_FIRST == action ? 1 : 0;
        CUstream stream = lane->stream[GPUHIER_STAGE_AG];
        gpuhier_kernel_args_t args;
        args.src[own] = (uint64_t) (uintptr_t) lane->exchange.now->shard[buffer];
        outputs_set(call, slice, shard.begin, &args);
        args.count = gpuhier_range_length(shard);
        int rc;
        if (GPUHIER_ACTION_NONE == action) {
            rc = gpuhier_reduce_push(&lane->device->reduce, call->kernel, &args, stream);
        } else {
            args.src[1 - own] = (uint64_t) (uintptr_t) lane->exchange.now->recv[buffer];
            args.nsrc = 2;
            rc = gpuhier_reduce_launch(&lane->device->reduce, call->kernel, &args, stream);
        }
        if (OMPI_SUCCESS != rc) {
            return rc;
        }
    }
    return stage_queued(call, GPUHIER_STAGE_AG);
}

/* Queues the reduction of the parts' sums of this rank's shard into every output of its own part. */
static int combine_queue(gpuhier_call_t *call, uint64_t slice)
{
    const gpuhier_levels_t *levels = &call->team->levels;
    gpuhier_lane_t *lane = call->lane;
    gpuhier_range_t shard = circle_shard(call, slice);
    if (gpuhier_range_length(shard) > 0) {
        gpuhier_kernel_args_t args;
        for (int part = 0; part < levels->nparts; ++part) {
            const int index = gpuhier_levels_member(levels, part, levels->place);
            args.src[part] = scratch_input_at(call, index, slice, shard.begin);
        }
        args.nsrc = (uint32_t) levels->nparts;
        outputs_set(call, slice, shard.begin, &args);
        args.count = gpuhier_range_length(shard);
        int rc = gpuhier_reduce_launch(&lane->device->reduce, call->kernel, &args, lane->stream[GPUHIER_STAGE_AG]);
        if (OMPI_SUCCESS != rc) {
            return rc;
        }
    }
    return stage_queued(call, GPUHIER_STAGE_AG);
}

/* Does the sum of every part lie in scratch, for this rank's shard of a slice? */
static bool partners_reduced(const gpuhier_call_t *call, uint64_t slice)
{
    const gpuhier_levels_t *levels = &call->team->levels;
    for (int part = 0; part < levels->nparts; ++part) {
        const int index = gpuhier_levels_member(levels, part, levels->place);
        if (!gpuhier_word_reached(&slot_of(call, index)->rs_done, call->sequence, slice + 1)) {
            return false;
        }
    }
    return true;
}

static bool gather_may_begin(const gpuhier_call_t *call, uint64_t slice)
{
    uint64_t before;
    const bool reduced = call->in_levels ? slice < call->slices.plan.nslices && partners_reduced(call, slice)
                                         : slice < call->slices.stage[GPUHIER_STAGE_EXCHANGE].done;
    return reduced && stage_open(call, GPUHIER_STAGE_AG)
           && (!has_predecessor(call, slice, &before) || VIA_SCRATCH_AT(call, out_done, before));
}

static int stage_gather(gpuhier_call_t *call)
{
    int events = stage_complete(call, GPUHIER_STAGE_AG);
    if (events < 0) {
        return events;
    }
    if (events > 0) {
        gpuhier_word_publish(&my_slot(call)->ag_done, call->sequence, call->slices.stage[GPUHIER_STAGE_AG].done);
    }
    uint64_t slice = call->slices.stage[GPUHIER_STAGE_AG].begun;
    if (!gather_may_begin(call, slice)) {
        return events;
    }
    int rc = call->in_levels ? combine_queue(call, slice) : gather_queue(call, slice);
    return rc < 0 ? rc : events + rc;
}

/* Queues the copy of a slice from scratch to the receive buffer, whose gaps keep their contents. */
static int output_queue(gpuhier_call_t *call, uint64_t slice)
{
    gpuhier_lane_t *lane = call->lane;
    CUstream stream = lane->stream[GPUHIER_STAGE_OUT];
    gpuhier_range_t range = gpuhier_plan_slice(&call->slices.plan, slice);
    const CUdeviceptr to = call->out + range.begin * call->elem_bytes;
    const CUdeviceptr from = output_at(call, call->team->index, slice, range.begin);
    int rc;
    if (gpuhier_reduce_has_gaps(call->kernel) && gpuhier_device_owns(lane->device, &call->to)) {
        gpuhier_kernel_args_t args = {.src = {from}, .dst = {to}, .ndst = 1, .count = gpuhier_range_length(range)};
        rc = gpuhier_reduce_push(&lane->device->reduce, call->kernel, &args, stream);
    } else {
        rc = gpuhier_reduce_store(call->kernel, to, from, gpuhier_range_length(range), stream);
    }
    return OMPI_SUCCESS != rc ? rc : stage_queued(call, GPUHIER_STAGE_OUT);
}

/* Does the result of so many slices lie in this rank's output? In the one-shot form its own kernel has written it. */
static bool output_ready(const gpuhier_call_t *call, uint64_t slices)
{
    return call->slices.oneshot ? call->slices.stage[GPUHIER_STAGE_RS].done >= slices : ALL_AT(call, ag_done, slices);
}

static int stage_out(gpuhier_call_t *call)
{
    if (!call->slices.member[call->team->index].via_scratch) {
        return 0;
    }
    int events = stage_complete(call, GPUHIER_STAGE_OUT);
    if (events < 0) {
        return events;
    }
    if (events > 0) {
        gpuhier_word_publish(&my_slot(call)->out_done, call->sequence, call->slices.stage[GPUHIER_STAGE_OUT].done);
    }
    uint64_t slice = call->slices.stage[GPUHIER_STAGE_OUT].begun;
    if (!stage_open(call, GPUHIER_STAGE_OUT) || !output_ready(call, slice + 1)) {
        return events;
    }
    int rc = output_queue(call, slice);
    return rc < 0 ? rc : events + rc;
}

int gpuhier_pipeline_step(gpuhier_call_t *call, bool *done_p)
{
    static int (*const single[])(gpuhier_call_t *) = {stage_in, stage_reduce, stage_out, NULL};
    static int (*const levels[])(gpuhier_call_t *) = {stage_in, stage_reduce, stage_gather, stage_out, NULL};
    static int (*const several[])(gpuhier_call_t *) = {stage_in,     stage_reduce, stage_exchange,
                                                       stage_gather, stage_out,    NULL};
    int events = 0;
    int (*const *stages)(gpuhier_call_t *) = fused(call) ? single : call->in_levels ? levels : several;
    for (int (*const *stage)(gpuhier_call_t *) = stages; NULL != *stage; ++stage) {
        int rc = (*stage)(call);
        if (rc < 0) {
            return rc;
        }
        events += rc;
    }
    const uint64_t nslices = call->slices.plan.nslices;
    *done_p = gpuhier_word_reached(&my_slot(call)->ag_done, call->sequence, nslices) && output_ready(call, nslices)
              && (!call->slices.member[call->team->index].via_scratch
                  || nslices == call->slices.stage[GPUHIER_STAGE_OUT].done);
    return events;
}

bool gpuhier_pipeline_is_idle(const gpuhier_call_t *call)
{
    const gpuhier_cursor_t *reduced = &call->slices.stage[GPUHIER_STAGE_RS];
    if (!fused(call) || call->slices.member[call->team->index].via_scratch || !call->input_done
        || reduced->begun != reduced->done) {
        return false;
    }
    return reduced->done == call->slices.plan.nslices ? !gpuhier_pipeline_gathered(call)
                                                      : !reduce_may_begin(call, reduced->begun);
}

bool gpuhier_pipeline_gathered(const gpuhier_call_t *call)
{
    return call->slices.oneshot ? gpuhier_oneshot_all_started(call) : ALL_AT(call, ag_done, call->slices.plan.nslices);
}

int gpuhier_pipeline_quit(gpuhier_call_t *call, bool *done_p)
{
    static const gpuhier_stage_t begun[] = {GPUHIER_STAGE_IN, GPUHIER_STAGE_RS};
    *done_p = false;
    for (size_t i = 0; i < sizeof(begun) / sizeof(begun[0]); ++i) {
        int rc;
        while (0 < (rc = stage_complete(call, begun[i]))) {
        }
        if (rc < 0 || call->slices.stage[begun[i]].done < call->slices.stage[begun[i]].begun) {
            return rc;
        }
    }
    int events = 0;
    if (!gpuhier_word_reached(&my_slot(call)->rs_done, call->sequence, GPUHIER_WORD_PROGRESS_MAX)) {
        gpuhier_word_publish(&my_slot(call)->rs_done, call->sequence, GPUHIER_WORD_PROGRESS_MAX);
        events = 1;
    }
    *done_p = ALL_AT(call, rs_done, GPUHIER_WORD_PROGRESS_MAX);
    return events;
}
