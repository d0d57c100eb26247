/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The emulator is also a ruler, so it must not be slow: a copy runs at memcpy's speed, and
 * launches, events and look-ups cost little. Prints the best of several tries; test/bench/suite.sh judges it.
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define BYTES ((size_t) 32 << 20)
#define TRIES 15
#define CALLS 2000

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double) time.tv_sec + 1e-9 * (double) time.tv_nsec;
}

#define BEST(best, code)                    \
    do {                                    \
        double begin_ = now(), took_;       \
        code;                               \
        took_ = now() - begin_;             \
        best = took_ < best ? took_ : best; \
    } while (0)

int main(void)
{
    double plain = 1e9, copy = 1e9, record = 1e9, query = 1e9, launch = 1e9, attribute = 1e9;
    CUdeviceptr a, b, nothing;
    CUcontext ctx;
    CUstream stream;
    CUevent event;
    CUmodule module;
    CUfunction add;
    char *x, *y;
    unsigned type;
    int t, i, count = 0, term = 0;
    void *params[] = {&nothing, &count, &term};

    if (CUDA_SUCCESS != cuInit(0) || CUDA_SUCCESS != cuDevicePrimaryCtxRetain(&ctx, 0)
        || CUDA_SUCCESS != cuCtxSetCurrent(ctx) || CUDA_SUCCESS != cuMemAlloc(&a, BYTES)
        || CUDA_SUCCESS != cuMemAlloc(&b, BYTES) || CUDA_SUCCESS != cuMemAlloc(&nothing, 16)
        || CUDA_SUCCESS != cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)
        || CUDA_SUCCESS != cuEventCreate(&event, CU_EVENT_DISABLE_TIMING)
        || CUDA_SUCCESS != cuModuleLoad(&module, "contract_kernels.fatbin")
        || CUDA_SUCCESS != cuModuleGetFunction(&add, module, "contract_add")) {
        return 1;
    }
    /* Shared memory, as the emulator's is: large pages must not make the difference. */
    x = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    y = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(x, 1, BYTES);
    memset(y, 2, BYTES);
    cuMemsetD8(a, 1, BYTES);
    cuMemsetD8(b, 2, BYTES);
    for (t = 0; t < TRIES; t++) {
        BEST(plain, memcpy(y, x, BYTES));
        BEST(copy, cuMemcpyDtoDAsync(b, a, BYTES, stream); cuStreamSynchronize(stream));
        BEST(
            record, for (i = 0; i < CALLS; i++) { cuEventRecord(event, stream); });
        BEST(
            query, for (i = 0; i < CALLS; i++) { cuEventQuery(event); });
        BEST(
            launch, for (i = 0; i < CALLS; i++) { cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL); });
        BEST(
            attribute,
            for (i = 0; i < CALLS; i++) { cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a + 5); });
    }
    printf("copy / memcpy %.3f, in us: event record %.3f, event query %.3f, launch %.3f, pointer attribute %.3f\n",
           copy / plain, record * 1e6 / CALLS, query * 1e6 / CALLS, launch * 1e6 / CALLS, attribute * 1e6 / CALLS);
    return 0;
}
