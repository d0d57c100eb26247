/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns this process's part of multicast objects, and their number. Does not own the agreement of a group on each step
 * (team), nor what the memory is used for. Called by the team.
 */
#include "ompi_config.h"

#include <string.h>
#include <unistd.h>

#include "gpu/coll_gpuhier_fd_passing.h"
#include "gpu/coll_gpuhier_ipc_cache.h"
#include "gpu/coll_gpuhier_multicast.h"
#include "gpu/coll_gpuhier_vmm.h"

static int nobjects; /* of this process */

bool gpuhier_multicast_is_possible(int device)
{
    int supported = 0;
    CUdevice handle;
    return gpuhier_cu.has_multicast && nobjects < GPUHIER_MULTICAST_OBJECTS_MAX
           && CUDA_SUCCESS == gpuhier_cu.cuDeviceGet(&handle, device)
           && CUDA_SUCCESS
                  == gpuhier_cu.cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, handle)
           && 0 != supported;
}

/* Memory that is bound to an object which other processes share must itself be shareable. */
static CUmemAllocationProp copy_properties(int device)
{
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
}

static CUmulticastObjectProp object_properties(int ngpus, size_t bytes)
{
    return (CUmulticastObjectProp){
        .numDevices = (unsigned) ngpus, .size = bytes, .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
}

static size_t round_up(size_t bytes, size_t unit)
{
    return 0 == unit ? bytes : (bytes + unit - 1) / unit * unit;
}

/*
 * Notes the device and the length, which is the same on all members if their GPUs are alike. The length is a multiple
 * of the least granularity. The granularity that the driver recommends is half a GiB on an H100, and each communicator
 * with an object would take that much of every GPU.
 */
static int begin(gpuhier_multicast_t *multicast, int device, int ngpus, size_t bytes)
{
    const CUmemAllocationProp copy = copy_properties(device);
    const CUmulticastObjectProp object = object_properties(ngpus, bytes);
    size_t object_unit = 0, copy_unit = 0;
    if (!gpuhier_multicast_is_possible(device)) {
        return OMPI_ERR_NOT_SUPPORTED;
    }
    int rc = gpuhier_cuda_error(
        gpuhier_cu.cuMulticastGetGranularity(&object_unit, &object, CU_MULTICAST_GRANULARITY_MINIMUM),
        "cuMulticastGetGranularity");
    rc = OMPI_SUCCESS != rc ? rc
                            : gpuhier_cuda_error(gpuhier_cu.cuMemGetAllocationGranularity(
                                                     &copy_unit, &copy, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                                                 "cuMemGetAllocationGranularity");
    if (OMPI_SUCCESS == rc) {
        multicast->device = device;
        multicast->bytes = round_up(bytes, object_unit > copy_unit ? object_unit : copy_unit);
        multicast->is_counted = true;
        ++nobjects;
    }
    return rc;
}

static int send_to_all(const gpuhier_multicast_t *multicast, uint64_t id, const uint64_t *to, int n)
{
    const gpuhier_fd_key_t fd_key = {.process = gpuhier_process_word(), .id = id};
    int file = -1;
    int rc = gpuhier_cuda_error(
        gpuhier_cu.cuMemExportToShareableHandle(&file, multicast->object, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
        "cuMemExportToShareableHandle of a multicast object");
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
        rc = gpuhier_cuda_error(gpuhier_cu.cuMulticastCreate(&multicast->object, &properties), "cuMulticastCreate");
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
    rc =
        OMPI_SUCCESS != rc
            ? rc
            : gpuhier_cuda_error(gpuhier_cu.cuMemImportFromShareableHandle(&multicast->object, (void *) (intptr_t) file,
                                                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                                 "cuMemImportFromShareableHandle of a multicast object");
    multicast->object = OMPI_SUCCESS == rc ? multicast->object : 0;
    close(file);
    return rc;
}

int gpuhier_multicast_join(const gpuhier_multicast_t *multicast)
{
    CUdevice device;
    int rc = gpuhier_cuda_error(gpuhier_cu.cuDeviceGet(&device, multicast->device), "cuDeviceGet");
    return OMPI_SUCCESS != rc
               ? rc
               : gpuhier_cuda_error(gpuhier_cu.cuMulticastAddDevice(multicast->object, device), "cuMulticastAddDevice");
}

int gpuhier_multicast_map(gpuhier_multicast_t *multicast)
{
    const CUmemAllocationProp properties = copy_properties(multicast->device);
    int rc =
        gpuhier_cuda_error(gpuhier_cu.cuMemCreate(&multicast->memory, multicast->bytes, &properties, 0), "cuMemCreate");
    if (OMPI_SUCCESS != rc) {
        multicast->memory = 0;
        return rc;
    }
    rc = gpuhier_vmm_map(multicast->memory, multicast->bytes, &multicast->own);
    if (OMPI_SUCCESS == rc) {
        rc = gpuhier_cuda_error(
            gpuhier_cu.cuMulticastBindMem(multicast->object, 0, multicast->memory, 0, multicast->bytes, 0),
            "cuMulticastBindMem");
        multicast->is_bound = OMPI_SUCCESS == rc;
    }
    return OMPI_SUCCESS != rc ? rc : gpuhier_vmm_map(multicast->object, multicast->bytes, &multicast->all);
}

static void unmap(CUdeviceptr address, size_t bytes)
{
    if (0 != address) {
        gpuhier_vmm_unmap(address, bytes);
    }
}

static void unbind(const gpuhier_multicast_t *multicast)
{
    CUdevice device;
    if (CUDA_SUCCESS == gpuhier_cu.cuDeviceGet(&device, multicast->device)) {
        gpuhier_cuda_freed(gpuhier_cu.cuMulticastUnbind(multicast->object, device, 0, multicast->bytes),
                           "cuMulticastUnbind");
    }
}

void gpuhier_multicast_close(gpuhier_multicast_t *multicast)
{
    unmap(multicast->all, multicast->bytes);
    if (multicast->is_bound) {
        unbind(multicast);
    }
    unmap(multicast->own, multicast->bytes);
    if (0 != multicast->memory) {
        gpuhier_cuda_freed(gpuhier_cu.cuMemRelease(multicast->memory), "cuMemRelease");
    }
    if (0 != multicast->object) {
        gpuhier_cuda_freed(gpuhier_cu.cuMemRelease(multicast->object), "cuMemRelease of a multicast object");
    }
    nobjects -= multicast->is_counted;
    memset(multicast, 0, sizeof(*multicast));
}

void gpuhier_multicast_leave(gpuhier_multicast_t *multicast)
{
    memset(multicast, 0, sizeof(*multicast));
}
