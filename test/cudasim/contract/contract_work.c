/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Copies, streams, events, modules and launches.
 */
#include <stdlib.h>
#include <string.h>

#include "contract.h"

#define COUNT 4096
#define BYTES (COUNT * sizeof(int))

static int filled(const int *values, int count, int first, int step)
{
    int i;

    for (i = 0; i < count; i++) {
        if (values[i] != first + i * step) {
            return 0;
        }
    }
    return 1;
}

static void fill(int *values, int count, int first, int step)
{
    int i;

    for (i = 0; i < count; i++) {
        values[i] = first + i * step;
    }
}

void contract_copies(void)
{
    static int from[COUNT], to[COUNT];
    CUDA_MEMCPY2D rect = {0};
    CUdeviceptr a, b;
    int *pinned;
    int i, ok = 1;

    PART("copies");
    CALL(cuMemAlloc(&a, BYTES));
    CALL(cuMemAlloc(&b, BYTES));
    CALL(cuMemAllocHost((void **) &pinned, BYTES));
    fill(from, COUNT, 7, 3);
    CALL(cuMemcpyHtoD(a, from, BYTES));
    fill(from, COUNT, 0, 0); /* the call has taken the bytes with it */
    CALL(cuMemcpyDtoD(b, a, BYTES));
    CALL(cuMemcpyDtoH(to, b, BYTES));
    HOLDS("host to device to device to host", filled(to, COUNT, 7, 3));
    CALL(cuMemcpy((CUdeviceptr) (size_t) pinned, b, BYTES));
    HOLDS("to pinned memory", filled(pinned, COUNT, 7, 3));
    fill(pinned, COUNT, 1, 1);
    CALL(cuMemcpyAsync(a, (CUdeviceptr) (size_t) pinned, BYTES, NULL));
    CALL(cuMemcpyDtoHAsync(to, a, BYTES, NULL));
    HOLDS("to pageable memory, complete on return", filled(to, COUNT, 1, 1));
    CALL(cuMemcpyHtoD(a, from, 0));
    CALL(cuMemcpyHtoD(a, from, BYTES + 4096));
    CALL(cuMemcpyHtoD(4096, from, 4));
    CALL(cuMemcpyDtoH(to, a + BYTES - 4, 8192));
    CALL(cuMemcpyDtoD(a, (CUdeviceptr) (size_t) from, 4));
    CALL(cuMemcpyPeer(b, NULL, a, NULL, 4));
    CALL(cuMemsetD32(a, 0x01020304, COUNT));
    CALL(cuMemcpyDtoH(to, a, BYTES));
    HOLDS("filled with words", filled(to, COUNT, 0x01020304, 0));
    CALL(cuMemsetD16(a, 0x0506, 2));
    CALL(cuMemsetD8(a + 4, 0x11, 4));
    CALL(cuMemcpyDtoH(to, a, 12));
    HOLDS("filled with halves and bytes", 0x05060506 == to[0] && 0x11111111 == to[1] && 0x01020304 == to[2]);
    CALL(cuMemsetD32(a + 1, 0, 1));
    CALL(cuMemsetD32(a, 0, COUNT + 4096));
    CALL(cuMemsetD8((CUdeviceptr) (size_t) from, 0, 1));
    fill(pinned, COUNT, 0, 1);
    rect.srcMemoryType = CU_MEMORYTYPE_HOST;
    rect.srcHost = pinned;
    rect.srcPitch = 64 * sizeof(int);
    rect.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    rect.dstDevice = b;
    rect.dstPitch = 32 * sizeof(int);
    rect.dstXInBytes = 8 * sizeof(int);
    rect.WidthInBytes = 16 * sizeof(int);
    rect.Height = 10;
    CALL(cuMemcpy2D(&rect));
    CALL(cuMemcpyDtoH(to, b, BYTES));
    for (i = 0; i < 160; i++) {
        ok = ok && to[i / 16 * 32 + 8 + i % 16] == i / 16 * 64 + i % 16;
    }
    HOLDS("a rectangle", ok);
    rect.dstPitch = 8;
    CALL(cuMemcpy2D(&rect));
    CALL(cuMemFreeHost(pinned));
    CALL(cuMemFree(a));
    CALL(cuMemFree(b));
}

struct heard {
    int count;
    int order[8];
};

static void hear(void *argument)
{
    struct heard *heard = argument;

    heard->order[heard->count] = heard->count;
    heard->count++;
}

static void hear_callback(CUstream stream, CUresult status, void *argument)
{
    (void) stream;
    if (CUDA_SUCCESS == status) {
        hear(argument);
    }
}

/* Asks until done; a poll loop must end in every mode. */
static CUresult poll_event(CUevent event)
{
    CUresult rc;

    do {
        rc = cuEventQuery(event);
    } while (CUDA_ERROR_NOT_READY == rc);
    return rc;
}

static CUresult poll_stream(CUstream stream)
{
    CUresult rc;

    do {
        rc = cuStreamQuery(stream);
    } while (CUDA_ERROR_NOT_READY == rc);
    return rc;
}

static void events(CUstream one, CUstream two, CUdeviceptr device, int *pinned)
{
    CUevent event, silent, never;
    float ms = -1;

    CALL(cuEventCreate(&event, 0x100));
    CALL(cuEventCreate(&event, CU_EVENT_INTERPROCESS));
    CALL(cuEventCreate(&event, CU_EVENT_DEFAULT));
    CALL(cuEventCreate(&never, CU_EVENT_DEFAULT));
    CALL(cuEventCreate(&silent, CU_EVENT_DISABLE_TIMING));
    CALL(cuEventQuery(never));
    CALL(cuEventSynchronize(never));
    CALL(cuStreamWaitEvent(one, never, 0));
    CALL(cuEventElapsedTime(&ms, never, event));
    CALL(cuEventRecord(event, one));
    CALL(cuMemsetD32Async(device, 42, COUNT, one));
    CALL(cuEventRecord(never, one));
    CALL(cuStreamWaitEvent(two, never, 0));
    CALL(cuMemcpyDtoHAsync(pinned, device, BYTES, two));
    CALL(poll_stream(two));
    HOLDS("the second stream waited for the first", filled(pinned, COUNT, 42, 0));
    CALL(cuEventElapsedTime(&ms, event, never));
    HOLDS("time does not run backwards", ms >= 0);
    CALL(cuEventRecord(silent, one));
    CALL(poll_event(silent));
    CALL(cuEventElapsedTime(&ms, event, silent));
    CALL(cuEventRecord(NULL, one));
    CALL(cuEventDestroy(event));
    CALL(cuEventDestroy(silent));
    CALL(cuEventDestroy(never));
}

void contract_streams(void)
{
    CUstream one, two, urgent, blocking;
    CUcontext ctx = NULL, current = NULL;
    struct heard heard = {0};
    CUdeviceptr device;
    unsigned flags = 99;
    int *pinned, priority = 99;

    PART("streams and events");
    CALL(cuMemAlloc(&device, BYTES));
    CALL(cuMemAllocHost((void **) &pinned, BYTES));
    CALL(cuStreamCreate(&one, 0x40));
    CALL(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    CALL(cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
    CALL(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    CALL(cuStreamCreateWithPriority(&urgent, CU_STREAM_NON_BLOCKING, -1000));
    CALL(cuStreamGetPriority(urgent, &priority));
    HOLDS("the priority is clamped", priority < 0 && priority > -1000);
    CALL(cuStreamGetFlags(one, &flags));
    HOLDS("the flags are kept", CU_STREAM_NON_BLOCKING == flags);
    CALL(cuStreamGetCtx(one, &ctx));
    cuCtxGetCurrent(&current);
    HOLDS("a stream knows its context", ctx == current);
    CALL(cuStreamQuery(one));
    CALL(cuStreamSynchronize(one));
    events(one, two, device, pinned);
    CALL(cuLaunchHostFunc(one, hear, &heard));
    CALL(cuLaunchHostFunc(one, hear, &heard));
    CALL(cuStreamAddCallback(one, hear_callback, &heard, 0));
    CALL(cuStreamSynchronize(one));
    HOLDS("host functions ran in order", 3 == heard.count && filled(heard.order, 3, 0, 1));
    CALL(cuLaunchHostFunc(one, NULL, &heard));
    CALL(cuMemsetD32Async(device, 1, COUNT, blocking));
    CALL(cuMemcpyDtoH(pinned, device, BYTES));
    HOLDS("the default stream waited for the blocking one", filled(pinned, COUNT, 1, 0));
    CALL(cuMemsetD32Async(device, 2, COUNT, CU_STREAM_LEGACY));
    CALL(cuMemcpyDtoHAsync(pinned, device, BYTES, blocking));
    CALL(cuStreamSynchronize(blocking));
    HOLDS("the blocking one waited for the default stream", filled(pinned, COUNT, 2, 0));
    CALL(cuMemsetD32Async(device, 3, COUNT, CU_STREAM_PER_THREAD));
    CALL(cuMemcpyDtoHAsync(pinned, device, BYTES, CU_STREAM_PER_THREAD));
    CALL(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    HOLDS("the thread's own stream", filled(pinned, COUNT, 3, 0));
    CALL(cuMemsetD32Async(device, 4, COUNT, urgent));
    CALL(cuCtxSynchronize());
    CALL(cuStreamDestroy(urgent));
    CALL(cuStreamDestroy(one));
    CALL(cuStreamDestroy(two));
    CALL(cuStreamDestroy(blocking));
    CALL(cuStreamDestroy(NULL));
    CALL(cuMemcpyDtoH(pinned, device, BYTES));
    HOLDS("work of a destroyed stream was done", filled(pinned, COUNT, 4, 0));
    CALL(cuMemFreeHost(pinned));
    CALL(cuMemFree(device));
}

void contract_modules(const char *fatbin)
{
    static int values[COUNT];
    CUdeviceptr device;
    CUmodule module;
    CUfunction add, missing;
    CUfunctionLoadingState state = CU_FUNCTION_LOADING_STATE_UNLOADED;
    CUstream stream;
    int count = COUNT, term = 5, blocks = 0, value = -1;
    void *params[] = {&device, &count, &term};
    struct {
        CUdeviceptr pointer;
        int count, term;
    } packed;
    size_t packed_bytes = sizeof(packed);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &packed_bytes,
                     CU_LAUNCH_PARAM_END};

    PART("modules and launches");
    CALL(cuModuleLoadData(&module, "this is no image at all, neither fatbin nor PTX"));
    CALL(cuModuleLoad(&module, "/nonexistent/file"));
    CALL(cuModuleLoad(&module, fatbin));
    CALL(cuModuleGetFunction(&missing, module, "no_such_kernel"));
    CALL(cuModuleGetFunction(&add, module, "contract_add"));
    CALL(cuFuncIsLoaded(&state, add));
    HOLDS("the look-up has loaded the kernel", CU_FUNCTION_LOADING_STATE_LOADED == state);
    CALL(cuFuncLoad(add));
    CALL(cuFuncLoad(NULL));
    CALL(cuMemAlloc(&device, BYTES));
    CALL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CALL(cuMemsetD32Async(device, 10, COUNT, stream));
    CALL(cuLaunchKernel(add, 16, 1, 1, 256, 1, 1, 0, stream, params, NULL));
    term = 1000; /* parameters are taken at launch */
    count = 1;
    CALL(cuStreamSynchronize(stream));
    CALL(cuMemcpyDtoH(values, device, BYTES));
    HOLDS("the kernel ran on each element once", filled(values, COUNT, 15, 0));
    packed.pointer = device;
    packed.count = COUNT / 2;
    packed.term = 100;
    CALL(cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, stream, NULL, extra));
    CALL(cuStreamSynchronize(stream));
    CALL(cuMemcpyDtoH(values, device, BYTES));
    HOLDS("packed parameters", filled(values, COUNT / 2, 115, 0) && 15 == values[COUNT / 2]);
    CALL(cuLaunchKernel(add, 0, 1, 1, 32, 1, 1, 0, stream, params, NULL));
    CALL(cuLaunchKernel(add, 1, 1, 1, 2048, 1, 1, 0, stream, params, NULL));
    CALL(cuLaunchKernel(NULL, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
    CALL(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, add));
    HOLDS("a block can have 256 threads", value >= 256);
    CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 256, 0));
    HOLDS("some blocks fit", blocks >= 1);
    CALL(cuStreamDestroy(stream));
    CALL(cuModuleUnload(module));
    CALL(cuMemFree(device));
}
