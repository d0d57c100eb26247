/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The CUDA driver as the tool sees it: found at run time, and there may be none.
 */
#ifndef INFO_DRIVER_H
#define INFO_DRIVER_H

#include <stdbool.h>

#include <cuda.h>

/* cuda.h maps a name to its newest version, so the symbol is the expanded name. */
#define INFO_DRIVER_FUNCTIONS(X) \
    X(cuInit)                    \
    X(cuCtxEnablePeerAccess)     \
    X(cuCtxPopCurrent)           \
    X(cuCtxPushCurrent)          \
    X(cuCtxSynchronize)          \
    X(cuDeviceCanAccessPeer)     \
    X(cuDeviceGet)               \
    X(cuDeviceGetAttribute)      \
    X(cuDeviceGetCount)          \
    X(cuDeviceGetName)           \
    X(cuDeviceGetUuid)           \
    X(cuDevicePrimaryCtxRelease) \
    X(cuDevicePrimaryCtxRetain)  \
    X(cuDeviceTotalMem)          \
    X(cuDriverGetVersion)        \
    X(cuGetErrorName)            \
    X(cuIpcGetMemHandle)         \
    X(cuLaunchKernel)            \
    X(cuMemAlloc)                \
    X(cuMemFree)                 \
    X(cuMemcpyDtoH)              \
    X(cuMemcpyHtoD)              \
    X(cuMemcpyPeer)              \
    X(cuModuleGetFunction)       \
    X(cuModuleLoadData)          \
    X(cuModuleUnload)

#define INFO_DRIVER_FIELD(name) __typeof__(name) *name;
typedef struct info_driver {
    INFO_DRIVER_FUNCTIONS(INFO_DRIVER_FIELD)
    int version;      /* 13000: CUDA 13.0 */
    bool is_emulated; /* the libraries of test/cudasim */
} info_driver_t;
#undef INFO_DRIVER_FIELD

/* Opens the driver once. NULL without one, and then why_p says why. The library stays loaded. */
const info_driver_t *info_driver(const char **why_p);

/* "CUDA_ERROR_INVALID_VALUE" */
const char *info_driver_error(CUresult result);

int info_driver_attribute(CUdevice device, CUdevice_attribute name);

#endif /* INFO_DRIVER_H */
