/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What a program built by nvcc -cudart shared brings along, and its launches.
 *
 * Owns the registered fat binaries and kernels, and the <<<>>> configuration of each
 * thread. A kernel is found by the address of its host stub, is looked up by name in
 * the twins (CUDASIM_TWINS) and loaded once per context. Registered device variables
 * are accepted and have no memory here: a twin has none of its own.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rt_api.h"
#include "sim_driver.h"

#define MAX_CONFIGURATIONS 16
#define KERNEL_MAGIC 0x6b726e31u

struct fatbin {
    const void *image;
    struct fatbin *next;
};

/* A kernel as one context has it. */
struct loaded {
    CUcontext ctx;
    unsigned long long id; /* of the context: a reset one has another, and no modules */
    CUmodule module;
    CUfunction function;
    struct loaded *next;
};

/* Made by registration, lives until its fat binary goes; the handle that programs see. Guarded by the mutex. */
struct kernel {
    uint32_t magic;
    const void *stub;
    char *name;
    struct fatbin *fatbin;
    struct loaded *loaded;
    struct kernel *next;
};

struct configuration {
    dim3 grid, block;
    size_t shared_bytes;
    cudaStream_t stream;
};

static pthread_mutex_t kernel_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct fatbin *fatbins;
static struct kernel *kernels;
static _Thread_local struct configuration configurations[MAX_CONFIGURATIONS];
static _Thread_local int nconfigurations;

/* The interface that nvcc's generated code expects; its own headers declare it for C++ only. */
SIM_EXPORT void **__cudaRegisterFatBinary(void *image);
SIM_EXPORT void __cudaRegisterFatBinaryEnd(void **handle);
SIM_EXPORT void __cudaUnregisterFatBinary(void **handle);
SIM_EXPORT char __cudaInitModule(void **handle);
SIM_EXPORT void __cudaRegisterFunction(void **handle, const char *stub, char *device_function, const char *name,
                                       int thread_limit, void *thread, void *block, void *block_size, void *grid_size,
                                       int *warp_size);
SIM_EXPORT void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external, size_t bytes,
                                  int constant, int global);
SIM_EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream);
SIM_EXPORT cudaError_t __cudaPopCallConfiguration(dim3 *grid_p, dim3 *block_p, size_t *shared_bytes_p, void *stream_p);
SIM_EXPORT cudaError_t __cudaGetKernel(cudaKernel_t *kernel_p, const void *stub);
SIM_EXPORT cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **params,
                                          size_t shared_bytes, cudaStream_t stream);
SIM_EXPORT cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void **params,
                                               size_t shared_bytes, cudaStream_t stream);

void **__cudaRegisterFatBinary(void *wrapper)
{
    struct fatbin *fatbin = calloc(1, sizeof(*fatbin));

    if (NULL == fatbin) {
        abort();
    }
    fatbin->image = wrapper;
    pthread_mutex_lock(&kernel_mutex);
    fatbin->next = fatbins;
    fatbins = fatbin;
    pthread_mutex_unlock(&kernel_mutex);
    return (void **) fatbin;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void) handle; /* nothing is built when the list is complete: kernels load on first use */
}

static void kernel_free(struct kernel *kernel)
{
    struct loaded *loaded;

    while (NULL != (loaded = kernel->loaded)) {
        kernel->loaded = loaded->next;
        free(loaded); /* the module dies with its context, or with the process */
    }
    free(kernel->name);
    kernel->magic = 0;
    free(kernel);
}

void __cudaUnregisterFatBinary(void **handle)
{
    struct fatbin *fatbin = (struct fatbin *) handle, **link;
    struct kernel **kernel_link, *kernel;

    pthread_mutex_lock(&kernel_mutex);
    for (kernel_link = &kernels; NULL != (kernel = *kernel_link);) {
        if (kernel->fatbin == fatbin) {
            *kernel_link = kernel->next;
            kernel_free(kernel);
        } else {
            kernel_link = &kernel->next;
        }
    }
    for (link = &fatbins; NULL != *link; link = &(*link)->next) {
        if (*link == fatbin) {
            *link = fatbin->next;
            free(fatbin);
            break;
        }
    }
    pthread_mutex_unlock(&kernel_mutex);
}

char __cudaInitModule(void **handle)
{
    return NULL != handle; /* loaded on first use */
}

void __cudaRegisterFunction(void **handle, const char *stub, char *device_function, const char *name, int thread_limit,
                            void *thread, void *block, void *block_size, void *grid_size, int *warp_size)
{
    struct kernel *kernel = calloc(1, sizeof(*kernel));

    (void) device_function;
    (void) thread_limit;
    (void) thread;
    (void) block;
    (void) block_size;
    (void) grid_size;
    (void) warp_size;
    if (NULL == kernel || NULL == (kernel->name = strdup(name))) {
        abort();
    }
    kernel->magic = KERNEL_MAGIC;
    kernel->stub = stub;
    kernel->fatbin = (struct fatbin *) handle;
    pthread_mutex_lock(&kernel_mutex);
    kernel->next = kernels;
    kernels = kernel;
    pthread_mutex_unlock(&kernel_mutex);
}

void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external, size_t bytes,
                       int constant, int global)
{
    (void) handle;
    (void) host;
    (void) device;
    (void) name;
    (void) external;
    (void) bytes;
    (void) constant;
    (void) global;
}

/* Under the mutex: by stub or by handle. Recently used kernels move to the front. */
static struct kernel *kernel_find(const void *symbol)
{
    struct kernel **link = &kernels, *kernel;

    for (; NULL != (kernel = *link); link = &kernel->next) {
        if (kernel->stub == symbol || (const void *) kernel == symbol) {
            *link = kernel->next;
            kernel->next = kernels;
            kernels = kernel;
            return kernel;
        }
    }
    return NULL;
}

/* Under the mutex: the kernel in that context, loaded if need be. */
static cudaError_t kernel_load(struct kernel *kernel, CUcontext ctx, CUfunction *function_p)
{
    struct loaded *loaded;
    unsigned long long id;
    CUresult rc = cuCtxGetId(ctx, &id);

    if (CUDA_SUCCESS != rc) {
        return rt_error(rc);
    }
    for (loaded = kernel->loaded; NULL != loaded; loaded = loaded->next) {
        if (loaded->ctx == ctx && loaded->id == id) {
            *function_p = loaded->function;
            return cudaSuccess;
        }
    }
    loaded = calloc(1, sizeof(*loaded));
    if (NULL == loaded) {
        return cudaErrorMemoryAllocation;
    }
    loaded->ctx = ctx;
    loaded->id = id;
    rc = cuModuleLoadFatBinary(&loaded->module, kernel->fatbin->image);
    if (CUDA_SUCCESS == rc) {
        rc = cuModuleGetFunction(&loaded->function, loaded->module, kernel->name);
        if (CUDA_SUCCESS != rc) {
            cuModuleUnload(loaded->module);
            fprintf(stderr, "cudasim: kernel %s has no host twin; name its library in CUDASIM_TWINS\n", kernel->name);
        }
    }
    if (CUDA_SUCCESS != rc) {
        free(loaded);
        return CUDA_ERROR_NOT_FOUND == rc ? cudaErrorInvalidDeviceFunction : rt_error(rc);
    }
    loaded->next = kernel->loaded;
    kernel->loaded = loaded;
    *function_p = loaded->function;
    return cudaSuccess;
}

cudaError_t rt_function(const void *symbol, CUfunction *function_p)
{
    struct kernel *kernel;
    CUcontext ctx = NULL;
    cudaError_t rc = cudaErrorInvalidDeviceFunction;

    cuCtxGetCurrent(&ctx);
    pthread_mutex_lock(&kernel_mutex);
    kernel = kernel_find(symbol);
    if (NULL != kernel) {
        rc = kernel_load(kernel, ctx, function_p);
    }
    pthread_mutex_unlock(&kernel_mutex);
    return rc;
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream)
{
    if (MAX_CONFIGURATIONS == nconfigurations) {
        return 1;
    }
    configurations[nconfigurations++] = (struct configuration){grid, block, shared_bytes, stream};
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid_p, dim3 *block_p, size_t *shared_bytes_p, void *stream_p)
{
    const struct configuration *configuration;

    if (0 == nconfigurations) {
        return cudaErrorMissingConfiguration;
    }
    configuration = &configurations[--nconfigurations];
    *grid_p = configuration->grid;
    *block_p = configuration->block;
    *shared_bytes_p = configuration->shared_bytes;
    memcpy(stream_p, &configuration->stream, sizeof(configuration->stream));
    return cudaSuccess;
}

cudaError_t rt_cudaGetKernel(cudaKernel_t *kernel_p, const void *function)
{
    struct kernel *kernel;

    pthread_mutex_lock(&kernel_mutex);
    kernel = kernel_find(function);
    pthread_mutex_unlock(&kernel_mutex);
    if (NULL == kernel) {
        return cudaErrorInvalidDeviceFunction;
    }
    *kernel_p = (cudaKernel_t) (void *) kernel;
    return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t *kernel_p, const void *stub)
{
    return cudaGetKernel(kernel_p, stub);
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **params, size_t shared_bytes,
                               cudaStream_t stream)
{
    return cudaLaunchKernel((const void *) kernel, grid, block, params, shared_bytes, stream);
}

cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void **params, size_t shared_bytes,
                                    cudaStream_t stream)
{
    bool outer = cudasim_per_thread_default(true);
    cudaError_t rc = cudaLaunchKernel((const void *) kernel, grid, block, params, shared_bytes, stream);

    cudasim_per_thread_default(outer);
    return rc;
}

/* The driver calls a wrong geometry an invalid value; the runtime has a word of its own for it. */
static cudaError_t geometry_check(dim3 grid, dim3 block)
{
    if (0 == grid.x || 0 == grid.y || 0 == grid.z || 0 == block.x || 0 == block.y || 0 == block.z
        || (size_t) block.x * block.y * block.z > 1024 || grid.y > 65535 || grid.z > 65535) {
        return cudaErrorInvalidConfiguration;
    }
    return cudaSuccess;
}

cudaError_t rt_cudaLaunchKernel(const void *symbol, dim3 grid, dim3 block, void **params, size_t shared_bytes,
                                cudaStream_t stream)
{
    CUfunction function;
    cudaError_t rc = geometry_check(grid, block);

    if (cudaSuccess == rc) {
        rc = rt_function(symbol, &function);
    }
    if (cudaSuccess != rc) {
        return rc;
    }
    return rt_error(cuLaunchKernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned) shared_bytes,
                                   stream, params, NULL));
}

cudaError_t rt_cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *symbol, void **params)
{
    if (NULL == config) {
        return cudaErrorInvalidValue;
    }
    return rt_cudaLaunchKernel(symbol, config->gridDim, config->blockDim, params, config->dynamicSmemBytes,
                               config->stream);
}

cudaError_t rt_cudaLaunchCooperativeKernel(const void *symbol, dim3 grid, dim3 block, void **params,
                                           size_t shared_bytes, cudaStream_t stream)
{
    return rt_cudaLaunchKernel(symbol, grid, block, params, shared_bytes, stream);
}

cudaError_t rt_cudaFuncGetAttributes(struct cudaFuncAttributes *attributes_p, const void *symbol)
{
    CUfunction function;
    cudaError_t rc = rt_function(symbol, &function);

    if (cudaSuccess != rc) {
        return rc;
    }
    memset(attributes_p, 0, sizeof(*attributes_p));
    cuFuncGetAttribute(&attributes_p->maxThreadsPerBlock, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function);
    cuFuncGetAttribute(&attributes_p->numRegs, CU_FUNC_ATTRIBUTE_NUM_REGS, function);
    cuFuncGetAttribute(&attributes_p->ptxVersion, CU_FUNC_ATTRIBUTE_PTX_VERSION, function);
    cuFuncGetAttribute(&attributes_p->binaryVersion, CU_FUNC_ATTRIBUTE_BINARY_VERSION, function);
    cuFuncGetAttribute(&attributes_p->maxDynamicSharedSizeBytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                       function);
    return cudaSuccess;
}

cudaError_t rt_cudaFuncSetAttribute(const void *symbol, enum cudaFuncAttribute attribute, int value)
{
    CUfunction function;
    cudaError_t rc = rt_function(symbol, &function);

    return cudaSuccess == rc ? rt_error(cuFuncSetAttribute(function, (CUfunction_attribute) attribute, value)) : rc;
}

cudaError_t rt_cudaFuncSetCacheConfig(const void *symbol, enum cudaFuncCache config)
{
    CUfunction function;
    cudaError_t rc = rt_function(symbol, &function);

    return cudaSuccess == rc ? rt_error(cuFuncSetCacheConfig(function, (CUfunc_cache) config)) : rc;
}

cudaError_t rt_cudaFuncGetName(const char **name_p, const void *symbol)
{
    CUfunction function;
    cudaError_t rc = rt_function(symbol, &function);

    return cudaSuccess == rc ? rt_error(cuFuncGetName(name_p, function)) : rc;
}

cudaError_t rt_cudaGetFuncBySymbol(cudaFunction_t *function_p, const void *symbol)
{
    return rt_function(symbol, function_p);
}

cudaError_t rt_cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks_p, const void *symbol, int block,
                                                             size_t shared_bytes)
{
    return rt_cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks_p, symbol, block, shared_bytes, 0);
}

cudaError_t rt_cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks_p, const void *symbol, int block,
                                                                      size_t shared_bytes, unsigned int flags)
{
    CUfunction function;
    cudaError_t rc = rt_function(symbol, &function);

    if (cudaSuccess != rc) {
        return rc;
    }
    return rt_error(
        cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks_p, function, block, shared_bytes, flags));
}

cudaError_t rt_cudaGetDriverEntryPointByVersion(const char *name, void **function_p, unsigned int version,
                                                unsigned long long flags,
                                                enum cudaDriverEntryPointQueryResult *status_p)
{
    CUdriverProcAddressQueryResult status;
    CUresult rc = cuGetProcAddress(name, function_p, (int) version, flags, &status);

    if (CUDA_SUCCESS == rc && NULL != status_p) {
        *status_p = (enum cudaDriverEntryPointQueryResult) status;
    }
    return rt_error(rc);
}

cudaError_t rt_cudaGetDriverEntryPoint(const char *name, void **function_p, unsigned long long flags,
                                       enum cudaDriverEntryPointQueryResult *status_p)
{
    return rt_cudaGetDriverEntryPointByVersion(name, function_p, CUDART_VERSION, flags, status_p);
}
