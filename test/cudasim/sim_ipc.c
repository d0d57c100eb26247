/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory and events of other processes.
 *
 * Owns handles, the memory files of other processes and what is mapped from them.
 * A handle names the exporting process, its file and the 2 MiB blocks; it carries
 * no address, each process maps them where it likes. Opening goes through
 * /proc/PID/fd/N, so nothing has a name that could be left behind. The head of
 * the exporter's file tells whether the handle is still good: a random word
 * per process, and an id per block that changes when the block is freed.
 *
 * A mapping is of whole blocks, shared by all handles that lie in them and counted;
 * memory mapped in one context cannot be opened in another.
 */
#include "sim_ipc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "api.h"
#include "sim_context.h"
#include "sim_counters.h"
#include "sim_engine.h"
#include "sim_memory.h"

#define HANDLE_MAGIC 0x63736970u

/* What a CUipcMemHandle and a CUipcEventHandle hold here. */
struct handle {
    uint32_t magic;
    int32_t pid;
    uint64_t node;
    uint64_t word;
    uint64_t id;
    int32_t fd;
    int32_t device;   /* physical number */
    uint32_t block;   /* memory: first block; event: slot */
    uint32_t nblocks; /* 0: an event */
    uint64_t offset;  /* bytes from the first block to the allocation */
    uint64_t bytes;   /* of the allocation */
};

_Static_assert(sizeof(struct handle) <= sizeof(CUipcMemHandle), "fits");
_Static_assert(sizeof(struct handle) <= sizeof(CUipcEventHandle), "fits");

/* Another process whose file is open here; counted by its mappings and events. Guarded by the memory lock. */
struct peer {
    int32_t pid;
    uint64_t word;
    int fd;
    unsigned uses;
    struct sim_shared *shared;
    struct peer *next;
};

/* A mapping of another process's blocks. Guarded by the memory lock. */
struct mapping {
    struct peer *peer;
    uint64_t id;
    uint32_t remote_block;
    uint32_t block, nblocks; /* here */
    unsigned opens;
    struct sim_alloc *alloc;
    struct mapping *next;
};

static struct peer *peers;
static struct mapping *mappings;

/* ---- other processes ---- */

struct sim_shared *sim_ipc_owner(const struct sim_alloc *alloc)
{
    const struct mapping *mapping = alloc->owner;

    return mapping->peer->shared;
}

static void peer_release(struct peer *peer)
{
    struct peer **link = &peers;

    if (0 != --peer->uses) {
        return;
    }
    while (*link != peer) {
        link = &(*link)->next;
    }
    *link = peer->next;
    munmap(peer->shared, SIM_SHARED_BYTES);
    close(peer->fd);
    free(peer);
}

int32_t sim_ipc_pid(void)
{
    char text[32] = "";

    return readlink("/proc/self", text, sizeof(text) - 1) > 0 ? (int32_t) atoi(text) : (int32_t) getpid();
}

/* Opens the exporter's file and makes sure that it is the one meant. */
static CUresult peer_open(const struct handle *handle, struct peer **peer_p)
{
    char path[64];
    struct peer *peer;

    for (peer = peers; NULL != peer; peer = peer->next) {
        if (peer->word == handle->word) {
            peer->uses++;
            *peer_p = peer;
            return CUDA_SUCCESS;
        }
    }
    peer = calloc(1, sizeof(*peer));
    if (NULL == peer) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", handle->pid, handle->fd);
    peer->fd = open(path, O_RDWR | O_CLOEXEC);
    if (peer->fd < 0) {
        free(peer);
        return CUDA_ERROR_MAP_FAILED; /* the process is gone, or not ours to look into */
    }
    peer->shared = mmap(NULL, SIM_SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, peer->fd, 0);
    if (MAP_FAILED == (void *) peer->shared) {
        close(peer->fd);
        free(peer);
        return CUDA_ERROR_MAP_FAILED;
    }
    madvise(peer->shared, SIM_SHARED_BYTES, MADV_DONTDUMP);
    peer->pid = handle->pid;
    peer->word = handle->word;
    peer->uses = 1;
    peer->next = peers;
    peers = peer;
    if (lseek(peer->fd, 0, SEEK_END) < (off_t) SIM_SHARED_BYTES || SIM_SHARED_MAGIC != peer->shared->magic
        || handle->word != peer->shared->word) {
        peer_release(peer); /* another process has that number by now */
        return CUDA_ERROR_MAP_FAILED;
    }
    *peer_p = peer;
    return CUDA_SUCCESS;
}

struct sim_shared *sim_ipc_peer_hold(int32_t pid, int fd, uint64_t word, void **peer_p)
{
    const struct handle handle = {.pid = pid, .fd = fd, .word = word};
    struct peer *peer;

    if (CUDA_SUCCESS != peer_open(&handle, &peer)) {
        return NULL;
    }
    *peer_p = peer;
    return peer->shared;
}

void sim_ipc_peer_release(void *peer)
{
    peer_release(peer);
}

/* What can be seen from the handle itself. */
static CUresult handle_check(const struct handle *handle, bool event)
{
    if (HANDLE_MAGIC != handle->magic || event != (0 == handle->nblocks) || handle->device < 0
        || handle->device >= sim_driver.topology.ngpus || handle->node != sim_driver.topology.node) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (event ? handle->block >= SIM_EVENT_SLOTS
              : handle->block >= SIM_MAX_BLOCKS / 2 || handle->nblocks > SIM_MAX_BLOCKS / 2 - handle->block) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (handle->word == sim_window.shared->word) {
        return CUDA_ERROR_INVALID_CONTEXT; /* as the driver: what is one's own cannot be opened */
    }
    return CUDA_SUCCESS;
}

/* ---- memory ---- */

CUresult sim_cuIpcGetMemHandle(CUipcMemHandle *handle_p, CUdeviceptr pointer)
{
    struct sim_alloc *alloc = sim_memory_find((uintptr_t) pointer);
    struct handle handle = {.magic = HANDLE_MAGIC};
    uint32_t first, count;

    if (NULL == handle_p || NULL == alloc || SIM_KIND_DEVICE != alloc->kind) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sim_memory_export_blocks(alloc, &first, &count);
    handle.pid = sim_ipc_pid();
    handle.node = sim_driver.topology.node;
    handle.word = sim_window.shared->word;
    handle.id = atomic_load(&sim_window.shared->blocks[first].id);
    handle.fd = sim_window.fd;
    handle.device = alloc->device;
    handle.block = first;
    handle.nblocks = count;
    handle.offset = alloc->base - sim_block_address(first);
    handle.bytes = alloc->size;
    memset(handle_p, 0, sizeof(*handle_p));
    memcpy(handle_p, &handle, sizeof(handle));
    sim_count(ipc_exports);
    return CUDA_SUCCESS;
}

/* Under the memory lock: maps the blocks of a handle for the first time. */
static CUresult mapping_new(const struct handle *handle, CUcontext ctx, struct mapping **mapping_p)
{
    struct sim_shared_block *shared;
    struct mapping *mapping;
    CUresult rc;

    mapping = calloc(1, sizeof(*mapping));
    if (NULL == mapping) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    rc = peer_open(handle, &mapping->peer);
    if (CUDA_SUCCESS != rc) {
        goto free_mapping;
    }
    shared = &mapping->peer->shared->blocks[handle->block];
    atomic_fetch_add(&shared->importers, 1);
    atomic_store(&shared->importer, (uint32_t) getpid());
    if (handle->id != atomic_load(&shared->id)) {
        rc = CUDA_ERROR_INVALID_VALUE; /* freed meanwhile */
        goto drop_peer;
    }
    mapping->block = sim_blocks_take(false, handle->nblocks, 1);
    if (SIM_NO_BLOCK == mapping->block) {
        rc = CUDA_ERROR_MAP_FAILED;
        goto drop_peer;
    }
    if (0 != sim_blocks_show(mapping->block, handle->nblocks, mapping->peer->fd, handle->block, handle->device)) {
        sim_blocks_give(mapping->block, handle->nblocks);
        rc = CUDA_ERROR_MAP_FAILED;
        goto drop_peer;
    }
    mapping->id = handle->id;
    mapping->remote_block = handle->block;
    mapping->nblocks = handle->nblocks;
    mapping->alloc = sim_memory_record(SIM_KIND_IMPORT, ctx, handle->device, sim_block_address(mapping->block),
                                       (size_t) handle->nblocks << SIM_BLOCK_SHIFT);
    mapping->alloc->first_block = mapping->block;
    mapping->alloc->nblocks = mapping->nblocks;
    mapping->alloc->owner = mapping;
    sim_memory_cover(mapping->block, mapping->nblocks, mapping->alloc);
    mapping->next = mappings;
    mappings = mapping;
    *mapping_p = mapping;
    sim_count(ipc_live);
    return CUDA_SUCCESS;

drop_peer:
    atomic_fetch_sub(&shared->importers, 1);
    peer_release(mapping->peer);
free_mapping:
    free(mapping);
    return rc;
}

/* Under the memory lock. */
static void mapping_free(struct mapping *mapping)
{
    struct mapping **link = &mappings;

    while (*link != mapping) {
        link = &(*link)->next;
    }
    *link = mapping->next;
    sim_memory_cover(mapping->block, mapping->nblocks, NULL);
    sim_blocks_hide(mapping->block, mapping->nblocks);
    sim_blocks_give(mapping->block, mapping->nblocks);
    sim_memory_forget(mapping->alloc);
    atomic_fetch_sub(&mapping->peer->shared->blocks[mapping->remote_block].importers, 1);
    peer_release(mapping->peer);
    free(mapping);
    sim_uncount(ipc_live);
}

/* Under the memory lock: the open mapping that a handle refers to, or NULL. */
static struct mapping *mapping_find(const struct handle *handle)
{
    struct mapping *mapping;

    for (mapping = mappings; NULL != mapping; mapping = mapping->next) {
        if (mapping->peer->word == handle->word && mapping->remote_block == handle->block
            && mapping->id == handle->id) {
            return mapping;
        }
    }
    return NULL;
}

CUresult sim_cuIpcOpenMemHandle_v2(CUdeviceptr *pointer_p, CUipcMemHandle opaque, unsigned int flags)
{
    CUcontext ctx = sim_context_current();
    struct mapping *mapping;
    struct handle handle;
    CUresult rc;

    memcpy(&handle, &opaque, sizeof(handle));
    if (NULL == pointer_p || CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS != flags) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    rc = handle_check(&handle, false);
    if (CUDA_SUCCESS != rc) {
        return rc;
    }
    if (handle.device != ctx->physical && !sim_device_peer(ctx->physical, handle.device)) {
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    }
    sim_memory_lock();
    mapping = mapping_find(&handle);
    if (NULL == mapping) {
        rc = mapping_new(&handle, ctx, &mapping);
    } else if (mapping->alloc->ctx != ctx) {
        rc = CUDA_ERROR_ALREADY_MAPPED;
    }
    if (CUDA_SUCCESS == rc) {
        mapping->opens++;
        *pointer_p = (CUdeviceptr) (sim_block_address(mapping->block) + handle.offset);
        sim_count(ipc_opens);
    }
    sim_memory_unlock();
    return rc;
}

CUresult sim_cuIpcCloseMemHandle(CUdeviceptr pointer)
{
    struct sim_alloc *alloc = sim_memory_find((uintptr_t) pointer);
    struct mapping *mapping;

    if (NULL == alloc || SIM_KIND_IMPORT != alloc->kind) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (alloc->ctx != sim_context_current()) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    sim_context_drain(alloc->ctx); /* unmapping waits for all work that may still use it */
    sim_memory_lock();
    mapping = alloc->owner;
    sim_count(ipc_closes);
    if (0 == --mapping->opens) {
        mapping_free(mapping);
    }
    sim_memory_unlock();
    return CUDA_SUCCESS;
}

void sim_ipc_context_clear(CUcontext ctx)
{
    struct mapping *mapping, *next;

    sim_memory_lock();
    for (mapping = mappings; NULL != mapping; mapping = next) {
        next = mapping->next;
        if (mapping->alloc->ctx == ctx) {
            mapping_free(mapping);
        }
    }
    sim_memory_unlock();
}

/* ---- events ---- */

/* Under the engine's lock: a slot of one's own for an event, kept until it is destroyed. */
static CUresult slot_take(CUevent event)
{
    static uint64_t next_id = 1;
    struct sim_shared_event *slots = sim_window.shared->events;
    size_t i;

    for (i = 0; i < SIM_EVENT_SLOTS; i++) {
        if (0 == atomic_load(&slots[i].id)) {
            atomic_store(&slots[i].recorded, 0);
            atomic_store(&slots[i].completed, 0);
            atomic_store(&slots[i].id, next_id++);
            event->slot = &slots[i];
            event->slot_id = atomic_load(&slots[i].id);
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_event_make_interprocess(CUevent event)
{
    CUresult rc;

    sim_engine_lock();
    rc = slot_take(event);
    sim_engine_unlock();
    return rc;
}

CUresult sim_cuIpcGetEventHandle(CUipcEventHandle *handle_p, CUevent event)
{
    struct handle handle = {.magic = HANDLE_MAGIC};
    CUresult rc = sim_event_check(event);

    if (CUDA_SUCCESS != rc) {
        return rc;
    }
    if (NULL == handle_p || NULL == event->slot || event->imported) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    handle.pid = sim_ipc_pid();
    handle.node = sim_driver.topology.node;
    handle.word = sim_window.shared->word;
    handle.id = event->slot_id;
    handle.fd = sim_window.fd;
    handle.device = event->ctx->physical;
    handle.block = (uint32_t) (event->slot - sim_window.shared->events);
    memset(handle_p, 0, sizeof(*handle_p));
    memcpy(handle_p, &handle, sizeof(handle));
    return CUDA_SUCCESS;
}

CUresult sim_cuIpcOpenEventHandle(CUevent *event_p, CUipcEventHandle opaque)
{
    struct handle handle;
    struct peer *peer;
    CUevent event;
    CUresult rc;

    memcpy(&handle, &opaque, sizeof(handle));
    if (NULL == event_p) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    rc = handle_check(&handle, true);
    if (CUDA_SUCCESS != rc) {
        return rc;
    }
    event = sim_event_new(sim_context_current(), CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
    if (NULL == event) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_memory_lock();
    rc = peer_open(&handle, &peer);
    if (CUDA_SUCCESS == rc && handle.id != atomic_load(&peer->shared->events[handle.block].id)) {
        peer_release(peer);
        rc = CUDA_ERROR_INVALID_VALUE; /* destroyed meanwhile */
    }
    sim_memory_unlock();
    if (CUDA_SUCCESS != rc) {
        sim_event_destroy(event);
        return rc;
    }
    event->imported = true;
    event->slot_map = peer;
    event->slot = &peer->shared->events[handle.block];
    event->slot_id = handle.id;
    *event_p = event;
    return CUDA_SUCCESS;
}

void sim_ipc_event_release(void *slot_map)
{
    sim_memory_lock();
    peer_release(slot_map);
    sim_memory_unlock();
}
