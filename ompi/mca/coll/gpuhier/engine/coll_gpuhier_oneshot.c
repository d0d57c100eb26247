/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the one-shot form: one kernel on each GPU of the only group pushes its input to the peers that take it, and
 * waits for what it takes of theirs (gpu/kernels/gpuhier_kernels.h). It needs nothing of the peers but their scratch,
 * and its end is a word that the kernel writes to host memory. Where not all members offer it, the call takes slices.
 * How long the blocks of pairs with lists are, the ranks learn when they arrive: each offers this form if its own ones
 * are short, and else what slices need.
 *
 * Kernels that wait for each other need care:
 *
 *   - No two ranks of the group share a GPU, or one kernel would keep the other from running.
 *   - A kernel starts when all ranks have arrived. Only calls that a thread waits for take this form, since a rank that
 *     computes between two calls of MPI_Test would let the others' kernels wait. A kernel still waits for what the
 *     peers' programs had queued before the call, so it takes few of the GPU's multiprocessors.
 *   - A process has one such call at a time. With two, a driver call that waits for the whole GPU could hold up the
 *     start of one kernel until the other ends. A rank that has one offers no other in its arrival record, and all take
 *     slices.
 *   - When a call fails, its host tells the kernel to leave.
 *   - Where the program may have several threads, a kernel waits on a stream of its lane, behind a mark. On the legacy
 *     default stream it would hold up what other threads queue, and a peer's kernel may wait for some of that. Where
 *     the program has one thread (MPI_THREAD_SINGLE), all ranks' threads are in the call, and the kernel runs on the
 *     legacy default stream without a mark.
 *
 * A kernel reads and writes the user's buffers if they are memory of its GPU and context, and if no result comes to lie
 * on input. Otherwise the input is first copied to scratch, and the result from there.
 */
#include "ompi_config.h"

#include <stdatomic.h>

#include "base/coll_gpuhier_params.h"
#include "engine/coll_gpuhier_arrival.h"
#include "engine/coll_gpuhier_order.h"
#include "engine/coll_gpuhier_place.h"
#include "engine/coll_gpuhier_slices.h"

#define POLLS_PER_QUERY 256u /* looks at the word between two queries of the driver, which reports faults */

/* Do kernels of this rank's GPU work on the user's buffers? */
static bool is_direct(const gpuhier_call_t *call)
{
    const gpuhier_device_t *device = call->team->device;
    return gpuhier_device_owns(device, &call->from) && gpuhier_device_owns(device, &call->to)
           && !gpuhier_offer_overwrites(call);
}

static void prepare(gpuhier_call_t *call)
{
    if (!gpuhier_params.sync_before && gpuhier_has_one_thread() && is_direct(call) && gpuhier_order_can(call)) {
        gpuhier_slices_clear(call);
        call->order = GPUHIER_ORDER_KERNEL;
    } else {
        gpuhier_slices_prepare(call);
    }
}

/* Are blocks of so many elements short enough? */
static bool is_short(const gpuhier_call_t *call, uint64_t count)
{
    return count * call->elem_bytes <= call->team->oneshot_bytes / (uint64_t) call->team->nranks;
}

static uint32_t offer(gpuhier_call_t *call, gpuhier_arrival_t *arrival)
{
    if (gpuhier_collective_lists_pairs(call->row) && (!is_short(call, call->count) || call->team->lists_mixed)) {
        return gpuhier_form_slices.offer(call, arrival);
    }
    const uint32_t refused = gpuhier_slices_lane(call, arrival);
    if (0 == refused && !gpuhier_kernel_waits && !gpuhier_hostmem_is_used(&call->team->hostmem)
        && OMPI_SUCCESS == gpuhier_lane_mailbox_next(call->lane)) {
        gpuhier_kernel_waits = true;
        call->slices.offers = true;
        arrival->flag = gpuhier_lane_mailbox_flag(call->lane);
    }
    return refused;
}

/* Another call may then take this form. Harmless if this one did not offer it. */
static void offer_end(gpuhier_call_t *call)
{
    if (call->slices.offers) {
        gpuhier_kernel_waits = false;
        gpuhier_default_waits = false;
        call->slices.offers = false;
    }
}

/* Hands the call to slices, as all members do. They have agreed. Returns an Open MPI code. */
static int take_slices(gpuhier_call_t *call)
{
    offer_end(call);
    call->form = &gpuhier_form_slices;
    if (gpuhier_collective_lists_pairs(call->row)) {
        call->team->lists_mixed =
            is_short(call, gpuhier_call_my_slot(call)->arrival.longest) && !is_short(call, call->count);
    }
    return GPUHIER_ORDER_KERNEL == call->order && 0 == (call->mask & GPUHIER_MASK_FAIL)
                   && GPUHIER_ORDER_FAILED == gpuhier_order_mark(call)
               ? OMPI_ERROR
               : OMPI_SUCCESS;
}

/* Slices may know the buffers that this rank offers them here. */
static int recall(gpuhier_call_t *call)
{
    const int rc = 0 == gpuhier_call_my_slot(call)->arrival.known ? 0 : gpuhier_form_slices.recall(call);
    return rc > 0 && OMPI_SUCCESS != take_slices(call) ? OMPI_ERROR : rc;
}

static int agreed(gpuhier_call_t *call, bool opened)
{
    bool all_offer = true;
    for (int i = 0; i < call->team->group_size && all_offer; ++i) {
        all_offer = 0 != gpuhier_call_slot(call, i)->arrival.flag;
    }
    if (all_offer) {
        gpuhier_slices_hear(call);
        call->slices.member[call->team->index].via_scratch = !is_direct(call);
        gpuhier_slices_plan(call, INT64_MAX); /* one slice */
        return OMPI_SUCCESS;
    }
    const int rc = gpuhier_form_slices.agreed(call, opened);
    return OMPI_SUCCESS == rc ? take_slices(call) : rc;
}

static CUstream stream_of(const gpuhier_call_t *call)
{
    return GPUHIER_ORDER_KERNEL == call->order ? CU_STREAM_LEGACY : call->lane->stream[GPUHIER_STAGE_RS];
}

/* Where not all give and take all: the messages that this rank gives, or takes. A rank that has one block has it for
 * all. With a root other messages are empty. */
static __attribute__((noinline)) void list_set(const gpuhier_call_t *call, bool given, uint64_t begin,
                                               gpuhier_oneshot_list_t *list)
{
    const gpuhier_collective_t *row = call->row;
    const gpuhier_ranks_t side = given ? row->from : row->to;
    const gpuhier_block_t *lengths = gpuhier_call_lengths(call, given);
    const int me = call->team->index;
    for (int i = 0; i < call->team->nranks; ++i) {
        const int whose = given == (GPUHIER_RANKS_ROOT == row->to) ? i : me;
        const uint64_t count = NULL != lengths ? lengths[gpuhier_call_owner(call, side, i)].length
                               : row->has_blocks || whose == call->root ? call->count
                                                                        : 0;
        list->bytes[i] = (uint32_t) (count * call->elem_bytes);
        list->at[i] = !row->has_blocks || GPUHIER_RANKS_OWNER == side ? 0
                      : given                                         ? gpuhier_place_input(call, me, i, 0, 0) - begin
                                                                      : gpuhier_place_output(call, me, i, 0, 0) - begin;
    }
}

static int launch(gpuhier_call_t *call)
{
    const gpuhier_team_t *team = call->team;
    const int me = team->index;
    gpuhier_lane_t *lane = call->lane;
    const uint64_t bytes = call->count * call->elem_bytes;
    const bool is_all_to_all = gpuhier_collective_is_all_to_all(call->row);
    const bool two_shots = is_all_to_all && bytes >= gpuhier_choice_two_shots_from(team->group_size);
    gpuhier_oneshot_args_t args = {.part_bytes = gpuhier_oneshot_part(bytes, (uint32_t) team->group_size, two_shots),
                                   .own = lane->scratch + gpuhier_scratch_mailbox(),
                                   .in = gpuhier_place_input(call, me, 0, 0, 0),
                                   .out = gpuhier_place_output(call, me, 0, 0, 0),
                                   .count = call->count,
                                   .counter = lane->scratch + gpuhier_scratch_mailbox() - GPUHIER_SCRATCH_COUNTER_BYTES,
                                   .words = (uint64_t) (uintptr_t) lane->words,
                                   .number = lane->number,
                                   .nranks = (uint32_t) team->group_size,
                                   .index = (uint32_t) me,
                                   .two_shots = two_shots};
    for (int i = 0; i < team->group_size; ++i) {
        args.box[i] = call->slices.member[i].scratch + gpuhier_scratch_mailbox() + (uint64_t) me * args.part_bytes;
        args.flag[i] = gpuhier_call_slot(call, i)->arrival.flag;
    }
    if (!is_all_to_all) {
        args.by_pairs = 1;
        list_set(call, true, args.in, &args.given);
        list_set(call, false, args.out, &args.taken);
    }
    int rc = gpuhier_pipeline_claim(call);
    if (OMPI_SUCCESS == rc && GPUHIER_ORDER_KERNEL != call->order && is_direct(call)) {
        rc = GPUHIER_CU(cuStreamWaitEvent, stream_of(call), call->input, 0);
    }
    const int kernel = GPUHIER_RANKS_ALL == call->row->from ? call->kernel : GPUHIER_REDUCE_COUNT;
    rc = OMPI_SUCCESS != rc ? rc : gpuhier_reduce_oneshot(&lane->device->reduce, kernel, &args, stream_of(call));
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    gpuhier_default_waits = CU_STREAM_LEGACY == stream_of(call);
    ++call->slices.stage[GPUHIER_STAGE_RS].begun;
    return 1;
}

/* Have all members claimed the call, and so start their kernels unless the driver refuses? */
static bool all_claimed(const gpuhier_call_t *call)
{
    for (int i = 0; i < call->team->group_size; ++i) {
        if (gpuhier_word(call->sequence, GPUHIER_CLAIM_TAKEN)
            != gpuhier_word_read(&gpuhier_call_slot(call, i)->claim)) {
            return false;
        }
    }
    return true;
}

static uint64_t done_word(const gpuhier_lane_t *lane)
{
    return atomic_load_explicit(&lane->words[GPUHIER_ONESHOT_DONE / sizeof(uint64_t)], memory_order_acquire);
}

/* Is the context lost? Asks the lane's own stream: a question about the default stream would spoil a capture. */
static int fault(const gpuhier_call_t *call)
{
    const CUresult result = gpuhier_cu.cuStreamQuery(call->lane->stream[GPUHIER_STAGE_RS]);
    return CUDA_ERROR_NOT_READY == result ? OMPI_SUCCESS
                                          : gpuhier_cuda_error(result, "a kernel that waits for its peers");
}

/* Has the kernel, which was started, ended? 1 if so, 0 if not, < 0 for an error. A kernel that takes nothing of its
 * peers may end before they start theirs. Its rank waits for their claims, so that no rank completes a call in which
 * another one fails without knowing its outcome. */
static int ended(gpuhier_call_t *call)
{
    const gpuhier_lane_t *lane = call->lane;
    const uint64_t word = done_word(lane);
    if (lane->number != word >> 2) {
        return 0 == (call->idle.polls + 1) % POLLS_PER_QUERY ? fault(call) : 0;
    }
    if (GPUHIER_ONESHOT_COMPLETE != (word & 3)) {
        return OMPI_ERROR;
    }
    if (!gpuhier_collective_is_all_to_all(call->row) && !all_claimed(call)) {
        return 0;
    }
    gpuhier_slot_t *slot = gpuhier_call_my_slot(call);
    ++call->slices.stage[GPUHIER_STAGE_RS].done;
    gpuhier_word_publish(&slot->rs_done[0], call->sequence, 1);
    gpuhier_word_publish(&slot->ag_done[0], call->sequence, 1);
    return 1;
}

static int step(gpuhier_call_t *call, bool *done_p)
{
    const gpuhier_cursor_t *stage = call->slices.stage;
    const bool copies = call->slices.member[call->team->index].via_scratch;
    if (0 != (call->mask & GPUHIER_MASK_FAIL)) {
        *done_p = true;
        return 1;
    }
    int rc = copies ? gpuhier_pipeline_in(call) : 0, events = rc;
    if (rc >= 0 && 0 == stage[GPUHIER_STAGE_RS].begun) {
        events += rc = !copies || stage[GPUHIER_STAGE_IN].done > 0 ? launch(call) : 0;
    } else if (rc >= 0 && 0 == stage[GPUHIER_STAGE_RS].done) {
        events += rc = ended(call);
    }
    if (rc >= 0 && copies) {
        events += rc = gpuhier_pipeline_out(call, stage[GPUHIER_STAGE_RS].done);
    }
    *done_p = rc >= 0 && stage[GPUHIER_STAGE_RS].done > 0 && (!copies || stage[GPUHIER_STAGE_OUT].done > 0);
    return rc < 0 ? rc : events;
}

/* Has the kernel been started, and has its word not come? */
static bool kernel_runs(const gpuhier_call_t *call)
{
    const gpuhier_cursor_t *kernel = &call->slices.stage[GPUHIER_STAGE_RS];
    return kernel->begun > kernel->done && call->lane->number != done_word(call->lane) >> 2;
}

static bool is_idle(const gpuhier_call_t *call)
{
    const gpuhier_cursor_t *kernel = &call->slices.stage[GPUHIER_STAGE_RS];
    return kernel_runs(call) || (kernel->begun > kernel->done && !all_claimed(call));
}

static bool is_quiet(const gpuhier_call_t *call)
{
    return NULL == call->lane || NULL == call->team->device->context || !kernel_runs(call)
           || OMPI_SUCCESS != fault(call);
}

static void fail(gpuhier_call_t *call)
{
    if (NULL != call->lane && call->slices.offers) {
        atomic_store_explicit(&call->lane->words[GPUHIER_ONESHOT_ABORT / sizeof(uint64_t)], call->lane->number,
                              memory_order_release);
    }
}

/* If a member has completed the call, all members have claimed it. */
static bool outcome_known(gpuhier_call_t *call)
{
    return all_claimed(call) && call->slices.mask_known;
}

static void release(gpuhier_call_t *call)
{
    offer_end(call);
    gpuhier_arrival_unmap(call);
}

const gpuhier_form_t gpuhier_form_oneshot = {.kind = GPUHIER_FORM_ONESHOT,
                                             .doing = "moving slices",
                                             .path = GPUHIER_TRACE_PATH_ONESHOT,
                                             .counter = &gpuhier_counters.calls_oneshot,
                                             .ops = &gpuhier_slices_kernels,
                                             .prepare = prepare,
                                             .offer = offer,
                                             .recall = recall,
                                             .agreed = agreed,
                                             .step = step,
                                             .is_idle = is_idle,
                                             .fail = fail,
                                             .is_quiet = is_quiet,
                                             .outcome_known = outcome_known,
                                             .release = release,
                                             .report = gpuhier_slices_report,
                                             .note = gpuhier_slices_note};
