/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Message buffers with guard zones; see buffers.h.
 */
#define _GNU_SOURCE
#include "buffers.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POISON 0xa5

static const char *const kind_names[BUFFER_NKINDS] = {"device", "host",   "managed", "pinned",
                                                      "pool",   "chunks", "other",   "registered"};

void buffer_cuda_must(int error, const char *call, const char *file, int line)
{
    if (0 != error) {
        fprintf(stderr, "%s:%d: %s failed: %s\n", file, line, call, cudaGetErrorString((cudaError_t) error));
        fflush(NULL);
        _Exit(3);
    }
}

bool buffer_emulator_count(const char *name, unsigned long long *value_p)
{
    int (*counter)(const char *, unsigned long long *);
    void *place = dlsym(RTLD_DEFAULT, "cudasim_counter");

    memcpy(&counter, &place, sizeof(counter));
    return NULL != place && 0 == counter(name, value_p);
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

/* Makes the buffer's device the current one; returns the one that was. */
static int device_enter(const buffer_t *buffer)
{
    int before;
    CUDA_MUST(cudaGetDevice(&before));
    if (before != buffer->device) {
        CUDA_MUST(cudaSetDevice(buffer->device));
    }
    return before;
}

static void device_leave(const buffer_t *buffer, int before)
{
    if (before != buffer->device) {
        CUDA_MUST(cudaSetDevice(before));
    }
}

static int device_of(buffer_kind_t kind)
{
    int device = 0, count = 1;
    if (BUFFER_HOST == kind) {
        return 0;
    }
    CUDA_MUST(cudaGetDevice(&device));
    CUDA_MUST(cudaGetDeviceCount(&count));
    return BUFFER_OTHER == kind ? (device + 1) % count : device;
}

void buffer_alloc(buffer_t *buffer, buffer_kind_t kind, size_t bytes, size_t offset)
{
    void *base = NULL;

    buffer->kind = kind;
    buffer->bytes = bytes;
    buffer->offset = offset;
    buffer->chunks = NULL;
    buffer->device = device_of(kind);
    size_t total = total_bytes(buffer);
    switch (kind) {
    case BUFFER_DEVICE:
        CUDA_MUST(cudaMalloc(&base, total));
        break;
    case BUFFER_OTHER: {
        int before = device_enter(buffer);
        CUDA_MUST(cudaMalloc(&base, total));
        device_leave(buffer, before);
        break;
    }
    case BUFFER_CHUNKS:
        base = buffer_chunks_alloc(total, &buffer->chunks);
        break;
    case BUFFER_REGISTERED:
        base = malloc(total);
        CUDA_MUST(cudaHostRegister(base, total, cudaHostRegisterDefault));
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
    case BUFFER_OTHER:
    case BUFFER_MANAGED:
        CUDA_MUST(cudaFree(buffer->base));
        break;
    case BUFFER_CHUNKS:
        buffer_chunks_free(buffer->chunks);
        break;
    case BUFFER_REGISTERED:
        CUDA_MUST(cudaHostUnregister(buffer->base));
        free(buffer->base);
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
    int before = device_enter(buffer);
    CUDA_MUST(cudaMemset(buffer->base, POISON, total_bytes(buffer)));
    /* A memset may return early, and the next thing to touch this memory may be another process. */
    CUDA_MUST(cudaDeviceSynchronize());
    device_leave(buffer, before);
}

/* Copies to or from the buffer. */
static void copy(const buffer_t *buffer, void *to, const void *from, size_t bytes)
{
    if (0 == bytes) {
        return;
    }
    if (BUFFER_HOST == buffer->kind) {
        memcpy(to, from, bytes);
        return;
    }
    int before = device_enter(buffer);
    CUDA_MUST(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
    CUDA_MUST(cudaDeviceSynchronize());
    device_leave(buffer, before);
}

void buffer_write(buffer_t *buffer, const void *from, size_t bytes)
{
    copy(buffer, buffer->message, from, bytes);
}

void buffer_read(const buffer_t *buffer, void *to, size_t bytes)
{
    copy(buffer, to, buffer->message, bytes);
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
    copy(buffer, host, buffer->base, before);
    copy(buffer, host + before, buffer->message + buffer->bytes, BUFFER_GUARD);
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
    copy(buffer, host, buffer->message, buffer->bytes);
    size_t same = count_poison(host, buffer->bytes);
    free(host);
    return same;
}
