/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the driver calls for memory of cuMemCreate: making it, mapping it at an address, handing it to other processes.
 * Does not own what is made: ipc_cache keeps the memory of other processes that is mapped here; the device and
 * lane_exchange keep what this process makes.
 *
 * Also owns this process's part of multicast objects, and their number. Does not own the agreement of a group on each
 * step (team), nor what the memory is used for.
 *
 * A handle of the driver is let go as soon as its memory is mapped, and the memory lives as long as any process maps
 * it.
 */
#include "ompi_config.h"

#include <string.h>
#include <unistd.h>

#include "gpu/coll_gpuhier_fd_passing.h"
#include "gpu/coll_gpuhier_vmm.h"

void gpuhier_vmm_unmap(CUdeviceptr address, size_t bytes)
{
    if (0 != address) {
        GPUHIER_CU_FREE(cuMemUnmap, address, bytes);
        GPUHIER_CU_FREE(cuMemAddressFree, address, bytes);
    }
}

int gpuhier_vmm_allow(CUdeviceptr address, size_t bytes)
{
    CUdevice device;
    int rc = GPUHIER_CU(cuCtxGetDevice, &device);
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = (int) device},
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    return GPUHIER_CU(cuMemSetAccess, address, bytes, &access, 1);
}

/* Maps memory at an address of this process, for the current context's GPU. Returns an Open MPI code. */
static int map(CUmemGenericAllocationHandle memory, size_t bytes, CUdeviceptr *address_p)
{
    CUdeviceptr address;
    int rc = GPUHIER_CU(cuMemAddressReserve, &address, bytes, 0, 0, 0);
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    rc = GPUHIER_CU(cuMemMap, address, bytes, 0, memory, 0);
    if (OMPI_SUCCESS != rc) {
        (void) GPUHIER_CU(cuMemAddressFree, address, bytes);
        return rc;
    }
    rc = gpuhier_vmm_allow(address, bytes);
    if (OMPI_SUCCESS != rc) {
        gpuhier_vmm_unmap(address, bytes);
        return rc;
    }
    *address_p = address;
    return OMPI_SUCCESS;
}

int gpuhier_vmm_open(void *shareable, CUmemAllocationHandleType type, size_t bytes, CUdeviceptr *address_p)
{
    CUmemGenericAllocationHandle memory;
    int rc = GPUHIER_CU(cuMemImportFromShareableHandle, &memory, shareable, type);
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    rc = map(memory, bytes, address_p);
    (void) GPUHIER_CU(cuMemRelease, memory);
    return rc;
}

int gpuhier_vmm_file_make(CUdeviceptr base)
{
    CUmemGenericAllocationHandle memory;
    int file = -1;
    if (OMPI_SUCCESS != GPUHIER_CU(cuMemRetainAllocationHandle, &memory, (void *) (uintptr_t) base)) {
        return -1;
    }
    if (OMPI_SUCCESS
        != GPUHIER_CU(cuMemExportToShareableHandle, &file, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)) {
        file = -1;
    }
    (void) GPUHIER_CU(cuMemRelease, memory);
    return file;
}

static CUmemAllocationProp properties_of(CUmemAllocationHandleType type, int device)
{
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .requestedHandleTypes = type,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
}

static size_t round_up(size_t bytes, size_t unit)
{
    return 0 == unit ? bytes : (bytes + unit - 1) / unit * unit;
}

int gpuhier_vmm_make(size_t *bytes, CUdeviceptr *address_p, gpuhier_fabric_handle_t *handle_p)
{
    const CUmemAllocationHandleType type =
        NULL == handle_p ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_FABRIC;
    CUmemGenericAllocationHandle memory;
    CUdevice device;
    size_t unit = 0;
    int rc = GPUHIER_CU(cuCtxGetDevice, &device);
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    const CUmemAllocationProp properties = properties_of(type, (int) device);
    rc = GPUHIER_CU(cuMemGetAllocationGranularity, &unit, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    *bytes = round_up(*bytes, unit); /* memory comes in whole pieces */
    rc = OMPI_SUCCESS != rc ? rc : GPUHIER_CU(cuMemCreate, &memory, *bytes, &properties, 0);
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    if (NULL != handle_p) {
        rc = GPUHIER_CU(cuMemExportToShareableHandle, handle_p, memory, type, 0);
    }
    rc = OMPI_SUCCESS != rc ? rc : map(memory, *bytes, address_p);
    (void) GPUHIER_CU(cuMemRelease, memory);
    return rc;
}

/* -- multicast objects ---------------------------------------------------------------------- */

static int nobjects; /* of this process */

bool gpuhier_multicast_is_possible(int device)
{
    return gpuhier_cu.has_multicast && nobjects < GPUHIER_MULTICAST_OBJECTS_MAX
           && 0 != gpuhier_cuda_attribute(CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, device);
}

static CUmulticastObjectProp object_properties(int ngpus, size_t bytes)
{
    return (CUmulticastObjectProp){
        .numDevices = (unsigned) ngpus, .size = bytes, .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
}

/*
 * Notes the device and the length, which is the same on all members if their GPUs are alike. The length is a multiple
 * of the least granularity. The granularity that the driver recommends is half a GiB on an H100, and each communicator
 * with an object would take that much of every GPU.
 */
static int begin(gpuhier_multicast_t *multicast, int device, int ngpus, size_t bytes)
{
    const CUmemAllocationProp copy = properties_of(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, device);
    const CUmulticastObjectProp object = object_properties(ngpus, bytes);
    size_t object_unit = 0, copy_unit = 0;
    if (!gpuhier_multicast_is_possible(device)) {
        return OMPI_ERR_NOT_SUPPORTED;
    }
    int rc = GPUHIER_CU(cuMulticastGetGranularity, &object_unit, &object, CU_MULTICAST_GRANULARITY_MINIMUM);
    rc = OMPI_SUCCESS != rc
             ? rc
             : GPUHIER_CU(cuMemGetAllocationGranularity, &copy_unit, &copy, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    if (OMPI_SUCCESS == rc) {
        multicast->device = device;
        multicast->bytes = round_up(bytes, object_unit > copy_unit ? object_unit : copy_unit);
        ++nobjects;
    }
    return rc;
}

static int send_to_all(const gpuhier_multicast_t *multicast, uint64_t id, const uint64_t *to, int n)
{
    const gpuhier_fd_key_t fd_key = {.process = gpuhier_process_word(), .id = id};
    int file = -1;
    int rc =
        GPUHIER_CU(cuMemExportToShareableHandle, &file, multicast->object, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    for (int i = 0; i < n && OMPI_SUCCESS == rc; ++i) {
        rc = gpuhier_fd_send(&fd_key, file, to[i]);
    }
    if (file >= 0) {
        close(file);
    }
    return rc;
}

int gpuhier_multicast_create(gpuhier_multicast_t *multicast, int device, int ngpus, size_t bytes, uint64_t id,
                             const uint64_t *to)
{
    int rc = begin(multicast, device, ngpus, bytes);
    if (OMPI_SUCCESS == rc) {
        const CUmulticastObjectProp properties = object_properties(ngpus, multicast->bytes);
        rc = GPUHIER_CU(cuMulticastCreate, &multicast->object, &properties);
        multicast->object = OMPI_SUCCESS == rc ? multicast->object : 0;
    }
    return OMPI_SUCCESS != rc ? rc : send_to_all(multicast, id, to, ngpus - 1);
}

int gpuhier_multicast_receive(gpuhier_multicast_t *multicast, int device, int ngpus, size_t bytes, uint64_t id,
                              uint64_t process)
{
    const gpuhier_fd_key_t fd_key = {.process = process, .id = id};
    const int file = gpuhier_fd_take(&fd_key, gpuhier_process_word());
    if (file < 0) {
        return OMPI_ERR_NOT_FOUND;
    }
    int rc = begin(multicast, device, ngpus, bytes);
    if (OMPI_SUCCESS == rc) {
        rc = GPUHIER_CU(cuMemImportFromShareableHandle, &multicast->object, (void *) (intptr_t) file,
                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
        multicast->object = OMPI_SUCCESS == rc ? multicast->object : 0;
    }
    close(file);
    return rc;
}

int gpuhier_multicast_join(const gpuhier_multicast_t *multicast)
{
    return GPUHIER_CU(cuMulticastAddDevice, multicast->object, multicast->device);
}

int gpuhier_multicast_map(gpuhier_multicast_t *multicast)
{
    /* Memory that is bound to an object which other processes share must itself be shareable. */
    const CUmemAllocationProp properties = properties_of(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, multicast->device);
    int rc = GPUHIER_CU(cuMemCreate, &multicast->memory, multicast->bytes, &properties, 0);
    if (OMPI_SUCCESS != rc) {
        multicast->memory = 0;
        return rc;
    }
    rc = map(multicast->memory, multicast->bytes, &multicast->own);
    if (OMPI_SUCCESS == rc) {
        rc = GPUHIER_CU(cuMulticastBindMem, multicast->object, 0, multicast->memory, 0, multicast->bytes, 0);
        multicast->is_bound = OMPI_SUCCESS == rc;
    }
    return OMPI_SUCCESS != rc ? rc : map(multicast->object, multicast->bytes, &multicast->all);
}

void gpuhier_multicast_close(gpuhier_multicast_t *multicast)
{
    gpuhier_vmm_unmap(multicast->all, multicast->bytes);
    if (multicast->is_bound) {
        GPUHIER_CU_FREE(cuMulticastUnbind, multicast->object, multicast->device, 0, multicast->bytes);
    }
    gpuhier_vmm_unmap(multicast->own, multicast->bytes);
    if (0 != multicast->memory) {
        GPUHIER_CU_FREE(cuMemRelease, multicast->memory);
    }
    if (0 != multicast->object) {
        GPUHIER_CU_FREE(cuMemRelease, multicast->object);
    }
    nobjects -= multicast->bytes > 0;
    memset(multicast, 0, sizeof(*multicast));
}

void gpuhier_multicast_leave(gpuhier_multicast_t *multicast)
{
    memset(multicast, 0, sizeof(*multicast));
}
