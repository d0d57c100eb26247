/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The runtime's devices.
 *
 * Owns each thread's device and the primary contexts that the runtime retains, one
 * reference per device for the whole process.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "rt_api.h"

#define MAX_DEVICES 64

static pthread_mutex_t device_mutex = PTHREAD_MUTEX_INITIALIZER;
static CUcontext primaries[MAX_DEVICES];
static _Thread_local int thread_device;

static CUresult primary_of(int device, CUcontext *ctx_p)
{
    CUresult rc = CUDA_SUCCESS;

    if (device < 0 || device >= MAX_DEVICES) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    pthread_mutex_lock(&device_mutex);
    if (NULL == primaries[device]) {
        rc = cuDevicePrimaryCtxRetain(&primaries[device], device);
    }
    *ctx_p = primaries[device];
    pthread_mutex_unlock(&device_mutex);
    return rc;
}

cudaError_t rt_context(void)
{
    CUcontext ctx = NULL;
    CUresult rc = cuCtxGetCurrent(&ctx);

    if (CUDA_SUCCESS == rc && NULL == ctx) {
        rc = primary_of(thread_device, &ctx);
        if (CUDA_SUCCESS == rc) {
            rc = cuCtxSetCurrent(ctx);
        }
    }
    return rt_error(rc);
}

cudaError_t rt_cudaDriverGetVersion(int *version_p)
{
    return rt_error(cuDriverGetVersion(version_p));
}

cudaError_t rt_cudaRuntimeGetVersion(int *version_p)
{
    if (NULL == version_p) {
        return cudaErrorInvalidValue;
    }
    *version_p = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t rt_cudaGetDeviceCount(int *count_p)
{
    return rt_error(cuDeviceGetCount(count_p));
}

cudaError_t rt_cudaGetDevice(int *device_p)
{
    CUcontext ctx = NULL;
    CUdevice device;

    if (NULL == device_p) {
        return cudaErrorInvalidValue;
    }
    if (CUDA_SUCCESS == cuCtxGetCurrent(&ctx) && NULL != ctx && CUDA_SUCCESS == cuCtxGetDevice(&device)) {
        *device_p = device;
    } else {
        *device_p = thread_device;
    }
    return cudaSuccess;
}

cudaError_t rt_cudaSetDevice(int device)
{
    CUcontext ctx;
    CUresult rc = primary_of(device, &ctx);

    if (CUDA_SUCCESS == rc) {
        rc = cuCtxSetCurrent(ctx);
    }
    if (CUDA_SUCCESS == rc) {
        thread_device = device;
    }
    return rt_error(rc);
}

cudaError_t rt_cudaInitDevice(int device, unsigned int device_flags, unsigned int flags)
{
    CUcontext ctx;
    CUresult rc = CUDA_SUCCESS;

    if (0 != (flags & cudaInitDeviceFlagsAreValid)) {
        rc = cuDevicePrimaryCtxSetFlags(device, device_flags);
    }
    return rt_error(CUDA_SUCCESS == rc ? primary_of(device, &ctx) : rc);
}

cudaError_t rt_cudaSetDeviceFlags(unsigned int flags)
{
    int device;

    rt_cudaGetDevice(&device);
    return rt_error(cuDevicePrimaryCtxSetFlags(device, flags & ~(unsigned) cudaDeviceMapHost));
}

cudaError_t rt_cudaGetDeviceFlags(unsigned int *flags_p)
{
    unsigned flags;
    int device, active;
    CUresult rc;

    rt_cudaGetDevice(&device);
    rc = cuDevicePrimaryCtxGetState(device, &flags, &active);
    if (CUDA_SUCCESS == rc) {
        *flags_p = flags | cudaDeviceMapHost;
    }
    return rt_error(rc);
}

cudaError_t rt_cudaDeviceGetAttribute(int *value_p, enum cudaDeviceAttr attribute, int device)
{
    return rt_error(cuDeviceGetAttribute(value_p, (CUdevice_attribute) attribute, device));
}

/* Where each number of the properties comes from. */
#define PROPERTY_LIST(X)                                                          \
    X(regsPerBlock, MAX_REGISTERS_PER_BLOCK)                                      \
    X(warpSize, WARP_SIZE)                                                        \
    X(memPitch, MAX_PITCH)                                                        \
    X(maxThreadsPerBlock, MAX_THREADS_PER_BLOCK)                                  \
    X(maxThreadsDim[0], MAX_BLOCK_DIM_X)                                          \
    X(maxThreadsDim[1], MAX_BLOCK_DIM_Y)                                          \
    X(maxThreadsDim[2], MAX_BLOCK_DIM_Z)                                          \
    X(maxGridSize[0], MAX_GRID_DIM_X)                                             \
    X(maxGridSize[1], MAX_GRID_DIM_Y)                                             \
    X(maxGridSize[2], MAX_GRID_DIM_Z)                                             \
    X(sharedMemPerBlock, MAX_SHARED_MEMORY_PER_BLOCK)                             \
    X(totalConstMem, TOTAL_CONSTANT_MEMORY)                                       \
    X(major, COMPUTE_CAPABILITY_MAJOR)                                            \
    X(minor, COMPUTE_CAPABILITY_MINOR)                                            \
    X(textureAlignment, TEXTURE_ALIGNMENT)                                        \
    X(texturePitchAlignment, TEXTURE_PITCH_ALIGNMENT)                             \
    X(multiProcessorCount, MULTIPROCESSOR_COUNT)                                  \
    X(integrated, INTEGRATED)                                                     \
    X(canMapHostMemory, CAN_MAP_HOST_MEMORY)                                      \
    X(surfaceAlignment, SURFACE_ALIGNMENT)                                        \
    X(concurrentKernels, CONCURRENT_KERNELS)                                      \
    X(ECCEnabled, ECC_ENABLED)                                                    \
    X(pciBusID, PCI_BUS_ID)                                                       \
    X(pciDeviceID, PCI_DEVICE_ID)                                                 \
    X(pciDomainID, PCI_DOMAIN_ID)                                                 \
    X(asyncEngineCount, ASYNC_ENGINE_COUNT)                                       \
    X(unifiedAddressing, UNIFIED_ADDRESSING)                                      \
    X(memoryBusWidth, GLOBAL_MEMORY_BUS_WIDTH)                                    \
    X(l2CacheSize, L2_CACHE_SIZE)                                                 \
    X(maxThreadsPerMultiProcessor, MAX_THREADS_PER_MULTIPROCESSOR)                \
    X(streamPrioritiesSupported, STREAM_PRIORITIES_SUPPORTED)                     \
    X(globalL1CacheSupported, GLOBAL_L1_CACHE_SUPPORTED)                          \
    X(localL1CacheSupported, LOCAL_L1_CACHE_SUPPORTED)                            \
    X(sharedMemPerMultiprocessor, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)           \
    X(regsPerMultiprocessor, MAX_REGISTERS_PER_MULTIPROCESSOR)                    \
    X(managedMemory, MANAGED_MEMORY)                                              \
    X(hostNativeAtomicSupported, HOST_NATIVE_ATOMIC_SUPPORTED)                    \
    X(pageableMemoryAccess, PAGEABLE_MEMORY_ACCESS)                               \
    X(concurrentManagedAccess, CONCURRENT_MANAGED_ACCESS)                         \
    X(computePreemptionSupported, COMPUTE_PREEMPTION_SUPPORTED)                   \
    X(canUseHostPointerForRegisteredMem, CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM) \
    X(cooperativeLaunch, COOPERATIVE_LAUNCH)                                      \
    X(sharedMemPerBlockOptin, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)                  \
    X(maxBlocksPerMultiProcessor, MAX_BLOCKS_PER_MULTIPROCESSOR)                  \
    X(reservedSharedMemPerBlock, RESERVED_SHARED_MEMORY_PER_BLOCK)                \
    X(hostRegisterSupported, HOST_REGISTER_SUPPORTED)                             \
    X(hostRegisterReadOnlySupported, READ_ONLY_HOST_REGISTER_SUPPORTED)           \
    X(memoryPoolsSupported, MEMORY_POOLS_SUPPORTED)                               \
    X(gpuDirectRDMASupported, GPU_DIRECT_RDMA_SUPPORTED)                          \
    X(gpuDirectRDMAFlushWritesOptions, GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS)      \
    X(gpuDirectRDMAWritesOrdering, GPU_DIRECT_RDMA_WRITES_ORDERING)               \
    X(memoryPoolSupportedHandleTypes, MEMPOOL_SUPPORTED_HANDLE_TYPES)             \
    X(ipcEventSupported, IPC_EVENT_SUPPORTED)                                     \
    X(clusterLaunch, CLUSTER_LAUNCH)                                              \
    X(unifiedFunctionPointers, UNIFIED_FUNCTION_POINTERS)                         \
    X(hostNumaId, HOST_NUMA_ID)

cudaError_t rt_cudaGetDeviceProperties(struct cudaDeviceProp *properties_p, int device)
{
    int value;
    CUresult rc;

    if (NULL == properties_p) {
        return cudaErrorInvalidValue;
    }
    memset(properties_p, 0, sizeof(*properties_p));
    rc = cuDeviceGetName(properties_p->name, (int) sizeof(properties_p->name), device);
    if (CUDA_SUCCESS == rc) {
        rc = cuDeviceGetUuid(&properties_p->uuid, device);
    }
    if (CUDA_SUCCESS == rc) {
        rc = cuDeviceTotalMem(&properties_p->totalGlobalMem, device);
    }
#define PROPERTY_READ(field, attribute)                                             \
    if (CUDA_SUCCESS == rc) {                                                       \
        rc = cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_##attribute, device); \
        properties_p->field = (__typeof__(properties_p->field)) value;              \
    }
    PROPERTY_LIST(PROPERTY_READ)
    return rt_error(rc);
}

cudaError_t rt_cudaDeviceGetByPCIBusId(int *device_p, const char *text)
{
    return rt_error(cuDeviceGetByPCIBusId(device_p, text));
}

cudaError_t rt_cudaDeviceGetPCIBusId(char *text_p, int length, int device)
{
    return rt_error(cuDeviceGetPCIBusId(text_p, length, device));
}

cudaError_t rt_cudaDeviceCanAccessPeer(int *can_p, int device, int peer)
{
    return rt_error(cuDeviceCanAccessPeer(can_p, device, peer));
}

cudaError_t rt_cudaDeviceGetP2PAttribute(int *value_p, enum cudaDeviceP2PAttr attribute, int from, int to)
{
    return rt_error(cuDeviceGetP2PAttribute(value_p, (CUdevice_P2PAttribute) attribute, from, to));
}

cudaError_t rt_cudaDeviceEnablePeerAccess(int peer, unsigned int flags)
{
    CUcontext ctx;
    CUresult rc = primary_of(peer, &ctx);

    return rt_error(CUDA_SUCCESS == rc ? cuCtxEnablePeerAccess(ctx, flags) : rc);
}

cudaError_t rt_cudaDeviceDisablePeerAccess(int peer)
{
    CUcontext ctx;
    CUresult rc = primary_of(peer, &ctx);

    return rt_error(CUDA_SUCCESS == rc ? cuCtxDisablePeerAccess(ctx) : rc);
}

cudaError_t rt_cudaDeviceSynchronize(void)
{
    return rt_error(cuCtxSynchronize());
}

cudaError_t rt_cudaDeviceReset(void)
{
    int device;

    rt_cudaGetDevice(&device);
    return rt_error(cuDevicePrimaryCtxReset(device));
}

cudaError_t rt_cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
    return rt_error(cuCtxSetLimit((CUlimit) limit, value));
}

cudaError_t rt_cudaDeviceGetLimit(size_t *value_p, enum cudaLimit limit)
{
    return rt_error(cuCtxGetLimit(value_p, (CUlimit) limit));
}

cudaError_t rt_cudaDeviceGetStreamPriorityRange(int *least_p, int *greatest_p)
{
    return rt_error(cuCtxGetStreamPriorityRange(least_p, greatest_p));
}

cudaError_t rt_cudaDeviceFlushGPUDirectRDMAWrites(enum cudaFlushGPUDirectRDMAWritesTarget target,
                                                  enum cudaFlushGPUDirectRDMAWritesScope scope)
{
    return rt_error(
        cuFlushGPUDirectRDMAWrites((CUflushGPUDirectRDMAWritesTarget) target, (CUflushGPUDirectRDMAWritesScope) scope));
}

cudaError_t rt_cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode_p)
{
    return rt_error(cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *) mode_p));
}

cudaError_t rt_cudaProfilerStart(void)
{
    return cudaSuccess; /* there is no profiler to start */
}

cudaError_t rt_cudaProfilerStop(void)
{
    return cudaSuccess;
}
