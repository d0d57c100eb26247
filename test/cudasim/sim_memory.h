/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Allocations: what lies at an address.
 */
#ifndef SIM_MEMORY_H
#define SIM_MEMORY_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim_counters.h"
#include "sim_window.h"

enum sim_kind {
    SIM_KIND_DEVICE,     /* cuMemAlloc: can be exported by IPC */
    SIM_KIND_POOL,       /* cuMemAllocAsync */
    SIM_KIND_IMPORT,     /* another process's block, opened by IPC */
    SIM_KIND_RESERVED,   /* cuMemAddressReserve: an address range without memory */
    SIM_KIND_MAPPED,     /* cuMemMap */
    SIM_KIND_MULTICAST,  /* cuMemMap of a multicast object */
    SIM_KIND_HOST,       /* cuMemAllocHost, cuMemHostAlloc */
    SIM_KIND_REGISTERED, /* cuMemHostRegister */
    SIM_KIND_MANAGED     /* cuMemAllocManaged */
};

struct sim_slab;

/*
 * One allocation. Made and freed under the memory lock; found without it. The
 * struct goes back to a free list, never to malloc, so a racing reader sees a
 * stale record at worst, as it would on the device.
 */
struct sim_alloc {
    enum sim_kind kind;
    _Atomic bool sync_memops;
    int device;  /* physical number of the GPU whose memory it is */
    bool remote; /* on another node of an NVLink domain, where that is its number */
    uintptr_t base;
    size_t size; /* bytes, as asked for */
    uint32_t first_block;
    uint32_t nblocks; /* 0: not in the window, or part of a slab */
    struct sim_slab *slab;
    CUcontext ctx; /* NULL for pool, reserved and mapped memory */
    uint64_t buffer_id;
    uint64_t block_id;     /* SIM_KIND_MAPPED: of the memory behind it, wherever it is mapped; else 0 */
    unsigned handle_types; /* CU_MEM_HANDLE_TYPE_*: how it may be exported; legacy IPC is not among them */
    unsigned flags;        /* as given to the call that made it */
    int access;  /* SIM_KIND_MAPPED, SIM_KIND_MULTICAST: bit per physical GPU that may access it (SetAccess) */
    void *owner; /* SIM_KIND_POOL: its pool; SIM_KIND_MAPPED: its physical handle; SIM_KIND_IMPORT: its mapping;
                    SIM_KIND_MULTICAST: its object */
    struct sim_alloc *reservation; /* SIM_KIND_MAPPED, SIM_KIND_MULTICAST: the reserved range it lies in */
    struct sim_alloc *next;        /* in its context's list, or the free list */
    struct sim_alloc *previous;
};

/* Where its bytes count in the matrix of links. */
static inline int sim_memory_place(const struct sim_alloc *alloc)
{
    return alloc->kind >= SIM_KIND_HOST ? SIM_HOST : alloc->remote ? SIM_FABRIC : alloc->device;
}

void sim_memory_lock(void);
void sim_memory_unlock(void);

/* What lies at the address, or NULL. Needs no lock; a few loads for device memory, a binary search for host memory. */
struct sim_alloc *sim_memory_find(uintptr_t address);

/*
 * Device memory of the context's GPU. Small requests share a 2 MiB block, as on the
 * real driver. CUDA_ERROR_OUT_OF_MEMORY when the GPU's size is reached.
 */
CUresult sim_memory_device_alloc(CUcontext ctx, int physical, size_t size, enum sim_kind kind,
                                 struct sim_alloc **alloc_p);

/* Host memory that the registry is to know, allocated by the caller. CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED on
 * overlap. */
CUresult sim_memory_host_add(CUcontext ctx, enum sim_kind kind, void *base, size_t size, unsigned flags,
                             struct sim_alloc **alloc_p);

/* Takes an allocation out of the registry and releases the device memory; host memory is the caller's. */
void sim_memory_remove(struct sim_alloc *alloc);

/* Frees whatever the context still owns. */
void sim_memory_context_clear(CUcontext ctx);

/*
 * Under the memory lock: a record for a range of window blocks (imports, reservations,
 * mappings) that the caller took, and the way back. Covers the addresses with it.
 */
struct sim_alloc *sim_memory_record(enum sim_kind kind, CUcontext ctx, int device, uintptr_t base, size_t size);
void sim_memory_cover(uint32_t first, uint32_t count, struct sim_alloc *alloc);
void sim_memory_forget(struct sim_alloc *alloc);

/* Under the memory lock: own file blocks with memory of a GPU behind them, counted against its size. */
CUresult sim_memory_blocks_alloc(int physical, uint32_t count, uint32_t *first_p);
void sim_memory_blocks_free(int physical, uint32_t first, uint32_t count);

/* The blocks (first, number) that an IPC handle of this allocation covers. */
void sim_memory_export_blocks(const struct sim_alloc *alloc, uint32_t *first_p, uint32_t *count_p);

/* A number that this process gives to one allocation only. */
uint64_t sim_memory_id(void);

/* Under the memory lock: the GPU (physical number) of whose memory the whole range is, within one allocation of
 * cuMemAlloc or one block that small ones share; -1: there is none. */
int sim_memory_device_of(uintptr_t address, size_t bytes);

size_t sim_memory_used(int physical);

#endif /* SIM_MEMORY_H */
