/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the kernel that carries a short message: which calls have one, its start, and the words between it and the host.
 * Called by the small form, by order and by the end of a failed call.
 */
#include "ompi_config.h"

#include <stdatomic.h>

#include "base/coll_gpuhier_params.h"
#include "engine/coll_gpuhier_call.h"
#include "engine/coll_gpuhier_carry.h"

#define PATIENCE_NS 200000   /* how long the kernel waits; after that the host copies the result */
#define POLLS_PER_QUERY 256u /* looks at the word between two queries of the driver, which reports faults */
#define LOOKS 64             /* at the kernel's word in one step; giving up lock and context takes longer */

bool gpuhier_carry_suits(const gpuhier_call_t *call)
{
    const gpuhier_device_t *device = call->team->device;
    return call->team->carries && call->count * call->elem_bytes <= GPUHIER_CARRY_MOST && NULL == call->ended
           && NULL == call->team->first && !call->has_gaps && !gpuhier_threads_may_call() && !gpuhier_params.sync_before
           && gpuhier_device_owns(device, &call->from) && gpuhier_device_owns(device, &call->to);
}

int gpuhier_carry_launch(gpuhier_call_t *call)
{
    gpuhier_lane_t *lane = call->lane;
    const gpuhier_carry_args_t args = {.in = call->in,
                                       .out = call->out,
                                       .pinned = (uint64_t) (uintptr_t) lane->pinned,
                                       .bytes = call->count * call->elem_bytes,
                                       .words = (uint64_t) (uintptr_t) lane->words,
                                       .number = ++lane->number,
                                       .patience = PATIENCE_NS};
    const int rc = gpuhier_reduce_carry(&lane->device->reduce, &args, CU_STREAM_LEGACY);
    call->small.is_carried = OMPI_SUCCESS == rc;
    return rc;
}

/* What the kernel of this call has said last; 0: nothing yet. */
static int said(const gpuhier_lane_t *lane)
{
    const uint64_t word =
        atomic_load_explicit(&lane->words[GPUHIER_CARRY_KERNEL / sizeof(uint64_t)], memory_order_acquire);
    return lane->number == word >> 2 ? (int) (word & 3) : 0;
}

/* Is the context lost? Asks the lane's own stream: a question about the default stream would spoil another thread's
 * capture of a graph. */
static int fault(const gpuhier_call_t *call)
{
    const CUresult result = gpuhier_cu.cuStreamQuery(call->lane->stream[GPUHIER_STAGE_IN]);
    return CUDA_ERROR_NOT_READY == result ? OMPI_SUCCESS
                                          : gpuhier_cuda_error(result, "a kernel that carries a short message");
}

/* Waits a moment until the kernel has said `state` or more. Returns what it has said, 0 if that is less, or an error.
 */
static int look(const gpuhier_call_t *call, int state)
{
    int word = said(call->lane);
    for (int i = 0; i < LOOKS && word < state; ++i) {
        word = said(call->lane);
    }
    if (word < state) {
        return 0 == (call->idle.polls + 1) % POLLS_PER_QUERY ? fault(call) : 0;
    }
    return word;
}

int gpuhier_carry_input_came(const gpuhier_call_t *call)
{
    const int word = look(call, GPUHIER_CARRY_INPUT);
    return word > 0 ? 1 : word;
}

static void tell(gpuhier_call_t *call, uint64_t state)
{
    const gpuhier_lane_t *lane = call->lane;
    atomic_store_explicit(&lane->words[GPUHIER_CARRY_HOST / sizeof(uint64_t)], lane->number << 2 | state,
                          memory_order_release);
}

void gpuhier_carry_answer(gpuhier_call_t *call)
{
    tell(call, GPUHIER_CARRY_RESULT);
}

void gpuhier_carry_stop(gpuhier_call_t *call)
{
    tell(call, GPUHIER_CARRY_LEAVE);
}

int gpuhier_carry_ended(const gpuhier_call_t *call)
{
    return look(call, GPUHIER_CARRY_COMPLETE);
}

bool gpuhier_carry_runs(const gpuhier_call_t *call)
{
    return call->is_small && call->small.is_carried && NULL != call->lane && NULL != call->team->device->context
           && said(call->lane) < GPUHIER_CARRY_COMPLETE && OMPI_SUCCESS == fault(call);
}
