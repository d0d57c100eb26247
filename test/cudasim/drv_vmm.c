/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * cuMemCreate, cuMemAddressReserve and cuMemMap: memory and addresses apart.
 *
 * Owns physical handles and reserved ranges. A handle has blocks of the process's
 * memory file; mapping shows them at a reserved place once access is granted.
 * A handle that may be exported as a file descriptor has a file of its own, which lives
 * while any process has it open or mapped, as the memory behind such a descriptor does.
 * Fabric handles do not exist here. The limit on a GPU's memory counts what its process
 * has created and not released, even while other processes map it.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "api.h"
#include "sim_context.h"
#include "sim_counters.h"
#include "sim_engine.h"
#include "sim_memory.h"
#include "sim_multicast.h"
#include "sim_vmm.h"

#define HANDLE_MAGIC 0x766d6d31u
#define FILE_MAGIC 0x6375646173666431ull

/* Memory of a GPU without an address. Guarded by the memory lock; freed when no handle, mapping or binding is left.
 */
struct physical {
    uint32_t magic;
    unsigned handles;
    unsigned mappings;
    unsigned bindings; /* to multicast objects */
    int device;
    uint32_t first, nblocks; /* own blocks; an imported one has none, and first is 0 */
    int fd;                  /* of its own file, whose blocks count from 0; -1: it lies in the process's memory file */
    bool imported;
    uint64_t id;
    CUmemAllocationProp properties;
};

/* The start of a file that can be exported; the blocks follow at SIM_SHARED_BYTES. */
struct file_head {
    uint64_t magic, node;
    int32_t device;
    uint32_t nblocks;
    CUmemAllocationProp properties;
};

static struct physical *physical_of(CUmemGenericAllocationHandle handle)
{
    struct physical *physical = (struct physical *) (uintptr_t) handle;

    return (NULL != physical && HANDLE_MAGIC == physical->magic) ? physical : NULL;
}

static void physical_drop(struct physical *physical)
{
    if (0 == physical->handles && 0 == physical->mappings && 0 == physical->bindings) {
        if (physical->imported) {
            sim_uncount(ipc_live);
        } else {
            sim_memory_blocks_free(physical->device, physical->first, physical->nblocks);
        }
        if (physical->fd >= 0) {
            close(physical->fd);
        }
        physical->magic = 0;
        free(physical);
    }
}

/* What a physical handle says to multicast objects. */
static void backing_fill(struct physical *physical, size_t offset, struct sim_backing *backing_p)
{
    const bool own_file = physical->fd >= 0;

    *backing_p = (struct sim_backing){.physical = physical,
                                      .device = physical->device,
                                      .exportable = own_file,
                                      .fd = own_file ? physical->fd : sim_window.fd,
                                      .offset = SIM_SHARED_BYTES + offset
                                                + (own_file ? 0 : (uint64_t) physical->first << SIM_BLOCK_SHIFT),
                                      .bytes = ((size_t) physical->nblocks << SIM_BLOCK_SHIFT) - offset};
}

bool sim_backing_of_handle(CUmemGenericAllocationHandle handle, struct sim_backing *backing_p)
{
    struct physical *physical = physical_of(handle);

    if (NULL == physical || 0 == physical->handles) {
        return false;
    }
    backing_fill(physical, 0, backing_p);
    return true;
}

bool sim_backing_at(uintptr_t address, struct sim_backing *backing_p)
{
    const struct sim_alloc *alloc = sim_memory_find(address);

    if (NULL == alloc || SIM_KIND_MAPPED != alloc->kind) {
        return false;
    }
    backing_fill(alloc->owner, address - alloc->base, backing_p);
    return true;
}

void sim_backing_hold(struct physical *physical)
{
    physical->bindings++;
}

void sim_backing_release(struct physical *physical)
{
    physical->bindings--;
    physical_drop(physical);
}

static CUresult properties_check(const CUmemAllocationProp *properties)
{
    if (NULL == properties || CU_MEM_ALLOCATION_TYPE_PINNED != properties->type) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (CU_MEM_LOCATION_TYPE_DEVICE != properties->location.type
        || 0 != ((int) properties->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (properties->location.id < 0 || properties->location.id >= sim_driver.ndevices) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuMemGetAllocationGranularity(size_t *bytes_p, const CUmemAllocationProp *properties,
                                           CUmemAllocationGranularity_flags option)
{
    CUresult rc = properties_check(properties);

    (void) option;
    if (CUDA_SUCCESS == rc && NULL == bytes_p) {
        rc = CUDA_ERROR_INVALID_VALUE;
    }
    if (CUDA_SUCCESS == rc) {
        *bytes_p = SIM_BLOCK_BYTES;
    }
    return rc;
}

static struct physical *physical_new(const CUmemAllocationProp *properties, int device, uint32_t nblocks)
{
    struct physical *physical = calloc(1, sizeof(*physical));

    if (NULL != physical) {
        physical->magic = HANDLE_MAGIC;
        physical->handles = 1;
        physical->fd = -1;
        physical->properties = *properties;
        physical->device = device;
        physical->nblocks = nblocks;
        physical->id = sim_memory_id();
    }
    return physical;
}

/* A file for a handle that may be exported. Returns it, or -1. */
static int file_make(const struct physical *physical)
{
    struct file_head head;
    off_t bytes = (off_t) (SIM_SHARED_BYTES + ((size_t) physical->nblocks << SIM_BLOCK_SHIFT));
    int fd = memfd_create("cudasim-shared", MFD_CLOEXEC);

    memset(&head, 0, sizeof(head));
    head.magic = FILE_MAGIC;
    head.node = sim_driver.topology.node;
    head.device = physical->device;
    head.nblocks = physical->nblocks;
    head.properties = physical->properties;
    if (fd >= 0 && (0 != ftruncate(fd, bytes) || (ssize_t) sizeof(head) != pwrite(fd, &head, sizeof(head), 0))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

CUresult sim_cuMemCreate(CUmemGenericAllocationHandle *handle_p, size_t bytes, const CUmemAllocationProp *properties,
                         unsigned long long flags)
{
    struct physical *physical;
    CUresult rc = properties_check(properties);

    if (CUDA_SUCCESS != rc) {
        return rc;
    }
    if (NULL == handle_p || 0 == bytes || 0 != bytes % SIM_BLOCK_BYTES || 0 != flags) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    physical = physical_new(properties, sim_driver.devices[properties->location.id].physical,
                            (uint32_t) (bytes >> SIM_BLOCK_SHIFT));
    if (NULL == physical) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (CU_MEM_HANDLE_TYPE_NONE != properties->requestedHandleTypes) {
        physical->fd = file_make(physical);
        rc = physical->fd >= 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (CUDA_SUCCESS == rc) {
        sim_memory_lock();
        rc = sim_memory_blocks_alloc(physical->device, physical->nblocks, &physical->first);
        sim_memory_unlock();
    }
    if (CUDA_SUCCESS != rc) {
        if (physical->fd >= 0) {
            close(physical->fd);
        }
        free(physical);
        return rc;
    }
    *handle_p = (CUmemGenericAllocationHandle) (uintptr_t) physical;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemRelease(CUmemGenericAllocationHandle handle)
{
    struct sim_multicast *object = sim_multicast_of(handle);
    struct physical *physical = physical_of(handle);
    CUresult rc = CUDA_SUCCESS;

    if (NULL == physical && NULL == object) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sim_memory_lock();
    if (NULL != object) {
        rc = sim_multicast_release(object);
    } else if (0 == physical->handles) {
        rc = CUDA_ERROR_INVALID_VALUE;
    } else {
        physical->handles--;
        physical_drop(physical);
    }
    sim_memory_unlock();
    return rc;
}

CUresult sim_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle_p, void *pointer)
{
    struct sim_alloc *alloc = sim_memory_find((uintptr_t) pointer);
    struct physical *physical;

    if (NULL == handle_p || NULL == alloc || SIM_KIND_MAPPED != alloc->kind) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sim_memory_lock();
    physical = alloc->owner;
    physical->handles++;
    sim_memory_unlock();
    *handle_p = (CUmemGenericAllocationHandle) (uintptr_t) physical;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *properties_p,
                                                    CUmemGenericAllocationHandle handle)
{
    struct physical *physical = physical_of(handle);

    if (NULL == physical || NULL == properties_p) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *properties_p = physical->properties;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemExportToShareableHandle(void *shareable_p, CUmemGenericAllocationHandle handle,
                                          CUmemAllocationHandleType type, unsigned long long flags)
{
    const struct sim_multicast *object = sim_multicast_of(handle);
    struct physical *physical = physical_of(handle);
    const int own = NULL != object ? sim_multicast_file(object) : NULL != physical ? physical->fd : -1;
    int fd;

    if (own < 0 || NULL == shareable_p || 0 != flags || CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR != type) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    fd = fcntl(own, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) {
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    memcpy(shareable_p, &fd, sizeof(fd));
    sim_count(ipc_exports);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle_p, void *shareable,
                                            CUmemAllocationHandleType type)
{
    struct file_head head;
    struct physical *physical;
    int fd = (int) (intptr_t) shareable;

    if (NULL != handle_p && CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR == type && sim_multicast_is_file(fd)) {
        return sim_multicast_import(fd, handle_p);
    }
    if (NULL == handle_p || CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR != type
        || (ssize_t) sizeof(head) != pread(fd, &head, sizeof(head), 0) || FILE_MAGIC != head.magic
        || head.node != sim_driver.topology.node || head.device < 0 || head.device >= sim_driver.topology.ngpus) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    physical = physical_new(&head.properties, head.device, head.nblocks);
    if (NULL == physical) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    physical->imported = true;
    physical->properties.location.id = sim_device_ordinal(head.device);
    physical->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (physical->fd < 0) {
        free(physical);
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    *handle_p = (CUmemGenericAllocationHandle) (uintptr_t) physical;
    sim_count(ipc_opens);
    sim_count(ipc_live);
    return CUDA_SUCCESS;
}

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

/* A multicast object's mapping is of no GPU's memory; its device only has to be one. */
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
        physical_drop(physical);
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
    return device == alloc->device || sim_device_peer(device, alloc->device) ? CUDA_SUCCESS
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
