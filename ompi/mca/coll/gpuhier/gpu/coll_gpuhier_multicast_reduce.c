/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the table that maps kernels to the kernels for multicast addresses, the module of these, and their launches.
 * Does not own the choice of calls that are reduced in a switch (engine). Called by device and the engine, and by the
 * set-up of a switch in the team.
 */
#include "ompi_config.h"

#include "ompi/constants.h"

#include "gpu/coll_gpuhier_cuda.h"
#include "gpu/coll_gpuhier_multicast_reduce.h"

/* In kernels/gpuhier_fatbin.S. */
extern const unsigned char gpuhier_multicast_fatbin[];

enum { INDEX_STORE = GPUHIER_MULTICAST_COUNT };

static const char *const names[GPUHIER_MULTICAST_COUNT + 1] = {
#define NAME(name, type, op) [GPUHIER_MULTICAST_##name] = "gpuhier_multicast_" #name,
    GPUHIER_MULTICAST_LIST(NAME)
#undef NAME
        [INDEX_STORE] = "gpuhier_multicast_store",
};

/* 1 + the index here; 0: the switch cannot do it. */
static const unsigned char served_plus_1[GPUHIER_REDUCE_COUNT] = {
#define SERVES(op, type, name) [GPUHIER_REDUCE_##op##_##type] = GPUHIER_MULTICAST_##name + 1,
    GPUHIER_MULTICAST_SERVES(SERVES)
#undef SERVES
};

static bool is_exact(int served)
{
    return GPUHIER_MULTICAST_add_f32 != served && GPUHIER_MULTICAST_add_f64 != served;
}

bool gpuhier_multicast_can(int index, bool any_order)
{
    if (index < 0 || index >= GPUHIER_REDUCE_COUNT || 0 == served_plus_1[index]) {
        return false;
    }
    return any_order || is_exact(served_plus_1[index] - 1);
}

/*
 * A block keeps at least 8 KiB of results in flight (8 loads of 4 bytes by 256 threads), and each byte of a result
 * stands for a byte of every copy. A block on each of a quarter of an H100's multiprocessors makes 0.26 MiB in flight.
 * A link brings in results at only an eighth to a quarter of its rate, since its other bytes are stores.
 */
#define BLOCKS_MIN 8u

int gpuhier_multicast_kernels_open(gpuhier_multicast_kernels_t *kernels)
{
    CUdevice device;
    int multiprocessors = 0;
    if (NULL != kernels->module) {
        return OMPI_SUCCESS;
    }
    int rc = gpuhier_cuda_error(gpuhier_cu.cuCtxGetDevice(&device), "cuCtxGetDevice");
    rc = OMPI_SUCCESS != rc
             ? rc
             : gpuhier_cuda_error(
                 gpuhier_cu.cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device),
                 "cuDeviceGetAttribute");
    rc = OMPI_SUCCESS != rc
             ? rc
             : gpuhier_cuda_error(gpuhier_cu.cuModuleLoadData(&kernels->module, gpuhier_multicast_fatbin),
                                  "cuModuleLoadData of the kernels for multicast addresses");
    if (OMPI_SUCCESS != rc) {
        kernels->module = NULL;
        return rc;
    }
    CUresult result = CUDA_SUCCESS;
    for (int i = 0; i <= INDEX_STORE && CUDA_SUCCESS == result; ++i) {
        int blocks;
        result = gpuhier_cuda_kernel(kernels->module, names[i], GPUHIER_KERNEL_BLOCK, &kernels->function[i], &blocks);
    }
    const unsigned quarter = (unsigned) multiprocessors / 4;
    kernels->most_blocks = quarter > BLOCKS_MIN ? quarter : BLOCKS_MIN;
    if (CUDA_SUCCESS != result) {
        rc = gpuhier_cuda_error(result, "loading the kernels for multicast addresses");
        gpuhier_multicast_kernels_close(kernels);
        return CUDA_ERROR_NOT_FOUND == result ? OMPI_ERR_NOT_SUPPORTED : rc;
    }
    return OMPI_SUCCESS;
}

void gpuhier_multicast_kernels_close(gpuhier_multicast_kernels_t *kernels)
{
    if (NULL != kernels->module) {
        CUresult result = gpuhier_cu.cuModuleUnload(kernels->module);
        if (!gpuhier_cuda_gone(result)) {
            (void) gpuhier_cuda_error(result, "cuModuleUnload of the kernels for multicast addresses");
        }
        kernels->module = NULL;
    }
}

/* At most one thread for each unit; threads loop over the rest. */
static int launch(const gpuhier_multicast_kernels_t *kernels, int i, const gpuhier_multicast_args_t *args,
                  CUstream stream)
{
    void *params[1] = {(void *) args};
    const uint64_t bytes_per_block = GPUHIER_KERNEL_BLOCK * GPUHIER_MULTICAST_UNIT;
    const uint64_t blocks = (args->bytes + bytes_per_block - 1) / bytes_per_block;

    if (0 == args->bytes) {
        return OMPI_SUCCESS;
    }
    return gpuhier_cuda_error(
        gpuhier_cu.cuLaunchKernel(kernels->function[i],
                                  blocks < kernels->most_blocks ? (unsigned) blocks : kernels->most_blocks, 1, 1,
                                  GPUHIER_KERNEL_BLOCK, 1, 1, 0, stream, params, NULL),
        names[i]);
}

int gpuhier_multicast_launch(const gpuhier_multicast_kernels_t *kernels, int index,
                             const gpuhier_multicast_args_t *args, CUstream stream)
{
    if (!gpuhier_multicast_can(index, true)) {
        return OMPI_ERR_BAD_PARAM;
    }
    return launch(kernels, served_plus_1[index] - 1, args, stream);
}

int gpuhier_multicast_store(const gpuhier_multicast_kernels_t *kernels, const gpuhier_multicast_args_t *args,
                            CUstream stream)
{
    return launch(kernels, INDEX_STORE, args, stream);
}
