/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The CUDA driver as the component sees it: entry points found by dlopen, the
 * mapping of its errors, and what it says about a buffer.
 *
 * The same install serves machines without a driver: nothing here is linked
 * against libcuda, and gpuhier_cuda_present() is false there.
 */
#ifndef GPUHIER_CUDA_H
#define GPUHIER_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

/* Every driver function that the component calls. cuda.h maps each name to its newest version (cuMemAlloc_v2 ...). */
#define GPUHIER_CU_FUNCTIONS(X)                    \
    X(cuInit)                                      \
    X(cuDriverGetVersion)                          \
    X(cuGetErrorName)                              \
    X(cuDeviceGet)                                 \
    X(cuDeviceGetAttribute)                        \
    X(cuDeviceGetCount)                            \
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
    X(cuMemGetAddressRange)                        \
    X(cuMemcpyAsync)                               \
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
    X(cuStreamSynchronize)                         \
    X(cuStreamWaitEvent)                           \
    X(cuEventCreate)                               \
    X(cuEventDestroy)                              \
    X(cuEventQuery)                                \
    X(cuEventRecord)                               \
    X(cuEventSynchronize)                          \
    X(cuModuleLoadData)                            \
    X(cuModuleUnload)                              \
    X(cuModuleGetFunction)                         \
    X(cuLaunchKernel)                              \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor) \
    X(cuFlushGPUDirectRDMAWrites)                  \
    X(cuThreadExchangeStreamCaptureMode)

#define GPUHIER_CU_FIELD(symbol) __typeof__(symbol) *symbol;
typedef struct gpuhier_cu {
    GPUHIER_CU_FUNCTIONS(GPUHIER_CU_FIELD)
} gpuhier_cu_t;
#undef GPUHIER_CU_FIELD

/* Valid once gpuhier_cuda_present() has said true; constant from then on. */
extern gpuhier_cu_t gpuhier_cu;

/*
 * Looks for libcuda.so.1, once a process, without initialising it. False when
 * there is none or when it lacks a function of the list (then said once).
 */
bool gpuhier_cuda_present(void);

/*
 * Open MPI's code for a driver error; OMPI_SUCCESS for CUDA_SUCCESS. An error
 * is written to the framework's verbose output with the name of what was tried.
 */
int gpuhier_cuda_error(CUresult result, const char *what);

/* True for the errors of a driver or a context that is on its way out: at teardown they count as success. */
bool gpuhier_cuda_gone(CUresult result);

/*
 * Makes context current (NULL is one that is gone: an error) and puts this thread's stream captures out of harm's way,
 * until gpuhier_cuda_leave(). Returns an Open MPI code; on an error nothing has been changed and leave must not be
 * called.
 */
typedef struct gpuhier_cuda_scope {
    CUstreamCaptureMode capture_mode;
} gpuhier_cuda_scope_t;
int gpuhier_cuda_enter(CUcontext context, gpuhier_cuda_scope_t *scope);
void gpuhier_cuda_leave(gpuhier_cuda_scope_t *scope);

typedef enum gpuhier_buffer_kind {
    GPUHIER_BUFFER_HOST,    /* pageable, pinned or registered */
    GPUHIER_BUFFER_DEVICE,  /* on one GPU; legacy IPC may map it */
    GPUHIER_BUFFER_MANAGED, /* reached from both sides; IPC cannot map it */
} gpuhier_buffer_kind_t;

/* What the driver says about one pointer, at the time of the question. */
typedef struct gpuhier_buffer {
    gpuhier_buffer_kind_t kind;
    CUcontext context; /* that owns the memory, or, when none does, one of its device; NULL for host memory */
    int device;        /* ordinal, -1 for host memory */
    uint64_t id;       /* unique among this process's allocations, 0 when unknown */
    bool ipc_capable;  /* cuIpcGetMemHandle may be tried */
} gpuhier_buffer_t;

/* Is the allocation that had this address and buffer id gone? A driver that gives no answer has not said so. Needs no
 * context. */
bool gpuhier_buffer_is_gone(CUdeviceptr address, uint64_t id);

/* Never fails: what the driver does not know (or a driver that nobody has initialised) means host memory. */
void gpuhier_buffer_inspect(const void *address, gpuhier_buffer_t *buffer_p);

/* Of that only whether it is device or managed memory, which costs a call in host memory less. */
bool gpuhier_address_on_device(const void *address);

static inline bool gpuhier_buffer_on_device(const gpuhier_buffer_t *buffer)
{
    return GPUHIER_BUFFER_HOST != buffer->kind;
}

#endif /* GPUHIER_CUDA_H */
