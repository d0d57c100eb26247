/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Copies and fills: what they do and when the caller waits for them.
 *
 * Owns the rules of the driver's chapter "API synchronization behavior":
 *   to the GPU from pageable memory   waits for the stream, stages, and returns
 *                                     while the last part is still in flight
 *   to the GPU from pinned memory     the synchronous call waits
 *   from the GPU to pageable memory   always waits
 *   from the GPU to pinned memory     the synchronous call waits
 *   within and between GPUs, fills    the call does not wait, unless SYNC_MEMOPS is set
 *   host to host                      always waits
 * Does not own queues (sim_engine.c) or addresses (sim_memory.c).
 */
#include "sim_copy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim_counters.h"
#include "sim_engine.h"
#include "sim_memory.h"
#include "sim_model.h"
#include "sim_pool.h"
#include "sim_vmm.h"

#define STAGING_BYTES ((size_t) 64 << 10) /* what the real driver takes along when the call returns */

/* One side of a copy. */
struct end {
    int place; /* physical GPU, or SIM_HOST */
    bool pageable;
    bool managed;
    bool sync_memops;
    bool imported;               /* by a handle of CUDA IPC */
    bool granted;                /* only GPUs reach it that were granted access */
    struct sim_gpu_ports *ports; /* model */
};

struct copy_work {
    struct sim_copy copy;
    int to_place, from_place;
    struct sim_gpu_ports *to_ports, *from_ports; /* model */
    bool pageable;
    unsigned char staged[]; /* the source's bytes, when from is 0 */
};

struct fill_work {
    uintptr_t to;
    size_t pitch, element, count, height;
    uint32_t value;
    int place;
};

/* May the context's GPU copy there? Copies find memory of cudaMalloc on every GPU, but of pools and cuMemCreate only
 * where access was granted. */
static bool may_copy(CUcontext ctx, const struct sim_alloc *alloc)
{
    return SIM_KIND_MAPPED == alloc->kind ? 0 != (alloc->access & (1 << ctx->physical))
           : SIM_KIND_POOL == alloc->kind ? sim_pool_access(alloc, ctx->physical)
                                          : true;
}

/* What lies at [address, address + bytes); CUDA_ERROR_INVALID_VALUE when the context's GPU could not reach all of it,
 * or only by multimem instructions. */
static CUresult end_find(CUcontext ctx, uintptr_t address, size_t bytes, enum sim_side side, struct end *end_p)
{
    struct sim_alloc *alloc = sim_memory_find(address);
    uintptr_t stop = address + bytes;

    memset(end_p, 0, sizeof(*end_p));
    if (NULL == alloc) {
        if (sim_is_device_address(address) || SIM_ON_GPU == side) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        end_p->place = SIM_HOST;
        end_p->pageable = true;
        return CUDA_SUCCESS;
    }
    if (SIM_ON_HOST == side && alloc->kind < SIM_KIND_HOST) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    end_p->ports = sim_model.on ? sim_model_ports(address) : NULL;
    end_p->managed = SIM_KIND_MANAGED == alloc->kind;
    end_p->sync_memops = atomic_load_explicit(&alloc->sync_memops, memory_order_relaxed);
    end_p->place = sim_memory_place(alloc);
    end_p->imported = SIM_KIND_IMPORT == alloc->kind;
    end_p->granted = SIM_KIND_MAPPED == alloc->kind || SIM_KIND_POOL == alloc->kind;
    while (stop > alloc->base + alloc->size) { /* neighbouring mappings of a reserved range serve as one */
        alloc =
            SIM_KIND_MAPPED == alloc->kind && may_copy(ctx, alloc) ? sim_memory_find(alloc->base + alloc->size) : NULL;
        if (NULL == alloc) {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    if (SIM_KIND_RESERVED == alloc->kind || SIM_KIND_MULTICAST == alloc->kind || !may_copy(ctx, alloc)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

/* A plain copy between two GPUs' memory wants both ends in the reach of the context's GPU, unless both are of
 * cudaMalloc. Does that GPU reach `other` if `one` is of cuMemCreate or a pool? */
static bool reaches(CUcontext ctx, const struct end *one, const struct end *other)
{
    return !one->granted || other->granted || SIM_HOST == other->place || other->managed || other->imported
           || ctx->physical == other->place || atomic_load(&ctx->peers[other->place]);
}

static void move_bytes(void *to, const void *from, size_t bytes)
{
    if (to != from) {
        memcpy(to, from, bytes);
    }
}

static void copy_rows(const struct sim_copy *copy, const unsigned char *staged)
{
    unsigned char *to = sim_host_view(copy->to);
    const unsigned char *from = (NULL != staged) ? staged : sim_host_view(copy->from);
    size_t row;

    if (1 == copy->height || (copy->width == copy->to_pitch && copy->width == copy->from_pitch)) {
        move_bytes(to, from, copy->width * copy->height);
        return;
    }
    for (row = 0; row < copy->height; row++) {
        move_bytes(to + row * copy->to_pitch, from + row * copy->from_pitch, copy->width);
    }
}

static void run_copy(struct sim_item *item)
{
    const struct copy_work *work = (const void *) item->payload;

    copy_rows(&work->copy, 0 == work->copy.from ? work->staged : NULL);
    sim_count_link(work->from_place, work->to_place, work->copy.width * work->copy.height);
    if (sim_model.on && (NULL != work->to_ports || NULL != work->from_ports)) {
        item->end_ns =
            sim_model_copy(&sim_window.shared->ports[item->stream->ctx->physical], work->to_ports, work->from_ports,
                           work->pageable, work->copy.width * work->copy.height, item->start_ns);
    }
}

static void submit(CUstream stream, struct sim_item *item, bool wait)
{
    if (wait) {
        sim_submit_and_wait(stream, item);
    } else {
        sim_submit(stream, item);
    }
}

static void copy_queue(const struct sim_copy *copy, const struct end *to, const struct end *from, bool stage, bool wait,
                       CUstream stream)
{
    struct sim_item *item = sim_item_new(run_copy, sizeof(struct copy_work) + (stage ? copy->width : 0));
    struct copy_work *work = (void *) item->payload;

    work->copy = *copy;
    work->to_place = to->place;
    work->from_place = from->place;
    work->to_ports = to->ports;
    work->from_ports = from->ports;
    work->pageable = to->pageable || from->pageable;
    item->name = "copy";
    if (stage) {
        memcpy(work->staged, (const void *) copy->from, copy->width);
        work->copy.from = 0;
    }
    submit(stream, item, wait);
}

/* One row from pageable host memory to the GPU. */
static void copy_from_pageable(const struct sim_copy *copy, const struct end *to, const struct end *from, bool async,
                               CUstream stream)
{
    struct sim_copy part = *copy;

    if (!async || copy->width > STAGING_BYTES) {
        sim_stream_drain(stream);
    }
    if (copy->width > STAGING_BYTES) {
        part.width = copy->width - STAGING_BYTES;
        copy_queue(&part, to, from, false, true, stream);
        part.to += part.width;
        part.from += part.width;
        part.width = STAGING_BYTES;
    }
    copy_queue(&part, to, from, true, false, stream);
}

static CUresult after(CUstream stream)
{
    return (CUresult) atomic_load_explicit(&stream->ctx->sticky, memory_order_relaxed);
}

CUresult sim_copy(const struct sim_copy *copy, CUstream stream, bool async)
{
    struct end to, from;
    bool to_host, from_host, wait;
    CUresult rc;
    bool sync = 0 != (stream->ctx->flags & CU_CTX_SYNC_MEMOPS);

    if (0 == copy->width || 0 == copy->height) {
        return CUDA_SUCCESS;
    }
    if (copy->height > 1 && (copy->to_pitch < copy->width || copy->from_pitch < copy->width)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    rc = end_find(NULL != copy->to_ctx ? copy->to_ctx : stream->ctx, copy->to,
                  (copy->height - 1) * copy->to_pitch + copy->width, copy->to_side, &to);
    if (CUDA_SUCCESS == rc) {
        rc = end_find(NULL != copy->from_ctx ? copy->from_ctx : stream->ctx, copy->from,
                      (copy->height - 1) * copy->from_pitch + copy->width, copy->from_side, &from);
    }
    if (CUDA_SUCCESS == rc && NULL == copy->to_ctx
        && (!reaches(stream->ctx, &to, &from) || !reaches(stream->ctx, &from, &to))) {
        rc = CUDA_ERROR_INVALID_VALUE;
    }
    if (CUDA_SUCCESS != rc) {
        return rc;
    }
    sim_count(copies);
    to_host = SIM_HOST == to.place && !to.managed;
    from_host = SIM_HOST == from.place && !from.managed;
    if (from.pageable && !to_host && !to.sync_memops && !sync && 1 == copy->height && SIM_EAGER != sim_engine_mode()) {
        copy_from_pageable(copy, &to, &from, async, stream);
        return after(stream);
    }
    if (to_host && from_host) {
        wait = true;
    } else if (async) {
        wait = to.pageable || from.pageable;
    } else {
        wait = to_host || from_host || to.managed || from.managed || to.sync_memops || from.sync_memops || sync;
    }
    copy_queue(copy, &to, &from, false, wait, stream);
    return after(stream);
}

/* Is it memory that nothing has been written to? It reads as zero, and to write zeros would have the system make its
 * pages one by one. */
static bool is_untouched(uintptr_t address, size_t bytes)
{
    const struct sim_alloc *alloc = sim_memory_find(address);
    struct sim_backing backing = {.fd = -1};
    off_t data;

    if (bytes < SIM_BLOCK_BYTES / 2 || NULL == alloc) {
        return false;
    }
    sim_memory_lock();
    if (SIM_KIND_DEVICE == alloc->kind || SIM_KIND_POOL == alloc->kind) {
        backing = (struct sim_backing){.fd = sim_window.fd, .offset = SIM_SHARED_BYTES + (address - sim_window.base)};
        backing.bytes = alloc->base + alloc->size - address;
    } else if (!sim_backing_at(address, &backing)) {
        backing.fd = -1;
    }
    sim_memory_unlock();
    if (backing.fd < 0 || bytes > backing.bytes) {
        return false;
    }
    data = lseek(backing.fd, (off_t) backing.offset, SEEK_DATA);
    return data < 0 ? ENXIO == errno : (uint64_t) data >= backing.offset + bytes;
}

static void run_fill(struct sim_item *item)
{
    const struct fill_work *work = (const void *) item->payload;
    unsigned char *row = sim_host_view(work->to);
    uint16_t value16 = (uint16_t) work->value;
    const bool done = 0 == work->value && 1 == work->height && is_untouched(work->to, work->element * work->count);
    size_t y, x;

    for (y = 0; y < work->height && !done; y++, row += work->pitch) {
        if (1 == work->element) {
            memset(row, (int) (work->value & 0xff), work->count);
        } else if (2 == work->element) {
            for (x = 0; x < work->count; x++) {
                memcpy(row + 2 * x, &value16, sizeof(value16));
            }
        } else {
            for (x = 0; x < work->count; x++) {
                memcpy(row + 4 * x, &work->value, sizeof(work->value));
            }
        }
    }
    if (sim_model.on) {
        struct sim_kernel_time time;
        sim_kernel_begin(&time, &sim_window.shared->ports[item->stream->ctx->physical], item->start_ns,
                         (uint32_t) sim_model.sms, 256);
        for (y = 0; y < work->height; y++) {
            sim_kernel_flow(&time, work->to + y * work->pitch, work->element * work->count, true);
        }
        item->end_ns = sim_kernel_end(&time);
    }
}

CUresult sim_fill(uintptr_t to, size_t pitch, uint32_t value, size_t element, size_t count, size_t height,
                  CUstream stream, bool async)
{
    struct sim_item *item;
    struct fill_work *work;
    struct end end;
    CUresult rc;

    if (0 == count || 0 == height) {
        return CUDA_SUCCESS;
    }
    if (0 != to % element || (height > 1 && pitch < count * element)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    rc = end_find(stream->ctx, to, (height - 1) * pitch + count * element, SIM_ON_GPU, &end);
    if (CUDA_SUCCESS != rc) {
        return rc;
    }
    sim_count(memsets);
    item = sim_item_new(run_fill, sizeof(*work));
    work = (void *) item->payload;
    item->name = "fill";
    item->is_kernel = true;
    *work = (struct fill_work){to, pitch, element, count, height, value, end.place};
    submit(stream, item,
           !async && (SIM_HOST == end.place || end.sync_memops || 0 != (stream->ctx->flags & CU_CTX_SYNC_MEMOPS)));
    return after(stream);
}
