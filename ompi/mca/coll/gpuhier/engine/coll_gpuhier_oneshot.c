/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the one-shot form: which calls take it, the start of its kernel and the news of its end. The steps around it are
 * those of slices (coll_gpuhier_pipeline.c). Called by the engine and the pipeline.
 */
#include "ompi_config.h"

#include <stdatomic.h>

#include "engine/coll_gpuhier_call.h"
#include "engine/coll_gpuhier_oneshot.h"
#include "plan/coll_gpuhier_choice.h"

#define POLLS_PER_QUERY 256u /* looks at the word between two queries of the driver, which reports faults */

bool gpuhier_oneshot_suits(const gpuhier_call_t *call)
{
    const uint64_t unit = GPUHIER_ONESHOT_UNIT;
    const uint64_t message = call->count * call->elem_bytes, bytes = (message + unit - 1) / unit * unit;
    return NULL == call->ended && bytes <= call->team->oneshot_bytes
           && (message > call->team->mapped_bytes || call->has_gaps);
}

bool gpuhier_oneshot_is_direct(const gpuhier_call_t *call)
{
    const gpuhier_device_t *device = call->team->device;
    return gpuhier_device_owns(device, &call->from) && gpuhier_device_owns(device, &call->to);
}

void gpuhier_oneshot_offer(gpuhier_call_t *call, gpuhier_arrival_t *arrival)
{
    if (!gpuhier_kernel_waits && OMPI_SUCCESS == gpuhier_lane_mailbox_next(call->lane)) {
        gpuhier_kernel_waits = true;
        call->slices.offers = true;
        arrival->flag = gpuhier_lane_mailbox_flag(call->lane);
    }
}

static const gpuhier_arrival_t *arrival_of(const gpuhier_call_t *call, int index)
{
    return &gpuhier_team_slot(call->team, index, call->sequence)->arrival;
}

bool gpuhier_oneshot_agreed(const gpuhier_call_t *call)
{
    for (int i = 0; i < call->team->group_size; ++i) {
        if (0 == arrival_of(call, i)->flag) {
            return false;
        }
    }
    return true;
}

static CUstream stream_of(const gpuhier_call_t *call)
{
    return GPUHIER_ORDER_KERNEL == call->order ? CU_STREAM_LEGACY : call->lane->stream[GPUHIER_STAGE_RS];
}

int gpuhier_oneshot_launch(gpuhier_call_t *call, CUdeviceptr in, CUdeviceptr out)
{
    const gpuhier_team_t *team = call->team;
    gpuhier_lane_t *lane = call->lane;
    const uint64_t bytes = call->count * call->elem_bytes;
    const bool two_shots = bytes >= gpuhier_choice_two_shots_from(team->group_size);
    gpuhier_oneshot_args_t args = {.part_bytes = gpuhier_oneshot_part(bytes, (uint32_t) team->group_size, two_shots),
                                   .own = lane->scratch + gpuhier_scratch_mailbox(),
                                   .in = in,
                                   .out = out,
                                   .count = call->count,
                                   .counter = lane->scratch + gpuhier_scratch_mailbox() - GPUHIER_SCRATCH_COUNTER_BYTES,
                                   .words = (uint64_t) (uintptr_t) lane->words,
                                   .number = lane->number,
                                   .nranks = (uint32_t) team->group_size,
                                   .index = (uint32_t) team->index,
                                   .two_shots = two_shots};
    for (int i = 0; i < team->group_size; ++i) {
        args.box[i] =
            call->slices.member[i].scratch + gpuhier_scratch_mailbox() + (uint64_t) team->index * args.part_bytes;
        args.flag[i] = arrival_of(call, i)->flag;
    }
    if (GPUHIER_ORDER_KERNEL != call->order && gpuhier_oneshot_is_direct(call)) {
        int rc = gpuhier_cuda_error(gpuhier_cu.cuStreamWaitEvent(stream_of(call), call->input, 0), "cuStreamWaitEvent");
        if (OMPI_SUCCESS != rc) {
            return rc;
        }
    }
    return gpuhier_reduce_oneshot(&lane->device->reduce, call->kernel, &args, stream_of(call));
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

int gpuhier_oneshot_ended(const gpuhier_call_t *call)
{
    const gpuhier_lane_t *lane = call->lane;
    const uint64_t word = done_word(lane);
    if (lane->number != word >> 2) {
        return 0 == (call->idle.polls + 1) % POLLS_PER_QUERY ? fault(call) : 0;
    }
    return GPUHIER_ONESHOT_COMPLETE == (word & 3) ? 1 : OMPI_ERROR;
}

bool gpuhier_oneshot_waits(const gpuhier_call_t *call)
{
    return gpuhier_call_is_oneshot(call)
           && call->slices.stage[GPUHIER_STAGE_RS].begun > call->slices.stage[GPUHIER_STAGE_RS].done
           && call->lane->number != done_word(call->lane) >> 2;
}

bool gpuhier_oneshot_runs(const gpuhier_call_t *call)
{
    return NULL != call->lane && NULL != call->team->device->context && gpuhier_oneshot_waits(call)
           && OMPI_SUCCESS == fault(call);
}

void gpuhier_oneshot_abort(gpuhier_call_t *call)
{
    if (gpuhier_call_is_oneshot(call) && NULL != call->lane) {
        atomic_store_explicit(&call->lane->words[GPUHIER_ONESHOT_ABORT / sizeof(uint64_t)], call->lane->number,
                              memory_order_release);
    }
}

bool gpuhier_oneshot_all_started(const gpuhier_call_t *call)
{
    for (int i = 0; i < call->team->group_size; ++i) {
        if (gpuhier_word(call->sequence, GPUHIER_CLAIM_TAKEN)
            != gpuhier_word_read(&gpuhier_team_slot(call->team, i, call->sequence)->claim)) {
            return false;
        }
    }
    return true;
}

void gpuhier_oneshot_release(gpuhier_call_t *call)
{
    if (call->slices.offers) {
        gpuhier_kernel_waits = false;
        call->slices.offers = false;
    }
}
