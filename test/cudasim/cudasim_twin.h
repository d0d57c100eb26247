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

#define CUDASIM_TWIN_ABI 1

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
    /* Says that the kernel moved bytes at device_ptr (an untranslated address, device or host). */
    void (*traffic)(const struct cudasim_launch *launch, uintptr_t device_ptr, size_t bytes, int is_write);
} cudasim_launch_t;

typedef struct cudasim_kernel {
    const char *name; /* as given to cuModuleGetFunction */
    uint32_t nparams;
    const uint32_t *param_bytes; /* size in bytes of each parameter; copied by the emulator at launch */
    void (*run)(const cudasim_launch_t *launch, void **params);
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

#ifdef __cplusplus
}
#endif

#endif /* CUDASIM_TWIN_H */
