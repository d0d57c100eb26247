/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tries what the host can do with a GPU's memory, and what a query of the default stream means. Called by the device.
 */
#include "ompi_config.h"

#include <stdatomic.h>
#include <unistd.h>

#include "base/coll_gpuhier_clock.h"
#include "gpu/coll_gpuhier_gdr.h"
#include "gpu/coll_gpuhier_host_trial.h"

#define ROUNDS 10            /* for each stream: another thread's work can look like an answer, but not in all rounds */
#define PATIENCE_US 1000000u /* how long all rounds together wait for the default stream to become idle */
#define HELD_US 100000u      /* the longest wait of hold(), or a driver that calls it inside the launch would hang */
#define HELD_POLL_US 20u     /* hold() sleeps between looks, and leaves the core to the thread that launched it */
#define MOST_VOID 3          /* void rounds that the trial puts up with, see is_seen() */

static bool copy(CUdeviceptr to, CUdeviceptr from, CUstream stream)
{
    CUresult result = gpuhier_cu.cuMemcpyAsync(to, from, sizeof(uint64_t), stream);
    result = CUDA_SUCCESS != result ? result : gpuhier_cu.cuStreamSynchronize(stream);
    return OMPI_SUCCESS == gpuhier_cuda_error(result, "a word of scratch");
}

bool gpuhier_host_trial_maps(CUdeviceptr word, CUstream stream)
{
    gpuhier_buffer_t buffer;
    uint64_t ours = 0x9e3779b97f4a7c15ull * gpuhier_clock_us(), seen = 0;
    const CUdeviceptr from = (CUdeviceptr) (uintptr_t) &ours, to = (CUdeviceptr) (uintptr_t) &seen;
    gpuhier_buffer_inspect((void *) (uintptr_t) word, &buffer);
    if (!gpuhier_gdr_map((void *) (uintptr_t) word, sizeof(ours), &buffer, 0) || !copy(word, from, stream)
        || !gpuhier_gdr_read(&seen, word, sizeof(seen), buffer.id) || ours != seen) {
        return false;
    }
    ours = ~ours;
    return gpuhier_gdr_write(word, &ours, sizeof(ours), buffer.id) && copy(to, word, stream) && ours == seen;
}

/* Static, because hold() may still read it after the trial: the driver may run host functions of several streams one
 * after the other, and the program's own may take long. */
static _Atomic int held;
enum { HELD, RELEASED, RAN_OUT };

static void CUDA_CB hold(void *arg)
{
    const uint64_t begin = gpuhier_clock_us();
    int expected = HELD;
    (void) arg;
    while (HELD == atomic_load_explicit(&held, memory_order_acquire)) {
        if (gpuhier_clock_us() - begin >= HELD_US) {
            atomic_compare_exchange_strong(&held, &expected, RAN_OUT);
            break;
        }
        usleep(HELD_POLL_US);
    }
}

static bool becomes_idle(CUstream stream, uint64_t until_us)
{
    CUresult result;
    do {
        result = gpuhier_cu.cuStreamQuery(stream);
    } while (CUDA_ERROR_NOT_READY == result && gpuhier_clock_us() < until_us);
    return CUDA_SUCCESS == result;
}

typedef enum { SEEN, NOT_SEEN, VOID } answer_t;

/* Does the default stream, which has no work, seem busy while this blocking stream is held up? The round is void if
 * the stream was no longer held up when the answer came: on a busy host this thread may have waited for a core. */
static answer_t is_seen(CUstream stream, uint64_t until_us)
{
    int expected = HELD;
    atomic_store_explicit(&held, HELD, memory_order_release);
    if (!becomes_idle(CU_STREAM_LEGACY, until_us)
        || OMPI_SUCCESS != gpuhier_cuda_error(gpuhier_cu.cuLaunchHostFunc(stream, hold, NULL), "cuLaunchHostFunc")) {
        return NOT_SEEN;
    }
    const CUresult answer = gpuhier_cu.cuStreamQuery(CU_STREAM_LEGACY);
    const bool was_held = atomic_compare_exchange_strong(&held, &expected, RELEASED);
    if (!becomes_idle(stream, until_us)) {
        return NOT_SEEN;
    }
    return !was_held                                                                    ? VOID
           : CUDA_ERROR_NOT_READY == answer && becomes_idle(CU_STREAM_LEGACY, until_us) ? SEEN
                                                                                        : NOT_SEEN;
}

bool gpuhier_host_trial_query(void)
{
    const uint64_t until_us = gpuhier_clock_us() + PATIENCE_US;
    CUstreamCaptureStatus status;
    CUstream stream;
    if (CUDA_SUCCESS != gpuhier_cu.cuStreamIsCapturing(CU_STREAM_LEGACY, &status)) {
        return false; /* a blocking stream captures a graph, which a query of the default stream would spoil */
    }
    if (OMPI_SUCCESS
        != gpuhier_cuda_error(gpuhier_cu.cuStreamCreateWithPriority(&stream, CU_STREAM_DEFAULT, 0),
                              "cuStreamCreateWithPriority")) {
        return false;
    }
    answer_t answer = SEEN;
    for (int i = 0, void_rounds = 0; i < 2 * ROUNDS && NOT_SEEN != answer;) {
        answer = is_seen(0 == i % 2 ? stream : CU_STREAM_PER_THREAD, until_us);
        i += SEEN == answer;
        if (VOID == answer && ++void_rounds > MOST_VOID) {
            answer = NOT_SEEN;
        }
    }
    (void) gpuhier_cuda_error(gpuhier_cu.cuStreamDestroy(stream), "cuStreamDestroy");
    return SEEN == answer;
}
