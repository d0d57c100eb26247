/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the small form: messages of at most coll_gpuhier_small_bytes are reduced by the host. A kernel and the agreement
 * that precedes it cost more than the copies; see protocol.md.
 *
 * Every collective is an all-reduce here, of the whole axis of elements. Where ranks give different elements, each
 * contributes zeros for those of the others, and the operation is a bitwise or. Each takes what is its own.
 *
 *   begin --> INPUT --> ARRIVE --(one group)----------------------> OUTPUT --> done
 *               |         |                                           ^
 *               |         +--(leader of one of several)--> EXCHANGE --+
 *               +-----(member of one of several)---------> RESULT ----+
 *
 * Every rank copies its input to pinned host memory and from there into its
 * area of the control block, where its arrival, its vote and its data are one message.
 * With one group every rank then reduces all contributions for itself, in rank order,
 * and copies the result to its receive buffer. With several, the group's leader reduces,
 * exchanges with the other leaders by recursive doubling, and leaves the result in its area.
 *
 * Where the host reaches the GPU's memory itself (coll_gpuhier_gdr.h), a rank needs no copies: when the program's
 * earlier work has ended, the host reads the input into the area, and later writes the result. Each rank decides for
 * itself, since the others see its area only. If a window was closed in between, the copies are made after all.
 *
 * No rank reads or writes another rank's buffers. So there is no mapping and no claim, and in place needs no care. The
 * vote travels with the data: no rank writes a receive buffer before it knows the masks of all
 * ranks. Areas are used again as slots are, see coll_gpuhier_segment.h.
 *
 * Copies are queued behind the program's earlier work, and steps ask whether they are complete: a copy that blocks
 * would hold the engine's lock as long as the program's own kernels run.
 *
 * Called by the engine.
 */
#include "ompi_config.h"

#include <string.h>

#include "base/coll_gpuhier_params.h"
#include "engine/coll_gpuhier_form.h"
#include "engine/coll_gpuhier_host_reduce.h"
#include "engine/coll_gpuhier_order.h"
#include "engine/coll_gpuhier_exchange.h"
#include "gpu/coll_gpuhier_gdr.h"
#include "opal/util/output.h"

#define QUERIES 32 /* of the GPU in one step: copies take microseconds, and giving up lock and context costs one */

static gpuhier_area_t *area_of(const gpuhier_call_t *call, int index)
{
    return gpuhier_area_of(call->team, index, call->sequence);
}

/* Publishes that data are there, with their mask. */
static void word_publish(const gpuhier_call_t *call, gpuhier_word_t *word, uint32_t mask)
{
    gpuhier_word_publish(word, call->sequence, 1 + 2 * (uint64_t) mask);
}

static uint32_t word_mask(uint64_t sequence, gpuhier_word_t *word)
{
    return (uint32_t) ((gpuhier_word_read(word) - gpuhier_word(sequence, 0)) >> 1);
}

static bool in_on_host(const gpuhier_call_t *call)
{
    return !gpuhier_buffer_on_device(&call->from);
}

static bool out_on_host(const gpuhier_call_t *call)
{
    return !gpuhier_buffer_on_device(&call->to);
}

/* The stream for the next copy, which goes behind all that the program had queued. */
static int stream_order(gpuhier_call_t *call, CUstream *stream_p)
{
    *stream_p = call->lane->stream[GPUHIER_STAGE_IN];
    return call->input_done ? OMPI_SUCCESS : gpuhier_order_queue(call);
}

static bool window_is_there(const gpuhier_call_t *call, CUdeviceptr address, size_t bytes,
                            const gpuhier_buffer_t *buffer)
{
    return gpuhier_device_owns(call->team->device, buffer)
           && (0 == bytes
               || gpuhier_gdr_map((const void *) (uintptr_t) address, bytes, buffer,
                                  (unsigned) gpuhier_params.ipc_uses));
}

/* The host can read and write the buffers itself if both are mapped, or the input is and the result is host memory. */
static __attribute__((noinline)) void windows_find(gpuhier_call_t *call)
{
    if (call->has_gaps || call->axis_bytes > (size_t) gpuhier_params.gdr_bytes) {
        return;
    }
    const bool in =
        window_is_there(call, call->in, call->give_bytes, &call->from); /* first, so that both buffers count a use */
    call->small.is_mapped = ((call->in == call->out && call->give_bytes >= call->take_bytes) || out_on_host(call)
                             || window_is_there(call, call->out, call->take_bytes, &call->to))
                            && in;
}

static void prepare(gpuhier_call_t *call)
{
    memset(&call->small, 0, sizeof(call->small));
    if (call->has_gaps && call->give_bytes > 0) { /* what lies behind the last field need not exist */
        call->give_bytes = gpuhier_reduce_span(call->kernel, call->give_bytes / call->elem_bytes);
    }
    if (call->team->device->host_maps) {
        windows_find(call);
    }
    const bool on_host = in_on_host(call) && out_on_host(call);
    if (on_host ? !gpuhier_order_reaches(call) : !gpuhier_order_can(call)) {
        return;
    }
    if (on_host) {
        call->order = GPUHIER_ORDER_NEEDLESS;
    } else if (call->small.is_mapped && gpuhier_order_has_ended(call)) {
        call->input_done = true;
        call->order = GPUHIER_ORDER_NEEDLESS;
    } else if (!call->small.is_mapped && gpuhier_order_may_copy(call)) {
        call->order = GPUHIER_ORDER_COPY;
    } else {
        (void) gpuhier_order_mark(call);
    }
}

/* Starts the copy of the input to pinned memory, unless the host reads it itself. */
static int input_queue(gpuhier_call_t *call)
{
    const CUdeviceptr pinned = (CUdeviceptr) (uintptr_t) call->lane->pinned;
    const size_t bytes = call->give_bytes;
    const bool copies = GPUHIER_ORDER_COPY == call->order;
    CUstream stream = CU_STREAM_LEGACY;
    if (call->small.is_mapped) {
        return OMPI_SUCCESS;
    }
    int rc = copies ? OMPI_SUCCESS : stream_order(call, &stream);
    rc = OMPI_SUCCESS != rc ? rc : GPUHIER_CU(cuMemcpyAsync, pinned, call->in, bytes, stream);
    if (!copies) {
        return rc;
    }
    if (OMPI_SUCCESS == rc) {
        rc = gpuhier_order_mark_input(call);
        if (OMPI_SUCCESS != rc) {
            call->lane->until_unknown = true;
            gpuhier_lane_keep(call->lane);
            call->lane = NULL;
        }
    }
    call->input_done = OMPI_SUCCESS == rc; /* the copy of the result follows the input's end, so it waits for no mark */
    return rc;
}

/* Is the copy complete? 1 if so, 0 if not, < 0 for an error. */
static int copy_done(const gpuhier_call_t *call)
{
    const bool by_event = GPUHIER_ORDER_COPY == call->order && GPUHIER_SMALL_INPUT == call->small.phase;
    CUresult result = CUDA_ERROR_NOT_READY;
    for (int i = 0; i < QUERIES && CUDA_ERROR_NOT_READY == result; ++i) {
        result = by_event ? gpuhier_cu.cuEventQuery(call->input)
                          : gpuhier_cu.cuStreamQuery(call->lane->stream[GPUHIER_STAGE_IN]);
    }
    if (CUDA_ERROR_NOT_READY == result) {
        return 0;
    }
    int rc = gpuhier_cuda_error(result, "copy of a small message");
    return OMPI_SUCCESS != rc ? rc : 1;
}

/* Publishes this rank's arrival: with its contribution, or with a vote against the call. */
static inline void arrive(gpuhier_call_t *call)
{
    gpuhier_area_t *area = area_of(call, call->team->index);
    if (!call->declining && !call->small.is_mapped) {
        const void *input = in_on_host(call) ? (const void *) (uintptr_t) call->in : call->lane->pinned;
        memcpy(area->data + call->give_begin, input, call->give_bytes);
    } else if (call->declining) {
        call->mask |= GPUHIER_MASK_FAIL;
    }
    word_publish(call, &area->arrived, call->mask);
    call->small.phase =
        1 == call->team->ngroups || 0 == call->team->index ? GPUHIER_SMALL_ARRIVE : GPUHIER_SMALL_RESULT;
}

static void begin(gpuhier_call_t *call)
{
    gpuhier_team_t *team = call->team;
    call->state = GPUHIER_CALL_RUN;
    int rc = team->context_lost;
    if (call->give_bytes < call->axis_bytes) {
        memset(area_of(call, team->index)->data, 0, call->axis_bytes);
        rc = call->declining ? OMPI_ERROR : rc;
    }
    if (OMPI_SUCCESS == rc && GPUHIER_ORDER_FAILED == call->order) {
        rc = OMPI_ERROR;
    }
    rc = OMPI_SUCCESS != rc
             ? rc
             : gpuhier_lane_take(team->device, GPUHIER_LANE_SMALL, false, GPUHIER_EXCHANGE_HOST, 0, &call->lane);
    if (OMPI_SUCCESS == rc && !in_on_host(call)) {
        rc = input_queue(call);
    }
    if (gpuhier_call_is_of_host(call)) {
        call->mask |= GPUHIER_MASK_HOST;
    }
    call->declining = OMPI_SUCCESS != rc;
    if (call->declining || in_on_host(call)) {
        arrive(call);
    } else {
        call->small.phase = GPUHIER_SMALL_INPUT;
    }
}

/* Where the host reads the input itself: has the program's earlier work ended, and is the input read? If the window was
 * closed, the call goes on by a copy. 1, 0 or an error. */
static __attribute__((noinline)) int input_read(gpuhier_call_t *call)
{
    int rc = gpuhier_order_reached(call, QUERIES);
    if (1 != rc) {
        return rc;
    }
    gpuhier_area_t *area = area_of(call, call->team->index);
    const size_t bytes = call->give_bytes;
    call->small.is_mapped =
        0 == bytes || gpuhier_gdr_read(area->data + call->give_begin, call->in, bytes, call->from.id);
    rc = call->small.is_mapped ? OMPI_SUCCESS : input_queue(call);
    return OMPI_SUCCESS != rc ? rc : call->small.is_mapped;
}

static int input_step(gpuhier_call_t *call)
{
    int rc = call->small.is_mapped ? input_read(call) : copy_done(call);
    if (0 == rc) {
        return 0;
    }
    call->declining = rc < 0;
    arrive(call);
    return 1;
}

/* Counts the members, from the first on, whose contribution is there. */
static inline int count_arrived(const gpuhier_call_t *call)
{
    const gpuhier_team_t *team = call->team;
    const uint64_t sequence = call->sequence;
    const int members = team->group_size;
    int arrived = call->small.arrived;
    while (arrived < members && gpuhier_word_reached(&gpuhier_area_of(team, arrived, sequence)->arrived, sequence, 1)) {
        ++arrived;
    }
    return arrived;
}

static bool is_idle(const gpuhier_call_t *call)
{
    switch (call->small.phase) {
    case GPUHIER_SMALL_ARRIVE:
        return count_arrived(call) < call->team->group_size;
    case GPUHIER_SMALL_RESULT:
        return !gpuhier_word_reached(&area_of(call, 0)->result, call->sequence, 1);
    default:
        return false;
    }
}

static bool wants_net(const gpuhier_call_t *call)
{
    return GPUHIER_SMALL_EXCHANGE == call->small.phase || call->team->net_on_device || is_idle(call);
}

/* Queues the copy of a stretch of the result, which is in pinned memory, to the receive buffer, whose gaps keep their
 * contents. */
static int output_queue(gpuhier_call_t *call, CUdeviceptr out, const void *pinned, size_t bytes)
{
    const CUdeviceptr from = (CUdeviceptr) (uintptr_t) pinned;
    CUstream stream;
    call->small.copies_out = true;
    int rc = stream_order(call, &stream);
    if (OMPI_SUCCESS == rc && call->has_gaps) {
        rc = gpuhier_reduce_store(call->kernel, out, from, bytes / call->elem_bytes, stream);
    } else if (OMPI_SUCCESS == rc) {
        rc = GPUHIER_CU(cuMemcpyAsync, out, from, bytes, stream);
    }
    return OMPI_SUCCESS != rc ? rc : 1;
}

/* Writes a stretch of the result to the receive buffer: the host does, or the GPU copies it. */
static inline int output_write(gpuhier_call_t *call, CUdeviceptr out, const void *result, size_t bytes)
{
    if (out_on_host(call)) {
        gpuhier_host_reduce(call->kernel, (void *) (uintptr_t) out, &result, 1, bytes / call->elem_bytes);
        return 1;
    }
    if (call->small.is_mapped) {
        call->small.is_mapped = gpuhier_gdr_write(out, result, bytes, call->to.id); /* unless the window was closed */
        if (call->small.is_mapped) {
            return 1;
        }
    }
    if ((uintptr_t) result - (uintptr_t) call->lane->pinned >= gpuhier_params.small_bytes) {
        result = memcpy(call->lane->pinned, result, bytes);
    }
    return output_queue(call, out, result, bytes);
}

/*
 * The same where this rank takes less than the axis: its block, or its block of each rank, or blocks that belong
 * elsewhere in the receive buffer than in the axis. They are put end to end in pinned memory, and those that belong end
 * to end in the receive buffer are written at once.
 */
static __attribute__((noinline)) int blocks_write(gpuhier_call_t *call, const uint8_t *result)
{
    const gpuhier_team_t *team = call->team;
    const gpuhier_block_t *blocks = call->taken;
    const bool is_pair = GPUHIER_RANKS_PAIR == call->row->to;
    const int nblocks = is_pair || NULL != blocks ? team->nranks : 1;
    uint8_t *const pinned = call->lane->pinned;
    size_t used = 0, begin = 0, to = 0; /* of the stretch that is not yet written: in pinned memory and in the buffer */
    int rc = 1;
    for (int i = 0; i < nblocks && rc > 0; ++i) {
        const bool is_own = GPUHIER_RANKS_OWNER == call->row->to;
        const int block = is_pair ? i * team->nranks + team->rank : is_own ? team->rank : i;
        const size_t bytes = NULL != blocks ? blocks[i].length * call->elem_bytes : call->out_bytes / (size_t) nblocks;
        const size_t at = NULL != blocks ? blocks[i].begin * call->elem_bytes : (size_t) i * bytes;
        if (0 == bytes) {
            continue;
        }
        memmove(pinned + used, result + gpuhier_call_block_begin(call, block), bytes);
        if (to + (used - begin) != at && used > begin) {
            rc = output_write(call, call->out + to, pinned + begin, used - begin);
            begin = used;
        }
        to = used == begin ? at : to;
        used += bytes;
    }
    return used > begin && rc > 0 ? output_write(call, call->out + to, pinned + begin, used - begin) : rc;
}

/* Sends the result to the receive buffer; a call that was voted down has none. */
static int output_begin(gpuhier_call_t *call, const void *result)
{
    call->small.phase = GPUHIER_SMALL_OUTPUT;
    if (0 != (call->mask & GPUHIER_MASK_FAIL) || 0 == call->take_bytes) {
        return 1;
    }
    const bool is_axis = call->take_bytes == call->axis_bytes && NULL == call->taken;
    const int rc = is_axis ? output_write(call, call->out, result, call->axis_bytes) : blocks_write(call, result);
    if (call->small.is_mapped && !out_on_host(call)) {
        gpuhier_count(&gpuhier_counters.calls_mapped, 1);
    }
    return rc;
}

static int arrive_step(gpuhier_call_t *call)
{
    const gpuhier_team_t *team = call->team;
    const int members = team->group_size;
    call->small.arrived = count_arrived(call);
    if (call->small.arrived < members) {
        return 0;
    }
    const void *from[GPUHIER_GROUP_MAX];
    const uint64_t sequence = call->sequence;
    uint32_t mask = call->mask;
    for (int i = 0; i < members; ++i) {
        gpuhier_area_t *area = gpuhier_area_of(team, i, sequence);
        if (gpuhier_call_member_failed(team, i, sequence)) {
            return OMPI_ERROR;
        }
        mask |= word_mask(sequence, &area->arrived);
        from[i] = area->data;
    }
    call->mask = mask;
    const bool alone = 1 == team->ngroups;
    void *to = alone ? (NULL != call->lane ? call->lane->pinned : NULL) : gpuhier_leaders_data(team);
    if (0 == (mask & GPUHIER_MASK_FAIL)) {
        gpuhier_host_reduce(call->kernel, to, from, members, call->axis_bytes / call->elem_bytes);
    }
    call->small.phase = GPUHIER_SMALL_EXCHANGE;
    return alone ? output_begin(call, to) : 1;
}

/* Exchanges with the other groups, then leaves the result for the members of this group. */
static int exchange_step(gpuhier_call_t *call)
{
    bool done = false;
    int events = gpuhier_leaders_exchange(call, &done);
    if (events < 0 || !done) {
        return events;
    }
    const void *result = gpuhier_leaders_data(call->team);
    gpuhier_area_t *area = area_of(call, call->team->index);
    if (0 == (call->mask & GPUHIER_MASK_FAIL)) {
        memcpy(area->data, result, call->axis_bytes);
    }
    word_publish(call, &area->result, call->mask);
    int rc = output_begin(call, result);
    return rc < 0 ? rc : events + rc;
}

static int result_step(gpuhier_call_t *call)
{
    if (is_idle(call)) {
        return 0;
    }
    gpuhier_area_t *leader = area_of(call, 0);
    call->mask = word_mask(call->sequence, &leader->result);
    return output_begin(call, leader->data);
}

static int step(gpuhier_call_t *call, bool *done_p)
{
    int events = 0, rc = 1;
    while (rc > 0 && !*done_p) {
        switch (call->small.phase) {
        case GPUHIER_SMALL_INPUT:
            rc = input_step(call);
            break;
        case GPUHIER_SMALL_ARRIVE:
            rc = arrive_step(call);
            break;
        case GPUHIER_SMALL_EXCHANGE:
            rc = exchange_step(call);
            break;
        case GPUHIER_SMALL_RESULT:
            rc = result_step(call);
            break;
        case GPUHIER_SMALL_OUTPUT:
            rc = call->small.copies_out ? copy_done(call) : 1;
            *done_p = 1 == rc;
            break;
        }
        events += rc;
    }
    return rc < 0 ? rc : events;
}

/* Can this rank learn the mask of a call that fails here? Then it is in call->mask. */
static bool mask_learn(gpuhier_call_t *call)
{
    const gpuhier_team_t *team = call->team;
    if (GPUHIER_SMALL_OUTPUT == call->small.phase) {
        return true;
    }
    if (team->ngroups > 1) {
        gpuhier_area_t *leader = area_of(call, 0);
        const bool told = 0 != team->index && gpuhier_word_reached(&leader->result, call->sequence, 1);
        call->mask = told ? word_mask(call->sequence, &leader->result) : call->mask;
        return told;
    }
    call->small.arrived = count_arrived(call);
    for (int i = 0; i < call->small.arrived; ++i) {
        call->mask |= word_mask(call->sequence, &area_of(call, i)->arrived);
    }
    return call->small.arrived == team->group_size;
}

static void fail(gpuhier_call_t *call)
{
    if (!mask_learn(call)) {
        gpuhier_slot_t *slot = gpuhier_call_my_slot(call);
        gpuhier_word_publish(&slot->undecided, call->sequence, 1);
    }
}

static bool outcome_known(gpuhier_call_t *call)
{
    for (int i = 0; i < call->team->group_size; ++i) {
        if (gpuhier_word_reached(&gpuhier_call_slot(call, i)->undecided, call->sequence, 1)) {
            return false; /* this member failed without knowing the mask, and keeps its mode */
        }
    }
    return mask_learn(call);
}

static void report(const gpuhier_call_t *call)
{
    const gpuhier_team_t *team = call->team;
    for (int i = 0; i < team->group_size; ++i) {
        bool arrived = gpuhier_word_reached(&area_of(call, i)->arrived, call->sequence, 1);
        opal_output(0, "coll:gpuhier:   rank %d %s", gpuhier_hierarchy_member(&team->hierarchy, team->group, i),
                    arrived ? "has arrived" : "has not arrived");
    }
}

static void note(const gpuhier_call_t *call)
{
    static const gpuhier_trace_phase_t phases[] = {[GPUHIER_SMALL_INPUT] = GPUHIER_TRACE_INPUT,
                                                   [GPUHIER_SMALL_ARRIVE] = GPUHIER_TRACE_ARRIVAL,
                                                   [GPUHIER_SMALL_EXCHANGE] = GPUHIER_TRACE_GROUPS,
                                                   [GPUHIER_SMALL_RESULT] = GPUHIER_TRACE_GROUPS,
                                                   [GPUHIER_SMALL_OUTPUT] = GPUHIER_TRACE_OUTPUT};
    if (GPUHIER_CALL_RUN == call->state) {
        gpuhier_trace_phase(call->trace, phases[call->small.phase]);
    }
}

const gpuhier_form_t gpuhier_form_small = {.kind = GPUHIER_FORM_SMALL,
                                           .doing = "in the small form",
                                           .path = GPUHIER_TRACE_PATH_SMALL,
                                           .counter = &gpuhier_counters.calls_small,
                                           .prepare = prepare,
                                           .begin = begin,
                                           .step = step,
                                           .is_idle = is_idle,
                                           .wants_net = wants_net,
                                           .fail = fail,
                                           .outcome_known = outcome_known,
                                           .report = report,
                                           .note = note};
