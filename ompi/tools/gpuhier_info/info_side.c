/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns what the tool makes on a GPU, the launches of the component's copy kernel, and the trial of what kernels see of
 * another GPU's memory. The component does the same at set-up (team/coll_gpuhier_p2p_test.c), there between processes.
 * Used by the verbs measure and doctor.
 */
#include "ompi_config.h"

#include "info_side.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu/kernels/gpuhier_kernels.h"
#include "info_driver.h"

#define KERNEL_BLOCKS 256
#define TRIAL_BYTES_MAX ((uint64_t) 64 << 10)

extern const unsigned char gpuhier_fatbin[]; /* the component's kernels */

CUresult info_side_open(info_side_t *side, int gpu, uint64_t bytes)
{
    const info_driver_t *driver = info_driver(NULL);
    CUdevice device;
    CUresult result = driver->cuDeviceGet(&device, gpu);

    side->bytes = bytes;
    result = CUDA_SUCCESS != result ? result : driver->cuDevicePrimaryCtxRetain(&side->context, device);
    if (CUDA_SUCCESS == result) {
        CUcontext none;
        result = driver->cuCtxPushCurrent(side->context);
        if (CUDA_SUCCESS == result) {
            result = driver->cuMemAlloc(&side->memory, 2 * bytes);
            if (CUDA_SUCCESS == result) {
                side->no_kernel = driver->cuModuleLoadData(&side->module, gpuhier_fatbin);
                side->no_kernel = CUDA_SUCCESS != side->no_kernel
                                      ? side->no_kernel
                                      : driver->cuModuleGetFunction(&side->kernel, side->module, "gpuhier_copy");
                side->kernel = CUDA_SUCCESS == side->no_kernel ? side->kernel : NULL;
            }
            (void) driver->cuCtxPopCurrent(&none);
        }
    }
    return result;
}

void info_side_close(info_side_t *side, int gpu)
{
    const info_driver_t *driver = info_driver(NULL);
    CUcontext none;
    CUdevice device;

    if (NULL == side->context) {
        return;
    }
    if (CUDA_SUCCESS == driver->cuCtxPushCurrent(side->context)) {
        if (0 != side->memory) {
            (void) driver->cuMemFree(side->memory);
        }
        if (NULL != side->module) {
            (void) driver->cuModuleUnload(side->module);
        }
        (void) driver->cuCtxPopCurrent(&none);
    }
    if (CUDA_SUCCESS == driver->cuDeviceGet(&device, gpu)) {
        (void) driver->cuDevicePrimaryCtxRelease(device);
    }
    memset(side, 0, sizeof(*side));
}

CUresult info_side_reach(const info_side_t *own, const info_side_t *other)
{
    const CUresult result = own == other ? CUDA_SUCCESS : info_driver(NULL)->cuCtxEnablePeerAccess(other->context, 0);

    return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED == result ? CUDA_SUCCESS : result;
}

CUresult info_side_move(const info_side_t *own, CUdeviceptr to, CUdeviceptr from, uint64_t bytes)
{
    const info_driver_t *driver = info_driver(NULL);
    gpuhier_kernel_args_t args = {.count = bytes, .nsrc = 1, .ndst = 1};
    void *params[] = {&args};

    args.src[0] = from;
    args.dst[0] = to;
    const CUresult result =
        driver->cuLaunchKernel(own->kernel, KERNEL_BLOCKS, 1, 1, GPUHIER_KERNEL_BLOCK, 1, 1, 0, NULL, params, NULL);
    return CUDA_SUCCESS != result ? result : driver->cuCtxSynchronize();
}

/* Another pattern at each call: what an earlier one left behind is not taken for right. */
static void pattern_make(unsigned char *pattern, size_t bytes)
{
    static uint64_t state;
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    state ^= (uint64_t) now.tv_nsec << 32 | (uint64_t) now.tv_sec;
    for (size_t i = 0; i < bytes; ++i) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        pattern[i] = (unsigned char) (state >> 56);
    }
}

/* A copy between host memory and a GPU's memory, in the GPU's own context. */
static CUresult put(const info_side_t *side, CUdeviceptr to, const unsigned char *from, size_t bytes)
{
    const info_driver_t *driver = info_driver(NULL);
    CUcontext none;
    CUresult result = driver->cuCtxPushCurrent(side->context);

    if (CUDA_SUCCESS == result) {
        result = driver->cuMemcpyHtoD(to, from, bytes);
        (void) driver->cuCtxPopCurrent(&none);
    }
    return result;
}

static CUresult get(const info_side_t *side, unsigned char *to, CUdeviceptr from, size_t bytes)
{
    const info_driver_t *driver = info_driver(NULL);
    CUcontext none;
    CUresult result = driver->cuCtxPushCurrent(side->context);

    if (CUDA_SUCCESS == result) {
        result = driver->cuMemcpyDtoH(to, from, bytes);
        (void) driver->cuCtxPopCurrent(&none);
    }
    return result;
}

/* Puts a pattern into memory of `holder`, has a kernel of `mover` move it to the second half of `taker`, and looks. */
static CUresult try_one(const info_side_t *mover, const info_side_t *holder, const info_side_t *taker, bool *right_p)
{
    static unsigned char sent[TRIAL_BYTES_MAX], got[TRIAL_BYTES_MAX];
    const info_driver_t *driver = info_driver(NULL);
    const size_t bytes = mover->bytes < TRIAL_BYTES_MAX ? mover->bytes : TRIAL_BYTES_MAX;
    CUcontext none;

    pattern_make(sent, bytes);
    CUresult result = put(holder, holder->memory, sent, bytes);
    if (CUDA_SUCCESS == result && CUDA_SUCCESS == (result = driver->cuCtxPushCurrent(mover->context))) {
        result = info_side_move(mover, taker->memory + taker->bytes, holder->memory, bytes);
        (void) driver->cuCtxPopCurrent(&none);
    }
    result = CUDA_SUCCESS != result ? result : get(taker, got, taker->memory + taker->bytes, bytes);
    *right_p = CUDA_SUCCESS == result && 0 == memcmp(sent, got, bytes);
    return result;
}

CUresult info_side_try(const info_side_t *own, const info_side_t *other, info_trial_t *trial_p)
{
    const CUresult result = try_one(own, other, own, &trial_p->reads);

    return CUDA_SUCCESS != result ? result : try_one(own, own, other, &trial_p->writes);
}

const char *info_trial_text(const info_trial_t *trial, int own)
{
    static char text[96];

    if (trial->reads && trial->writes) {
        return NULL;
    }
    snprintf(text, sizeof(text), "%s GPU%d %s", trial->reads ? "writes of kernels of" : "kernels of", own,
             trial->reads    ? "do not arrive"
             : trial->writes ? "read wrong data"
                             : "read wrong data, and their writes do not arrive");
    return text;
}
