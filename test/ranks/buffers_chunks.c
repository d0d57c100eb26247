/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory as growing allocators make it (PyTorch's expandable segments): one range of addresses
 * (cuMemAddressReserve) onto which chunks of physical memory (cuMemCreate) are mapped side by side.
 *
 * The driver is found by dlopen: programs here are linked with the runtime only.
 */
#include "buffers.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define FUNCTIONS(X)                 \
    X(cuMemGetAllocationGranularity) \
    X(cuMemAddressReserve)           \
    X(cuMemAddressFree)              \
    X(cuMemCreate)                   \
    X(cuMemRelease)                  \
    X(cuMemMap)                      \
    X(cuMemUnmap)                    \
    X(cuMemSetAccess)

#define FIELD(name) __typeof__(&(name)) name;
static struct {
    FUNCTIONS(FIELD)
} cu;

struct buffer_chunks {
    CUdeviceptr range;
    size_t chunk, count; /* bytes of a chunk, and their number */
};

static void driver_find(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (NULL == library) {
        fprintf(stderr, "no driver\n");
        _Exit(3);
    }
#define FIND(name) cu.name = (__typeof__(cu.name)) dlsym(library, #name);
    FUNCTIONS(FIND)
}

/* A range whose byte `bytes / 2` is the first of a chunk, and that goes on for as many chunks as it takes. */
void *buffer_chunks_alloc(size_t bytes, struct buffer_chunks **chunks_p)
{
    struct buffer_chunks *c = calloc(1, sizeof(*c));
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    int device;

    if (NULL == cu.cuMemCreate) {
        driver_find();
    }
    CUDA_MUST(cudaGetDevice(&device));
    properties.location.id = access.location.id = device;
    CUDA_MUST(cu.cuMemGetAllocationGranularity(&c->chunk, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    size_t half = (bytes / 2 + 255) / 256 * 256;
    size_t before = (half + c->chunk - 1) / c->chunk;
    c->count = before + (bytes - (half < bytes ? half : bytes) + c->chunk - 1) / c->chunk + 1;
    CUDA_MUST(cu.cuMemAddressReserve(&c->range, c->count * c->chunk, 0, 0, 0));
    for (size_t i = 0; i < c->count; ++i) {
        CUmemGenericAllocationHandle memory;
        CUDA_MUST(cu.cuMemCreate(&memory, c->chunk, &properties, 0));
        CUDA_MUST(cu.cuMemMap(c->range + i * c->chunk, c->chunk, 0, memory, 0));
        CUDA_MUST(cu.cuMemRelease(memory)); /* it lives as long as it is mapped */
    }
    CUDA_MUST(cu.cuMemSetAccess(c->range, c->count * c->chunk, &access, 1));
    *chunks_p = c;
    return (void *) (uintptr_t) (c->range + before * c->chunk - half);
}

void buffer_chunks_free(struct buffer_chunks *c)
{
    CUDA_MUST(cudaDeviceSynchronize());
    for (size_t i = 0; i < c->count; ++i) {
        CUDA_MUST(cu.cuMemUnmap(c->range + i * c->chunk, c->chunk));
    }
    CUDA_MUST(cu.cuMemAddressFree(c->range, c->count * c->chunk));
    free(c);
}
