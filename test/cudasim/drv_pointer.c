/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Pointer attributes.
 *
 * Owns what the driver says about an address. Libraries take their decisions from
 * these answers, so wrong ones mislead them: an attribute that does not apply fails
 * with CUDA_ERROR_INVALID_VALUE, as on the real driver.
 */
#include <string.h>

#include "api.h"
#include "sim_context.h"
#include "sim_memory.h"
#include "sim_pool.h"

static void put(void *value_p, const void *value, size_t bytes)
{
    memcpy(value_p, value, bytes);
}

static void put_int(void *value_p, int value)
{
    put(value_p, &value, sizeof(value));
}

static void put_flag(void *value_p, bool value)
{
    memset(value_p, value ? 1 : 0, 1); /* these are booleans of one byte */
}

static void put_word(void *value_p, uintptr_t value)
{
    put(value_p, &value, sizeof(value));
}

static bool on_host(const struct sim_alloc *alloc)
{
    return SIM_KIND_HOST == alloc->kind || SIM_KIND_REGISTERED == alloc->kind;
}

/* CU_POINTER_ATTRIBUTE_ACCESS_FLAGS of the current context's device. */
static CUresult access_flags(const struct sim_alloc *alloc, void *value_p)
{
    CUcontext ctx = sim_context_current();
    bool can;

    if (NULL == ctx) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (SIM_KIND_MAPPED == alloc->kind || SIM_KIND_MULTICAST == alloc->kind) {
        can = 0 != (alloc->access & (1 << ctx->physical));
    } else if (SIM_KIND_POOL == alloc->kind) {
        can = sim_pool_access(alloc, ctx->physical);
    } else {
        can = alloc->kind >= SIM_KIND_HOST || SIM_KIND_IMPORT == alloc->kind || alloc->device == ctx->physical
              || 0 != atomic_load(&ctx->peers[alloc->device]);
    }
    put_int(value_p, can ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE);
    return CUDA_SUCCESS;
}

static CUresult attribute_of(const struct sim_alloc *alloc, CUpointer_attribute attribute, uintptr_t address,
                             void *value_p)
{
    switch ((int) attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        put(value_p, &alloc->ctx, sizeof(alloc->ctx));
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        put_int(value_p, on_host(alloc) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        put_word(value_p, address);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (alloc->kind < SIM_KIND_HOST) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        put_word(value_p, address);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        put_flag(value_p, atomic_load(&alloc->sync_memops));
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        put(value_p, &alloc->buffer_id, sizeof(alloc->buffer_id));
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        put_flag(value_p, SIM_KIND_MANAGED == alloc->kind);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        put_int(value_p, NULL != alloc->ctx ? alloc->ctx->ordinal : sim_device_ordinal(alloc->device));
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        put_flag(value_p, SIM_KIND_DEVICE == alloc->kind);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        put_word(value_p, alloc->base);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        put(value_p, &alloc->size, sizeof(alloc->size));
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        put_flag(value_p, SIM_KIND_RESERVED != alloc->kind);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        put_word(value_p, alloc->handle_types);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        put_flag(value_p, SIM_KIND_DEVICE == alloc->kind || SIM_KIND_MAPPED == alloc->kind);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        return access_flags(alloc, value_p);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        if (SIM_KIND_POOL != alloc->kind) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        put(value_p, &alloc->owner, sizeof(alloc->owner));
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        put(value_p, 0 != alloc->block_id ? &alloc->block_id : &alloc->buffer_id, sizeof(alloc->buffer_id));
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        put_flag(value_p, false);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* What an attribute's place holds when it does not apply: a NULL or zero of its size. */
static void attribute_clear(CUpointer_attribute attribute, void *value_p)
{
    switch ((int) attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        put_word(value_p, 0);
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        put_int(value_p, -2); /* the driver's word for "of no device" */
        break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        put_int(value_p, 0);
        break;
    default:
        put_flag(value_p, false);
        break;
    }
}

CUresult sim_cuPointerGetAttribute(void *value_p, CUpointer_attribute attribute, CUdeviceptr pointer)
{
    const struct sim_alloc *alloc = sim_memory_find((uintptr_t) pointer);

    if (NULL == value_p || NULL == alloc) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return attribute_of(alloc, attribute, (uintptr_t) pointer, value_p);
}

CUresult sim_cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **values_p,
                                    CUdeviceptr pointer)
{
    const struct sim_alloc *alloc = sim_memory_find((uintptr_t) pointer);
    unsigned i;

    if (0 == count || NULL == attributes || NULL == values_p) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (i = 0; i < count; i++) {
        if (attributes[i] < CU_POINTER_ATTRIBUTE_CONTEXT
            || attributes[i] > CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        if (NULL == alloc || CUDA_SUCCESS != attribute_of(alloc, attributes[i], (uintptr_t) pointer, values_p[i])) {
            attribute_clear(attributes[i], values_p[i]);
        }
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr pointer)
{
    struct sim_alloc *alloc = sim_memory_find((uintptr_t) pointer);
    unsigned flag;

    if (NULL == value || CU_POINTER_ATTRIBUTE_SYNC_MEMOPS != attribute || NULL == alloc
        || (SIM_KIND_DEVICE != alloc->kind && SIM_KIND_IMPORT != alloc->kind && SIM_KIND_MAPPED != alloc->kind)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    memcpy(&flag, value, sizeof(flag));
    atomic_store(&alloc->sync_memops, 0 != flag);
    return CUDA_SUCCESS;
}
