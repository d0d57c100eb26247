/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Programs with a planted mistake, and the same without it.
 *
 *   planted_test access good|read|write     host code touches device memory
 *   planted_test wait present|missing N     a result is read before the stream was waited for
 *   planted_test order present|missing N    a second stream uses data without waiting for the first
 *   planted_test kernel good|beyond|peer    a kernel runs over the end of its memory, or into
 *                                           another GPU's without peer access
 *
 * Status 0: results were right; 3: wrong results or an error were seen.
 */
#include <cuda.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 1024

static void check(CUresult rc, const char *what)
{
    if (CUDA_SUCCESS != rc) {
        fprintf(stderr, "%s: error %d\n", what, rc);
        exit(1);
    }
}

#define CHECK(call) check(call, #call)

static int access_device_memory(const char *how)
{
    CUdeviceptr pointer;
    volatile int *address;
    int value = 0;

    CHECK(cuMemAlloc(&pointer, 4096));
    CHECK(cuMemsetD8(pointer, 7, 4096));
    address = (volatile int *) (size_t) pointer;
    signal(SIGSEGV, SIG_DFL); /* a sanitizer's handler would end it with another status */
    if (0 == strcmp(how, "read")) {
        value = *address;
    } else if (0 == strcmp(how, "write")) {
        *address = 1;
    } else {
        CHECK(cuMemcpyDtoH(&value, pointer, sizeof(value)));
    }
    return 0x07070707 == value ? 0 : 3;
}

/* How many of the rounds saw an old value. */
static int rounds(int order, int synchronised, int count)
{
    CUdeviceptr device;
    CUstream one, two;
    CUevent event;
    int *pinned, round, wrong = 0;

    CHECK(cuMemAlloc(&device, COUNT * sizeof(int)));
    CHECK(cuMemAllocHost((void **) &pinned, COUNT * sizeof(int)));
    CHECK(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (round = 1; round <= count; round++) {
        CHECK(cuMemsetD32Async(device, (unsigned) round, COUNT, one));
        if (order) {
            if (synchronised) {
                CHECK(cuEventRecord(event, one));
                CHECK(cuStreamWaitEvent(two, event, 0));
            }
            CHECK(cuMemcpyDtoHAsync(pinned, device, COUNT * sizeof(int), two));
            CHECK(cuStreamSynchronize(two));
        } else {
            CHECK(cuMemcpyDtoHAsync(pinned, device, COUNT * sizeof(int), one));
            if (synchronised) {
                CHECK(cuStreamSynchronize(one));
            }
        }
        wrong += round != ((volatile int *) pinned)[COUNT - 1];
        CHECK(cuCtxSynchronize());
    }
    printf("%d of %d rounds were wrong\n", wrong, count);
    return wrong > 0 ? 3 : 0;
}

static int kernel(const char *how)
{
    static const unsigned char image[] = ".version 8.0"; /* all that is looked at */
    CUdeviceptr pointer;
    CUcontext second, first;
    CUmodule module;
    CUfunction add;
    int count = COUNT, term = 1;
    void *params[] = {&pointer, &count, &term};

    CHECK(cuCtxGetCurrent(&first));
    CHECK(cuModuleLoadData(&module, image));
    CHECK(cuModuleGetFunction(&add, module, "contract_add"));
    if (0 == strcmp(how, "peer")) {
        CHECK(cuDevicePrimaryCtxRetain(&second, 1));
        CHECK(cuCtxSetCurrent(second));
        CHECK(cuMemAlloc(&pointer, COUNT * sizeof(int)));
        CHECK(cuCtxSetCurrent(first));
    } else {
        CHECK(cuMemAlloc(&pointer, COUNT * sizeof(int)));
    }
    if (0 == strcmp(how, "beyond")) {
        count += 1;
    }
    CHECK(cuMemsetD8(pointer, 0, COUNT * sizeof(int)));
    cuLaunchKernel(add, 4, 1, 1, 256, 1, 1, 0, NULL, params, NULL);
    return CUDA_ERROR_ILLEGAL_ADDRESS == cuCtxSynchronize() ? 3 : 0;
}

int main(int argc, char **argv)
{
    CUcontext ctx;

    if (argc < 3) {
        return 2;
    }
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&ctx, 0));
    CHECK(cuCtxSetCurrent(ctx));
    if (0 == strcmp(argv[1], "access")) {
        return access_device_memory(argv[2]);
    }
    if (0 == strcmp(argv[1], "kernel")) {
        return kernel(argv[2]);
    }
    return rounds(0 == strcmp(argv[1], "order"), 0 == strcmp(argv[2], "present"), argc > 3 ? atoi(argv[3]) : 1);
}
