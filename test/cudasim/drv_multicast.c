/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * cuMulticast*: what the calls accept.
 *
 * Owns the checks of their arguments. What an object is and does is in sim_multicast.c; how it is mapped in drv_map.c,
 * and how it is exported, imported and released in drv_vmm.c, by the calls for all handles.
 */
#include "api.h"
#include "sim_context.h"
#include "sim_memory.h"
#include "sim_multicast.h"
#include "sim_vmm.h"

#define MINIMUM_BYTES SIM_BLOCK_BYTES
#define RECOMMENDED_BYTES ((size_t) 512 << 20) /* a choice: so much more than the minimum that a mix-up shows */

/* How many GPUs of the node a team can have. */
static unsigned most_devices(void)
{
    unsigned n = 0;

    for (int i = 0; i < sim_driver.topology.ngpus; i++) {
        n += sim_multicast_supported(i);
    }
    return n;
}

static CUresult properties_check(const CUmulticastObjectProp *properties)
{
    if (0 == most_devices()) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (NULL == properties || properties->numDevices < 2 || properties->numDevices > most_devices()
        || 0 != properties->flags) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return 0 == (properties->handleTypes & ~(unsigned long long) CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
               ? CUDA_SUCCESS
               : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult sim_cuMulticastGetGranularity(size_t *bytes_p, const CUmulticastObjectProp *properties,
                                       CUmulticastGranularity_flags option)
{
    CUresult rc = properties_check(properties);

    if (CUDA_SUCCESS != rc) {
        return rc;
    }
    if (NULL == bytes_p
        || (CU_MULTICAST_GRANULARITY_MINIMUM != option && CU_MULTICAST_GRANULARITY_RECOMMENDED != option)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *bytes_p = CU_MULTICAST_GRANULARITY_MINIMUM == option ? MINIMUM_BYTES : RECOMMENDED_BYTES;
    return CUDA_SUCCESS;
}

CUresult sim_cuMulticastCreate(CUmemGenericAllocationHandle *handle_p, const CUmulticastObjectProp *properties)
{
    CUresult rc = properties_check(properties);

    if (CUDA_SUCCESS != rc) {
        return rc;
    }
    if (NULL == handle_p || 0 == properties->size || 0 != properties->size % MINIMUM_BYTES
        || properties->size > sim_window.size / 2) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return sim_multicast_new(properties, handle_p);
}

CUresult sim_cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice device)
{
    struct sim_multicast *object = sim_multicast_of(handle);

    if (NULL == object) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (device < 0 || device >= sim_driver.ndevices) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (!sim_multicast_supported(sim_driver.devices[device].physical)) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return sim_multicast_add(object, sim_driver.devices[device].physical);
}

/* Whether a range of the object is one that can be bound. */
static bool range_ok(const struct sim_multicast *object, size_t offset, size_t bytes)
{
    return NULL != object && 0 != bytes && 0 == bytes % MINIMUM_BYTES && 0 == offset % MINIMUM_BYTES
           && bytes <= sim_multicast_bytes(object) && offset <= sim_multicast_bytes(object) - bytes;
}

/* Under the memory lock: the checks that both binds end with, and the bind. */
static CUresult bind(struct sim_multicast *object, size_t offset, const struct sim_backing *memory,
                     size_t memory_offset, size_t bytes)
{
    if (memory_offset > memory->bytes || bytes > memory->bytes - memory_offset
        || (0 != sim_multicast_handle_types(object) && !memory->exportable)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!sim_multicast_has(object, memory->device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    return sim_multicast_bind(object, offset, memory, memory_offset, bytes);
}

CUresult sim_cuMulticastBindMem(CUmemGenericAllocationHandle handle, size_t offset, CUmemGenericAllocationHandle memory,
                                size_t memory_offset, size_t bytes, unsigned long long flags)
{
    struct sim_multicast *object = sim_multicast_of(handle);
    struct sim_backing backing;
    CUresult rc = CUDA_ERROR_INVALID_VALUE;

    if (!range_ok(object, offset, bytes) || 0 != memory_offset % MINIMUM_BYTES || 0 != flags) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sim_multicast_await(object);
    sim_memory_lock();
    if (sim_backing_of_handle(memory, &backing)) {
        rc = bind(object, offset, &backing, memory_offset, bytes);
    }
    sim_memory_unlock();
    return rc;
}

CUresult sim_cuMulticastBindAddr(CUmemGenericAllocationHandle handle, size_t offset, CUdeviceptr memory, size_t bytes,
                                 unsigned long long flags)
{
    struct sim_multicast *object = sim_multicast_of(handle);
    const struct sim_alloc *alloc = sim_memory_find((uintptr_t) memory);
    struct sim_backing backing;
    CUresult rc = CUDA_ERROR_INVALID_VALUE;

    if (!range_ok(object, offset, bytes) || 0 != memory % MINIMUM_BYTES || 0 != flags || NULL == alloc) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (SIM_KIND_POOL == alloc->kind) {
        return CUDA_ERROR_NOT_SUPPORTED; /* not emulated */
    }
    sim_multicast_await(object);
    sim_memory_lock();
    if (sim_backing_at((uintptr_t) memory, &backing)) {
        rc = bind(object, offset, &backing, 0, bytes);
    }
    sim_memory_unlock();
    return rc;
}

CUresult sim_cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice device, size_t offset, size_t bytes)
{
    struct sim_multicast *object = sim_multicast_of(handle);
    CUresult rc;

    if (!range_ok(object, offset, bytes)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (device < 0 || device >= sim_driver.ndevices
        || !sim_multicast_has(object, sim_driver.devices[device].physical)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    sim_memory_lock();
    rc = sim_multicast_unbind(object, sim_driver.devices[device].physical, offset, bytes);
    sim_memory_unlock();
    return rc;
}
