/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The contract between the emulated GPU and a kernel's host twin.
 *
 * A fatbin cannot run here, so a module's kernels are looked up by name in
 * "twin" libraries: the same kernel source, built by g++ (CUDASIM_TWINS, a list
 * of paths separated by ':'). Each twin library exports one table named
 * cudasim_twins. cuModuleGetFunction answers CUDA_ERROR_NOT_FOUND for a kernel
 * that no twin library offers.
 *
 * Lifetime: a table and all it points to is constant while the library is
 * loaded; the emulator never unloads one.
 */
#ifndef CUDASIM_TWIN_H
#define CUDASIM_TWIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CUDASIM_TWIN_ABI 5
#define CUDASIM_MULTICAST_MAX 32 /* GPUs of a multicast team */

/*
 * How a kernel keeps memory busy; only the modelled time (docs/model.md) depends on it. A twin gives it before it
 * reports traffic. Without it, sources are read all at once and a thread has 64 bytes in flight.
 */
typedef struct cudasim_shape {
    uint32_t thread_bytes; /* bytes that one thread has in flight at a time */
    uint32_t at_once;      /* sources that a thread reads before it waits for their data; 0: all */
} cudasim_shape_t;

/* One launch as its twin sees it. Owned by the emulator; valid during run(). */
typedef struct cudasim_launch {
    uint32_t grid[3];
    uint32_t block[3];
    size_t shared_bytes;
    /* A device address a in [window_base, window_base + window_size) is reached by host code at a + alias_offset. */
    uintptr_t window_base;
    size_t window_size;
    ptrdiff_t alias_offset;
    int device; /* physical index of the GPU that executes the launch */
    /*
     * 0: the grid is folded into one logical thread (fast); the twin reports the
     *    ranges that it moved, once a range.
     * 1: every logical thread runs by itself (slow, finds geometry and index errors);
     *    the twin reports every single access.
     * Both must report the same sums; a test compares them.
     */
    int exact;
    int timed; /* under a model: the order and the lengths of pushes and traffic are what the kernel's are */
    /* Says that the kernel moved bytes at device_ptr (an untranslated address, device or host). */
    void (*traffic)(const struct cudasim_launch *launch, uintptr_t device_ptr, size_t bytes, int is_write);
    /* Behind cudasim_push, cudasim_wait, cudasim_await, cudasim_shape and cudasim_clock, which twins call. NULL: a test
     * runs the twin by itself. */
    void (*push)(const struct cudasim_launch *launch, uintptr_t to, const void *from, size_t bytes);
    void (*wait)(const struct cudasim_launch *launch);
    void (*await)(const struct cudasim_launch *launch, uintptr_t address, uint32_t seen);
    void (*shape)(const struct cudasim_launch *launch, const cudasim_shape_t *shape);
    uint64_t (*clock)(void); /* the GPU's global timer, ns: modelled time under a model */
    /* Behind cudasim_multicast and cudasim_multimem. */
    int (*multicast)(const struct cudasim_launch *launch, uintptr_t address, size_t bytes, void **copies, int max);
    void (*multimem)(const struct cudasim_launch *launch, uintptr_t address, size_t bytes, int is_write);
} cudasim_launch_t;

typedef struct cudasim_kernel {
    const char *name; /* as given to cuModuleGetFunction */
    uint32_t nparams;
    const uint32_t *param_bytes; /* size in bytes of each parameter; copied by the emulator at launch */
    void (*run)(const cudasim_launch_t *launch, void **params);
    /*
     * 1: the kernel may wait for something that other work, a host or another process does (cudasim_wait). Then the
     * launch returns before the kernel ends, whatever CUDASIM_ASYNC says.
     */
    uint32_t waits;
} cudasim_kernel_t;

typedef struct cudasim_twin_table {
    uint32_t abi; /* CUDASIM_TWIN_ABI */
    uint32_t nkernels;
    const cudasim_kernel_t *kernels;
} cudasim_twin_table_t;

extern const cudasim_twin_table_t cudasim_twins;

/* The host's view of a device address; an address outside the window (pinned host memory) is its own. */
static inline void *cudasim_host_view(const cudasim_launch_t *launch, uintptr_t address)
{
    if (address - launch->window_base < launch->window_size) {
        address += (uintptr_t) launch->alias_offset;
    }
    return (void *) address;
}

/*
 * Kernels that talk to kernels or hosts while they run. Such a twin
 *
 *     cudasim_push(launch, peer_scratch, line, sizeof(line));     data and flags, to each peer
 *     while (!arrived(my_scratch) && !aborted(word)) {
 *         cudasim_wait(launch);
 *     }
 *     ...                                                         reduces, writes the result, reports traffic
 *     cudasim_push(launch, host_word, &done, sizeof(done));       tells the host
 *
 * reads flags by atomic loads (__atomic_load_n, acquire), and sets .waits in its table. A twin runs as one logical
 * thread: it pushes everything before it waits, and never waits for itself. Every wait loop ends on an abort word.
 */

/*
 * Writes bytes from host memory to a device or mapped host address that peers watch, and reports the traffic.
 * from may be reused at once. Pushes of one launch to the memory of one GPU (or the host) arrive in their order.
 * Within a push the aligned 8-byte words of the destination arrive whole and in ascending order, each with
 * release semantics, so a flag in the last word, and a flag in each word, are both right. A line of 16 bytes may
 * be seen half. Under a model the words arrive when the links have carried them; else at once.
 */
static inline void cudasim_push(const cudasim_launch_t *launch, uintptr_t to, const void *from, size_t bytes)
{
    const unsigned char *byte = (const unsigned char *) from;
    size_t i = 0;

    if (NULL != launch->push) {
        launch->push(launch, to, from, bytes);
        return;
    }
    while (i < bytes) {
        unsigned char *at = (unsigned char *) cudasim_host_view(launch, to + i);
        uint64_t word;
        if (0 == (uintptr_t) at % sizeof(word) && bytes - i >= sizeof(word)) {
            __builtin_memcpy(&word, byte + i, sizeof(word));
            __atomic_store_n((uint64_t *) (void *) at, word, __ATOMIC_RELEASE);
            i += sizeof(word);
        } else {
            __atomic_store_n(at, byte[i], __ATOMIC_RELEASE);
            i++;
        }
    }
    launch->traffic(launch, to, bytes, 1);
}

/*
 * One turn of a loop that waits for flags: gives the processor away for a moment. Under a model it also lets
 * the time pass that the traffic reported so far takes, and delivers this launch's own pushes when they are due.
 */
static inline void cudasim_wait(const cudasim_launch_t *launch)
{
    if (NULL != launch->wait) {
        launch->wait(launch);
    }
}

/*
 * The same for a kernel that waits for the push of a peer's kernel into memory of a GPU: sleeps until that push, for a
 * moment at most. A push begins with the 64-bit word at `address`, whose upper half, where flags are, was `seen`. What
 * is in its lower half is lost.
 */
static inline void cudasim_await(const cudasim_launch_t *launch, uintptr_t address, uint32_t seen)
{
    if (NULL != launch->await) {
        launch->await(launch, address, seen);
    }
}

/*
 * Multicast addresses (cuMulticastCreate), which multimem instructions access and nothing else may: a twin's
 * plain access to the host's view of one faults, and traffic() there is an illegal access. The twin of a kernel that
 * reduces and stores through the switch
 *
 *     n = cudasim_multicast(launch, sums, bytes, copies, CUDASIM_MULTICAST_MAX);
 *     ...                                                     reads copies[0 .. n - 1], adds them in that order
 *     cudasim_multimem(launch, sums, bytes, 0);               multimem.ld_reduce
 *     ...                                                     writes the sum to each copy
 *     cudasim_multimem(launch, sums, bytes, 1);               multimem.st; multimem.red as well
 *
 * A push to a multicast address is a multimem.st that all members see when it arrives.
 */

/*
 * Where the bytes behind a multicast address are on each GPU of its team, as the host reads and writes them. Returns
 * the number of GPUs, at most max. The order differs between launches, as NVSwitches add in an order of their own.
 * Returns 0 when the address is none, when this GPU has no access, or when a GPU of the team has bound no memory to all
 * of the range: the launch has then failed with an illegal address, and the twin returns without touching anything.
 */
static inline int cudasim_multicast(const cudasim_launch_t *launch, uintptr_t address, size_t bytes, void **copies,
                                    int max)
{
    return NULL != launch->multicast ? launch->multicast(launch, address, bytes, copies, max) : 0;
}

/* Says that multimem instructions moved bytes at a multicast address: a load reads so many bytes of each GPU's memory
 * and brings this GPU so many, a store leaves this GPU once and writes so many bytes of each. */
static inline void cudasim_multimem(const cudasim_launch_t *launch, uintptr_t address, size_t bytes, int is_write)
{
    if (NULL != launch->multimem) {
        launch->multimem(launch, address, bytes, is_write);
    }
}

/* The GPU's global timer. */
static inline uint64_t cudasim_clock(const cudasim_launch_t *launch)
{
    return NULL != launch->clock ? launch->clock() : 0;
}

static inline void cudasim_shape(const cudasim_launch_t *launch, uint32_t thread_bytes, uint32_t at_once)
{
    const cudasim_shape_t shape = {thread_bytes, at_once};

    if (NULL != launch->shape) {
        launch->shape(launch, &shape);
    }
}

#ifdef __cplusplus
}
#endif

#endif /* CUDASIM_TWIN_H */
