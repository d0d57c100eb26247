/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The registry of allocations.
 *
 * Owns the map of device addresses, small allocations' shared blocks (slabs), the
 * sizes of the GPUs, and the sorted list of pinned, registered and managed host
 * memory. Does not own address space and files (sim_window.c) or IPC (sim_ipc.c).
 *
 * Device addresses are looked up in a table with one word per 2 MiB block: nothing,
 * an allocation, or (low bit set) a slab with a table of its own. Host memory is a
 * sorted array behind a reader-writer lock.
 *
 * A block that another process has opened is not reused before that process has
 * closed it: freeing first is undefined in CUDA, and shows as a leak there too.
 */
#include "sim_memory.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sim_context.h"
#include "sim_counters.h"
#include "sim_gdr.h"

#define UNIT_BYTES 512 /* alignment of small allocations */
#define SLAB_UNITS (SIM_BLOCK_BYTES / UNIT_BYTES)
#define SMALL_LIMIT ((size_t) 1 << 20) /* from here on an allocation has blocks of its own */

/* A 2 MiB block shared by small allocations of one context. Guarded by the memory lock; units are read without it. */
struct sim_slab {
    uint32_t block;
    uint32_t used; /* units */
    int device;
    CUcontext ctx;
    struct sim_slab *next;
    _Atomic(struct sim_alloc *) units[SLAB_UNITS];
};

/* Blocks freed here while another process still has them open. */
struct zombie {
    uint32_t first, count;
    int device;
    struct zombie *next;
};

static pthread_mutex_t memory_mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uintptr_t block_table[SIM_MAX_BLOCKS];
static struct sim_slab *slabs, *free_slabs;
static struct sim_alloc *free_allocs;
static struct zombie *zombies;
static _Atomic size_t used_bytes[SIM_MAX_GPUS];
static _Atomic uint64_t next_buffer_id = 1;

static pthread_rwlock_t host_lock = PTHREAD_RWLOCK_INITIALIZER;
static struct sim_alloc **host_allocs; /* sorted by base */
static size_t nhost, host_room;
static _Atomic uintptr_t host_low = UINTPTR_MAX, host_high; /* no host allocation ever lay outside of these */

void sim_memory_lock(void)
{
    pthread_mutex_lock(&memory_mutex);
}

void sim_memory_unlock(void)
{
    pthread_mutex_unlock(&memory_mutex);
}

uint64_t sim_memory_id(void)
{
    return atomic_fetch_add(&next_buffer_id, 1);
}

size_t sim_memory_used(int physical)
{
    return atomic_load_explicit(&used_bytes[physical], memory_order_relaxed);
}

static void *must(void *memory)
{
    if (NULL == memory) {
        fprintf(stderr, "cudasim: out of host memory\n");
        abort();
    }
    return memory;
}

static struct sim_alloc *alloc_new(void)
{
    struct sim_alloc *alloc = free_allocs;

    if (NULL != alloc) {
        free_allocs = alloc->next;
    } else {
        alloc = must(malloc(sizeof(*alloc)));
    }
    memset(alloc, 0, sizeof(*alloc));
    return alloc;
}

static void context_link(struct sim_alloc *alloc)
{
    CUcontext ctx = alloc->ctx;

    if (NULL == ctx) {
        return; /* mapped and pool memory belongs to no context */
    }
    alloc->previous = NULL;
    alloc->next = ctx->allocs;
    if (NULL != ctx->allocs) {
        ctx->allocs->previous = alloc;
    }
    ctx->allocs = alloc;
}

static void context_unlink(struct sim_alloc *alloc)
{
    if (NULL == alloc->ctx) {
        return;
    }
    if (NULL != alloc->previous) {
        alloc->previous->next = alloc->next;
    } else {
        alloc->ctx->allocs = alloc->next;
    }
    if (NULL != alloc->next) {
        alloc->next->previous = alloc->previous;
    }
}

struct sim_alloc *sim_memory_record(enum sim_kind kind, CUcontext ctx, int device, uintptr_t base, size_t size)
{
    struct sim_alloc *alloc = alloc_new();

    alloc->kind = kind;
    alloc->ctx = ctx;
    alloc->device = device;
    alloc->remote = false;
    alloc->base = base;
    alloc->size = size;
    alloc->buffer_id = sim_memory_id();
    context_link(alloc);
    return alloc;
}

void sim_memory_forget(struct sim_alloc *alloc)
{
    context_unlink(alloc);
    alloc->previous = NULL;
    alloc->next = free_allocs;
    free_allocs = alloc;
}

void sim_memory_cover(uint32_t first, uint32_t count, struct sim_alloc *alloc)
{
    uint32_t i;

    for (i = first; i < first + count; i++) {
        atomic_store_explicit(&block_table[i], (uintptr_t) alloc, memory_order_release);
    }
}

/* Index of the last host allocation that starts at or before the address, or -1. */
static ptrdiff_t host_search(uintptr_t address)
{
    size_t low = 0, high = nhost, middle;

    while (low < high) {
        middle = (low + high) / 2;
        if (host_allocs[middle]->base <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return (ptrdiff_t) low - 1;
}

static struct sim_alloc *host_find(uintptr_t address)
{
    struct sim_alloc *alloc = NULL;
    ptrdiff_t at;

    /* Most addresses of host memory that a program asks about were never told to the driver: no lock for those. */
    if (address < atomic_load_explicit(&host_low, memory_order_acquire)
        || address >= atomic_load_explicit(&host_high, memory_order_acquire)) {
        return NULL;
    }
    pthread_rwlock_rdlock(&host_lock);
    at = host_search(address);
    if (at >= 0 && address - host_allocs[at]->base < host_allocs[at]->size) {
        alloc = host_allocs[at];
    }
    pthread_rwlock_unlock(&host_lock);
    return alloc;
}

struct sim_alloc *sim_memory_find(uintptr_t address)
{
    struct sim_alloc *alloc;
    struct sim_slab *slab;
    uintptr_t entry;

    if (!sim_is_device_address(address)) {
        return host_find(address);
    }
    entry = atomic_load_explicit(&block_table[sim_block_of(address)], memory_order_acquire);
    if (entry & 1) {
        slab = (struct sim_slab *) (entry & ~(uintptr_t) 1);
        alloc =
            atomic_load_explicit(&slab->units[(address & (SIM_BLOCK_BYTES - 1)) / UNIT_BYTES], memory_order_acquire);
    } else {
        alloc = (struct sim_alloc *) entry;
    }
    return (NULL != alloc && address - alloc->base < alloc->size) ? alloc : NULL;
}

/* Whether another process still has the block open; the only one, if it was killed, has not. */
static bool block_held(struct sim_shared_block *shared)
{
    uint32_t importers = atomic_load(&shared->importers);

    if (1 == importers && 0 != kill((pid_t) atomic_load(&shared->importer), 0) && ESRCH == errno) {
        atomic_store(&shared->importers, 0);
        return false;
    }
    return importers > 0;
}

/* Gives back freed blocks whose last importer has gone. */
static void zombies_reap(void)
{
    struct zombie **link = &zombies, *zombie;

    while (NULL != (zombie = *link)) {
        if (block_held(&sim_window.shared->blocks[zombie->first])) {
            link = &zombie->next;
            continue;
        }
        *link = zombie->next;
        sim_blocks_discard(zombie->first, zombie->count);
        sim_blocks_give(zombie->first, zombie->count);
        atomic_fetch_sub(&used_bytes[zombie->device], (size_t) zombie->count << SIM_BLOCK_SHIFT);
        free(zombie);
    }
}

CUresult sim_memory_blocks_alloc(int physical, uint32_t count, uint32_t *first_p)
{
    size_t bytes = (size_t) count << SIM_BLOCK_SHIFT;
    uint32_t first;

    zombies_reap();
    if (atomic_load(&used_bytes[physical]) + bytes > sim_driver.topology.gpus[physical].memory) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    first = sim_blocks_take(true, count, 1);
    if (SIM_NO_BLOCK == first) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    atomic_fetch_add(&used_bytes[physical], bytes);
    *first_p = first;
    return CUDA_SUCCESS;
}

void sim_memory_blocks_free(int physical, uint32_t first, uint32_t count)
{
    struct sim_shared_block *shared = &sim_window.shared->blocks[first];
    struct zombie *zombie;

    atomic_store(&shared->id, 0);
    if (block_held(shared)) {
        zombie = must(malloc(sizeof(*zombie)));
        zombie->first = first;
        zombie->count = count;
        zombie->device = physical;
        zombie->next = zombies;
        zombies = zombie;
        return;
    }
    sim_blocks_discard(first, count);
    sim_blocks_give(first, count);
    atomic_fetch_sub(&used_bytes[physical], (size_t) count << SIM_BLOCK_SHIFT);
}

/* Own blocks, shown at their own addresses and open to importers under a new id. */
static CUresult blocks_make(int physical, uint32_t count, uint32_t *first_p)
{
    CUresult rc = sim_memory_blocks_alloc(physical, count, first_p);

    if (CUDA_SUCCESS != rc) {
        return rc;
    }
    if (0 != sim_blocks_show(*first_p, count, sim_window.fd, *first_p, physical)) {
        sim_memory_blocks_free(physical, *first_p, count);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    atomic_store(&sim_window.shared->blocks[*first_p].id, atomic_fetch_add(&next_buffer_id, 1));
    return CUDA_SUCCESS;
}

static void blocks_drop(int physical, uint32_t first, uint32_t count)
{
    sim_memory_cover(first, count, NULL);
    sim_gdr_revoke(sim_block_address(first), (size_t) count << SIM_BLOCK_SHIFT);
    sim_blocks_hide(first, count);
    sim_memory_blocks_free(physical, first, count);
}

int sim_memory_device_of(uintptr_t address, size_t bytes)
{
    uintptr_t entry;
    uint32_t block;
    const struct sim_alloc *alloc;

    if (!sim_is_device_address(address) || !sim_is_device_address(address + bytes - 1)) {
        return -1;
    }
    entry = atomic_load(&block_table[sim_block_of(address)]);
    for (block = sim_block_of(address); block <= sim_block_of(address + bytes - 1); block++) {
        if (block >= sim_window.own_blocks || atomic_load(&block_table[block]) != entry) {
            return -1;
        }
    }
    if (entry & 1) {
        return ((struct sim_slab *) (entry & ~(uintptr_t) 1))->device;
    }
    alloc = (const struct sim_alloc *) entry;
    return NULL != alloc && SIM_KIND_DEVICE == alloc->kind ? alloc->device : -1;
}

static CUresult slab_new(CUcontext ctx, int physical, struct sim_slab **slab_p)
{
    struct sim_slab *slab = free_slabs;
    uint32_t block;
    CUresult rc = blocks_make(physical, 1, &block);
    size_t i;

    if (CUDA_SUCCESS != rc) {
        return rc;
    }
    if (NULL != slab) {
        free_slabs = slab->next;
    } else {
        slab = must(malloc(sizeof(*slab)));
    }
    slab->block = block;
    slab->used = 0;
    slab->device = physical;
    slab->ctx = ctx;
    slab->next = slabs;
    slabs = slab;
    for (i = 0; i < SLAB_UNITS; i++) {
        atomic_init(&slab->units[i], NULL);
    }
    atomic_store_explicit(&block_table[block], (uintptr_t) slab | 1, memory_order_release);
    *slab_p = slab;
    return CUDA_SUCCESS;
}

static void slab_drop(struct sim_slab *slab)
{
    struct sim_slab **link = &slabs;

    while (*link != slab) {
        link = &(*link)->next;
    }
    *link = slab->next;
    blocks_drop(slab->device, slab->block, 1);
    slab->next = free_slabs;
    free_slabs = slab;
}

/* First fit; returns the first unit, or SLAB_UNITS. */
static size_t slab_fit(const struct sim_slab *slab, size_t units)
{
    size_t unit = 0, run = 0;
    struct sim_alloc *alloc;

    if (SLAB_UNITS - slab->used < units) {
        return SLAB_UNITS;
    }
    while (unit < SLAB_UNITS) {
        alloc = atomic_load_explicit(&slab->units[unit], memory_order_relaxed);
        if (NULL == alloc) {
            unit++;
            if (++run == units) {
                return unit - units;
            }
        } else {
            run = 0;
            unit += (alloc->size + UNIT_BYTES - 1) / UNIT_BYTES;
        }
    }
    return SLAB_UNITS;
}

static CUresult slab_alloc(CUcontext ctx, int physical, size_t size, enum sim_kind kind, struct sim_alloc **alloc_p)
{
    size_t units = (size + UNIT_BYTES - 1) / UNIT_BYTES, unit = SLAB_UNITS, i;
    struct sim_slab *slab;
    struct sim_alloc *alloc;
    CUresult rc;

    for (slab = slabs; NULL != slab; slab = slab->next) {
        if (slab->ctx == ctx && slab->device == physical) {
            unit = slab_fit(slab, units);
            if (SLAB_UNITS != unit) {
                break;
            }
        }
    }
    if (NULL == slab) {
        rc = slab_new(ctx, physical, &slab);
        if (CUDA_SUCCESS != rc) {
            return rc;
        }
        unit = 0;
    }
    alloc = sim_memory_record(kind, ctx, physical, sim_block_address(slab->block) + unit * UNIT_BYTES, size);
    alloc->slab = slab;
    slab->used += (uint32_t) units;
    for (i = 0; i < units; i++) {
        atomic_store_explicit(&slab->units[unit + i], alloc, memory_order_release);
    }
    *alloc_p = alloc;
    return CUDA_SUCCESS;
}

CUresult sim_memory_device_alloc(CUcontext ctx, int physical, size_t size, enum sim_kind kind,
                                 struct sim_alloc **alloc_p)
{
    struct sim_alloc *alloc = NULL;
    uint32_t first, count;
    CUresult rc;

    if (size > sim_driver.topology.gpus[physical].memory) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_memory_lock();
    if (size < SMALL_LIMIT && SIM_KIND_DEVICE == kind) {
        rc = slab_alloc(ctx, physical, size, kind, &alloc);
    } else {
        count = (uint32_t) ((size + SIM_BLOCK_BYTES - 1) >> SIM_BLOCK_SHIFT);
        rc = blocks_make(physical, count, &first);
        if (CUDA_SUCCESS == rc) {
            alloc = sim_memory_record(kind, ctx, physical, sim_block_address(first), size);
            alloc->first_block = first;
            alloc->nblocks = count;
            if (SIM_KIND_DEVICE != kind) {
                atomic_store(&sim_window.shared->blocks[first].id, 0);
            }
            sim_memory_cover(first, count, alloc);
        }
    }
    sim_memory_unlock();
    if (CUDA_SUCCESS == rc) {
        sim_count(allocs_live);
        *alloc_p = alloc;
    }
    return rc;
}

CUresult sim_memory_host_add(CUcontext ctx, enum sim_kind kind, void *base, size_t size, unsigned flags,
                             struct sim_alloc **alloc_p)
{
    uintptr_t start = (uintptr_t) base;
    struct sim_alloc *alloc;
    ptrdiff_t at;
    CUresult rc = CUDA_SUCCESS;

    sim_memory_lock();
    pthread_rwlock_wrlock(&host_lock);
    at = host_search(start + size - 1);
    if (at >= 0 && start < host_allocs[at]->base + host_allocs[at]->size) {
        rc = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    } else {
        if (nhost == host_room) {
            host_room = 0 == host_room ? 64 : 2 * host_room;
            host_allocs = must(realloc(host_allocs, host_room * sizeof(*host_allocs)));
        }
        alloc = sim_memory_record(kind, ctx, ctx->physical, start, size);
        alloc->flags = flags;
        memmove(&host_allocs[at + 2], &host_allocs[at + 1], (nhost - (size_t) (at + 1)) * sizeof(*host_allocs));
        host_allocs[at + 1] = alloc;
        nhost++;
        if (start < atomic_load(&host_low)) {
            atomic_store(&host_low, start);
        }
        if (start + size > atomic_load(&host_high)) {
            atomic_store(&host_high, start + size);
        }
        *alloc_p = alloc;
        sim_count(host_allocs_live);
    }
    pthread_rwlock_unlock(&host_lock);
    sim_memory_unlock();
    return rc;
}

static void host_remove(struct sim_alloc *alloc)
{
    ptrdiff_t at;

    pthread_rwlock_wrlock(&host_lock);
    at = host_search(alloc->base);
    nhost--;
    memmove(&host_allocs[at], &host_allocs[at + 1], (nhost - (size_t) at) * sizeof(*host_allocs));
    pthread_rwlock_unlock(&host_lock);
    sim_uncount(host_allocs_live);
}

static void remove_locked(struct sim_alloc *alloc)
{
    size_t unit, units, i;
    struct sim_slab *slab = alloc->slab;

    if (alloc->kind >= SIM_KIND_HOST) {
        host_remove(alloc);
    } else if (NULL != slab) {
        unit = (alloc->base & (SIM_BLOCK_BYTES - 1)) / UNIT_BYTES;
        units = (alloc->size + UNIT_BYTES - 1) / UNIT_BYTES;
        for (i = 0; i < units; i++) {
            atomic_store_explicit(&slab->units[unit + i], NULL, memory_order_release);
        }
        slab->used -= (uint32_t) units;
        if (0 == slab->used) {
            slab_drop(slab);
        }
        sim_uncount(allocs_live);
    } else {
        blocks_drop(alloc->device, alloc->first_block, alloc->nblocks);
        sim_uncount(allocs_live);
    }
    sim_memory_forget(alloc);
}

void sim_memory_remove(struct sim_alloc *alloc)
{
    sim_memory_lock();
    remove_locked(alloc);
    sim_memory_unlock();
}

void sim_memory_context_clear(CUcontext ctx)
{
    struct sim_alloc *alloc, *next;

    sim_memory_lock();
    for (alloc = ctx->allocs; NULL != alloc; alloc = next) {
        next = alloc->next;
        if (SIM_KIND_HOST == alloc->kind || SIM_KIND_MANAGED == alloc->kind) {
            munmap((void *) alloc->base, alloc->size);
        }
        if (SIM_KIND_DEVICE == alloc->kind || SIM_KIND_POOL == alloc->kind || alloc->kind >= SIM_KIND_HOST) {
            remove_locked(alloc);
        }
    }
    sim_memory_unlock();
}

void sim_memory_export_blocks(const struct sim_alloc *alloc, uint32_t *first_p, uint32_t *count_p)
{
    *first_p = (NULL != alloc->slab) ? alloc->slab->block : alloc->first_block;
    *count_p = (NULL != alloc->slab) ? 1 : alloc->nblocks;
}
