/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The runtime's memory, copies and IPC: the driver's calls under other names.
 */
#include <string.h>

#include "rt_api.h"

static CUdeviceptr device_pointer(const void *pointer)
{
    return (CUdeviceptr) (uintptr_t) pointer;
}

cudaError_t rt_cudaMalloc(void **pointer_p, size_t bytes)
{
    if (NULL == pointer_p) {
        return cudaErrorInvalidValue;
    }
    if (0 == bytes) { /* unlike the driver's call */
        *pointer_p = NULL;
        return cudaSuccess;
    }
    return rt_error(cuMemAlloc((CUdeviceptr *) pointer_p, bytes));
}

cudaError_t rt_cudaMallocPitch(void **pointer_p, size_t *pitch_p, size_t width, size_t height)
{
    return rt_error(cuMemAllocPitch((CUdeviceptr *) pointer_p, pitch_p, width, height, 4));
}

cudaError_t rt_cudaMallocManaged(void **pointer_p, size_t bytes, unsigned int flags)
{
    return rt_error(cuMemAllocManaged((CUdeviceptr *) pointer_p, bytes, flags));
}

cudaError_t rt_cudaMallocHost(void **pointer_p, size_t bytes)
{
    return rt_error(cuMemAllocHost(pointer_p, bytes));
}

cudaError_t rt_cudaHostAlloc(void **pointer_p, size_t bytes, unsigned int flags)
{
    return rt_error(cuMemHostAlloc(pointer_p, bytes, flags));
}

cudaError_t rt_cudaHostRegister(void *pointer, size_t bytes, unsigned int flags)
{
    return rt_error(cuMemHostRegister(pointer, bytes, flags));
}

cudaError_t rt_cudaHostUnregister(void *pointer)
{
    return rt_error(cuMemHostUnregister(pointer));
}

cudaError_t rt_cudaHostGetDevicePointer(void **pointer_p, void *host, unsigned int flags)
{
    return rt_error(cuMemHostGetDevicePointer((CUdeviceptr *) pointer_p, host, flags));
}

cudaError_t rt_cudaHostGetFlags(unsigned int *flags_p, void *host)
{
    return rt_error(cuMemHostGetFlags(flags_p, host));
}

cudaError_t rt_cudaFree(void *pointer)
{
    return NULL == pointer ? cudaSuccess : rt_error(cuMemFree(device_pointer(pointer)));
}

cudaError_t rt_cudaFreeHost(void *pointer)
{
    return NULL == pointer ? cudaSuccess : rt_error(cuMemFreeHost(pointer));
}

cudaError_t rt_cudaMemGetInfo(size_t *free_p, size_t *total_p)
{
    return rt_error(cuMemGetInfo(free_p, total_p));
}

cudaError_t rt_cudaPointerGetAttributes(struct cudaPointerAttributes *attributes_p, const void *pointer)
{
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                   CU_POINTER_ATTRIBUTE_HOST_POINTER};
    unsigned type = 0;
    unsigned char managed = 0;
    int ordinal = cudaInvalidDeviceId;
    CUdeviceptr device = 0;
    void *host = NULL;
    void *values[] = {&type, &managed, &ordinal, &device, &host};
    CUresult rc;

    if (NULL == attributes_p) {
        return cudaErrorInvalidValue;
    }
    rc = cuPointerGetAttributes(5, names, values, device_pointer(pointer));
    if (CUDA_SUCCESS != rc) {
        return rt_error(rc);
    }
    memset(attributes_p, 0, sizeof(*attributes_p));
    attributes_p->device = ordinal;
    attributes_p->devicePointer = (void *) (uintptr_t) device;
    attributes_p->hostPointer = host;
    if (0 == type) {
        attributes_p->type = cudaMemoryTypeUnregistered;
        attributes_p->device = cudaInvalidDeviceId;
        attributes_p->hostPointer = (void *) (uintptr_t) pointer;
    } else if (managed) {
        attributes_p->type = cudaMemoryTypeManaged;
    } else {
        attributes_p->type = CU_MEMORYTYPE_HOST == type ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
    }
    return cudaSuccess;
}

/* ---- pools ---- */

cudaError_t rt_cudaMallocAsync(void **pointer_p, size_t bytes, cudaStream_t stream)
{
    return rt_error(cuMemAllocAsync((CUdeviceptr *) pointer_p, bytes, stream));
}

cudaError_t rt_cudaMallocFromPoolAsync(void **pointer_p, size_t bytes, cudaMemPool_t pool, cudaStream_t stream)
{
    return rt_error(cuMemAllocFromPoolAsync((CUdeviceptr *) pointer_p, bytes, pool, stream));
}

cudaError_t rt_cudaFreeAsync(void *pointer, cudaStream_t stream)
{
    return rt_error(cuMemFreeAsync(device_pointer(pointer), stream));
}

cudaError_t rt_cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool_p, int device)
{
    return rt_error(cuDeviceGetDefaultMemPool(pool_p, device));
}

cudaError_t rt_cudaDeviceGetMemPool(cudaMemPool_t *pool_p, int device)
{
    return rt_error(cuDeviceGetMemPool(pool_p, device));
}

cudaError_t rt_cudaDeviceSetMemPool(int device, cudaMemPool_t pool)
{
    return rt_error(cuDeviceSetMemPool(device, pool));
}

/* The runtime's structures of pools, places and access have the driver's layout. */
_Static_assert(sizeof(struct cudaMemPoolProps) == sizeof(CUmemPoolProps), "same layout");
_Static_assert(sizeof(struct cudaMemAccessDesc) == sizeof(CUmemAccessDesc), "same layout");
_Static_assert(sizeof(struct cudaMemLocation) == sizeof(CUmemLocation), "same layout");

cudaError_t rt_cudaMemPoolCreate(cudaMemPool_t *pool_p, const struct cudaMemPoolProps *properties)
{
    return rt_error(cuMemPoolCreate(pool_p, (const CUmemPoolProps *) properties));
}

cudaError_t rt_cudaMemPoolDestroy(cudaMemPool_t pool)
{
    return rt_error(cuMemPoolDestroy(pool));
}

cudaError_t rt_cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep)
{
    return rt_error(cuMemPoolTrimTo(pool, keep));
}

cudaError_t rt_cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
{
    return rt_error(cuMemPoolSetAttribute(pool, (CUmemPool_attribute) attribute, value));
}

cudaError_t rt_cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value_p)
{
    return rt_error(cuMemPoolGetAttribute(pool, (CUmemPool_attribute) attribute, value_p));
}

cudaError_t rt_cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *list, size_t count)
{
    return rt_error(cuMemPoolSetAccess(pool, (const CUmemAccessDesc *) list, count));
}

cudaError_t rt_cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags_p, cudaMemPool_t pool, struct cudaMemLocation *where)
{
    return rt_error(cuMemPoolGetAccess((CUmemAccess_flags *) flags_p, pool, (CUmemLocation *) where));
}

static CUmemLocation location(struct cudaMemLocation where)
{
    CUmemLocation same;

    memcpy(&same, &where, sizeof(same));
    return same;
}

cudaError_t rt_cudaMemPrefetchAsync(const void *pointer, size_t bytes, struct cudaMemLocation where, unsigned int flags,
                                    cudaStream_t stream)
{
    return rt_error(cuMemPrefetchAsync_v2(device_pointer(pointer), bytes, location(where), flags, stream));
}

cudaError_t rt_cudaMemAdvise(const void *pointer, size_t bytes, enum cudaMemoryAdvise advice,
                             struct cudaMemLocation where)
{
    return rt_error(cuMemAdvise(device_pointer(pointer), bytes, (CUmem_advise) advice, location(where)));
}

/* ---- IPC ---- */

cudaError_t rt_cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle_p, void *pointer)
{
    return rt_error(cuIpcGetMemHandle((CUipcMemHandle *) handle_p, device_pointer(pointer)));
}

cudaError_t rt_cudaIpcOpenMemHandle(void **pointer_p, cudaIpcMemHandle_t handle, unsigned int flags)
{
    CUipcMemHandle same;

    memcpy(&same, &handle, sizeof(same));
    return rt_error(cuIpcOpenMemHandle((CUdeviceptr *) pointer_p, same, flags));
}

cudaError_t rt_cudaIpcCloseMemHandle(void *pointer)
{
    return rt_error(cuIpcCloseMemHandle(device_pointer(pointer)));
}

cudaError_t rt_cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle_p, cudaEvent_t event)
{
    return rt_error(cuIpcGetEventHandle((CUipcEventHandle *) handle_p, event));
}

cudaError_t rt_cudaIpcOpenEventHandle(cudaEvent_t *event_p, cudaIpcEventHandle_t handle)
{
    CUipcEventHandle same;

    memcpy(&same, &handle, sizeof(same));
    return rt_error(cuIpcOpenEventHandle(event_p, same));
}

/* ---- copies ---- */

cudaError_t rt_cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return rt_error(cuMemcpyHtoD(device_pointer(to), from, bytes));
    case cudaMemcpyDeviceToHost:
        return rt_error(cuMemcpyDtoH(to, device_pointer(from), bytes));
    case cudaMemcpyDeviceToDevice:
        return rt_error(cuMemcpyDtoD(device_pointer(to), device_pointer(from), bytes));
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return rt_error(cuMemcpy(device_pointer(to), device_pointer(from), bytes));
    default:
        return cudaErrorInvalidMemcpyDirection;
    }
}

cudaError_t rt_cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return rt_error(cuMemcpyHtoDAsync(device_pointer(to), from, bytes, stream));
    case cudaMemcpyDeviceToHost:
        return rt_error(cuMemcpyDtoHAsync(to, device_pointer(from), bytes, stream));
    case cudaMemcpyDeviceToDevice:
        return rt_error(cuMemcpyDtoDAsync(device_pointer(to), device_pointer(from), bytes, stream));
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return rt_error(cuMemcpyAsync(device_pointer(to), device_pointer(from), bytes, stream));
    default:
        return cudaErrorInvalidMemcpyDirection;
    }
}

static cudaError_t devices_check(int a, int b)
{
    int count = 0;

    cuDeviceGetCount(&count);
    return (a < 0 || b < 0 || a >= count || b >= count) ? cudaErrorInvalidDevice : cudaSuccess;
}

cudaError_t rt_cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t bytes)
{
    cudaError_t rc = devices_check(to_device, from_device);

    return cudaSuccess == rc ? rt_cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToDevice) : rc;
}

cudaError_t rt_cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes,
                                   cudaStream_t stream)
{
    cudaError_t rc = devices_check(to_device, from_device);

    return cudaSuccess == rc ? rt_cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream) : rc;
}

static cudaError_t copy_2d(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                           enum cudaMemcpyKind kind, CUDA_MEMCPY2D *copy_p)
{
    if (kind > cudaMemcpyDefault) {
        return cudaErrorInvalidMemcpyDirection;
    }
    if (to_pitch < width || from_pitch < width) {
        return cudaErrorInvalidPitchValue;
    }
    memset(copy_p, 0, sizeof(*copy_p));
    copy_p->srcMemoryType = CU_MEMORYTYPE_UNIFIED;
    copy_p->srcDevice = device_pointer(from);
    copy_p->srcPitch = from_pitch;
    copy_p->dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    copy_p->dstDevice = device_pointer(to);
    copy_p->dstPitch = to_pitch;
    copy_p->WidthInBytes = width;
    copy_p->Height = height;
    return cudaSuccess;
}

cudaError_t rt_cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                            enum cudaMemcpyKind kind)
{
    CUDA_MEMCPY2D copy;
    cudaError_t rc = copy_2d(to, to_pitch, from, from_pitch, width, height, kind, &copy);

    return cudaSuccess == rc ? rt_error(cuMemcpy2D(&copy)) : rc;
}

cudaError_t rt_cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                                 size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    CUDA_MEMCPY2D copy;
    cudaError_t rc = copy_2d(to, to_pitch, from, from_pitch, width, height, kind, &copy);

    return cudaSuccess == rc ? rt_error(cuMemcpy2DAsync(&copy, stream)) : rc;
}

cudaError_t rt_cudaMemset(void *to, int value, size_t bytes)
{
    return rt_error(cuMemsetD8(device_pointer(to), (unsigned char) value, bytes));
}

cudaError_t rt_cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    return rt_error(cuMemsetD8Async(device_pointer(to), (unsigned char) value, bytes, stream));
}

cudaError_t rt_cudaMemset2D(void *to, size_t pitch, int value, size_t width, size_t height)
{
    return rt_error(cuMemsetD2D8(device_pointer(to), pitch, (unsigned char) value, width, height));
}

cudaError_t rt_cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream)
{
    return rt_error(cuMemsetD2D8Async(device_pointer(to), pitch, (unsigned char) value, width, height, stream));
}
