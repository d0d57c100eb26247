/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the order of a call behind the program's own work: the way in which it is kept (gpuhier_order_t), and the events
 * behind all that the program had queued, in the team's context and in those of buffers that belong to another GPU.
 *
 * What the program had queued means all that a mark on the legacy default stream of a context covers: that stream waits
 * for all blocking streams of the context. A form takes the cheapest way that is safe:
 *
 *   - A call whose buffers the host reads and writes (small, is_mapped) needs nothing if a query of the default stream
 *     says that all has ended, where such a query covers blocking streams as well (device, query_suffices).
 *   - A short call that begins at once copies its input on the default stream itself.
 *   - A one-shot kernel runs on the default stream itself in a program of one thread. Work that another thread queued
 *     behind it, such as a collective of NCCL, could wait for work on a peer that waits for the peer's one-shot kernel.
 *   - All other calls are marked. With sync_before these are marked as well, after a wait for the device.
 *
 * Called by the forms, when a call is posted, and by the stages that read the input.
 */
#include "ompi_config.h"

#include "base/coll_gpuhier_params.h"
#include "engine/coll_gpuhier_order.h"

void gpuhier_order_forget(gpuhier_call_t *call)
{
    if (NULL != call->input) {
        gpuhier_event_give(call->team->device, call->input);
        call->input = NULL;
    }
    for (int i = 0; i < 2; ++i) {
        if (NULL != call->elsewhere[i]) {
            (void) gpuhier_cu.cuEventDestroy(call->elsewhere[i]); /* this needs no current context */
            call->elsewhere[i] = NULL;
        }
    }
}

int gpuhier_order_mark_input(gpuhier_call_t *call)
{
    int rc = gpuhier_params.sync_before ? gpuhier_cuda_error(gpuhier_cu.cuCtxSynchronize(), "cuCtxSynchronize")
                                        : OMPI_SUCCESS;
    rc = OMPI_SUCCESS != rc ? rc : gpuhier_event_take(call->team->device, &call->input);
    if (OMPI_SUCCESS != rc) {
        call->input = NULL;
        return rc;
    }
    return GPUHIER_CU(cuEventRecord, call->input, CU_STREAM_LEGACY);
}

/*
 * Marks the same point in the context of a buffer that belongs to another GPU, which has a default stream of its own.
 * The rank then goes via scratch, and the copy waits for the event.
 */
static int elsewhere_mark(const gpuhier_call_t *call, const gpuhier_buffer_t *buffer, CUevent *event_p)
{
    gpuhier_cuda_scope_t scope;
    if (!gpuhier_buffer_on_device(buffer) || NULL == buffer->context
        || buffer->context == call->team->device->context) {
        return OMPI_SUCCESS;
    }
    int rc = gpuhier_cuda_enter(buffer->context, &scope);
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    rc = !gpuhier_cuda_is_usable(CU_STREAM_LEGACY) ? OMPI_ERROR
         : gpuhier_params.sync_before ? gpuhier_cuda_error(gpuhier_cu.cuCtxSynchronize(), "cuCtxSynchronize")
                                      : OMPI_SUCCESS;
    rc = OMPI_SUCCESS != rc ? rc : GPUHIER_CU(cuEventCreate, event_p, CU_EVENT_DISABLE_TIMING);
    rc = OMPI_SUCCESS != rc ? rc : GPUHIER_CU(cuEventRecord, *event_p, CU_STREAM_LEGACY);
    gpuhier_cuda_leave(&scope);
    return rc;
}

gpuhier_order_t gpuhier_order_mark(gpuhier_call_t *call)
{
    int rc = gpuhier_order_mark_input(call);
    rc = OMPI_SUCCESS != rc ? rc : elsewhere_mark(call, &call->from, &call->elsewhere[0]);
    if (OMPI_SUCCESS == rc && call->to.context != call->from.context) {
        rc = elsewhere_mark(call, &call->to, &call->elsewhere[1]);
    }
    if (OMPI_SUCCESS != rc) {
        gpuhier_order_forget(call);
    }
    call->order = OMPI_SUCCESS == rc ? GPUHIER_ORDER_MARKED : GPUHIER_ORDER_FAILED;
    return call->order;
}

__attribute__((noinline)) bool gpuhier_order_has_ended(const gpuhier_call_t *call)
{
    return NULL == call->team->first && call->team->device->query_suffices && !gpuhier_params.sync_before
           && CUDA_SUCCESS == gpuhier_cu.cuStreamQuery(CU_STREAM_LEGACY);
}

bool gpuhier_order_may_copy(const gpuhier_call_t *call)
{
    const CUcontext context = call->team->device->context;
    return NULL == call->team->first && !gpuhier_params.sync_before && gpuhier_buffer_on_device(&call->from)
           && call->from.context == context && (!gpuhier_buffer_on_device(&call->to) || call->to.context == context);
}

/* Is the buffer memory of another GPU that this GPU cannot copy? Plain copies between GPUs work for memory of
 * cudaMalloc; pools and cuMemCreate grant access to each GPU separately. */
static bool is_out_of_reach(const gpuhier_call_t *call, const gpuhier_buffer_t *buffer)
{
    return GPUHIER_BUFFER_DEVICE == buffer->kind && !buffer->ipc_capable
           && buffer->device != call->team->device->ordinal;
}

bool gpuhier_order_reaches(const gpuhier_call_t *call)
{
    return OMPI_SUCCESS == call->team->context_lost && !is_out_of_reach(call, &call->from)
           && !is_out_of_reach(call, &call->to);
}

bool gpuhier_order_can(const gpuhier_call_t *call)
{
    return gpuhier_order_reaches(call) && gpuhier_cuda_is_usable(CU_STREAM_LEGACY);
}

int gpuhier_order_reached(gpuhier_call_t *call, int queries)
{
    CUresult result = call->input_done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
    for (int i = 0; i < queries && CUDA_ERROR_NOT_READY == result; ++i) {
        result = gpuhier_cu.cuEventQuery(call->input);
        for (int k = 0; k < 2 && CUDA_SUCCESS == result; ++k) {
            result = NULL == call->elsewhere[k] ? CUDA_SUCCESS : gpuhier_cu.cuEventQuery(call->elsewhere[k]);
        }
    }
    if (CUDA_ERROR_NOT_READY == result) {
        return 0;
    }
    const int rc = gpuhier_cuda_error(result, "the program's work before a call");
    call->input_done = OMPI_SUCCESS == rc;
    return call->input_done ? 1 : rc;
}

void gpuhier_order_leave(gpuhier_call_t *call)
{
    if (NULL != call->lane && GPUHIER_ORDER_COPY == call->order) {
        call->lane->until = call->input;
        call->input = NULL;
    }
}

int gpuhier_order_queue(gpuhier_call_t *call)
{
    const CUevent marks[] = {call->input, call->elsewhere[0], call->elsewhere[1]};
    CUstream stream = call->lane->stream[GPUHIER_STAGE_IN];
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); ++i) {
        int rc = NULL == marks[i] ? OMPI_SUCCESS : GPUHIER_CU(cuStreamWaitEvent, stream, marks[i], 0);
        if (OMPI_SUCCESS != rc) {
            return rc;
        }
    }
    call->input_done = true;
    return OMPI_SUCCESS;
}
