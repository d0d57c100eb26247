/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Message buffers with guard zones; see buffers.h.
 */
#include "buffers.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POISON 0xa5

static const char *const kind_names[BUFFER_NKINDS] = {"device", "host", "managed", "pinned", "pool"};

void buffer_cuda_must(int error, const char *call, const char *file, int line)
{
    if (0 != error) {
        fprintf(stderr, "%s:%d: %s failed: %s\n", file, line, call, cudaGetErrorString((cudaError_t) error));
        fflush(NULL);
        _Exit(3);
    }
}

const char *buffer_kind_name(buffer_kind_t kind)
{
    return kind_names[kind];
}

buffer_kind_t buffer_kind_find(const char *name)
{
    int kind = 0;
    while (kind < BUFFER_NKINDS && 0 != strcmp(name, kind_names[kind])) {
        ++kind;
    }
    return (buffer_kind_t) kind;
}

static size_t total_bytes(const buffer_t *buffer)
{
    return 2 * BUFFER_GUARD + buffer->offset + buffer->bytes;
}

void buffer_alloc(buffer_t *buffer, buffer_kind_t kind, size_t bytes, size_t offset)
{
    void *base = NULL;

    buffer->kind = kind;
    buffer->bytes = bytes;
    buffer->offset = offset;
    size_t total = total_bytes(buffer);
    switch (kind) {
    case BUFFER_DEVICE:
        CUDA_MUST(cudaMalloc(&base, total));
        break;
    case BUFFER_MANAGED:
        CUDA_MUST(cudaMallocManaged(&base, total, cudaMemAttachGlobal));
        break;
    case BUFFER_PINNED:
        CUDA_MUST(cudaMallocHost(&base, total));
        break;
    case BUFFER_POOL:
        CUDA_MUST(cudaMallocAsync(&base, total, 0));
        CUDA_MUST(cudaStreamSynchronize(0));
        break;
    case BUFFER_HOST:
    default:
        base = malloc(total);
        break;
    }
    if (NULL == base) {
        fprintf(stderr, "no memory for a buffer of %zu bytes (%s)\n", total, kind_names[kind]);
        _Exit(3);
    }
    buffer->base = base;
    buffer->message = buffer->base + BUFFER_GUARD + offset;
    buffer_poison(buffer);
}

void buffer_free(buffer_t *buffer)
{
    switch (buffer->kind) {
    case BUFFER_DEVICE:
    case BUFFER_MANAGED:
        CUDA_MUST(cudaFree(buffer->base));
        break;
    case BUFFER_PINNED:
        CUDA_MUST(cudaFreeHost(buffer->base));
        break;
    case BUFFER_POOL:
        CUDA_MUST(cudaFreeAsync(buffer->base, 0));
        CUDA_MUST(cudaStreamSynchronize(0));
        break;
    case BUFFER_HOST:
    default:
        free(buffer->base);
        break;
    }
    memset(buffer, 0, sizeof(*buffer));
}

void buffer_poison(buffer_t *buffer)
{
    if (BUFFER_HOST == buffer->kind) {
        memset(buffer->base, POISON, total_bytes(buffer));
        return;
    }
    CUDA_MUST(cudaMemset(buffer->base, POISON, total_bytes(buffer)));
    /* A memset may return early, and the next thing to touch this memory may be another process. */
    CUDA_MUST(cudaDeviceSynchronize());
}

static void copy(void *to, const void *from, size_t bytes, buffer_kind_t kind)
{
    if (0 == bytes) {
        return;
    }
    if (BUFFER_HOST == kind) {
        memcpy(to, from, bytes);
        return;
    }
    CUDA_MUST(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
    CUDA_MUST(cudaDeviceSynchronize());
}

void buffer_write(buffer_t *buffer, const void *from, size_t bytes)
{
    copy(buffer->message, from, bytes, buffer->kind);
}

void buffer_read(const buffer_t *buffer, void *to, size_t bytes)
{
    copy(to, buffer->message, bytes, buffer->kind);
}

static size_t count_poison(const unsigned char *bytes, size_t count)
{
    size_t same = 0;
    for (size_t i = 0; i < count; ++i) {
        same += POISON == bytes[i];
    }
    return same;
}

size_t buffer_check_guards(const buffer_t *buffer)
{
    size_t before = BUFFER_GUARD + buffer->offset;
    unsigned char *host = malloc(before + BUFFER_GUARD);
    if (NULL == host) {
        return 1;
    }
    copy(host, buffer->base, before, buffer->kind);
    copy(host + before, buffer->message + buffer->bytes, BUFFER_GUARD, buffer->kind);
    size_t changed = before + BUFFER_GUARD - count_poison(host, before + BUFFER_GUARD);
    free(host);
    return changed;
}

size_t buffer_count_poison(const buffer_t *buffer)
{
    unsigned char *host = malloc(buffer->bytes + 1);
    if (NULL == host) {
        return buffer->bytes;
    }
    copy(host, buffer->message, buffer->bytes, buffer->kind);
    size_t same = count_poison(host, buffer->bytes);
    free(host);
    return same;
}
