/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Device, host and managed memory.
 *
 * Owns the calls; what lies where is sim_memory.c's. Freeing memory waits for the
 * GPU, as the real driver does.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "api.h"
#include "sim_context.h"
#include "sim_counters.h"
#include "sim_engine.h"
#include "sim_memory.h"
#include "sim_pool.h"

#define PITCH 512

CUresult sim_cuMemGetInfo_v2(size_t *free_p, size_t *total_p)
{
    int physical = sim_context_current()->physical;
    size_t total = sim_driver.topology.gpus[physical].memory;

    if (NULL == free_p || NULL == total_p) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *total_p = total;
    *free_p = total - sim_memory_used(physical);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemAlloc_v2(CUdeviceptr *pointer_p, size_t bytes)
{
    CUcontext ctx = sim_context_current();
    struct sim_alloc *alloc;
    CUresult rc;

    if (NULL == pointer_p || 0 == bytes) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    rc = sim_memory_device_alloc(ctx, ctx->physical, bytes, SIM_KIND_DEVICE, &alloc);
    if (CUDA_SUCCESS == rc) {
        sim_count(allocs);
        *pointer_p = (CUdeviceptr) alloc->base;
    }
    return rc;
}

CUresult sim_cuMemAllocPitch_v2(CUdeviceptr *pointer_p, size_t *pitch_p, size_t width, size_t height,
                                unsigned int element)
{
    size_t pitch = (width + PITCH - 1) / PITCH * PITCH;
    CUresult rc;

    if (NULL == pitch_p || (4 != element && 8 != element && 16 != element)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    rc = sim_cuMemAlloc_v2(pointer_p, pitch * height);
    if (CUDA_SUCCESS == rc) {
        *pitch_p = pitch;
    }
    return rc;
}

static CUresult host_alloc(void **pointer_p, size_t bytes, enum sim_kind kind, unsigned flags)
{
    struct sim_alloc *alloc;
    void *memory;
    CUresult rc;

    if (NULL == pointer_p || 0 == bytes) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (MAP_FAILED == memory) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    rc = sim_memory_host_add(sim_context_current(), kind, memory, bytes, flags, &alloc);
    if (CUDA_SUCCESS != rc) {
        munmap(memory, bytes);
        return rc;
    }
    *pointer_p = memory;
    return CUDA_SUCCESS;
}

static void host_free(struct sim_alloc *alloc)
{
    void *memory = (void *) alloc->base;
    size_t bytes = alloc->size;

    sim_device_drain(alloc->device);
    sim_memory_remove(alloc);
    munmap(memory, bytes);
}

CUresult sim_cuMemFree_v2(CUdeviceptr pointer)
{
    struct sim_alloc *alloc = sim_memory_find((uintptr_t) pointer);

    if (0 == pointer) {
        return CUDA_SUCCESS;
    }
    if (NULL == alloc || alloc->base != (uintptr_t) pointer) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    switch (alloc->kind) {
    case SIM_KIND_DEVICE:
    case SIM_KIND_POOL:
        sim_device_drain(alloc->device);
        if (SIM_KIND_POOL == alloc->kind) {
            sim_pool_account(alloc);
        }
        sim_memory_remove(alloc);
        break;
    case SIM_KIND_MANAGED:
        host_free(alloc);
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    sim_count(frees);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemAllocManaged(CUdeviceptr *pointer_p, size_t bytes, unsigned int flags)
{
    if (CU_MEM_ATTACH_GLOBAL != flags && CU_MEM_ATTACH_HOST != flags) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return host_alloc((void **) pointer_p, bytes, SIM_KIND_MANAGED, flags);
}

CUresult sim_cuMemAllocHost_v2(void **pointer_p, size_t bytes)
{
    return host_alloc(pointer_p, bytes, SIM_KIND_HOST, CU_MEMHOSTALLOC_DEVICEMAP);
}

CUresult sim_cuMemHostAlloc(void **pointer_p, size_t bytes, unsigned int flags)
{
    if (0
        != (flags
            & ~(unsigned) (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED))) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return host_alloc(pointer_p, bytes, SIM_KIND_HOST, flags | CU_MEMHOSTALLOC_DEVICEMAP);
}

CUresult sim_cuMemFreeHost(void *pointer)
{
    struct sim_alloc *alloc = sim_memory_find((uintptr_t) pointer);

    if (NULL == alloc || SIM_KIND_HOST != alloc->kind || alloc->base != (uintptr_t) pointer) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    host_free(alloc);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemHostRegister_v2(void *host, size_t bytes, unsigned int flags)
{
    const unsigned known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_IOMEMORY
                           | CU_MEMHOSTREGISTER_READ_ONLY;
    struct sim_alloc *alloc;

    if (NULL == host || 0 == bytes || 0 != (flags & ~known) || sim_is_device_address((uintptr_t) host)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return sim_memory_host_add(sim_context_current(), SIM_KIND_REGISTERED, host, bytes,
                               flags | CU_MEMHOSTREGISTER_DEVICEMAP, &alloc);
}

CUresult sim_cuMemHostUnregister(void *host)
{
    struct sim_alloc *alloc = sim_memory_find((uintptr_t) host);

    if (NULL == alloc || SIM_KIND_REGISTERED != alloc->kind || alloc->base != (uintptr_t) host) {
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    }
    sim_device_drain(alloc->device);
    sim_memory_remove(alloc);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemHostGetDevicePointer_v2(CUdeviceptr *pointer_p, void *host, unsigned int flags)
{
    struct sim_alloc *alloc = sim_memory_find((uintptr_t) host);

    if (NULL == pointer_p || 0 != flags || NULL == alloc || alloc->kind < SIM_KIND_HOST) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *pointer_p = (CUdeviceptr) (uintptr_t) host; /* unified addressing */
    return CUDA_SUCCESS;
}

CUresult sim_cuMemHostGetFlags(unsigned int *flags_p, void *host)
{
    struct sim_alloc *alloc = sim_memory_find((uintptr_t) host);

    if (NULL == flags_p || NULL == alloc || SIM_KIND_HOST != alloc->kind) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *flags_p = alloc->flags;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemGetAddressRange_v2(CUdeviceptr *base_p, size_t *bytes_p, CUdeviceptr pointer)
{
    struct sim_alloc *alloc = sim_memory_find((uintptr_t) pointer);

    if (NULL == alloc) {
        return CUDA_ERROR_NOT_FOUND;
    }
    if (NULL != base_p) {
        *base_p = (CUdeviceptr) alloc->base;
    }
    if (NULL != bytes_p) {
        *bytes_p = alloc->size;
    }
    return CUDA_SUCCESS;
}

/* ---- managed memory: where it is makes no difference here, so advice is checked and otherwise heard only ---- */

static CUresult managed_check(CUdeviceptr pointer, size_t bytes)
{
    struct sim_alloc *alloc = sim_memory_find((uintptr_t) pointer);

    if (NULL == alloc || SIM_KIND_MANAGED != alloc->kind || 0 == bytes
        || (uintptr_t) pointer + bytes > alloc->base + alloc->size) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static CUresult device_check(CUdevice device)
{
    return (CU_DEVICE_CPU == device || (device >= 0 && device < sim_driver.ndevices)) ? CUDA_SUCCESS
                                                                                      : CUDA_ERROR_INVALID_DEVICE;
}

static CUresult location_check(CUmemLocation where)
{
    return CU_MEM_LOCATION_TYPE_DEVICE == where.type ? device_check(where.id) : CUDA_SUCCESS;
}

CUresult sim_cuMemPrefetchAsync(CUdeviceptr pointer, size_t bytes, CUdevice device, CUstream handle)
{
    CUstream stream;
    CUresult rc = managed_check(pointer, bytes);

    if (CUDA_SUCCESS == rc) {
        rc = device_check(device);
    }
    return CUDA_SUCCESS == rc ? sim_stream_resolve(handle, &stream) : rc;
}

CUresult sim_cuMemPrefetchAsync_v2(CUdeviceptr pointer, size_t bytes, CUmemLocation where, unsigned int flags,
                                   CUstream handle)
{
    CUstream stream;
    CUresult rc = managed_check(pointer, bytes);

    if (0 != flags) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (CUDA_SUCCESS == rc) {
        rc = location_check(where);
    }
    return CUDA_SUCCESS == rc ? sim_stream_resolve(handle, &stream) : rc;
}

CUresult sim_cuMemAdvise(CUdeviceptr pointer, size_t bytes, CUmem_advise advice, CUdevice device)
{
    CUresult rc = managed_check(pointer, bytes);

    (void) advice;
    return CUDA_SUCCESS == rc ? device_check(device) : rc;
}

CUresult sim_cuMemAdvise_v2(CUdeviceptr pointer, size_t bytes, CUmem_advise advice, CUmemLocation where)
{
    CUresult rc = managed_check(pointer, bytes);

    (void) advice;
    return CUDA_SUCCESS == rc ? location_check(where) : rc;
}
