/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Several threads at once: allocations, copies, streams, events, host functions, pools, look-ups.
 *
 *   stress_test [THREADS] [ROUNDS] [SEED]
 *
 * Each thread has its own data and checks all of it; what they share is the emulator.
 */
#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 3000
#define BYTES (COUNT * sizeof(uint32_t))

static _Atomic int failures;
static CUcontext contexts[2]; /* of as many GPUs, if there are two */
static int ngpus;
static int rounds;
static uint64_t seed;

static void expect(int holds, const char *what, int line)
{
    if (!holds) {
        fprintf(stderr, "line %d: does not hold: %s\n", line, what);
        failures++;
    }
}

#define EXPECT(condition) expect(condition, #condition, __LINE__)
#define OK(call) EXPECT(CUDA_SUCCESS == (call))

static uint32_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t) (*state >> 33);
}

static void count_up(void *argument)
{
    ++*(int *) argument;
}

struct place {
    CUstream streams[3];
    CUevent event;
    uint32_t *pinned;
    int heard;
    int ended[3]; /* pieces of work that ended, by stream */
};

/* Fill in one stream, copy in a second that waits for it, and look. */
static void one_round(struct place *place, uint64_t *state)
{
    CUstream first = place->streams[draw(state) % 3], second = place->streams[draw(state) % 3];
    uint32_t value = draw(state);
    CUdeviceptr a, b, base = 0;
    size_t size = BYTES + draw(state) % 3 * (1 << 20), got = 0;
    int pool = 0 == draw(state) % 4, heard = place->heard, i;

    if (pool) {
        OK(cuMemAllocAsync(&a, size, first));
    } else {
        OK(cuMemAlloc(&a, size));
    }
    OK(cuMemAlloc(&b, BYTES));
    OK(cuMemGetAddressRange(&base, &got, a + draw(state) % BYTES));
    EXPECT(base == a && got == size);
    OK(cuMemsetD32Async(a, value, COUNT, first));
    OK(cuMemcpyDtoDAsync(b, a, BYTES, first));
    OK(cuLaunchHostFunc(first, count_up, &place->heard));
    OK(cuEventRecord(place->event, first));
    OK(cuStreamWaitEvent(second, place->event, 0));
    OK(cuMemcpyDtoHAsync(place->pinned, b, BYTES, second));
    if (draw(state) % 2) {
        while (CUDA_ERROR_NOT_READY == cuStreamQuery(second)) {
        }
    } else {
        OK(cuStreamSynchronize(second));
    }
    EXPECT(heard + 1 == place->heard);
    for (i = 0; i < COUNT && value == place->pinned[i]; i++) {
    }
    EXPECT(COUNT == i);
    if (pool) {
        OK(cuMemFreeAsync(a, second));
    } else {
        OK(cuMemFree(a));
    }
    OK(cuMemFree(b));
}

/* Work in all streams, and a call that waits for all of it, whatever other threads wait for. */
static void wait_round(struct place *place, uint64_t *state)
{
    const size_t count = (size_t) 1 << 18;
    CUdeviceptr a;
    int i, before[3];

    OK(cuMemAlloc(&a, 3 * count * sizeof(uint32_t)));
    for (i = 0; i < 3; i++) {
        before[i] = place->ended[i];
        OK(cuMemsetD32Async(a + i * count * sizeof(uint32_t), draw(state), count, place->streams[i]));
        OK(cuLaunchHostFunc(place->streams[i], count_up, &place->ended[i]));
    }
    if (draw(state) % 2) {
        OK(cuCtxSynchronize());
    }
    OK(cuMemFree(a));
    for (i = 0; i < 3; i++) {
        EXPECT(before[i] + 1 == place->ended[i]);
    }
}

static void *thread_main(void *argument)
{
    uint64_t state = seed * 1000 + (uintptr_t) argument;
    struct place place = {0};
    int round, i;

    OK(cuCtxSetCurrent(contexts[(uintptr_t) argument % (unsigned) ngpus]));
    OK(cuMemAllocHost((void **) &place.pinned, BYTES));
    for (round = 0; round < rounds && failures < 10; round++) {
        if (0 == round % 10) {
            for (i = 0; i < 3; i++) {
                if (round > 0) {
                    OK(cuStreamDestroy(place.streams[i]));
                }
                OK(cuStreamCreate(&place.streams[i], i % 2 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
            }
            if (round > 0) {
                OK(cuEventDestroy(place.event));
            }
            OK(cuEventCreate(&place.event, CU_EVENT_DISABLE_TIMING));
        }
        one_round(&place, &state);
        if (0 == draw(&state) % 4) {
            wait_round(&place, &state);
        }
    }
    OK(cuMemFreeHost(place.pinned));
    OK(cuEventDestroy(place.event));
    return NULL;
}

int main(int argc, char **argv)
{
    int nthreads = argc > 1 ? atoi(argv[1]) : 4, i;
    pthread_t threads[64];

    rounds = argc > 2 ? atoi(argv[2]) : 100;
    seed = argc > 3 ? strtoull(argv[3], NULL, 0) : 1;
    if (nthreads < 1 || nthreads > 64) {
        return 2;
    }
    OK(cuInit(0));
    OK(cuDeviceGetCount(&ngpus));
    ngpus = ngpus < 2 ? 1 : 2;
    for (i = 0; i < ngpus; i++) {
        OK(cuDevicePrimaryCtxRetain(&contexts[i], i));
    }
    for (i = 0; i < nthreads; i++) {
        pthread_create(&threads[i], NULL, thread_main, (void *) (uintptr_t) i);
    }
    for (i = 0; i < nthreads; i++) {
        pthread_join(threads[i], NULL);
    }
    for (i = 0; i < ngpus; i++) {
        OK(cuDevicePrimaryCtxRelease(i));
    }
    return failures > 0;
}
