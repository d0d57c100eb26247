/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the tests of kernels through the CUDA driver share: the kernels' names by index, and the end of a test that the
 * driver refuses something, and the GPU with the kernels loaded.
 */
#ifndef KERNEL_DRIVER_H
#define KERNEL_DRIVER_H

#include "gpu/coll_gpuhier_cuda.h"
#include "gpu/coll_gpuhier_reduce.h"

#include <stdio.h>
#include <stdlib.h>

#define NAME(op, type) "gpuhier_" #op "_" #type,
static const char *const kernel_names[] = {GPUHIER_KERNEL_LIST(NAME)};
#undef NAME

static inline void must(CUresult result, const char *what)
{
    if (CUDA_SUCCESS != result) {
        const char *name = "?";
        gpuhier_cu.cuGetErrorName(result, &name);
        fprintf(stderr, "%s: %s\n", what, name);
        exit(1);
    }
}

/* How many GPUs the driver shows; 0 where there is none. */
static inline int gpus_found(void)
{
    int gpus = 0;
    CUdevice device;
    while (gpuhier_cuda_present() && CUDA_SUCCESS == gpuhier_cu.cuInit(0)
           && CUDA_SUCCESS == gpuhier_cu.cuDeviceGet(&device, gpus)) {
        ++gpus;
    }
    return gpus;
}

/* Loads the kernels in GPU 0's primary context, and enters it. Returns the test's status where it ends here, else 0. */
static inline int kernels_open(gpuhier_reduce_t *kernels, CUdevice *device_p, CUcontext *context_p)
{
    if (0 == gpus_found()) {
        printf("no GPU\n");
        return 77;
    }
    must(gpuhier_cu.cuDeviceGet(device_p, 0), "take GPU 0");
    must(gpuhier_cu.cuDevicePrimaryCtxRetain(context_p, *device_p), "make a context");
    must(gpuhier_cu.cuCtxPushCurrent(*context_p), "enter the context");
    if (OMPI_SUCCESS != gpuhier_reduce_open(kernels)) {
        printf("the kernels cannot be loaded\n");
        return 1;
    }
    return 0;
}

#endif /* KERNEL_DRIVER_H */
