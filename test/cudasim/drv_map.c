/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * cuMemAddressReserve, cuMemMap and cuMemSetAccess: addresses for memory and for multicast objects.
 *
 * Owns reserved ranges and what is mapped in them. Mapping shows memory at a reserved place once access is granted;
 * a multicast object's addresses stay inaccessible. Handles are in drv_vmm.c and sim_multicast.c.
 */
#include "api.h"
#include "sim_context.h"
#include "sim_counters.h"
#include "sim_engine.h"
#include "sim_memory.h"
#include "sim_multicast.h"
#include "sim_vmm.h"

CUresult sim_cuMemAddressReserve(CUdeviceptr *pointer_p, size_t bytes, size_t alignment, CUdeviceptr wish,
                                 unsigned long long flags)
{
    struct sim_alloc *alloc;
    uint32_t count = (uint32_t) (bytes >> SIM_BLOCK_SHIFT), align = 1, first;

    (void) wish; /* a hint */
    if (NULL == pointer_p || 0 == bytes || 0 != bytes % SIM_BLOCK_BYTES || 0 != flags
        || 0 != (alignment & (alignment - 1))) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (alignment > SIM_BLOCK_BYTES) {
        align = (uint32_t) (alignment >> SIM_BLOCK_SHIFT);
    }
    sim_memory_lock();
    first = sim_blocks_take(false, count, align);
    if (SIM_NO_BLOCK != first) {
        alloc = sim_memory_record(SIM_KIND_RESERVED, NULL, 0, sim_block_address(first), bytes);
        alloc->first_block = first;
        alloc->nblocks = count;
        sim_memory_cover(first, count, alloc);
        *pointer_p = (CUdeviceptr) alloc->base;
    }
    sim_memory_unlock();
    return SIM_NO_BLOCK != first ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Under the memory lock: whether each block of the range belongs to that record. */
static bool covered(uintptr_t base, size_t bytes, const struct sim_alloc *alloc)
{
    uintptr_t at;

    for (at = base; at < base + bytes; at += SIM_BLOCK_BYTES) {
        if (sim_memory_find(at) != alloc) {
            return false;
        }
    }
    return true;
}

CUresult sim_cuMemAddressFree(CUdeviceptr pointer, size_t bytes)
{
    struct sim_alloc *alloc;
    CUresult rc = CUDA_SUCCESS;

    sim_memory_lock();
    alloc = sim_memory_find((uintptr_t) pointer);
    if (NULL == alloc || SIM_KIND_RESERVED != alloc->kind || alloc->base != (uintptr_t) pointer || alloc->size != bytes
        || !covered(alloc->base, bytes, alloc)) {
        rc = CUDA_ERROR_INVALID_VALUE;
    } else {
        sim_memory_cover(alloc->first_block, alloc->nblocks, NULL);
        sim_blocks_give(alloc->first_block, alloc->nblocks);
        sim_memory_forget(alloc);
    }
    sim_memory_unlock();
    return rc;
}

/* Under the memory lock: covers a reserved range with a mapping. */
static CUresult range_map(enum sim_kind kind, int device, void *owner, uintptr_t base, size_t bytes,
                          struct sim_alloc **alloc_p)
{
    struct sim_alloc *reservation = sim_memory_find(base), *alloc;

    if (NULL == reservation || SIM_KIND_RESERVED != reservation->kind || !covered(base, bytes, reservation)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    alloc = sim_memory_record(kind, NULL, device, base, bytes);
    alloc->first_block = sim_block_of(base);
    alloc->nblocks = (uint32_t) (bytes >> SIM_BLOCK_SHIFT);
    alloc->owner = owner;
    alloc->reservation = reservation;
    sim_memory_cover(alloc->first_block, alloc->nblocks, alloc);
    sim_count(allocs_live);
    *alloc_p = alloc;
    return CUDA_SUCCESS;
}

/* A multicast object belongs to no single GPU. The record of its mapping has to name one, and names the first visible
 * GPU. */
static CUresult multicast_map(struct sim_multicast *object, uintptr_t base, size_t bytes)
{
    struct sim_alloc *alloc;
    CUresult rc;

    if (bytes > sim_multicast_bytes(object)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sim_multicast_await(object);
    sim_memory_lock();
    rc = range_map(SIM_KIND_MULTICAST, sim_driver.devices[0].physical, object, base, bytes, &alloc);
    if (CUDA_SUCCESS == rc) {
        alloc->handle_types = (unsigned) sim_multicast_handle_types(object);
        sim_multicast_map(object);
    }
    sim_memory_unlock();
    return rc;
}

CUresult sim_cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                      unsigned long long flags)
{
    struct sim_multicast *object = sim_multicast_of(handle);
    struct physical *physical = physical_of(handle);
    struct sim_alloc *alloc;
    CUresult rc;

    if ((NULL == physical && NULL == object) || 0 == bytes || 0 != bytes % SIM_BLOCK_BYTES || 0 != offset || 0 != flags
        || 0 != pointer % SIM_BLOCK_BYTES) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (NULL != object) {
        return multicast_map(object, (uintptr_t) pointer, bytes);
    }
    if (bytes != (size_t) physical->nblocks << SIM_BLOCK_SHIFT) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sim_memory_lock();
    rc = range_map(SIM_KIND_MAPPED, physical->device, physical, (uintptr_t) pointer, bytes, &alloc);
    if (CUDA_SUCCESS == rc) {
        alloc->block_id = physical->id;
        alloc->remote = physical->remote;
        alloc->handle_types = (unsigned) physical->properties.requestedHandleTypes;
        physical->mappings++;
    }
    sim_memory_unlock();
    return rc;
}

static bool is_mapping(const struct sim_alloc *alloc)
{
    return NULL != alloc && (SIM_KIND_MAPPED == alloc->kind || SIM_KIND_MULTICAST == alloc->kind);
}

/* Under the memory lock: whether the range consists of whole mappings. */
static bool whole_mappings(uintptr_t base, size_t bytes)
{
    uintptr_t at = base;
    struct sim_alloc *alloc;

    while (at < base + bytes) {
        alloc = sim_memory_find(at);
        if (!is_mapping(alloc) || alloc->base != at) {
            return false;
        }
        at += alloc->size;
    }
    return at == base + bytes;
}

/* Under the memory lock: the range is reserved only again. */
static void mapping_end(struct sim_alloc *alloc)
{
    struct physical *physical = alloc->owner;

    sim_memory_cover(alloc->first_block, alloc->nblocks, alloc->reservation);
    if (SIM_KIND_MULTICAST == alloc->kind) {
        sim_multicast_unmap(alloc->owner);
    } else {
        if (0 != alloc->access) {
            sim_blocks_hide(alloc->first_block, alloc->nblocks);
        }
        physical->mappings--;
        sim_physical_drop(physical);
    }
    sim_memory_forget(alloc);
    sim_uncount(allocs_live);
}

CUresult sim_cuMemUnmap(CUdeviceptr pointer, size_t bytes)
{
    uintptr_t at = (uintptr_t) pointer, stop = at + bytes;
    struct sim_alloc *alloc = sim_memory_find(at);
    CUresult rc = CUDA_SUCCESS;
    int device;

    if (NULL == alloc || 0 == bytes) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (device = 0; device < sim_driver.topology.ngpus; device++) {
        if (device == alloc->device || (SIM_KIND_MULTICAST == alloc->kind && 0 != (alloc->access & (1 << device)))) {
            sim_device_drain(device);
        }
    }
    sim_memory_lock();
    if (!whole_mappings(at, bytes)) {
        rc = CUDA_ERROR_INVALID_VALUE;
    }
    while (CUDA_SUCCESS == rc && at < stop) {
        alloc = sim_memory_find(at);
        at += alloc->size;
        mapping_end(alloc);
    }
    sim_memory_unlock();
    return rc;
}

static CUresult access_set(struct sim_alloc *alloc, int device, CUmemAccess_flags flags)
{
    const struct physical *physical = alloc->owner;
    int before = alloc->access;

    if (SIM_KIND_MULTICAST == alloc->kind) {
        alloc->access = CU_MEM_ACCESS_FLAGS_PROT_NONE == flags ? before & ~(1 << device) : before | 1 << device;
        return CUDA_SUCCESS; /* nothing lies at its addresses */
    }
    if (CU_MEM_ACCESS_FLAGS_PROT_NONE == flags) {
        alloc->access &= ~(1 << device);
    } else {
        alloc->access |= 1 << device;
    }
    if (0 == before && 0 != alloc->access
        && 0
               != sim_blocks_show(alloc->first_block, alloc->nblocks, physical->fd >= 0 ? physical->fd : sim_window.fd,
                                  physical->fd >= 0 ? 0 : physical->first, physical->device)) {
        alloc->access = 0;
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (0 != before && 0 == alloc->access) {
        sim_blocks_hide(alloc->first_block, alloc->nblocks);
    }
    return CUDA_SUCCESS;
}

static CUresult may_access(const struct sim_alloc *alloc, int device)
{
    if (SIM_KIND_MULTICAST == alloc->kind) {
        return sim_multicast_has(alloc->owner, device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    }
    return alloc->remote || device == alloc->device || sim_device_peer(device, alloc->device)
               ? CUDA_SUCCESS
               : CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
}

CUresult sim_cuMemSetAccess(CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc *access, size_t count)
{
    uintptr_t at = (uintptr_t) pointer;
    struct sim_alloc *alloc;
    CUresult rc = CUDA_SUCCESS;
    size_t i;
    int device;

    if (NULL == access || 0 == count || 0 == bytes) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sim_memory_lock();
    if (!whole_mappings(at, bytes)) {
        rc = CUDA_ERROR_INVALID_VALUE;
    }
    for (; CUDA_SUCCESS == rc && at < (uintptr_t) pointer + bytes; at += alloc->size) {
        alloc = sim_memory_find(at);
        for (i = 0; i < count && CUDA_SUCCESS == rc; i++) {
            if (CU_MEM_LOCATION_TYPE_DEVICE != access[i].location.type) {
                rc = CUDA_ERROR_NOT_SUPPORTED;
            } else if (access[i].location.id < 0 || access[i].location.id >= sim_driver.ndevices) {
                rc = CUDA_ERROR_INVALID_DEVICE;
            } else {
                device = sim_driver.devices[access[i].location.id].physical;
                rc = may_access(alloc, device);
                if (CUDA_SUCCESS == rc) {
                    rc = access_set(alloc, device, access[i].flags);
                }
            }
        }
    }
    sim_memory_unlock();
    return rc;
}

CUresult sim_cuMemGetAccess(unsigned long long *flags_p, const CUmemLocation *where, CUdeviceptr pointer)
{
    struct sim_alloc *alloc = sim_memory_find((uintptr_t) pointer);

    if (NULL == flags_p || NULL == where || !is_mapping(alloc)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *flags_p = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    if (CU_MEM_LOCATION_TYPE_DEVICE == where->type) {
        if (where->id < 0 || where->id >= sim_driver.ndevices) {
            return CUDA_ERROR_INVALID_DEVICE;
        }
        if (0 != (alloc->access & (1 << sim_driver.devices[where->id].physical))) {
            *flags_p = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        }
    }
    return CUDA_SUCCESS;
}
