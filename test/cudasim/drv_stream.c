/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * cuStream, cuEvent and host functions.
 *
 * Owns the checks of handles and flags; the work is the engine's.
 */
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "sim_counters.h"
#include "sim_engine.h"
#include "sim_ipc.h"
#include "sim_memory.h"
#include "sim_model.h"

#define LEAST_PRIORITY 0
#define GREATEST_PRIORITY (-5)

CUresult sim_cuStreamCreateWithPriority(CUstream *stream_p, unsigned int flags, int priority)
{
    if (NULL == stream_p || 0 != (flags & ~(unsigned) CU_STREAM_NON_BLOCKING)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    priority = priority > LEAST_PRIORITY ? LEAST_PRIORITY : priority;
    priority = priority < GREATEST_PRIORITY ? GREATEST_PRIORITY : priority;
    *stream_p = sim_stream_new(sim_context_current(), flags, priority);
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamCreate(CUstream *stream_p, unsigned int flags)
{
    return sim_cuStreamCreateWithPriority(stream_p, flags, 0);
}

CUresult sim_cuStreamDestroy_v2(CUstream handle)
{
    CUstream stream;
    CUresult rc = sim_stream_resolve(handle, &stream);

    if (CUDA_SUCCESS != rc) {
        return rc;
    }
    if (stream != handle) {
        return CUDA_ERROR_INVALID_HANDLE; /* the default streams stay */
    }
    sim_stream_destroy(stream);
    return CUDA_SUCCESS;
}

static CUresult health(CUstream stream)
{
    if (!atomic_load(&stream->ctx->alive)) {
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    return (CUresult) atomic_load_explicit(&stream->ctx->sticky, memory_order_relaxed);
}

CUresult sim_cuStreamQuery(CUstream handle)
{
    CUstream stream;
    CUresult rc = sim_stream_resolve(handle, &stream);

    if (CUDA_SUCCESS != rc) {
        return rc;
    }
    sim_count(queries);
    if (stream == stream->ctx->legacy ? !sim_stream_query_all(stream) : !sim_stream_query(stream)) {
        return CUDA_ERROR_NOT_READY;
    }
    return health(stream);
}

CUresult sim_cuStreamSynchronize(CUstream handle)
{
    CUstream stream;
    CUresult rc = sim_stream_resolve(handle, &stream);

    if (CUDA_SUCCESS != rc) {
        return rc;
    }
    sim_count(syncs);
    sim_stream_drain(stream);
    return health(stream);
}

CUresult sim_cuStreamWaitEvent(CUstream handle, CUevent event, unsigned int flags)
{
    CUstream stream;
    CUresult rc = sim_stream_resolve(handle, &stream);

    if (CUDA_SUCCESS == rc) {
        rc = sim_event_check(event);
    }
    if (CUDA_SUCCESS == rc && flags > CU_EVENT_WAIT_EXTERNAL) {
        rc = CUDA_ERROR_INVALID_VALUE;
    }
    if (CUDA_SUCCESS == rc) {
        sim_event_wait_on_stream(stream, event);
    }
    return rc;
}

CUresult sim_cuStreamGetPriority(CUstream handle, int *priority_p)
{
    CUstream stream;
    CUresult rc = sim_stream_resolve(handle, &stream);

    if (CUDA_SUCCESS == rc) {
        *priority_p = stream->priority;
    }
    return rc;
}

CUresult sim_cuStreamGetFlags(CUstream handle, unsigned int *flags_p)
{
    CUstream stream;
    CUresult rc = sim_stream_resolve(handle, &stream);

    if (CUDA_SUCCESS == rc) {
        *flags_p = stream->flags;
    }
    return rc;
}

CUresult sim_cuStreamGetId(CUstream handle, unsigned long long *id_p)
{
    CUstream stream;
    CUresult rc = sim_stream_resolve(handle, &stream);

    if (CUDA_SUCCESS == rc) {
        *id_p = stream->id;
    }
    return rc;
}

CUresult sim_cuStreamGetCtx(CUstream handle, CUcontext *ctx_p)
{
    CUstream stream;
    CUresult rc = sim_stream_resolve(handle, &stream);

    if (CUDA_SUCCESS == rc) {
        *ctx_p = stream->ctx;
    }
    return rc;
}

CUresult sim_cuStreamGetCtx_v2(CUstream handle, CUcontext *ctx_p, CUgreenCtx *green_p)
{
    if (NULL != green_p) {
        *green_p = NULL;
    }
    return sim_cuStreamGetCtx(handle, ctx_p);
}

CUresult sim_cuStreamGetDevice(CUstream handle, CUdevice *device_p)
{
    CUstream stream;
    CUresult rc = sim_stream_resolve(handle, &stream);

    if (CUDA_SUCCESS == rc) {
        *device_p = stream->ctx->ordinal;
    }
    return rc;
}

CUresult sim_cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status_p)
{
    CUstream stream;
    CUresult rc = sim_stream_resolve(handle, &stream);

    if (CUDA_SUCCESS == rc) {
        *status_p = CU_STREAM_CAPTURE_STATUS_NONE; /* graphs do not exist here */
    }
    return rc;
}

CUresult sim_cuStreamAttachMemAsync(CUstream handle, CUdeviceptr pointer, size_t bytes, unsigned int flags)
{
    struct sim_alloc *alloc = sim_memory_find((uintptr_t) pointer);
    CUstream stream;

    (void) bytes;
    (void) flags;
    if (NULL == alloc || SIM_KIND_MANAGED != alloc->kind) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return sim_stream_resolve(handle, &stream);
}

/* ---- host functions and written values ---- */

struct host_work {
    CUhostFn function;
    CUstreamCallback callback;
    CUstream handle;
    void *argument;
};

struct value_work {
    uintptr_t to;
    uint64_t value;
    size_t bytes;
};

static void run_host(struct sim_item *item)
{
    const struct host_work *work = (const void *) item->payload;

    if (NULL != work->function) {
        work->function(work->argument);
    } else {
        work->callback(work->handle, health(item->stream), work->argument);
    }
}

static CUresult host_queue(CUstream handle, CUhostFn function, CUstreamCallback callback, void *argument)
{
    struct sim_item *item;
    struct host_work *work;
    CUstream stream;
    CUresult rc;

    if (NULL == function && NULL == callback) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    rc = sim_stream_resolve(handle, &stream);
    if (CUDA_SUCCESS != rc) {
        return rc;
    }
    item = sim_item_new(run_host, sizeof(*work));
    item->name = "host function";
    work = (void *) item->payload;
    *work = (struct host_work){function, callback, handle, argument};
    /* The program may wait for its effect without asking the driver. */
    sim_stream_kick(stream, sim_submit(stream, item));
    return CUDA_SUCCESS;
}

CUresult sim_cuLaunchHostFunc(CUstream stream, CUhostFn function, void *argument)
{
    return host_queue(stream, function, NULL, argument);
}

CUresult sim_cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void *argument, unsigned int flags)
{
    if (0 != flags) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return host_queue(stream, NULL, callback, argument);
}

static void run_value(struct sim_item *item)
{
    const struct value_work *work = (const void *) item->payload;
    void *to = sim_host_view(work->to);

    if (sim_model.on) { /* as an event, and then the way of a store */
        struct sim_gpu_ports *ports = sim_model_ports(work->to);
        item->end_ns = item->start_ns + (uint64_t) sim_model.event;
        sim_model_sleep(item->end_ns
                            + (uint64_t) (NULL == ports ? sim_model.pcie_store
                                          : ports == &sim_window.shared->ports[item->stream->ctx->physical]
                                              ? 0
                                              : sim_model.link_store),
                        true);
    }
    if (4 == work->bytes) {
        atomic_store_explicit((_Atomic uint32_t *) to, (uint32_t) work->value, memory_order_release);
    } else {
        atomic_store_explicit((_Atomic uint64_t *) to, work->value, memory_order_release);
    }
}

static CUresult value_queue(CUstream handle, CUdeviceptr pointer, uint64_t value, size_t bytes)
{
    struct sim_alloc *alloc = sim_memory_find((uintptr_t) pointer);
    struct sim_item *item;
    struct value_work *work;
    CUstream stream;
    CUresult rc = sim_stream_resolve(handle, &stream);

    if (CUDA_SUCCESS != rc) {
        return rc;
    }
    if (NULL == alloc || SIM_KIND_RESERVED == alloc->kind || SIM_KIND_MULTICAST == alloc->kind
        || 0 != pointer % bytes) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    item = sim_item_new(run_value, sizeof(*work));
    item->is_mark = true;
    item->name = "write value";
    work = (void *) item->payload;
    *work = (struct value_work){(uintptr_t) pointer, value, bytes};
    sim_stream_kick(stream, sim_submit(stream, item));
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr pointer, cuuint32_t value, unsigned int flags)
{
    (void) flags;
    return value_queue(stream, pointer, value, 4);
}

CUresult sim_cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr pointer, cuuint64_t value, unsigned int flags)
{
    (void) flags;
    return value_queue(stream, pointer, value, 8);
}

/* ---- events ---- */

CUresult sim_cuEventCreate(CUevent *event_p, unsigned int flags)
{
    const unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    CUevent event;
    CUresult rc;

    if (NULL == event_p || 0 != (flags & ~known)
        || (0 != (flags & CU_EVENT_INTERPROCESS) && 0 == (flags & CU_EVENT_DISABLE_TIMING))) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    event = sim_event_new(sim_context_current(), flags);
    if (NULL == event) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (0 != (flags & CU_EVENT_INTERPROCESS)) {
        rc = sim_event_make_interprocess(event);
        if (CUDA_SUCCESS != rc) {
            sim_event_destroy(event);
            return rc;
        }
    }
    *event_p = event;
    return CUDA_SUCCESS;
}

CUresult sim_cuEventDestroy_v2(CUevent event)
{
    CUresult rc = sim_event_check(event);

    if (CUDA_SUCCESS == rc) {
        sim_event_destroy(event);
    }
    return rc;
}

CUresult sim_cuEventRecord(CUevent event, CUstream handle)
{
    CUstream stream;
    CUresult rc = sim_event_check(event);

    if (CUDA_SUCCESS == rc) {
        rc = sim_stream_resolve(handle, &stream);
    }
    if (CUDA_SUCCESS == rc && stream->ctx != event->ctx) {
        rc = CUDA_ERROR_INVALID_HANDLE;
    }
    if (CUDA_SUCCESS == rc) {
        sim_event_record(event, stream);
    }
    return rc;
}

CUresult sim_cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags)
{
    if (flags > CU_EVENT_RECORD_EXTERNAL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return sim_cuEventRecord(event, stream);
}

static CUresult event_health(CUevent event)
{
    return NULL != event->stream ? (CUresult) atomic_load(&event->ctx->sticky) : CUDA_SUCCESS;
}

CUresult sim_cuEventQuery(CUevent event)
{
    CUresult rc = sim_event_check(event);

    if (CUDA_SUCCESS != rc) {
        return rc;
    }
    sim_count(queries);
    return sim_event_query(event) ? event_health(event) : CUDA_ERROR_NOT_READY;
}

CUresult sim_cuEventSynchronize(CUevent event)
{
    CUresult rc = sim_event_check(event);

    if (CUDA_SUCCESS != rc) {
        return rc;
    }
    sim_count(syncs);
    sim_event_synchronize(event);
    return event_health(event);
}

CUresult sim_cuEventElapsedTime(float *ms_p, CUevent start, CUevent end)
{
    CUevent events[2] = {start, end};
    uint64_t times[2];
    CUresult rc = CUDA_SUCCESS;
    int i;

    if (NULL == ms_p) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (i = 0; i < 2; i++) {
        rc = sim_event_check(events[i]);
        if (CUDA_SUCCESS != rc) {
            return rc;
        }
        if (0 != (events[i]->flags & CU_EVENT_DISABLE_TIMING)) {
            return CUDA_ERROR_INVALID_HANDLE;
        }
    }
    sim_engine_lock();
    for (i = 0; i < 2 && CUDA_SUCCESS == rc; i++) {
        if (NULL == events[i]->stream) {
            rc = CUDA_ERROR_INVALID_HANDLE; /* never recorded */
        } else if (events[i]->time_stream != events[i]->stream || events[i]->time_seq != events[i]->seq) {
            rc = CUDA_ERROR_NOT_READY;
        } else {
            times[i] = events[i]->time_ns;
        }
    }
    sim_engine_unlock();
    if (CUDA_SUCCESS == rc) {
        *ms_p = (float) ((double) (int64_t) (times[1] - times[0]) / 1e6);
    }
    return rc;
}

CUresult sim_cuEventElapsedTime_v2(float *ms_p, CUevent start, CUevent end)
{
    return sim_cuEventElapsedTime(ms_p, start, end);
}
