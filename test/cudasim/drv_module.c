/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Modules, functions, launches and occupancy.
 *
 * Owns module and function objects. An image is checked for being one (fatbin, ELF
 * or PTX) and otherwise not looked into: a function is whatever twin has its name.
 * Images' global variables do not exist here.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "sim_context.h"
#include "sim_engine.h"
#include "sim_launch.h"

#define MODULE_MAGIC 0x6d6f6431u
#define FUNCTION_MAGIC 0x66756e31u
#define FATBIN_WRAPPER_MAGIC 0x466243b1u
#define FATBIN_MAGIC 0xba55ed50u
#define MAX_THREADS 1024
#define MAX_SHARED 232448

/* Made by cuModuleGetFunction, once per name; dies with its module. */
struct CUfunc_st {
    uint32_t magic;
    CUmodule module;
    const cudasim_kernel_t *kernel;
    int max_dynamic_shared;
    _Atomic bool loaded;
    struct CUfunc_st *next;
};

struct CUmod_st {
    uint32_t magic;
    CUcontext ctx;
    uint64_t ctx_id; /* a reset context has another: the module has gone with the old one */
    CUfunction functions;
    CUmodule next, previous; /* in the list of all modules */
};

static pthread_mutex_t module_mutex = PTHREAD_MUTEX_INITIALIZER;
static CUmodule modules; /* what a program does not unload is no leak of ours */

static CUresult image_check(const void *image)
{
    const unsigned char *bytes = image;
    uint32_t magic;
    size_t i;

    if (NULL == image) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    memcpy(&magic, image, sizeof(magic));
    if (FATBIN_MAGIC == magic || FATBIN_WRAPPER_MAGIC == magic || 0 == memcmp(image, "\177ELF", 4)) {
        return CUDA_SUCCESS;
    }
    for (i = 0; i < 4096 && '\0' != bytes[i]; i++) { /* PTX is text that names its version */
        if (0 == strncmp((const char *) bytes + i, ".version", 8)) {
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_IMAGE;
}

CUresult sim_cuModuleLoadData(CUmodule *module_p, const void *image)
{
    CUmodule module;
    CUresult rc = image_check(image);

    if (CUDA_SUCCESS != rc || NULL == module_p) {
        return CUDA_SUCCESS != rc ? rc : CUDA_ERROR_INVALID_VALUE;
    }
    module = calloc(1, sizeof(*module));
    if (NULL == module) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    module->magic = MODULE_MAGIC;
    module->ctx = sim_context_current();
    module->ctx_id = module->ctx->id;
    pthread_mutex_lock(&module_mutex);
    module->next = modules;
    if (NULL != modules) {
        modules->previous = module;
    }
    modules = module;
    pthread_mutex_unlock(&module_mutex);
    *module_p = module;
    return CUDA_SUCCESS;
}

CUresult sim_cuModuleLoadDataEx(CUmodule *module_p, const void *image, unsigned int count, CUjit_option *options,
                                void **values)
{
    if (count > 0 && (NULL == options || NULL == values)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return sim_cuModuleLoadData(module_p, image);
}

CUresult sim_cuModuleLoadFatBinary(CUmodule *module_p, const void *image)
{
    return sim_cuModuleLoadData(module_p, image);
}

CUresult sim_cuModuleLoad(CUmodule *module_p, const char *path)
{
    char head[4097] = "";
    size_t got;
    FILE *file;

    if (NULL == path) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    file = fopen(path, "rbe");
    if (NULL == file) {
        return CUDA_ERROR_FILE_NOT_FOUND;
    }
    got = fread(head, 1, sizeof(head) - 1, file);
    fclose(file);
    return got >= 4 ? sim_cuModuleLoadData(module_p, head) : CUDA_ERROR_INVALID_IMAGE;
}

CUresult sim_cuModuleUnload(CUmodule module)
{
    CUfunction function;

    if (NULL == module || MODULE_MAGIC != module->magic) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (atomic_load(&module->ctx->alive)) {
        sim_context_drain(module->ctx);
    }
    pthread_mutex_lock(&module_mutex);
    if (NULL != module->previous) {
        module->previous->next = module->next;
    } else {
        modules = module->next;
    }
    if (NULL != module->next) {
        module->next->previous = module->previous;
    }
    pthread_mutex_unlock(&module_mutex);
    while (NULL != (function = module->functions)) {
        module->functions = function->next;
        function->magic = 0;
        free(function);
    }
    module->magic = 0;
    free(module);
    return CUDA_SUCCESS;
}

CUresult sim_cuModuleGetLoadingMode(CUmoduleLoadingMode *mode_p)
{
    if (NULL == mode_p) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *mode_p = CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}

static CUresult function_check(CUfunction function)
{
    return (NULL == function || FUNCTION_MAGIC != function->magic) ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult sim_cuFuncIsLoaded(CUfunctionLoadingState *state_p, CUfunction function)
{
    CUresult rc = function_check(function);

    if (CUDA_SUCCESS == rc && NULL == state_p) {
        rc = CUDA_ERROR_INVALID_VALUE;
    }
    if (CUDA_SUCCESS == rc) {
        *state_p =
            atomic_load(&function->loaded) ? CU_FUNCTION_LOADING_STATE_LOADED : CU_FUNCTION_LOADING_STATE_UNLOADED;
    }
    return rc;
}

CUresult sim_cuFuncLoad(CUfunction function)
{
    CUresult rc = function_check(function);

    if (CUDA_SUCCESS == rc && !atomic_load(&function->loaded)) {
        if (atomic_load(&function->module->ctx->alive)) {
            sim_context_drain(function->module->ctx);
        }
        atomic_store(&function->loaded, true);
    }
    return rc;
}

/* Does a kernel stay unloaded until its first launch, as CUDASIM_LOAD=launch asks? */
static bool is_loaded_by_launch(void)
{
    const char *when = getenv("CUDASIM_LOAD");

    return NULL != when && 0 == strcmp(when, "launch");
}

CUresult sim_cuModuleGetFunction(CUfunction *function_p, CUmodule module, const char *name)
{
    const cudasim_kernel_t *kernel;
    CUfunction function;

    if (NULL == function_p || NULL == name) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (NULL == module || MODULE_MAGIC != module->magic) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    kernel = sim_launch_find(name);
    if (NULL == kernel) {
        return CUDA_ERROR_NOT_FOUND;
    }
    pthread_mutex_lock(&module_mutex);
    for (function = module->functions; NULL != function; function = function->next) {
        if (function->kernel == kernel) {
            break;
        }
    }
    if (NULL == function) {
        function = calloc(1, sizeof(*function));
        if (NULL != function) {
            function->magic = FUNCTION_MAGIC;
            function->module = module;
            function->kernel = kernel;
            function->next = module->functions;
            module->functions = function;
        }
    }
    pthread_mutex_unlock(&module_mutex);
    *function_p = function;
    if (NULL == function) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return is_loaded_by_launch() ? CUDA_SUCCESS : sim_cuFuncLoad(function);
}

CUresult sim_cuModuleGetGlobal_v2(CUdeviceptr *pointer_p, size_t *bytes_p, CUmodule module, const char *name)
{
    (void) pointer_p;
    (void) bytes_p;
    if (NULL == module || MODULE_MAGIC != module->magic) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    return NULL == name ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_FOUND;
}

CUresult sim_cuFuncGetModule(CUmodule *module_p, CUfunction function)
{
    CUresult rc = function_check(function);

    if (CUDA_SUCCESS == rc) {
        *module_p = function->module;
    }
    return rc;
}

CUresult sim_cuFuncGetName(const char **name_p, CUfunction function)
{
    CUresult rc = function_check(function);

    if (CUDA_SUCCESS == rc) {
        *name_p = function->kernel->name;
    }
    return rc;
}

CUresult sim_cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset_p, size_t *bytes_p)
{
    size_t offset = 0, bytes, alignment, i;
    CUresult rc = function_check(function);

    if (CUDA_SUCCESS != rc) {
        return rc;
    }
    if (index >= function->kernel->nparams || NULL == offset_p) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (i = 0;; i++) {
        bytes = function->kernel->param_bytes[i];
        alignment = bytes & (~bytes + 1);
        alignment = alignment > 16 ? 16 : alignment;
        offset = (offset + alignment - 1) & ~(alignment - 1);
        if (i == index) {
            break;
        }
        offset += bytes;
    }
    *offset_p = offset;
    if (NULL != bytes_p) {
        *bytes_p = bytes;
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuFuncGetAttribute(int *value_p, CUfunction_attribute attribute, CUfunction function)
{
    CUresult rc = function_check(function);

    if (CUDA_SUCCESS != rc) {
        return rc;
    }
    if (NULL == value_p || attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    switch ((int) attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value_p = MAX_THREADS;
        break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value_p = 32;
        break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value_p = 90;
        break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value_p = 0 != function->max_dynamic_shared ? function->max_dynamic_shared : 49152;
        break;
    default:
        *value_p = 0;
        break;
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    CUresult rc = function_check(function);

    if (CUDA_SUCCESS == rc && CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES == attribute) {
        if (value < 0 || value > MAX_SHARED) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        function->max_dynamic_shared = value;
    }
    return rc;
}

CUresult sim_cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config)
{
    (void) config;
    return function_check(function);
}

/* ---- launches ---- */

static CUresult packed_params(void **extra, const void **packed_p, size_t *bytes_p)
{
    size_t i;

    *packed_p = NULL;
    for (i = 0; NULL != extra && CU_LAUNCH_PARAM_END != extra[i]; i += 2) {
        if (CU_LAUNCH_PARAM_BUFFER_POINTER == extra[i]) {
            *packed_p = extra[i + 1];
        } else if (CU_LAUNCH_PARAM_BUFFER_SIZE == extra[i]) {
            memcpy(bytes_p, extra[i + 1], sizeof(*bytes_p));
        } else {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                            unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,
                            CUstream handle, void **params, void **extra)
{
    const uint32_t grid[3] = {grid_x, grid_y, grid_z}, block[3] = {block_x, block_y, block_z};
    const void *packed;
    size_t packed_bytes = 0;
    CUstream stream;
    CUresult rc = function_check(function);

    if (CUDA_SUCCESS == rc) {
        rc = sim_stream_resolve(handle, &stream);
    }
    if (CUDA_SUCCESS == rc) {
        rc = packed_params(extra, &packed, &packed_bytes);
    }
    if (CUDA_SUCCESS != rc) {
        return rc;
    }
    if (stream->ctx != sim_context_current() || function->module->ctx != stream->ctx
        || function->module->ctx_id != stream->ctx->id) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (0 == grid_x || 0 == grid_y || 0 == grid_z || 0 == block_x || 0 == block_y || 0 == block_z || grid_x > INT32_MAX
        || grid_y > 65535 || grid_z > 65535 || block_x > MAX_THREADS || block_y > MAX_THREADS || block_z > 64
        || (size_t) block_x * block_y * block_z > MAX_THREADS || (NULL != params && NULL != packed)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (shared_bytes > (function->max_dynamic_shared > 49152 ? (unsigned) function->max_dynamic_shared : 49152)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    (void) sim_cuFuncLoad(function);
    return sim_launch(function->kernel, grid, block, shared_bytes, stream, params, packed, packed_bytes);
}

CUresult sim_cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params, void **extra)
{
    unsigned i;

    if (NULL == config) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (i = 0; i < config->numAttrs; i++) {
        if (CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION == config->attrs[i].id) {
            return CUDA_ERROR_NOT_SUPPORTED; /* a twin has no clusters; other attributes only tune */
        }
    }
    return sim_cuLaunchKernel(function, config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
                              config->blockDimY, config->blockDimZ, config->sharedMemBytes, config->hStream, params,
                              extra);
}

CUresult sim_cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                       unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                       unsigned int block_z, unsigned int shared_bytes, CUstream stream, void **params)
{
    return sim_cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, params,
                              NULL);
}

/* ---- occupancy: as if a kernel used few registers, so that threads are the limit ---- */

CUresult sim_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks_p, CUfunction function, int block,
                                                                  size_t shared_bytes, unsigned int flags)
{
    int blocks;
    CUresult rc = function_check(function);

    if (CUDA_SUCCESS != rc) {
        return rc;
    }
    if (NULL == blocks_p || block <= 0 || block > MAX_THREADS || flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    blocks = 2048 / block;
    blocks = blocks > 32 ? 32 : blocks;
    if (shared_bytes > 0 && (size_t) blocks > 233472 / (shared_bytes + 1024)) {
        blocks = (int) (233472 / (shared_bytes + 1024));
    }
    *blocks_p = blocks;
    return CUDA_SUCCESS;
}

CUresult sim_cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks_p, CUfunction function, int block,
                                                         size_t shared_bytes)
{
    return sim_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks_p, function, block, shared_bytes, 0);
}

CUresult sim_cuOccupancyMaxPotentialBlockSize(int *grid_p, int *block_p, CUfunction function,
                                              CUoccupancyB2DSize shared_of_block, size_t shared_bytes, int limit)
{
    int block = (limit > 0 && limit < MAX_THREADS) ? limit : MAX_THREADS, blocks;
    CUresult rc;

    if (NULL == grid_p || NULL == block_p) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (NULL != shared_of_block) {
        shared_bytes = shared_of_block(block);
    }
    rc = sim_cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, block, shared_bytes);
    if (CUDA_SUCCESS == rc) {
        *block_p = block;
        *grid_p = 132 * blocks;
    }
    return rc;
}
