/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory pools and stream-ordered allocation.
 *
 * Owns pools. Memory is found at once and freed when the stream gets there; it is not
 * kept for reuse, so a pool's attributes only remember what they were set to. Pool
 * memory cannot be exported by legacy IPC.
 */
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "sim_context.h"
#include "sim_counters.h"
#include "sim_engine.h"
#include "sim_memory.h"
#include "sim_pool.h"

#define POOL_MAGIC 0x706f6f6cu
#define NATTRIBUTES 16

/* Lives from create to destroy; a device's default pool for ever. access is guarded by the memory lock. */
struct CUmemPoolHandle_st {
    uint32_t magic;
    int device; /* physical */
    bool is_default;
    int access; /* bit per physical GPU */
    _Atomic uint64_t used, high;
    uint64_t attributes[NATTRIBUTES];
};

struct free_work {
    struct sim_alloc *alloc;
};

static CUresult pool_check(CUmemoryPool pool)
{
    return (NULL != pool && POOL_MAGIC == pool->magic) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUmemoryPool pool_new(int device, bool is_default)
{
    CUmemoryPool pool = calloc(1, sizeof(*pool));

    if (NULL != pool) {
        pool->magic = POOL_MAGIC;
        pool->device = device;
        pool->is_default = is_default;
        pool->access = 1 << device;
        pool->attributes[CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] = 1;
        pool->attributes[CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC] = 1;
        pool->attributes[CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES] = 1;
    }
    return pool;
}

/* The device's pools, made on first use. */
static CUresult device_pools(CUdevice ordinal, struct sim_device **device_p)
{
    struct sim_device *device;

    if (ordinal < 0 || ordinal >= sim_driver.ndevices) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    device = &sim_driver.devices[ordinal];
    sim_memory_lock();
    if (NULL == device->default_pool) {
        device->default_pool = pool_new(device->physical, true);
        device->pool = device->default_pool;
    }
    sim_memory_unlock();
    *device_p = device;
    return NULL != device->default_pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_cuDeviceGetDefaultMemPool(CUmemoryPool *pool_p, CUdevice ordinal)
{
    struct sim_device *device;
    CUresult rc = device_pools(ordinal, &device);

    if (CUDA_SUCCESS == rc) {
        *pool_p = device->default_pool;
    }
    return rc;
}

CUresult sim_cuDeviceGetMemPool(CUmemoryPool *pool_p, CUdevice ordinal)
{
    struct sim_device *device;
    CUresult rc = device_pools(ordinal, &device);

    if (CUDA_SUCCESS == rc) {
        *pool_p = device->pool;
    }
    return rc;
}

CUresult sim_cuDeviceSetMemPool(CUdevice ordinal, CUmemoryPool pool)
{
    struct sim_device *device;
    CUresult rc = device_pools(ordinal, &device);

    if (CUDA_SUCCESS == rc) {
        rc = pool_check(pool);
    }
    if (CUDA_SUCCESS == rc && pool->device != device->physical) {
        rc = CUDA_ERROR_INVALID_VALUE;
    }
    if (CUDA_SUCCESS == rc) {
        device->pool = pool;
    }
    return rc;
}

CUresult sim_cuMemPoolCreate(CUmemoryPool *pool_p, const CUmemPoolProps *properties)
{
    if (NULL == pool_p || NULL == properties || CU_MEM_ALLOCATION_TYPE_PINNED != properties->allocType) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (CU_MEM_LOCATION_TYPE_DEVICE != properties->location.type
        || CU_MEM_HANDLE_TYPE_NONE != properties->handleTypes) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (properties->location.id < 0 || properties->location.id >= sim_driver.ndevices) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *pool_p = pool_new(sim_driver.devices[properties->location.id].physical, false);
    return NULL != *pool_p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_cuMemPoolDestroy(CUmemoryPool pool)
{
    CUresult rc = pool_check(pool);
    int ordinal;

    if (CUDA_SUCCESS != rc || pool->is_default) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (0 != atomic_load(&pool->used)) {
        sim_device_drain(pool->device); /* frees may be under way */
    }
    ordinal = sim_device_ordinal(pool->device);
    if (ordinal >= 0 && sim_driver.devices[ordinal].pool == pool) {
        sim_driver.devices[ordinal].pool = sim_driver.devices[ordinal].default_pool;
    }
    pool->magic = 0;
    if (0 == atomic_load(&pool->used)) { /* else its allocations go on, and need the record */
        free(pool);
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
    (void) keep;
    return pool_check(pool); /* nothing is kept */
}

CUresult sim_cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    int flag;
    CUresult rc = pool_check(pool);

    if (CUDA_SUCCESS != rc) {
        return rc;
    }
    if (NULL == value || attribute < 1 || attribute >= NATTRIBUTES) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    switch ((int) attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        memcpy(&flag, value, sizeof(flag));
        pool->attributes[attribute] = (uint64_t) (0 != flag);
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        memcpy(&pool->attributes[attribute], value, sizeof(uint64_t));
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        atomic_store(&pool->high, atomic_load(&pool->used));
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult sim_cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value_p)
{
    uint64_t value;
    int flag;
    CUresult rc = pool_check(pool);

    if (CUDA_SUCCESS != rc) {
        return rc;
    }
    if (NULL == value_p || attribute < 1 || attribute >= NATTRIBUTES) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    value = pool->attributes[attribute];
    switch ((int) attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        flag = (int) value;
        memcpy(value_p, &flag, sizeof(flag));
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        value = atomic_load(&pool->used);
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        value = atomic_load(&pool->high);
        break;
    default:
        break;
    }
    memcpy(value_p, &value, sizeof(value));
    return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    CUresult rc = pool_check(pool);
    size_t i;
    int device;

    for (i = 0; i < count && CUDA_SUCCESS == rc; i++) {
        if (CU_MEM_LOCATION_TYPE_DEVICE != map[i].location.type || map[i].location.id < 0
            || map[i].location.id >= sim_driver.ndevices) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        device = sim_driver.devices[map[i].location.id].physical;
        if (device == pool->device) {
            rc = CU_MEM_ACCESS_FLAGS_PROT_READWRITE == map[i].flags ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
            continue;
        }
        if (!sim_device_peer(device, pool->device)) {
            return CUDA_ERROR_INVALID_DEVICE;
        }
        sim_memory_lock();
        if (CU_MEM_ACCESS_FLAGS_PROT_NONE == map[i].flags) {
            pool->access &= ~(1 << device);
        } else {
            pool->access |= 1 << device;
        }
        sim_memory_unlock();
    }
    return rc;
}

CUresult sim_cuMemPoolGetAccess(CUmemAccess_flags *flags_p, CUmemoryPool pool, CUmemLocation *where)
{
    CUresult rc = pool_check(pool);

    if (CUDA_SUCCESS != rc) {
        return rc;
    }
    if (NULL == flags_p || NULL == where || CU_MEM_LOCATION_TYPE_DEVICE != where->type || where->id < 0
        || where->id >= sim_driver.ndevices) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *flags_p = 0 != (pool->access & (1 << sim_driver.devices[where->id].physical)) ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                                                                   : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}

bool sim_pool_access(const struct sim_alloc *alloc, int physical)
{
    CUmemoryPool pool = alloc->owner;

    return 0 != (pool->access & (1 << physical));
}

/* ---- stream-ordered allocation ---- */

CUresult sim_cuMemAllocFromPoolAsync(CUdeviceptr *pointer_p, size_t bytes, CUmemoryPool pool, CUstream handle)
{
    struct sim_alloc *alloc;
    CUstream stream;
    uint64_t used, high;
    CUresult rc = pool_check(pool);

    if (CUDA_SUCCESS == rc) {
        rc = sim_stream_resolve(handle, &stream);
    }
    if (CUDA_SUCCESS == rc && (NULL == pointer_p || 0 == bytes)) {
        rc = CUDA_ERROR_INVALID_VALUE;
    }
    if (CUDA_SUCCESS == rc) {
        rc = sim_memory_device_alloc(NULL, pool->device, bytes, SIM_KIND_POOL, &alloc);
    }
    if (CUDA_SUCCESS != rc) {
        return rc;
    }
    alloc->owner = pool;
    used = atomic_fetch_add(&pool->used, bytes) + bytes;
    high = atomic_load(&pool->high);
    while (high < used && !atomic_compare_exchange_weak(&pool->high, &high, used)) {
    }
    sim_count(allocs);
    *pointer_p = (CUdeviceptr) alloc->base;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemAllocAsync(CUdeviceptr *pointer_p, size_t bytes, CUstream handle)
{
    struct sim_device *device;
    CUresult rc = device_pools(sim_context_current()->ordinal, &device);

    return CUDA_SUCCESS == rc ? sim_cuMemAllocFromPoolAsync(pointer_p, bytes, device->pool, handle) : rc;
}

void sim_pool_account(struct sim_alloc *alloc)
{
    CUmemoryPool pool = alloc->owner;

    atomic_fetch_sub(&pool->used, alloc->size);
}

static void run_free(struct sim_item *item)
{
    const struct free_work *work = (const void *) item->payload;

    sim_pool_account(work->alloc);
    sim_memory_remove(work->alloc);
}

CUresult sim_cuMemFreeAsync(CUdeviceptr pointer, CUstream handle)
{
    struct sim_alloc *alloc = sim_memory_find((uintptr_t) pointer);
    struct sim_item *item;
    CUstream stream;
    CUresult rc = sim_stream_resolve(handle, &stream);

    if (CUDA_SUCCESS != rc) {
        return rc;
    }
    if (NULL == alloc || SIM_KIND_POOL != alloc->kind || alloc->base != (uintptr_t) pointer) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    item = sim_item_new(run_free, sizeof(struct free_work));
    ((struct free_work *) item->payload)->alloc = alloc;
    sim_submit(stream, item);
    sim_count(frees);
    return CUDA_SUCCESS;
}
