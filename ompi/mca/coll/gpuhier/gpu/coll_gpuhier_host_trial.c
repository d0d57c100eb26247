/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tries what the host can do with a GPU's memory, and what a query of the default stream means. Called by the device.
 */
#include "ompi_config.h"

#include <stdatomic.h>

#include "base/coll_gpuhier_clock.h"
#include "gpu/coll_gpuhier_gdr.h"
#include "gpu/coll_gpuhier_host_trial.h"

#define ROUNDS 10         /* for each stream: another thread's work may look like an answer, but not so often */
#define PATIENCE_US 1000u /* until the default stream has no work */
#define HELD_US 100000u   /* at most, so that a driver that calls the host function at once does not hang */

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

static void CUDA_CB hold(void *arg)
{
    _Atomic bool *released = arg;
    const uint64_t begin = gpuhier_clock_us();
    while (!atomic_load_explicit(released, memory_order_acquire) && gpuhier_clock_us() - begin < HELD_US) {
    }
}

static bool default_becomes_idle(void)
{
    const uint64_t begin = gpuhier_clock_us();
    CUresult result;
    do {
        result = gpuhier_cu.cuStreamQuery(CU_STREAM_LEGACY);
    } while (CUDA_ERROR_NOT_READY == result && gpuhier_clock_us() - begin < PATIENCE_US);
    return CUDA_SUCCESS == result;
}

/* Does the default stream, which has no work, seem busy as long as this blocking stream is held up, and no longer? */
static bool is_seen(CUstream stream)
{
    static _Atomic bool released; /* a host function may still look at it when cuStreamSynchronize() has failed */
    atomic_store_explicit(&released, false, memory_order_release);
    if (!default_becomes_idle()
        || OMPI_SUCCESS
               != gpuhier_cuda_error(gpuhier_cu.cuLaunchHostFunc(stream, hold, &released), "cuLaunchHostFunc")) {
        return false;
    }
    const CUresult held = gpuhier_cu.cuStreamQuery(CU_STREAM_LEGACY);
    atomic_store_explicit(&released, true, memory_order_release);
    const CUresult ended = gpuhier_cu.cuStreamSynchronize(stream);
    return CUDA_SUCCESS == ended && CUDA_ERROR_NOT_READY == held
           && CUDA_SUCCESS == gpuhier_cu.cuStreamQuery(CU_STREAM_LEGACY);
}

bool gpuhier_host_trial_query(void)
{
    CUstream stream;
    if (OMPI_SUCCESS
        != gpuhier_cuda_error(gpuhier_cu.cuStreamCreateWithPriority(&stream, CU_STREAM_DEFAULT, 0),
                              "cuStreamCreateWithPriority")) {
        return false;
    }
    bool seen = true;
    for (int i = 0; i < 2 * ROUNDS && seen; ++i) {
        seen = is_seen(0 == i % 2 ? stream : CU_STREAM_PER_THREAD);
    }
    (void) gpuhier_cuda_error(gpuhier_cu.cuStreamDestroy(stream), "cuStreamDestroy");
    return seen;
}
