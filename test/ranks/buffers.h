/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Message buffers of every kind of memory, with guard zones on both sides.
 *
 * Owns: allocation, poison, guards, copies between a buffer and the host.
 * Does not own: values (values.h).
 * How: one allocation holds guard | offset | message | guard; all of it is filled with a
 *   pattern, and whatever of that pattern outside the message changes is an overrun. Device
 *   memory is only touched by cudaMemcpy and cudaMemset, so that a test never depends on
 *   the very fault it looks for.
 * Called by: the functional tests and the benchmark. Uses the CUDA runtime API (shared library).
 */
#ifndef GPUHIER_TEST_BUFFERS_H
#define GPUHIER_TEST_BUFFERS_H

#include <stdbool.h>
#include <stddef.h>

typedef enum buffer_kind {
    BUFFER_DEVICE,     /* cudaMalloc */
    BUFFER_HOST,       /* malloc */
    BUFFER_MANAGED,    /* cudaMallocManaged */
    BUFFER_PINNED,     /* cudaMallocHost */
    BUFFER_POOL,       /* cudaMallocAsync: CUDA IPC cannot map it */
    BUFFER_CHUNKS,     /* cuMemCreate and cuMemMap, several chunks; the message crosses from one to the next */
    BUFFER_OTHER,      /* cudaMalloc on another GPU than the current one, where there is one */
    BUFFER_REGISTERED, /* malloc and cudaHostRegister */
    BUFFER_NKINDS
} buffer_kind_t;

/* Does the GPU own it (or share it)? */
static inline bool buffer_kind_on_device(buffer_kind_t kind)
{
    return BUFFER_HOST != kind && BUFFER_PINNED != kind && BUFFER_REGISTERED != kind;
}

#define BUFFER_GUARD 512 /* bytes on each side */

/* Owned by the caller, from buffer_alloc to buffer_free. */
typedef struct buffer {
    buffer_kind_t kind;
    char *base;                   /* of the allocation */
    char *message;                /* base + BUFFER_GUARD + offset */
    size_t offset;                /* bytes by which the message is out of alignment */
    size_t bytes;                 /* of the message */
    int device;                   /* on which it was allocated: the current one, but for BUFFER_OTHER */
    struct buffer_chunks *chunks; /* BUFFER_CHUNKS */
} buffer_t;

const char *buffer_kind_name(buffer_kind_t kind);

/* BUFFER_NKINDS when there is no such name. */
buffer_kind_t buffer_kind_find(const char *name);

/* Allocates and poisons. Ends the process with a message when memory is short: a test cannot go on. */
void buffer_alloc(buffer_t *buffer, buffer_kind_t kind, size_t bytes, size_t offset);
void buffer_free(buffer_t *buffer);

/* Fills message and guards with the pattern; complete when it returns. */
void buffer_poison(buffer_t *buffer);

/* Copies bytes between the message (from its start) and host memory; complete when it returns. */
void buffer_write(buffer_t *buffer, const void *from, size_t bytes);
void buffer_read(const buffer_t *buffer, void *to, size_t bytes);

/* Returns the number of guard bytes that changed; 0 is right. */
size_t buffer_check_guards(const buffer_t *buffer);

/* Returns the number of message bytes that still are poison: no result was written there. */
size_t buffer_count_poison(const buffer_t *buffer);

/* In buffers_chunks.c: memory of the current device; complete, and mapped for it. */
void *buffer_chunks_alloc(size_t bytes, struct buffer_chunks **chunks_p);
void buffer_chunks_free(struct buffer_chunks *chunks);

/* One of the emulator's counters, of this process (test/cudasim); false where GPUs are not emulated. */
bool buffer_emulator_count(const char *name, unsigned long long *value_p);

/* Ends the process with file and line when a CUDA call failed. */
#define CUDA_MUST(call) buffer_cuda_must((int) (call), #call, __FILE__, __LINE__)
void buffer_cuda_must(int error, const char *call, const char *file, int line);

#endif /* GPUHIER_TEST_BUFFERS_H */
