/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The window of device addresses.
 *
 * Owns the address range, the process's memory file and the map of free blocks;
 * knows nothing of allocations (sim_memory.c). The range that programs see as
 * device addresses is never accessible, so that host code that touches device
 * memory faults and system calls get EFAULT. The memory is shown a second time,
 * at a constant distance (the alias), to the emulator and the kernel twins only.
 * Sanitizers forbid parts of the address space, so the place is tried at run time.
 * Used by sim_memory.c, sim_ipc.c and the drv_vmm*.c files.
 */
#include "sim_window.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "sim_damage.h"

#ifndef MAP_FIXED_NOREPLACE
#    define MAP_FIXED_NOREPLACE 0x100000
#endif

struct sim_window sim_window = {.fd = -1};

/*
 * Places to try, window and alias side by side. The first suits plain processes and
 * AddressSanitizer (its high memory starts at 16 TiB); the second ThreadSanitizer,
 * which lets programs map little besides 0x7e8000000000 and up; the last takes what
 * the kernel offers.
 */
static const struct place {
    uintptr_t base;
    size_t bytes; /* of window and alias together */
} places[] = {
    {0x200000000000, (size_t) 8 << 40},
    {0x300000000000, (size_t) 8 << 40},
    {0x600000000000, (size_t) 1 << 40},
    {0x7e8000000000, (size_t) 256 << 30},
    {0, (size_t) 128 << 30},
    {0, (size_t) 16 << 30},
};

/* Free ranges of blocks, sorted by first block. */
struct extent {
    uint32_t first;
    uint32_t count;
};

static struct extent *extents;
static size_t nextents, extents_room;

static void *reserve(uintptr_t where, size_t bytes)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (0 != where ? MAP_FIXED_NOREPLACE : 0);
    void *got = mmap((void *) where, bytes, PROT_NONE, flags, -1, 0);

    if (MAP_FAILED != got && 0 != where && (uintptr_t) got != where) {
        munmap(got, bytes); /* an old kernel or a sanitizer took the address for a hint */
        return MAP_FAILED;
    }
    return got;
}

static int window_place(void)
{
    uintptr_t start, aligned;
    size_t i;
    void *got;

    for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        got = reserve(places[i].base, places[i].bytes);
        if (MAP_FAILED == got) {
            continue;
        }
        madvise(got, places[i].bytes, MADV_DONTDUMP);
        start = (uintptr_t) got;
        aligned = (start + SIM_BLOCK_BYTES - 1) & ~(uintptr_t) (SIM_BLOCK_BYTES - 1);
        sim_window.size = ((places[i].bytes / 2) - SIM_BLOCK_BYTES) & ~(SIM_BLOCK_BYTES - 1);
        if (aligned == start) {
            sim_window.size = places[i].bytes / 2;
        }
        sim_window.alias = (ptrdiff_t) sim_window.size;
        sim_window.nblocks = (uint32_t) (sim_window.size >> SIM_BLOCK_SHIFT);
        sim_window.own_blocks = sim_window.nblocks / 2;
        sim_window.base = aligned; /* last: from here on addresses count as device addresses */
        return 0;
    }
    fprintf(stderr,
            "cudasim: no address range of at least 16 GiB for the emulated device memory: %s. "
            "A limit on address space (ulimit -v) must be lifted.\n",
            strerror(errno));
    return -1;
}

static uint64_t random_word(void)
{
    struct timespec now;
    uint64_t word = 0;

    if ((ssize_t) sizeof(word) != getrandom(&word, sizeof(word), GRND_NONBLOCK)) {
        clock_gettime(CLOCK_REALTIME, &now);
        word = ((uint64_t) getpid() << 32) ^ (uint64_t) now.tv_nsec ^ ((uint64_t) now.tv_sec << 20);
    }
    return 0 == word ? 1 : word;
}

int sim_window_setup(uint64_t node)
{
    size_t bytes;
    void *head;

    if (0 != window_place()) {
        return -1;
    }
    sim_window.fd = memfd_create("cudasim", MFD_CLOEXEC);
    bytes = SIM_SHARED_BYTES + ((size_t) sim_window.own_blocks << SIM_BLOCK_SHIFT);
    if (sim_window.fd < 0 || 0 != ftruncate(sim_window.fd, (off_t) bytes)) {
        fprintf(stderr, "cudasim: cannot create the memory file of the emulated GPUs: %s\n", strerror(errno));
        return -1;
    }
    head = mmap(NULL, SIM_SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, sim_window.fd, 0);
    if (MAP_FAILED == head) {
        fprintf(stderr, "cudasim: cannot map the memory file of the emulated GPUs: %s\n", strerror(errno));
        return -1;
    }
    madvise(head, SIM_SHARED_BYTES, MADV_DONTDUMP);
    sim_window.shared = head;
    sim_window.shared->word = random_word();
    sim_window.shared->node = node;
    sim_window.shared->magic = SIM_SHARED_MAGIC;
    sim_blocks_give(0, sim_window.own_blocks);
    sim_blocks_give(sim_window.own_blocks, sim_window.nblocks - sim_window.own_blocks);
    return 0;
}

static void extent_insert(size_t at, struct extent extent)
{
    if (nextents == extents_room) {
        extents_room = 0 == extents_room ? 64 : 2 * extents_room;
        extents = realloc(extents, extents_room * sizeof(*extents));
        if (NULL == extents) {
            fprintf(stderr, "cudasim: out of host memory\n");
            abort();
        }
    }
    memmove(&extents[at + 1], &extents[at], (nextents - at) * sizeof(*extents));
    extents[at] = extent;
    nextents++;
}

static void extent_remove(size_t at)
{
    nextents--;
    memmove(&extents[at], &extents[at + 1], (nextents - at) * sizeof(*extents));
}

uint32_t sim_blocks_take(bool own, uint32_t count, uint32_t align)
{
    uint32_t first, end;
    size_t i;

    for (i = 0; i < nextents; i++) {
        if (own != (extents[i].first < sim_window.own_blocks)) {
            continue;
        }
        first = (extents[i].first + align - 1) & ~(align - 1);
        end = extents[i].first + extents[i].count;
        if (first < extents[i].first || first >= end || end - first < count) {
            continue;
        }
        if (end - first > count) {
            extent_insert(i + 1, (struct extent){first + count, end - first - count});
        }
        extents[i].count = first - extents[i].first;
        if (0 == extents[i].count) {
            extent_remove(i);
        }
        return first;
    }
    return SIM_NO_BLOCK;
}

void sim_blocks_give(uint32_t first, uint32_t count)
{
    size_t low = 0, high = nextents, middle;
    bool joined = false;

    while (low < high) {
        middle = (low + high) / 2;
        if (extents[middle].first < first) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    /* The border between the two parts stays one, whatever is free beside it. */
    if (low > 0 && extents[low - 1].first + extents[low - 1].count == first && first != sim_window.own_blocks) {
        extents[low - 1].count += count;
        joined = true;
    }
    if (low < nextents && first + count == extents[low].first && extents[low].first != sim_window.own_blocks) {
        if (joined) {
            extents[low - 1].count += extents[low].count;
            extent_remove(low);
        } else {
            extents[low].first = first;
            extents[low].count += count;
            joined = true;
        }
    }
    if (!joined) {
        extent_insert(low, (struct extent){first, count});
    }
}

int sim_blocks_show(uint32_t first, uint32_t count, int fd, uint32_t file_block, int gpu)
{
    void *where = (void *) (sim_block_address(first) + (uintptr_t) sim_window.alias);
    off_t offset = (off_t) (SIM_SHARED_BYTES + ((size_t) file_block << SIM_BLOCK_SHIFT));
    size_t bytes = (size_t) count << SIM_BLOCK_SHIFT;

    if (MAP_FAILED == mmap(where, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd, offset)) {
        return -1;
    }
    madvise(where, bytes, MADV_DONTDUMP);
    return sim_damage_show(sim_block_address(first), bytes, fd, offset, gpu);
}

void sim_blocks_hide(uint32_t first, uint32_t count)
{
    void *where = (void *) (sim_block_address(first) + (uintptr_t) sim_window.alias);
    size_t bytes = (size_t) count << SIM_BLOCK_SHIFT;

    if (MAP_FAILED == mmap(where, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0)) {
        fprintf(stderr, "cudasim: cannot unmap device memory: %s\n", strerror(errno));
        abort();
    }
    madvise(where, bytes, MADV_DONTDUMP);
    sim_damage_hide(sim_block_address(first), bytes);
}

void sim_blocks_discard(uint32_t file_block, uint32_t count)
{
    off_t offset = (off_t) (SIM_SHARED_BYTES + ((size_t) file_block << SIM_BLOCK_SHIFT));

    fallocate(sim_window.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset,
              (off_t) ((size_t) count << SIM_BLOCK_SHIFT));
}
