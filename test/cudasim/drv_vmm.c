/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * cuMemCreate: memory without addresses, which drv_map.c gives it.
 *
 * Owns physical handles. A handle has blocks of the process's memory file. One that may be exported as a file
 * descriptor has a file of its own, which lives while any process has it open or mapped, as the memory behind such a
 * descriptor does. So does one that has a fabric handle (sim_fabric.c). The limit on a GPU's memory counts what its
 * process has created and not released, even while other processes map it.
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
#include "sim_fabric.h"
#include "sim_memory.h"
#include "sim_multicast.h"
#include "sim_vmm.h"

#define FILE_MAGIC 0x6375646173666432ull
#define SHAREABLE (CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_FABRIC)

/* The start of a file that can be exported; the blocks follow at SIM_SHARED_BYTES. */
struct file_head {
    uint64_t magic, node;
    uint64_t id; /* tells this memory from all other, of other processes too */
    int32_t device;
    uint32_t nblocks;
    CUmemAllocationProp properties;
};

void sim_physical_drop(struct physical *physical)
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

    if (NULL == physical || 0 == physical->handles || physical->remote) {
        return false;
    }
    backing_fill(physical, 0, backing_p);
    return true;
}

bool sim_backing_at(uintptr_t address, struct sim_backing *backing_p)
{
    const struct sim_alloc *alloc = sim_memory_find(address);

    if (NULL == alloc || SIM_KIND_MAPPED != alloc->kind || alloc->remote) {
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
    sim_physical_drop(physical);
}

static CUresult properties_check(const CUmemAllocationProp *properties)
{
    if (NULL == properties || CU_MEM_ALLOCATION_TYPE_PINNED != properties->type) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (CU_MEM_LOCATION_TYPE_DEVICE != properties->location.type
        || 0 != ((int) properties->requestedHandleTypes & ~SHAREABLE)) {
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
        physical->magic = SIM_PHYSICAL_MAGIC;
        physical->handles = 1;
        physical->fd = -1;
        physical->properties = *properties;
        physical->device = device;
        physical->nblocks = nblocks;
        physical->id = sim_memory_id();
    }
    return physical;
}

/* The process's own word makes it random. */
static uint64_t file_id(const struct physical *physical)
{
    return sim_window.shared->word ^ physical->id;
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
    head.id = file_id(physical);
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

    if (CUDA_SUCCESS == rc && 0 != ((int) properties->requestedHandleTypes & CU_MEM_HANDLE_TYPE_FABRIC)) {
        rc = sim_fabric_check();
    }
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
        sim_physical_drop(physical);
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

    if (own < 0 || NULL == shareable_p || 0 != flags
        || (CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR != type && (CU_MEM_HANDLE_TYPE_FABRIC != type || NULL != object))
        || (NULL == object && 0 == ((int) physical->properties.requestedHandleTypes & (int) type))) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (CU_MEM_HANDLE_TYPE_FABRIC == type) {
        sim_fabric_export(physical->fd, file_id(physical), shareable_p);
        sim_count(ipc_exports);
        return CUDA_SUCCESS;
    }
    fd = fcntl(own, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) {
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    memcpy(shareable_p, &fd, sizeof(fd));
    sim_count(ipc_exports);
    return CUDA_SUCCESS;
}

/* The handle for the memory of a file, which it takes over unless it fails. */
static CUresult import(int fd, const struct file_head *head, struct physical **physical_p)
{
    struct physical *physical = physical_new(&head->properties, head->device, head->nblocks);

    if (NULL == physical) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    physical->imported = true;
    physical->remote = head->node != sim_driver.topology.node;
    physical->properties.location.id = sim_device_ordinal(head->device);
    physical->fd = fd;
    *physical_p = physical;
    return CUDA_SUCCESS;
}

static bool head_read(int fd, struct file_head *head_p)
{
    return (ssize_t) sizeof(*head_p) == pread(fd, head_p, sizeof(*head_p), 0) && FILE_MAGIC == head_p->magic
           && head_p->device >= 0 && head_p->device < sim_driver.topology.ngpus;
}

static CUresult import_file(int shared, struct physical **physical_p)
{
    struct file_head head;
    CUresult rc;
    int fd;

    if (!head_read(shared, &head) || head.node != sim_driver.topology.node) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    fd = fcntl(shared, F_DUPFD_CLOEXEC, 0);
    rc = fd < 0 ? CUDA_ERROR_OPERATING_SYSTEM : import(fd, &head, physical_p);
    if (CUDA_SUCCESS != rc && fd >= 0) {
        close(fd);
    }
    return rc;
}

static CUresult import_fabric(const CUmemFabricHandle *handle, struct physical **physical_p)
{
    struct file_head head;
    uint64_t id;
    int fd;
    CUresult rc = sim_fabric_open(handle, &fd, &id);

    if (CUDA_SUCCESS != rc) {
        return rc;
    }
    rc = head_read(fd, &head) && id == head.id ? import(fd, &head, physical_p) : CUDA_ERROR_INVALID_VALUE;
    if (CUDA_SUCCESS != rc) {
        close(fd);
    }
    return rc;
}

CUresult sim_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle_p, void *shareable,
                                            CUmemAllocationHandleType type)
{
    struct physical *physical = NULL;
    CUresult rc = CUDA_ERROR_INVALID_VALUE;

    if (NULL != handle_p && CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR == type) {
        if (sim_multicast_is_file((int) (intptr_t) shareable)) {
            return sim_multicast_import((int) (intptr_t) shareable, handle_p);
        }
        rc = import_file((int) (intptr_t) shareable, &physical);
    } else if (NULL != handle_p && NULL != shareable && CU_MEM_HANDLE_TYPE_FABRIC == type) {
        rc = import_fabric(shareable, &physical);
    }
    if (CUDA_SUCCESS != rc) {
        return rc;
    }
    *handle_p = (CUmemGenericAllocationHandle) (uintptr_t) physical;
    sim_count(ipc_opens);
    sim_count(ipc_live);
    return CUDA_SUCCESS;
}
