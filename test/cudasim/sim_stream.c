/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Stream objects.
 *
 * Owns streams: the program's, each context's legacy default stream and each thread's
 * own default stream. Does not own their queues (sim_engine.c). A stream is never given
 * back to malloc: a destroyed one is recognised, and its numbers go on when it is
 * reused, so that an event that still refers to it stays complete.
 */
#include <stdlib.h>

#include "sim_engine.h"

CUstream sim_all_streams;

static CUstream free_streams;
static uint64_t next_stream_id = 1, next_thread_id = 1;

/* A stream that neither the program nor its worker uses can become another one. */
void sim_stream_reuse(CUstream stream)
{
    if (0 == stream->magic && !stream->has_worker) {
        stream->next = free_streams;
        free_streams = stream;
    }
}

void sim_stream_retire(CUstream stream)
{
    CUstream *link = &stream->ctx->streams;

    while (NULL != *link && *link != stream) {
        link = &(*link)->next;
    }
    if (*link == stream) {
        *link = stream->next;
    }
    stream->magic = 0;
    sim_stream_reuse(stream);
}

static CUstream stream_new_locked(CUcontext ctx, unsigned flags, int priority)
{
    CUstream stream = free_streams;

    if (NULL != stream) {
        free_streams = stream->next;
    } else {
        stream = calloc(1, sizeof(*stream));
        if (NULL == stream) {
            abort();
        }
        pthread_cond_init(&stream->work, NULL);
        pthread_cond_init(&stream->done, NULL);
        stream->all_next = sim_all_streams;
        sim_all_streams = stream;
    }
    stream->ctx = ctx;
    stream->flags = flags;
    stream->priority = priority;
    stream->blocking = 0 == (flags & CU_STREAM_NON_BLOCKING);
    stream->destroyed = false;
    stream->threaded = false;
    stream->queries = 0;
    stream->thread = 0;
    stream->id = next_stream_id++;
    stream->random = (sim_engine_seed() * 0x9e3779b97f4a7c15ull) ^ (stream->id * 0xbf58476d1ce4e5b9ull);
    stream->random += (0 == stream->random);
    stream->next = ctx->streams;
    ctx->streams = stream;
    stream->magic = SIM_STREAM_MAGIC;
    return stream;
}

CUstream sim_stream_new(CUcontext ctx, unsigned flags, int priority)
{
    CUstream stream;

    sim_engine_lock();
    stream = stream_new_locked(ctx, flags, priority);
    sim_engine_unlock();
    return stream;
}

static CUstream legacy_stream(CUcontext ctx)
{
    CUstream stream = atomic_load_explicit(&ctx->legacy, memory_order_acquire);

    if (NULL != stream) {
        return stream;
    }
    sim_engine_lock();
    if (NULL == ctx->legacy) {
        ctx->legacy = stream_new_locked(ctx, CU_STREAM_DEFAULT, 0);
    }
    stream = ctx->legacy;
    sim_engine_unlock();
    return stream;
}

static CUstream per_thread_stream(CUcontext ctx)
{
    CUstream stream;

    sim_engine_lock();
    if (0 == sim_thread.id) {
        sim_thread.id = next_thread_id++;
    }
    for (stream = ctx->streams; NULL != stream; stream = stream->next) {
        if (stream->thread == sim_thread.id) {
            break;
        }
    }
    if (NULL == stream) {
        stream = stream_new_locked(ctx, CU_STREAM_DEFAULT, 0);
        stream->thread = sim_thread.id;
    }
    sim_engine_unlock();
    return stream;
}

CUresult sim_stream_resolve(CUstream handle, CUstream *stream_p)
{
    CUcontext ctx = sim_context_current();

    if (NULL == handle) {
        handle = sim_thread.per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
    }
    if (CU_STREAM_LEGACY == handle || CU_STREAM_PER_THREAD == handle) {
        if (NULL == ctx) {
            return CUDA_ERROR_INVALID_CONTEXT;
        }
        *stream_p = (CU_STREAM_LEGACY == handle) ? legacy_stream(ctx) : per_thread_stream(ctx);
        return CUDA_SUCCESS;
    }
    if (SIM_STREAM_MAGIC != handle->magic || handle->destroyed) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    *stream_p = handle;
    return CUDA_SUCCESS;
}

void sim_stream_destroy(CUstream stream)
{
    sim_engine_lock();
    stream->destroyed = true;
    pthread_cond_signal(&stream->work);
    if (NULL == stream->head && !stream->busy) {
        sim_stream_retire(stream);
    }
    sim_engine_unlock();
}

void sim_streams_context_clear(CUcontext ctx)
{
    sim_engine_lock();
    ctx->legacy = NULL;
    while (NULL != ctx->streams) {
        CUstream stream = ctx->streams;
        stream->destroyed = true;
        pthread_cond_signal(&stream->work);
        if (NULL == stream->head && !stream->busy) {
            sim_stream_retire(stream);
        } else {
            ctx->streams = stream->next; /* submitted by another thread meanwhile: retired when done */
        }
    }
    sim_engine_unlock();
}
