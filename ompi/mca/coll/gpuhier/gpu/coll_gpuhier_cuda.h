/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The CUDA driver as the component sees it: its entry points, the mapping of its errors, and what it says about a
 * buffer. Any thread may call these functions; they take no lock.
 *
 * The same installation serves machines without a driver: nothing is linked against libcuda, and gpuhier_cuda_present()
 * is false there.
 */
#ifndef GPUHIER_CUDA_H
#define GPUHIER_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

#include "ompi/constants.h"

/* All driver functions that the component calls. cuda.h maps each name to its newest version (cuMemAlloc_v2 ...). */
#define GPUHIER_CU_FUNCTIONS(X)                    \
    X(cuInit)                                      \
    X(cuDriverGetVersion)                          \
    X(cuGetErrorName)                              \
    X(cuDeviceGet)                                 \
    X(cuDeviceGetAttribute)                        \
    X(cuDeviceGetName)                             \
    X(cuDeviceGetPCIBusId)                         \
    X(cuDeviceGetUuid)                             \
    X(cuDeviceTotalMem)                            \
    X(cuCtxPushCurrent)                            \
    X(cuCtxPopCurrent)                             \
    X(cuCtxGetCurrent)                             \
    X(cuCtxGetDevice)                              \
    X(cuCtxGetStreamPriorityRange)                 \
    X(cuCtxSynchronize)                            \
    X(cuDevicePrimaryCtxGetState)                  \
    X(cuDevicePrimaryCtxRetain)                    \
    X(cuDevicePrimaryCtxRelease)                   \
    X(cuMemAlloc)                                  \
    X(cuMemFree)                                   \
    X(cuMemHostAlloc)                              \
    X(cuMemFreeHost)                               \
    X(cuMemHostRegister)                           \
    X(cuMemHostUnregister)                         \
    X(cuMemHostGetDevicePointer)                   \
    X(cuMemGetAddressRange)                        \
    X(cuMemCreate)                                 \
    X(cuMemGetAllocationGranularity)               \
    X(cuMemRetainAllocationHandle)                 \
    X(cuMemExportToShareableHandle)                \
    X(cuMemImportFromShareableHandle)              \
    X(cuMemAddressReserve)                         \
    X(cuMemAddressFree)                            \
    X(cuMemMap)                                    \
    X(cuMemUnmap)                                  \
    X(cuMemSetAccess)                              \
    X(cuMemRelease)                                \
    X(cuMemcpyAsync)                               \
    X(cuMemcpyPeerAsync)                           \
    X(cuMemsetD32Async)                            \
    X(cuMemcpy2DAsync)                             \
    X(cuMemcpyDtoH)                                \
    X(cuMemcpyHtoD)                                \
    X(cuPointerGetAttributes)                      \
    X(cuPointerSetAttribute)                       \
    X(cuIpcGetMemHandle)                           \
    X(cuIpcOpenMemHandle)                          \
    X(cuIpcCloseMemHandle)                         \
    X(cuStreamCreateWithPriority)                  \
    X(cuStreamDestroy)                             \
    X(cuStreamQuery)                               \
    X(cuStreamIsCapturing)                         \
    X(cuStreamSynchronize)                         \
    X(cuStreamWaitEvent)                           \
    X(cuEventCreate)                               \
    X(cuEventDestroy)                              \
    X(cuEventQuery)                                \
    X(cuEventRecord)                               \
    X(cuModuleLoadData)                            \
    X(cuModuleUnload)                              \
    X(cuModuleGetFunction)                         \
    X(cuLaunchKernel)                              \
    X(cuLaunchHostFunc)                            \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor) \
    X(cuFlushGPUDirectRDMAWrites)                  \
    X(cuThreadExchangeStreamCaptureMode)

/* Multicast objects came with CUDA 12.1. An older toolkit, whose build does not use them, lacks these declarations. */
#if CUDA_VERSION < 12010
#    define CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED ((CUdevice_attribute) 132)
#    define CU_MULTICAST_GRANULARITY_MINIMUM 0
typedef struct CUmulticastObjectProp {
    unsigned numDevices;
    size_t size;
    unsigned long long handleTypes, flags;
} CUmulticastObjectProp;
CUresult cuMulticastCreate(CUmemGenericAllocationHandle *, const CUmulticastObjectProp *);
CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle, CUdevice);
CUresult cuMulticastBindMem(CUmemGenericAllocationHandle, size_t, CUmemGenericAllocationHandle, size_t, size_t,
                            unsigned long long);
CUresult cuMulticastUnbind(CUmemGenericAllocationHandle, CUdevice, size_t, size_t);
CUresult cuMulticastGetGranularity(size_t *, const CUmulticastObjectProp *, int);
#endif

/* Functions that a driver may lack, see has_multicast. */
#define GPUHIER_CU_MULTICAST(X) \
    X(cuMulticastCreate)        \
    X(cuMulticastAddDevice)     \
    X(cuMulticastBindMem)       \
    X(cuMulticastUnbind)        \
    X(cuMulticastGetGranularity)

/* The same, see has_loading. They came with CUDA 12.4. */
#if CUDA_VERSION >= 12040
#    define GPUHIER_CU_LOADING(X) \
        X(cuFuncIsLoaded)         \
        X(cuFuncLoad)
#else
#    define GPUHIER_CU_LOADING(X)
#endif

#define GPUHIER_CU_ALL(X)   \
    GPUHIER_CU_FUNCTIONS(X) \
    GPUHIER_CU_MULTICAST(X) \
    GPUHIER_CU_LOADING(X)

#define GPUHIER_CU_FIELD(symbol) __typeof__(symbol) *symbol;
typedef struct gpuhier_cu {
    GPUHIER_CU_ALL(GPUHIER_CU_FIELD)
    bool has_multicast; /* all functions of GPUHIER_CU_MULTICAST are there */
    bool has_loading;   /* all functions of GPUHIER_CU_LOADING are there */
} gpuhier_cu_t;
#undef GPUHIER_CU_FIELD

/* Valid and constant once gpuhier_cuda_present() has returned true. */
extern gpuhier_cu_t gpuhier_cu;

/*
 * Loads libcuda.so.1 at the first call in a process, without initialising the driver. Returns false when there is none,
 * or when it lacks a function of the list, which is reported once.
 */
bool gpuhier_cuda_present(void);

/*
 * Open MPI's code for a driver's result; OMPI_SUCCESS for CUDA_SUCCESS. The framework's verbose output gets the error
 * and `what`, the name of the call that failed. GPUHIER_CU(function, arguments) calls a function of the driver.
 */
int gpuhier_cuda_failed(CUresult result, const char *what);
static inline int gpuhier_cuda_error(CUresult result, const char *what)
{
    return CUDA_SUCCESS == result ? OMPI_SUCCESS : gpuhier_cuda_failed(result, what);
}
#define GPUHIER_CU(function, ...) gpuhier_cuda_error(gpuhier_cu.function(__VA_ARGS__), #function)

/*
 * Waits for all work on a stream of the current context. If the driver's wait fails, asks until the stream is idle, or
 * the context lost, since the work would go on in memory that the caller frees. Returns the Open MPI code of the wait.
 */
int gpuhier_stream_await(CUstream stream);

/* Copies on a stream and waits for the copy, and so for no other work of the program. Returns an Open MPI code. */
int gpuhier_stream_copy(CUstream stream, CUdeviceptr to, CUdeviceptr from, size_t bytes);

/* Can work be queued on this stream of the current context? While a blocking stream captures a graph, the driver
 * refuses all use of the default stream, and an attempt spoils the capture. This question does not. */
static inline bool gpuhier_cuda_is_usable(CUstream stream)
{
    CUstreamCaptureStatus status;
    return OMPI_SUCCESS == GPUHIER_CU(cuStreamIsCapturing, stream, &status);
}

/* An attribute of a GPU; 0 where the driver does not know it. */
int gpuhier_cuda_attribute(CUdevice_attribute name, int ordinal);

/* The last error that gpuhier_cuda_error() was given in this thread. The second returns it as the error of a step that
 * ended with this code: 0 after OMPI_SUCCESS, and never 0 after another. */
CUresult gpuhier_cuda_last_error(void);
static inline unsigned gpuhier_cuda_error_of(int rc)
{
    const CUresult last = gpuhier_cuda_last_error();
    return OMPI_SUCCESS == rc ? 0 : CUDA_SUCCESS == last ? CUDA_ERROR_UNKNOWN : (unsigned) last;
}

/* CUDA_ERROR_... as in cuda.h. */
const char *gpuhier_cuda_name(CUresult result);

/* Does the result say that the driver or the context is gone or ending? As the process ends, this is no error. */
bool gpuhier_cuda_gone(CUresult result);

/* Logs the error of a call that frees something, unless the driver or the context is gone. */
void gpuhier_cuda_freed(CUresult result, const char *what);
#define GPUHIER_CU_FREE(function, ...) gpuhier_cuda_freed(gpuhier_cu.function(__VA_ARGS__), #function)

/*
 * Finds a kernel by its name and loads it, so that its first launch does not: a driver that loads lazily may wait for
 * the whole context there, and so for ever behind a kernel that waits for a peer. *blocks_p becomes the number of
 * blocks of `threads` threads that fit on a multiprocessor, at least 1.
 */
CUresult gpuhier_cuda_kernel(CUmodule module, const char *name, int threads, CUfunction *function_p, int *blocks_p);

/*
 * Makes the context current until gpuhier_cuda_leave(), and relaxes the thread's capture mode, so that calls made
 * meanwhile do not break a stream capture of the program. NULL stands for a context that is gone, which is an error.
 * Returns an Open MPI code. After an error nothing has changed, and leave must not be called.
 */
typedef struct gpuhier_cuda_scope {
    CUstreamCaptureMode capture_mode;
} gpuhier_cuda_scope_t;
int gpuhier_cuda_enter(CUcontext context, gpuhier_cuda_scope_t *scope);
void gpuhier_cuda_leave(gpuhier_cuda_scope_t *scope);

typedef enum gpuhier_buffer_kind {
    GPUHIER_BUFFER_HOST,    /* pageable, pinned or registered */
    GPUHIER_BUFFER_DEVICE,  /* on one GPU; IPC may be able to map it */
    GPUHIER_BUFFER_MANAGED, /* host and GPU reach it; IPC cannot map it */
} gpuhier_buffer_kind_t;

/* What the driver says about a pointer, at the time of the question. */
typedef struct gpuhier_buffer {
    gpuhier_buffer_kind_t kind;
    CUcontext context; /* owner of the memory; where it has none, a context of its device; NULL for host memory */
    int device;        /* ordinal, -1 where unknown or host memory */
    uint64_t id;       /* unique among this process's allocations, 0 when unknown */
    bool ipc_capable;  /* cuIpcGetMemHandle may be tried */
    bool shareable;    /* cuMemExportToShareableHandle may be tried; see gpuhier_buffer_identify() */
    bool pooled;       /* the memory lies in a pool; see gpuhier_buffer_identify() */
} gpuhier_buffer_t;

/* Is the allocation that had this address and buffer id gone? False where the driver does not answer. No context need
 * be current. */
bool gpuhier_buffer_is_gone(CUdeviceptr address, uint64_t id);

/*
 * Classifies the address. Never fails: memory that the driver does not know counts as host memory, and so does all
 * memory while no code of the program has initialised the driver. If the driver answers with an error, memory that the
 * host cannot read counts as device memory without a context, which the engine declines and staging tries to copy.
 */
void gpuhier_buffer_inspect(const void *address, gpuhier_buffer_t *buffer_p);

/*
 * Fills in `shareable` and `pooled` of device memory that legacy IPC cannot map. gpuhier_buffer_inspect() has filled in
 * the rest. If the memory is shareable, `id` becomes the id of the memory itself, because a program can map other
 * memory (cuMemMap) at an address that stays reserved. Asks the driver twice, and only about such memory.
 */
void gpuhier_buffer_identify(const void *address, gpuhier_buffer_t *buffer);

/*
 * Is the address in the heap that grows by brk(), in the program's own variables, or in the calling thread's stack?
 * This is host memory, and a few instructions tell so. False says nothing. gpuhier_cuda_present() has returned true.
 */
bool gpuhier_address_surely_host(const void *address);

/* Is the address in device or managed memory? Costs less than gpuhier_buffer_inspect(). */
bool gpuhier_address_on_device(const void *address);

static inline bool gpuhier_buffer_on_device(const gpuhier_buffer_t *buffer)
{
    return GPUHIER_BUFFER_HOST != buffer->kind;
}

#endif /* GPUHIER_CUDA_H */
