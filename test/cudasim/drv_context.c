/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Contexts.
 *
 * Owns primary and created contexts, each thread's stack of them, limits and peer
 * access. Does not own what lives in a context; it asks the owners to clear up
 * (sim_memory.c, sim_ipc.c, sim_engine.c) when one ends.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "sim_context.h"
#include "sim_counters.h"
#include "sim_engine.h"
#include "sim_ipc.h"
#include "sim_memory.h"

#define FLAG_BITS 0xff /* all flags of cuCtxCreate */

_Thread_local struct sim_thread sim_thread;

/* Guards devices' primary contexts and the list of contexts. */
static pthread_mutex_t context_mutex = PTHREAD_MUTEX_INITIALIZER;
static CUcontext contexts;
static uint64_t next_context_id = 1;

CUresult sim_context_check(CUcontext ctx)
{
    if (NULL == ctx || SIM_CONTEXT_MAGIC != ctx->magic) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    return atomic_load(&ctx->alive) ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

void sim_context_poison(CUcontext ctx, CUresult error, const char *what)
{
    int none = CUDA_SUCCESS;

    if (atomic_compare_exchange_strong(&ctx->sticky, &none, (int) error)) {
        fprintf(stderr, "cudasim: GPU %d: %s\n", ctx->physical, what);
    }
}

static bool device_exists(CUdevice device)
{
    return device >= 0 && device < sim_driver.ndevices;
}

/* Under the context lock: brings a context to life, a new one or a primary one again. */
static void context_start(CUcontext ctx, CUdevice device, unsigned flags)
{
    int i;

    ctx->ordinal = device;
    ctx->physical = sim_driver.devices[device].physical;
    ctx->flags = flags;
    ctx->api_version = 3020;
    ctx->id = next_context_id++;
    atomic_store(&ctx->sticky, CUDA_SUCCESS);
    for (i = 0; i < SIM_MAX_GPUS; i++) {
        atomic_store(&ctx->peers[i], 0);
    }
    memset(ctx->limits, 0, sizeof(ctx->limits));
    ctx->limits[CU_LIMIT_STACK_SIZE] = 1024;
    ctx->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 7340032;
    ctx->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8388608;
    ctx->magic = SIM_CONTEXT_MAGIC;
    atomic_store_explicit(&ctx->alive, true, memory_order_release);
}

static CUcontext context_new(void)
{
    CUcontext ctx = calloc(1, sizeof(*ctx));

    if (NULL != ctx) {
        ctx->next = contexts;
        contexts = ctx;
    }
    return ctx;
}

/* The context's end: its work is finished, and what it owns is freed. */
static void context_end(CUcontext ctx)
{
    sim_context_drain(ctx);
    atomic_store(&ctx->alive, false);
    sim_ipc_context_clear(ctx);
    sim_memory_context_clear(ctx);
    sim_streams_context_clear(ctx);
    sim_events_context_clear(ctx);
}

/* ---- primary contexts ---- */

CUresult sim_cuDevicePrimaryCtxRetain(CUcontext *ctx_p, CUdevice device)
{
    struct sim_device *dev;
    CUresult rc = CUDA_SUCCESS;

    if (NULL == ctx_p) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!device_exists(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    dev = &sim_driver.devices[device];
    pthread_mutex_lock(&context_mutex);
    if (NULL == dev->primary) {
        dev->primary = context_new();
    }
    if (NULL == dev->primary) {
        rc = CUDA_ERROR_OUT_OF_MEMORY;
    } else {
        if (!atomic_load(&dev->primary->alive)) {
            dev->primary->primary = true;
            context_start(dev->primary, device, dev->primary_flags);
        }
        dev->primary_refs++;
        *ctx_p = dev->primary;
    }
    pthread_mutex_unlock(&context_mutex);
    return rc;
}

CUresult sim_cuDevicePrimaryCtxRelease(CUdevice device)
{
    struct sim_device *dev;
    CUresult rc = CUDA_SUCCESS;

    if (!device_exists(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    dev = &sim_driver.devices[device];
    pthread_mutex_lock(&context_mutex);
    if (0 == dev->primary_refs) {
        rc = CUDA_ERROR_INVALID_CONTEXT;
    } else if (0 == --dev->primary_refs) {
        context_end(dev->primary);
    }
    pthread_mutex_unlock(&context_mutex);
    return rc;
}

CUresult sim_cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    return sim_cuDevicePrimaryCtxRelease(device);
}

CUresult sim_cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags)
{
    struct sim_device *dev;

    if (!device_exists(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (0 != (flags & ~(unsigned) FLAG_BITS)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    dev = &sim_driver.devices[device];
    pthread_mutex_lock(&context_mutex);
    dev->primary_flags = flags;
    if (NULL != dev->primary) {
        dev->primary->flags = flags;
    }
    pthread_mutex_unlock(&context_mutex);
    return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags)
{
    return sim_cuDevicePrimaryCtxSetFlags(device, flags);
}

CUresult sim_cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags_p, int *active_p)
{
    struct sim_device *dev;

    if (!device_exists(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (NULL == flags_p || NULL == active_p) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    dev = &sim_driver.devices[device];
    pthread_mutex_lock(&context_mutex);
    *flags_p = dev->primary_flags;
    *active_p = NULL != dev->primary && atomic_load(&dev->primary->alive);
    pthread_mutex_unlock(&context_mutex);
    return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxReset(CUdevice device)
{
    struct sim_device *dev;

    if (!device_exists(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    dev = &sim_driver.devices[device];
    pthread_mutex_lock(&context_mutex);
    if (NULL != dev->primary && atomic_load(&dev->primary->alive)) {
        context_end(dev->primary);
        if (dev->primary_refs > 0) { /* its holders go on with an empty one */
            context_start(dev->primary, device, dev->primary_flags);
        }
    }
    pthread_mutex_unlock(&context_mutex);
    return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    return sim_cuDevicePrimaryCtxReset(device);
}

/* ---- created contexts ---- */

static CUresult context_push(CUcontext ctx)
{
    if (SIM_STACK_DEPTH == sim_thread.depth) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sim_thread.stack[sim_thread.depth++] = ctx;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxCreate_v2(CUcontext *ctx_p, unsigned int flags, CUdevice device)
{
    CUcontext ctx;

    if (NULL == ctx_p || 0 != (flags & ~(unsigned) FLAG_BITS)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!device_exists(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    pthread_mutex_lock(&context_mutex);
    ctx = context_new();
    if (NULL != ctx) {
        context_start(ctx, device, flags);
    }
    pthread_mutex_unlock(&context_mutex);
    if (NULL == ctx) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *ctx_p = ctx;
    return context_push(ctx);
}

CUresult sim_cuCtxCreate_v3(CUcontext *ctx_p, CUexecAffinityParam *params, int nparams, unsigned int flags,
                            CUdevice device)
{
    (void) params;
    if (0 != nparams) {
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    }
    return sim_cuCtxCreate_v2(ctx_p, flags, device);
}

CUresult sim_cuCtxCreate_v4(CUcontext *ctx_p, CUctxCreateParams *params, unsigned int flags, CUdevice device)
{
    if (NULL != params && (0 != params->numExecAffinityParams || NULL != params->cigParams)) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return sim_cuCtxCreate_v2(ctx_p, flags, device);
}

CUresult sim_cuCtxDestroy_v2(CUcontext ctx)
{
    CUresult rc = sim_context_check(ctx);

    if (CUDA_SUCCESS != rc) {
        return rc;
    }
    if (ctx->primary) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    pthread_mutex_lock(&context_mutex);
    context_end(ctx);
    pthread_mutex_unlock(&context_mutex);
    if (ctx == sim_context_current()) {
        sim_thread.depth--;
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxPushCurrent_v2(CUcontext ctx)
{
    CUresult rc = sim_context_check(ctx);

    return CUDA_SUCCESS == rc ? context_push(ctx) : rc;
}

CUresult sim_cuCtxPopCurrent_v2(CUcontext *ctx_p)
{
    if (0 == sim_thread.depth) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    sim_thread.depth--;
    if (NULL != ctx_p) {
        *ctx_p = sim_thread.stack[sim_thread.depth];
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetCurrent(CUcontext ctx)
{
    CUresult rc;

    if (NULL == ctx) {
        if (sim_thread.depth > 0) {
            sim_thread.depth--;
        }
        return CUDA_SUCCESS;
    }
    rc = sim_context_check(ctx);
    if (CUDA_SUCCESS != rc) {
        return rc;
    }
    if (0 == sim_thread.depth) {
        return context_push(ctx);
    }
    sim_thread.stack[sim_thread.depth - 1] = ctx;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetCurrent(CUcontext *ctx_p)
{
    if (NULL == ctx_p) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *ctx_p = sim_context_current();
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetDevice(CUdevice *device_p)
{
    if (NULL == device_p) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *device_p = sim_context_current()->ordinal;
    return CUDA_SUCCESS;
}

/* The named context, or for NULL the current one. */
static CUresult context_named(CUcontext *ctx_p)
{
    if (NULL == *ctx_p) {
        *ctx_p = sim_context_current();
    }
    return sim_context_check(*ctx_p);
}

CUresult sim_cuCtxGetDevice_v2(CUdevice *device_p, CUcontext ctx)
{
    CUresult rc = context_named(&ctx);

    if (CUDA_SUCCESS == rc) {
        *device_p = ctx->ordinal;
    }
    return rc;
}

CUresult sim_cuCtxGetFlags(unsigned int *flags_p)
{
    if (NULL == flags_p) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *flags_p = sim_context_current()->flags;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetFlags(unsigned int flags)
{
    if (0 != (flags & ~(unsigned) FLAG_BITS)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sim_context_current()->flags = flags;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetId(CUcontext ctx, unsigned long long *id_p)
{
    CUresult rc = context_named(&ctx);

    if (CUDA_SUCCESS == rc) {
        *id_p = ctx->id;
    }
    return rc;
}

CUresult sim_cuCtxGetApiVersion(CUcontext ctx, unsigned int *version_p)
{
    CUresult rc = context_named(&ctx);

    if (CUDA_SUCCESS == rc) {
        *version_p = ctx->api_version;
    }
    return rc;
}

CUresult sim_cuCtxSynchronize(void)
{
    return sim_cuCtxSynchronize_v2(sim_context_current());
}

CUresult sim_cuCtxSynchronize_v2(CUcontext ctx)
{
    CUresult rc = context_named(&ctx);

    if (CUDA_SUCCESS != rc) {
        return rc;
    }
    sim_count(syncs);
    sim_context_drain(ctx);
    return (CUresult) atomic_load(&ctx->sticky);
}

CUresult sim_cuCtxSetLimit(CUlimit limit, size_t value)
{
    if ((unsigned) limit >= SIM_NLIMITS || limit >= CU_LIMIT_MAX) {
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    }
    sim_context_current()->limits[limit] = value;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetLimit(size_t *value_p, CUlimit limit)
{
    if (NULL == value_p) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if ((unsigned) limit >= SIM_NLIMITS || limit >= CU_LIMIT_MAX) {
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    }
    *value_p = sim_context_current()->limits[limit];
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetStreamPriorityRange(int *least_p, int *greatest_p)
{
    if (NULL != least_p) {
        *least_p = 0;
    }
    if (NULL != greatest_p) {
        *greatest_p = -5;
    }
    return CUDA_SUCCESS;
}

/* ---- peers ---- */

CUresult sim_cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
    CUcontext ctx = sim_context_current();
    CUresult rc = sim_context_check(peer);

    if (CUDA_SUCCESS != rc) {
        return rc;
    }
    if (0 != flags) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!sim_device_peer(ctx->physical, peer->physical)) {
        return ctx == peer ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    }
    if (0 != atomic_exchange(&ctx->peers[peer->physical], 1)) {
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxDisablePeerAccess(CUcontext peer)
{
    CUresult rc = sim_context_check(peer);

    if (CUDA_SUCCESS != rc) {
        return rc;
    }
    if (0 == atomic_exchange(&sim_context_current()->peers[peer->physical], 0)) {
        return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target, CUflushGPUDirectRDMAWritesScope scope)
{
    if (CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX != target
        || (CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER != scope
            && CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES != scope)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS; /* what is written here is visible at once */
}

CUresult sim_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode_p)
{
    static _Thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    CUstreamCaptureMode old = mode;

    if (NULL == mode_p || *mode_p > CU_STREAM_CAPTURE_MODE_RELAXED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    mode = *mode_p;
    *mode_p = old;
    return CUDA_SUCCESS;
}
