/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the order of a call behind the program's own work: events behind all that the program had queued, in the
 * team's context and in those of buffers that belong to another GPU.
 *
 * Called by the engine, when a call is posted, and by the stages that read the input.
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
    gpuhier_device_t *device = call->team->device;
    int rc = gpuhier_params.sync_before ? gpuhier_cuda_error(gpuhier_cu.cuCtxSynchronize(), "cuCtxSynchronize")
                                        : OMPI_SUCCESS;
    rc = OMPI_SUCCESS != rc ? rc : gpuhier_event_take(device, &call->input);
    if (OMPI_SUCCESS != rc) {
        call->input = NULL;
        return rc;
    }
    rc = gpuhier_cuda_error(gpuhier_cu.cuEventRecord(call->input, CU_STREAM_LEGACY), "cuEventRecord");
    if (OMPI_SUCCESS != rc) {
        gpuhier_event_give(device, call->input);
        call->input = NULL;
    }
    return rc;
}

/*
 * Marks the same point in the context of a buffer that belongs to another GPU: its default stream is another one. The
 * rank then goes via scratch, and the copy waits for the event.
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
    rc = gpuhier_params.sync_before ? gpuhier_cuda_error(gpuhier_cu.cuCtxSynchronize(), "cuCtxSynchronize")
                                    : OMPI_SUCCESS;
    rc = OMPI_SUCCESS != rc
             ? rc
             : gpuhier_cuda_error(gpuhier_cu.cuEventCreate(event_p, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    if (OMPI_SUCCESS == rc) {
        rc = gpuhier_cuda_error(gpuhier_cu.cuEventRecord(*event_p, CU_STREAM_LEGACY), "cuEventRecord");
    }
    gpuhier_cuda_leave(&scope);
    return rc;
}

void gpuhier_order_mark(gpuhier_call_t *call)
{
    int rc = gpuhier_order_mark_input(call);
    rc = OMPI_SUCCESS != rc ? rc : elsewhere_mark(call, &call->from, &call->elsewhere[0]);
    if (OMPI_SUCCESS == rc && call->to.context != call->from.context) {
        rc = elsewhere_mark(call, &call->to, &call->elsewhere[1]);
    }
    if (OMPI_SUCCESS != rc) {
        gpuhier_order_forget(call);
    }
}

int gpuhier_order_queue(gpuhier_call_t *call)
{
    const CUevent marks[] = {call->input, call->elsewhere[0], call->elsewhere[1]};
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); ++i) {
        int rc =
            NULL == marks[i]
                ? OMPI_SUCCESS
                : gpuhier_cuda_error(gpuhier_cu.cuStreamWaitEvent(call->lane->stream[GPUHIER_STAGE_IN], marks[i], 0),
                                     "cuStreamWaitEvent");
        if (OMPI_SUCCESS != rc) {
            return rc;
        }
    }
    call->input_done = true;
    return OMPI_SUCCESS;
}
