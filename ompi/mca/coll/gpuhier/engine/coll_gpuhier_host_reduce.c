/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the host's reductions: one function of two operands for each entry of the list of kernels,
 * and the chain over several. The arithmetic is the kernels' own source. Built without contraction of a*b+c, for the
 * same bits (Makefile.am).
 *
 * Open MPI's own functions are not used: some of them give other results than MPI says (docs/decisions.md).
 *
 * Called by the small form, by the exchange for short shards, and by calls that continue on the host.
 */
#include "engine/coll_gpuhier_host_reduce.h"

#include <string.h>

#include "gpu/kernels/gpuhier_kernel_ops.h"

#ifdef __clang__
#    pragma clang diagnostic ignored "-Wpass-failed" /* it has no vector form of a few of these loops */
#endif

/* Elements are independent of each other: `to` may be one of the operands, and overlaps nothing else. */
#if defined(__clang__)
#    define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#    define INDEPENDENT _Pragma("GCC ivdep")
#endif

/* Elements per block. It is a constant: at -O2 gcc vectorises a loop only where no elements are left over. */
#define BLOCK ((size_t) 16)

/* Gaps belong to the program. */
#define HAS_GAPS(type) (sizeof(elem_##type) != (size_t) elem_first_##type + elem_second_##type)

#define FUNCTION(op, type)                                                                                \
    static inline __attribute__((always_inline)) void op##_block_##type(                                  \
        elem_##type *to_first, const elem_##type *acc_first, const elem_##type *x_first, size_t n)        \
    {                                                                                                     \
        INDEPENDENT                                                                                       \
        for (size_t i = 0; i < n; ++i) {                                                                  \
            const elem_##type result = elem_##op##_##type(acc_first[i], x_first[i]);                      \
            if (HAS_GAPS(type)) {                                                                         \
                char *to = (char *) (to_first + i);                                                       \
                memcpy(to, &result, elem_first_##type);                                                   \
                memcpy(to + elem_at_##type, (const char *) &result + elem_at_##type, elem_second_##type); \
            } else {                                                                                      \
                to_first[i] = result;                                                                     \
            }                                                                                             \
        }                                                                                                 \
    }                                                                                                     \
    static void op##_##type(void *to_first, const void *acc_first, const void *x_first, size_t count)     \
    {                                                                                                     \
        elem_##type *to = to_first;                                                                       \
        const elem_##type *acc = acc_first, *x = x_first;                                                 \
        for (; count >= BLOCK; count -= BLOCK, to += BLOCK, acc += BLOCK, x += BLOCK) {                   \
            op##_block_##type(to, acc, x, BLOCK);                                                         \
        }                                                                                                 \
        op##_block_##type(to, acc, x, count);                                                             \
    }
GPUHIER_KERNEL_LIST(FUNCTION)

typedef struct host_kernel {
    void (*reduce)(void *to, const void *acc, const void *x, size_t count);
    size_t elem_bytes, first_bytes, second_at, second_bytes;
} host_kernel_t;

/* In the order of the list, which gives a kernel's index. */
#define ENTRY(op, type) {op##_##type, sizeof(elem_##type), elem_first_##type, elem_at_##type, elem_second_##type},
static const host_kernel_t host_kernels[] = {GPUHIER_KERNEL_LIST(ENTRY)};

static void copy_fields(const host_kernel_t *kernel, char *to, const char *from, size_t count)
{
    if (kernel->elem_bytes == kernel->first_bytes + kernel->second_bytes) {
        memcpy(to, from, count * kernel->elem_bytes);
        return;
    }
    for (size_t i = 0; i < count; ++i, to += kernel->elem_bytes, from += kernel->elem_bytes) {
        memcpy(to, from, kernel->first_bytes);
        memcpy(to + kernel->second_at, from + kernel->second_at, kernel->second_bytes);
    }
}

void gpuhier_host_reduce(int index, void *to, const void *const from[], int nsources, size_t count)
{
    const host_kernel_t *kernel = &host_kernels[index];
    if (nsources < 2 && to != from[0]) {
        copy_fields(kernel, to, from[0], count);
    }
    for (int i = 1; i < nsources; ++i) {
        kernel->reduce(to, 1 == i ? from[0] : to, from[i], count);
    }
}
