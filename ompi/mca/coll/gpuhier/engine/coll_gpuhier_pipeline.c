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
 * S is the number of slices in flight. In a flat call with one group RS and AG are one fused kernel, which waits for
 * the conditions of both. Progress is published in the rank's slot.
 *
 * In levels (plan/coll_gpuhier_levels.h) there is an RS and an AG for each level. Each RS but the last puts the partial
 * sum of its circle into the rank's own scratch, at its shard's place in the slice buffer for input. While it does so
 * no other rank reads that place, since at this level each reads its own shard only. AG of the last level comes first.
 * Each other AG pushes on what the AG of the next level has written into the rank's own output. So there
 *
 *   IN, RS of level 0      also wait until every member's last RS of k - S is done, since it reads that slice buffer
 *   RS of a later level    waits for RS of k at the level before, on the ranks of its circle; the last RS also waits
 *                          until the rank's shard buffer is free
 *   AG of the last level   waits for what AG in the list above waits for
 *   AG of a level before   waits for AG of k at the next level, on the ranks of the circle there
 *
 * With one group the last level's RS and AG and the AG of the level before are one kernel. It waits for RS of k at the
 * level before, on the ranks of the last circle, and for no EXCHANGE.
 *
 * In switches (coll_gpuhier_switched.h) all ranks are via scratch, and a slice has one buffer in each member's copy,
 * for input and output. Only its owner reads or writes a shard of it, so
 *
 *   IN        waits for the rank's own OUT of k - S, before which every member's AG of k - S was done
 *
 * and once a member's IN of k is done, its copy is free for AG.
 *
 * In place is safe: element i of all buffers is read by RS and written by AG of
 * one rank only, its shard's owner, in that order. In levels a rank that writes it
 * has waited, from level to level, for the rank that reads it.
 */
#include "ompi_config.h"

#include "engine/coll_gpuhier_exchange.h"
#include "engine/coll_gpuhier_order.h"
#include "engine/coll_gpuhier_slices.h"
#include "engine/coll_gpuhier_place.h"

/* Have all members reached `slices` in a progress word? */
#define ALL_AT(call, word, slices) gpuhier_call_all_reached(call, offsetof(gpuhier_slot_t, word), slices)

/* The progress words of a level. */
#define RS_DONE(level) (offsetof(gpuhier_slot_t, rs_done) + sizeof(gpuhier_word_t) * (size_t) (level))
#define AG_DONE(level) (offsetof(gpuhier_slot_t, ag_done) + sizeof(gpuhier_word_t) * (size_t) (level))

/* The same as ALL_AT() for the ranks of this rank's circle at a level. */
static bool circle_at(const gpuhier_call_t *call, int level, size_t word_offset, uint64_t slices)
{
    const gpuhier_circle_t *circle = gpuhier_call_circle(call, level);
    for (int i = 0; i < circle->size; ++i) {
        char *slot = (char *) gpuhier_call_slot(call, circle->member[i]);
        if (!gpuhier_word_reached((gpuhier_word_t *) (slot + word_offset), call->sequence, slices)) {
            return false;
        }
    }
    return true;
}

/* How many slices must have left a stage before this one may have its slice buffer. 0: it is among the first S. */
static uint64_t predecessors(const gpuhier_call_t *call, uint64_t slice)
{
    const uint64_t buffers = (uint64_t) call->slices.plan.slice_buffers;
    return slice >= buffers ? slice - buffers + 1 : 0;
}

/* Called when a stage has queued its work on a slice: records an event behind the work, and moves the cursor. */
static int stage_queued(gpuhier_call_t *call, gpuhier_stage_t stage)
{
    gpuhier_lane_t *lane = call->lane;
    const uint64_t slice = call->slices.stage[stage].begun;
    const int buffer = gpuhier_plan_buffer(&call->slices.plan, slice);
    int rc = GPUHIER_CU(cuEventRecord, lane->done[stage][buffer], gpuhier_place_stream(call, stage, slice));
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    ++call->slices.stage[stage].begun;
    return 1;
}

/* Sees whether the oldest queued slice of a stage is complete, and then publishes in this word (NULL: none) how many
 * are. Returns 1 if so, 0 if not, < 0 for an error. */
static int stage_complete(gpuhier_call_t *call, gpuhier_stage_t stage, gpuhier_word_t *word)
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
    if (NULL != word) {
        gpuhier_word_publish(word, call->sequence, cursor->done);
    }
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
    gpuhier_word_publish(&gpuhier_call_my_slot(call)->in_ready, call->sequence, call->slices.plan.nslices);
    return 1;
}

/* Have all members via scratch copied so many slices out of it? */
static bool output_free(const gpuhier_call_t *call, uint64_t slices)
{
    for (int i = 0; i < call->team->group_size; ++i) {
        if (call->slices.member[i].via_scratch
            && !gpuhier_word_reached(&gpuhier_call_slot(call, i)->out_done, call->sequence, slices)) {
            return false;
        }
    }
    return true;
}

/* Are the slice buffers for input free again that the first `slices` slices have used? */
static bool input_free(const gpuhier_call_t *call, uint64_t slices)
{
    if (call->form->ops->has_one_buffer) {
        return call->slices.stage[GPUHIER_STAGE_OUT].done >= slices;
    }
    const int last = call->slices.levels - 1;
    return gpuhier_call_all_reached(call, last > 0 && 1 == call->team->ngroups ? AG_DONE(last - 1) : RS_DONE(last),
                                    slices);
}

/* Queues a copy between scratch and the caller's buffer. Only its own GPU reaches scratch of cuMemCreate, and a plain
 * copy to or from another GPU's memory wants both ends in the reach of one. */
static int scratch_copy(const gpuhier_call_t *call, const gpuhier_buffer_t *buffer, CUdeviceptr to, CUdeviceptr from,
                        size_t bytes, CUstream stream)
{
    const gpuhier_device_t *device = call->team->device;
    if (GPUHIER_BUFFER_DEVICE != buffer->kind || buffer->device == device->ordinal
        || gpuhier_hostmem_is_used(&call->team->hostmem)) {
        return GPUHIER_CU(cuMemcpyAsync, to, from, bytes, stream);
    }
    const bool in = &call->from == buffer;
    return GPUHIER_CU(cuMemcpyPeerAsync, to, in ? device->context : buffer->context, from,
                      in ? buffer->context : device->context, bytes, stream);
}

/* Queues the copies of a slice's ranges of all blocks into scratch. */
static int input_queue(const gpuhier_call_t *call, uint64_t slice)
{
    const int me = call->team->index;
    const gpuhier_ranks_t side = call->row->from;
    int rc = OMPI_SUCCESS;
    for (int block = 0; block < gpuhier_call_gives(call, me) && OMPI_SUCCESS == rc; ++block) {
        const gpuhier_range_t range =
            gpuhier_call_range(call, gpuhier_call_lengths(call, true), gpuhier_call_owner(call, side, block), slice);
        if (0 == gpuhier_range_length(range)) {
            continue;
        }
        const size_t bytes = gpuhier_reduce_span(call->kernel, gpuhier_range_length(range));
        const CUdeviceptr to = gpuhier_place_input(call, me, block, slice, range.begin);
        const CUdeviceptr from =
            call->in + (gpuhier_call_begin(call, me, call->given, block) + range.begin) * call->elem_bytes;
        rc = scratch_copy(call, &call->from, to, from, bytes, call->lane->stream[GPUHIER_STAGE_IN]);
    }
    return rc;
}

int gpuhier_pipeline_in(gpuhier_call_t *call)
{
    const int events = stage_complete(call, GPUHIER_STAGE_IN, &gpuhier_call_my_slot(call)->in_ready);
    const uint64_t slice = call->slices.stage[GPUHIER_STAGE_IN].begun, before = predecessors(call, slice);
    if (events < 0 || !stage_open(call, GPUHIER_STAGE_IN) || (before > 0 && !input_free(call, before))) {
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
    int rc = input_queue(call, slice);
    rc = OMPI_SUCCESS != rc ? rc : stage_queued(call, GPUHIER_STAGE_IN);
    return rc < 0 ? rc : events + rc;
}

int gpuhier_pipeline_claim(gpuhier_call_t *call)
{
    uint64_t word = gpuhier_word_advance(&gpuhier_call_my_slot(call)->claim, call->sequence, GPUHIER_CLAIM_TAKEN,
                                         GPUHIER_CLAIM_TAKEN);
    call->slices.claimed = gpuhier_word(call->sequence, GPUHIER_CLAIM_TAKEN) == word;
    return call->slices.claimed ? OMPI_SUCCESS : OMPI_ERR_UNREACH;
}

static bool reduce_may_begin(const gpuhier_call_t *call, uint64_t slice)
{
    const uint64_t before = predecessors(call, slice);
    if (!stage_open(call, GPUHIER_STAGE_RS) || !ALL_AT(call, in_ready, slice + 1)) {
        return false;
    }
    return 0 == before                   ? true
           : call->slices.levels > 1     ? input_free(call, before)
           : gpuhier_call_is_fused(call) ? output_free(call, before)
                                         : call->slices.stage[GPUHIER_STAGE_AG].done >= before;
}

/* The same for the levels after the first. */
static bool reduce_may_go_on(const gpuhier_call_t *call, int level, uint64_t slice)
{
    return stage_open(call, gpuhier_stage_rs(level)) && circle_at(call, level, RS_DONE(level - 1), slice + 1)
           && (!gpuhier_call_fills_shard(call, level)
               || call->slices.stage[gpuhier_stage_ag(level)].done >= predecessors(call, slice));
}

/* RS of a level, on this rank's shard. */
static int stage_reduce(gpuhier_call_t *call, int level)
{
    const gpuhier_stage_t stage = gpuhier_stage_rs(level);
    const gpuhier_cursor_t *cursor = &call->slices.stage[stage];
    gpuhier_slot_t *slot = gpuhier_call_my_slot(call);
    const int events = stage_complete(call, stage, &slot->rs_done[level]);
    if (events > 0 && gpuhier_call_is_fused(call)) {
        gpuhier_word_publish(&slot->ag_done[0], call->sequence, cursor->done);
    }
    const uint64_t slice = cursor->begun;
    if (events < 0 || !(0 == level ? reduce_may_begin(call, slice) : reduce_may_go_on(call, level, slice))) {
        return events;
    }
    int rc = call->slices.claimed ? OMPI_SUCCESS : gpuhier_pipeline_claim(call);
    rc =
        OMPI_SUCCESS != rc ? rc : call->form->ops->reduce(call, level, slice, gpuhier_place_stream(call, stage, slice));
    rc = OMPI_SUCCESS != rc ? rc : stage_queued(call, stage);
    return rc < 0 ? rc : events + rc;
}

static int stage_exchange(gpuhier_call_t *call)
{
    gpuhier_cursor_t *cursor = &call->slices.stage[GPUHIER_STAGE_EXCHANGE];
    int events = 0;
    if (!call->slices.mask_known) {
        return 0; /* a call that the ranks vote down must leave no message behind */
    }
    const gpuhier_stage_t last = gpuhier_stage_rs(call->slices.levels - 1);
    while (cursor->begun < call->slices.stage[last].done) {
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

static bool gather_may_begin(const gpuhier_call_t *call, int level, uint64_t slice)
{
    const uint64_t before = predecessors(call, slice);
    if (!stage_open(call, gpuhier_stage_ag(level))) {
        return false;
    }
    if (level < gpuhier_call_first_gather(call)) {
        return circle_at(call, level + 1, AG_DONE(level + 1), slice + 1);
    }
    const bool reduced = 1 == call->team->ngroups ? circle_at(call, level + 1, RS_DONE(level), slice + 1)
                                                  : slice < call->slices.stage[GPUHIER_STAGE_EXCHANGE].done;
    return reduced && (0 == before || output_free(call, before));
}

static int stage_gather(gpuhier_call_t *call, int level)
{
    const gpuhier_stage_t stage = gpuhier_stage_ag(level);
    const int events = stage_complete(call, stage, &gpuhier_call_my_slot(call)->ag_done[level]);
    const uint64_t slice = call->slices.stage[stage].begun;
    if (events < 0 || !gather_may_begin(call, level, slice)) {
        return events;
    }
    int rc = call->form->ops->gather(call, level, slice, gpuhier_place_stream(call, stage, slice));
    rc = OMPI_SUCCESS != rc ? rc : stage_queued(call, stage);
    return rc < 0 ? rc : events + rc;
}

/* Queues the copy of a slice's range of a block from scratch to the receive buffer, whose gaps keep their contents. */
static int block_queue(const gpuhier_call_t *call, int block, uint64_t slice)
{
    gpuhier_lane_t *lane = call->lane;
    CUstream stream = lane->stream[GPUHIER_STAGE_OUT];
    const int me = call->team->index;
    const gpuhier_range_t range = gpuhier_call_range(call, gpuhier_call_lengths(call, false),
                                                     gpuhier_call_owner(call, call->row->to, block), slice);
    const CUdeviceptr to =
        call->out + (gpuhier_call_begin(call, me, call->taken, block) + range.begin) * call->elem_bytes;
    const CUdeviceptr from = gpuhier_place_output(call, me, block, slice, range.begin);
    if (0 == gpuhier_range_length(range)) {
        return OMPI_SUCCESS;
    }
    if (gpuhier_reduce_has_gaps(call->kernel) && gpuhier_device_owns(lane->device, &call->to)) {
        gpuhier_kernel_args_t args = {.src = {from}, .dst = {to}, .ndst = 1, .count = gpuhier_range_length(range)};
        return gpuhier_reduce_push(&lane->device->reduce, call->kernel, &args, stream);
    }
    if (!gpuhier_reduce_has_gaps(call->kernel)) {
        return scratch_copy(call, &call->to, to, from, gpuhier_range_length(range) * call->elem_bytes, stream);
    }
    return gpuhier_reduce_store(call->kernel, to, from, gpuhier_range_length(range), stream);
}

int gpuhier_pipeline_out(gpuhier_call_t *call, uint64_t ready)
{
    const int events = stage_complete(call, GPUHIER_STAGE_OUT, &gpuhier_call_my_slot(call)->out_done);
    const uint64_t slice = call->slices.stage[GPUHIER_STAGE_OUT].begun;
    if (events < 0 || !stage_open(call, GPUHIER_STAGE_OUT) || slice >= ready) {
        return events;
    }
    int rc = OMPI_SUCCESS;
    for (int block = 0; block < gpuhier_call_takes(call, call->team->index) && OMPI_SUCCESS == rc; ++block) {
        rc = block_queue(call, block, slice);
    }
    rc = OMPI_SUCCESS != rc ? rc : stage_queued(call, GPUHIER_STAGE_OUT);
    return rc < 0 ? rc : events + rc;
}

/* Takes each stage of the call once, in the order in which a slice passes them. */
static int stages_take(gpuhier_call_t *call)
{
    const int levels = call->slices.levels;
    const bool several = call->team->ngroups > 1;
    const bool copies = call->slices.member[call->team->index].via_scratch;
    int rc = copies ? gpuhier_pipeline_in(call) : input_direct(call), events = rc;
    for (int level = 0; (0 == level || level < (several ? levels : levels - 1)) && rc >= 0; ++level) {
        events += rc = stage_reduce(call, level);
    }
    if (several && rc >= 0) {
        events += rc = stage_exchange(call);
    }
    for (int level = gpuhier_call_first_gather(call); level >= 0 && rc >= 0; --level) {
        events += rc = stage_gather(call, level);
    }
    if (rc >= 0 && copies) {
        const uint64_t next = call->slices.stage[GPUHIER_STAGE_OUT].begun + 1;
        events += rc = gpuhier_pipeline_out(call, ALL_AT(call, ag_done[0], next) ? next : next - 1);
    }
    return rc < 0 ? rc : events;
}

/* Does the whole result lie in every member's output? */
static bool gathered(const gpuhier_call_t *call)
{
    return ALL_AT(call, ag_done[0], call->slices.plan.nslices);
}

int gpuhier_pipeline_step(gpuhier_call_t *call, bool *done_p)
{
    const int events = stages_take(call);
    if (events < 0) {
        return events;
    }
    const uint64_t nslices = call->slices.plan.nslices;
    *done_p = gpuhier_word_reached(&gpuhier_call_my_slot(call)->ag_done[0], call->sequence, nslices) && gathered(call)
              && (!call->slices.member[call->team->index].via_scratch
                  || nslices == call->slices.stage[GPUHIER_STAGE_OUT].done);
    return events;
}

bool gpuhier_pipeline_is_idle(const gpuhier_call_t *call)
{
    const gpuhier_cursor_t *reduced = &call->slices.stage[GPUHIER_STAGE_RS];
    if (!gpuhier_call_is_fused(call) || call->slices.member[call->team->index].via_scratch || !call->input_done
        || reduced->begun != reduced->done) {
        return false;
    }
    return reduced->done == call->slices.plan.nslices ? !gathered(call) : !reduce_may_begin(call, reduced->begun);
}

int gpuhier_pipeline_quit(gpuhier_call_t *call, bool *done_p)
{
    *done_p = false;
    for (int stage = GPUHIER_STAGE_IN; stage < GPUHIER_STAGE_EXCHANGE; ++stage) {
        int rc;
        while (0 < (rc = stage_complete(call, (gpuhier_stage_t) stage, NULL))) {
        }
        if (rc < 0 || call->slices.stage[stage].done < call->slices.stage[stage].begun) {
            return rc;
        }
    }
    int events = 0;
    gpuhier_word_t *reduced = &gpuhier_call_my_slot(call)->rs_done[0];
    if (!gpuhier_word_reached(reduced, call->sequence, GPUHIER_WORD_PROGRESS_MAX)) {
        gpuhier_word_publish(reduced, call->sequence, GPUHIER_WORD_PROGRESS_MAX);
        events = 1;
    }
    *done_p = ALL_AT(call, rs_done[0], GPUHIER_WORD_PROGRESS_MAX);
    return events;
}
