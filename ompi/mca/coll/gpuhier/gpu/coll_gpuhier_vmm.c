/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the driver calls for memory of cuMemCreate: making it, mapping it at an address, handing it to other processes.
 * Does not own what is made: ipc_cache keeps the memory of other processes that is mapped here; the device,
 * lane_exchange and multicast keep what this process makes.
 *
 * A handle of the driver is let go as soon as its memory is mapped, and the memory lives as long as any process maps
 * it.
 */
#include "ompi_config.h"

#include "gpu/coll_gpuhier_vmm.h"

/* A driver that is older than an attribute does not know it. */
static bool knows(int ordinal, CUdevice_attribute attribute)
{
    int value = 0;
    CUdevice device;
    return CUDA_SUCCESS == gpuhier_cu.cuDeviceGet(&device, ordinal)
           && CUDA_SUCCESS == gpuhier_cu.cuDeviceGetAttribute(&value, attribute, device) && 0 != value;
}

bool gpuhier_vmm_knows_fabric(int ordinal)
{
    return knows(ordinal, (CUdevice_attribute) CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED);
}

bool gpuhier_vmm_knows_files(int ordinal)
{
    return knows(ordinal, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
}

void gpuhier_vmm_unmap(CUdeviceptr address, size_t bytes)
{
    gpuhier_cuda_freed(gpuhier_cu.cuMemUnmap(address, bytes), "cuMemUnmap");
    gpuhier_cuda_freed(gpuhier_cu.cuMemAddressFree(address, bytes), "cuMemAddressFree");
}

int gpuhier_vmm_allow(CUdeviceptr address, size_t bytes)
{
    CUdevice device;
    int rc = gpuhier_cuda_error(gpuhier_cu.cuCtxGetDevice(&device), "cuCtxGetDevice");
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = (int) device},
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    return gpuhier_cuda_error(gpuhier_cu.cuMemSetAccess(address, bytes, &access, 1), "cuMemSetAccess");
}

int gpuhier_vmm_map(CUmemGenericAllocationHandle memory, size_t bytes, CUdeviceptr *address_p)
{
    CUdeviceptr address;
    int rc = gpuhier_cuda_error(gpuhier_cu.cuMemAddressReserve(&address, bytes, 0, 0, 0), "cuMemAddressReserve");
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    rc = gpuhier_cuda_error(gpuhier_cu.cuMemMap(address, bytes, 0, memory, 0), "cuMemMap");
    if (OMPI_SUCCESS != rc) {
        (void) gpuhier_cuda_error(gpuhier_cu.cuMemAddressFree(address, bytes), "cuMemAddressFree");
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

static int import(void *shareable, CUmemAllocationHandleType type, size_t bytes, CUdeviceptr *address_p)
{
    CUmemGenericAllocationHandle memory;
    int rc = gpuhier_cuda_error(gpuhier_cu.cuMemImportFromShareableHandle(&memory, shareable, type),
                                "cuMemImportFromShareableHandle");
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    rc = gpuhier_vmm_map(memory, bytes, address_p);
    (void) gpuhier_cuda_error(gpuhier_cu.cuMemRelease(memory), "cuMemRelease");
    return rc;
}

int gpuhier_vmm_file_open(int file, size_t bytes, CUdeviceptr *address_p)
{
    return import((void *) (intptr_t) file, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, bytes, address_p);
}

int gpuhier_vmm_fabric_open(const gpuhier_fabric_handle_t *handle, size_t bytes, CUdeviceptr *address_p)
{
    gpuhier_fabric_handle_t copy = *handle; /* the driver's parameter is not const */
    return import(&copy, (CUmemAllocationHandleType) CU_MEM_HANDLE_TYPE_FABRIC, bytes, address_p);
}

int gpuhier_vmm_file_make(CUdeviceptr base)
{
    CUmemGenericAllocationHandle memory;
    int file = -1;
    if (OMPI_SUCCESS
        != gpuhier_cuda_error(gpuhier_cu.cuMemRetainAllocationHandle(&memory, (void *) (uintptr_t) base),
                              "cuMemRetainAllocationHandle")) {
        return -1;
    }
    if (OMPI_SUCCESS
        != gpuhier_cuda_error(
            gpuhier_cu.cuMemExportToShareableHandle(&file, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            "cuMemExportToShareableHandle")) {
        file = -1;
    }
    (void) gpuhier_cuda_error(gpuhier_cu.cuMemRelease(memory), "cuMemRelease");
    return file;
}

/* Makes the memory, in whole pieces of what the driver gives. *bytes: as in gpuhier_vmm_fabric_make(). */
static int create(CUmemAllocationHandleType type, size_t *bytes, CUmemGenericAllocationHandle *memory_p)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .requestedHandleTypes = type};
    CUdevice device;
    size_t unit = 0;
    int rc = gpuhier_cuda_error(gpuhier_cu.cuCtxGetDevice(&device), "cuCtxGetDevice");
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    properties.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = (int) device};
    rc = gpuhier_cuda_error(
        gpuhier_cu.cuMemGetAllocationGranularity(&unit, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
        "cuMemGetAllocationGranularity");
    if (OMPI_SUCCESS != rc || 0 == unit) {
        return OMPI_SUCCESS != rc ? rc : OMPI_ERROR;
    }
    *bytes = (*bytes + unit - 1) / unit * unit;
    return gpuhier_cuda_error(gpuhier_cu.cuMemCreate(memory_p, *bytes, &properties, 0), "cuMemCreate");
}

int gpuhier_vmm_fabric_make(size_t *bytes, CUdeviceptr *address_p, gpuhier_fabric_handle_t *handle_p)
{
    CUmemGenericAllocationHandle memory;
    int rc = create((CUmemAllocationHandleType) CU_MEM_HANDLE_TYPE_FABRIC, bytes, &memory);
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    rc = gpuhier_cuda_error(gpuhier_cu.cuMemExportToShareableHandle(
                                handle_p, memory, (CUmemAllocationHandleType) CU_MEM_HANDLE_TYPE_FABRIC, 0),
                            "cuMemExportToShareableHandle");
    rc = OMPI_SUCCESS != rc ? rc : gpuhier_vmm_map(memory, *bytes, address_p);
    (void) gpuhier_cuda_error(gpuhier_cu.cuMemRelease(memory), "cuMemRelease");
    return rc;
}

int gpuhier_vmm_file_new(size_t *bytes, CUdeviceptr *address_p)
{
    CUmemGenericAllocationHandle memory;
    int rc = create(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, bytes, &memory);
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    rc = gpuhier_vmm_map(memory, *bytes, address_p);
    (void) gpuhier_cuda_error(gpuhier_cu.cuMemRelease(memory), "cuMemRelease");
    return rc;
}
