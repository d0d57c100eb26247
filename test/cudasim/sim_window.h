/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The range of device addresses and the memory behind it.
 */
#ifndef SIM_WINDOW_H
#define SIM_WINDOW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim_topology.h"

#define SIM_BLOCK_SHIFT 21 /* 2 MiB, the real driver's granularity */
#define SIM_BLOCK_BYTES ((size_t) 1 << SIM_BLOCK_SHIFT)
#define SIM_MAX_BLOCKS ((size_t) 1 << 21) /* 4 TiB of addresses */
#define SIM_EVENT_SLOTS 4096
#define SIM_NO_BLOCK UINT32_MAX
#define SIM_COPY_ENGINES 8
#define SIM_SHARED_MAGIC 0x6375646173696d32ull

/* What other processes may know of a block of this one. Its owner writes it, and all processes write `importers`. */
struct sim_shared_block {
    _Atomic uint64_t id; /* 0: no allocation that can be opened starts here */
    _Atomic uint32_t importers;
    _Atomic uint32_t importer; /* process of the last one: a dead one holds nothing */
};

/* An interprocess event: the n-th record was submitted, and the n-th is complete. */
struct sim_shared_event {
    _Atomic uint64_t id; /* 0: free */
    _Atomic uint64_t recorded;
    _Atomic uint64_t completed;
    _Atomic uint64_t recorder; /* process of the last record: no process waits for a dead one */
};

_Static_assert(16 == sizeof(struct sim_shared_block), "shared with other processes");
_Static_assert(32 == sizeof(struct sim_shared_event), "shared with other processes");

/* Something that serves one flow of bytes after the other under a model (sim_model_work.c); any process may ask it. */
struct sim_port {
    _Atomic uint64_t free_at; /* monotonic clock, ns */
};

struct sim_gpu_ports {
    struct sim_port link_in, link_out, pcie_in, pcie_out, memory;
    struct sim_port engines[SIM_COPY_ENGINES];
};

/*
 * The head of each process's memory file; the blocks follow at SIM_SHARED_BYTES.
 * Created by its process in sim_window_setup, lives while any process holds the file.
 */
struct sim_shared {
    uint64_t magic;
    uint64_t word; /* random: tells a process from a later one with the same number */
    uint64_t node;
    uint64_t reserved;
    struct sim_gpu_ports ports[SIM_MAX_GPUS + 1]; /* of its GPUs, by physical number; and of all remote ones */
    struct sim_shared_event events[SIM_EVENT_SLOTS];
    struct sim_shared_block blocks[SIM_MAX_BLOCKS / 2];
};

#define SIM_SHARED_BYTES ((sizeof(struct sim_shared) + SIM_BLOCK_BYTES - 1) & ~(SIM_BLOCK_BYTES - 1))

/*
 * Constant after sim_window_setup. Device addresses are [base, base + size);
 * the emulator reaches the same memory at address + alias.
 */
struct sim_window {
    uintptr_t base;
    size_t size;
    ptrdiff_t alias;
    uint32_t nblocks;
    uint32_t own_blocks; /* blocks [0, own_blocks) show the process's file one to one; the rest is for imports and
                            reserved ranges */
    int fd;
    struct sim_shared *shared;
};

extern struct sim_window sim_window;

/* Finds a place for the window and creates the memory file. Returns 0, or -1 after a message. */
int sim_window_setup(uint64_t node);

static inline bool sim_is_device_address(uintptr_t address)
{
    return address - sim_window.base < sim_window.size;
}

static inline void *sim_host_view(uintptr_t address)
{
    return (void *) (sim_is_device_address(address) ? address + (uintptr_t) sim_window.alias : address);
}

static inline uintptr_t sim_block_address(uint32_t block)
{
    return sim_window.base + ((uintptr_t) block << SIM_BLOCK_SHIFT);
}

static inline uint32_t sim_block_of(uintptr_t address)
{
    return (uint32_t) ((address - sim_window.base) >> SIM_BLOCK_SHIFT);
}

/*
 * Takes count adjacent blocks: from the own part, or from the part for imports
 * and reserved ranges; align is in blocks, a power of two. SIM_NO_BLOCK: none left.
 * The caller holds the memory lock for these four.
 */
uint32_t sim_blocks_take(bool own, uint32_t count, uint32_t align);
void sim_blocks_give(uint32_t first, uint32_t count);

/* Shows blocks of a memory file, memory of GPU `gpu` (physical number), at the alias of blocks first.. (0, or -1 when
 * out of memory), and hides them again. */
int sim_blocks_show(uint32_t first, uint32_t count, int fd, uint32_t file_block, int gpu);
void sim_blocks_hide(uint32_t first, uint32_t count);

/* Gives the memory behind own file blocks back to the system; they read as zero from now on. */
void sim_blocks_discard(uint32_t file_block, uint32_t count);

#endif /* SIM_WINDOW_H */
