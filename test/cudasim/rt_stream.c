/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The runtime's streams and events: the driver's under other names. Handles are the
 * driver's own, so a program may mix both interfaces.
 */
#include "rt_api.h"

cudaError_t rt_cudaStreamCreate(cudaStream_t *stream_p)
{
    return rt_error(cuStreamCreate(stream_p, CU_STREAM_DEFAULT));
}

cudaError_t rt_cudaStreamCreateWithFlags(cudaStream_t *stream_p, unsigned int flags)
{
    return rt_error(cuStreamCreate(stream_p, flags));
}

cudaError_t rt_cudaStreamCreateWithPriority(cudaStream_t *stream_p, unsigned int flags, int priority)
{
    return rt_error(cuStreamCreateWithPriority(stream_p, flags, priority));
}

cudaError_t rt_cudaStreamDestroy(cudaStream_t stream)
{
    return rt_error(cuStreamDestroy(stream));
}

cudaError_t rt_cudaStreamQuery(cudaStream_t stream)
{
    return rt_error(cuStreamQuery(stream));
}

cudaError_t rt_cudaStreamSynchronize(cudaStream_t stream)
{
    return rt_error(cuStreamSynchronize(stream));
}

cudaError_t rt_cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
    return rt_error(cuStreamWaitEvent(stream, event, flags));
}

cudaError_t rt_cudaStreamGetPriority(cudaStream_t stream, int *priority_p)
{
    return rt_error(cuStreamGetPriority(stream, priority_p));
}

cudaError_t rt_cudaStreamGetFlags(cudaStream_t stream, unsigned int *flags_p)
{
    return rt_error(cuStreamGetFlags(stream, flags_p));
}

cudaError_t rt_cudaStreamGetId(cudaStream_t stream, unsigned long long *id_p)
{
    return rt_error(cuStreamGetId(stream, id_p));
}

cudaError_t rt_cudaStreamGetDevice(cudaStream_t stream, int *device_p)
{
    return rt_error(cuStreamGetDevice(stream, device_p));
}

cudaError_t rt_cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status_p)
{
    return rt_error(cuStreamIsCapturing(stream, (CUstreamCaptureStatus *) status_p));
}

cudaError_t rt_cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void *argument,
                                     unsigned int flags)
{
    /* The two callback types differ in the name of the error's enumeration only. */
    return rt_error(cuStreamAddCallback(stream, (CUstreamCallback) (void *) callback, argument, flags));
}

cudaError_t rt_cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *argument)
{
    return rt_error(cuLaunchHostFunc(stream, function, argument));
}

cudaError_t rt_cudaStreamAttachMemAsync(cudaStream_t stream, void *pointer, size_t bytes, unsigned int flags)
{
    return rt_error(cuStreamAttachMemAsync(stream, (CUdeviceptr) (uintptr_t) pointer, bytes, flags));
}

cudaError_t rt_cudaEventCreate(cudaEvent_t *event_p)
{
    return rt_error(cuEventCreate(event_p, CU_EVENT_DEFAULT));
}

cudaError_t rt_cudaEventCreateWithFlags(cudaEvent_t *event_p, unsigned int flags)
{
    return rt_error(cuEventCreate(event_p, flags));
}

cudaError_t rt_cudaEventDestroy(cudaEvent_t event)
{
    return rt_error(cuEventDestroy(event));
}

cudaError_t rt_cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    return rt_error(cuEventRecord(event, stream));
}

cudaError_t rt_cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags)
{
    return rt_error(cuEventRecordWithFlags(event, stream, flags));
}

cudaError_t rt_cudaEventQuery(cudaEvent_t event)
{
    return rt_error(cuEventQuery(event));
}

cudaError_t rt_cudaEventSynchronize(cudaEvent_t event)
{
    return rt_error(cuEventSynchronize(event));
}

cudaError_t rt_cudaEventElapsedTime(float *ms_p, cudaEvent_t start, cudaEvent_t end)
{
    return rt_error(cuEventElapsedTime(ms_p, start, end));
}
