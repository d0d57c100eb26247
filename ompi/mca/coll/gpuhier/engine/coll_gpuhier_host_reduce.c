/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the host's reductions: one function of two operands for each entry of the list of kernels,
 * and the chain over several. The arithmetic is that of kernels/gpuhier_kernel_ops.h,
 * which says why it is as it is: integers wrap around, comparisons with NaN decide as they do
 * there. Built without contraction of a*b+c, for the same bits (Makefile.am).
 *
 * Open MPI's own functions are not used: some of them give other results than MPI says (docs/decisions.md).
 *
 * Called by the small form, by the exchange for short shards, and by calls that continue on the host.
 */
#include "engine/coll_gpuhier_host_reduce.h"

#include <stdint.h>
#include <string.h>

#include "gpu/coll_gpuhier_elements.h"
#include "gpu/kernels/gpuhier_kernels.h"

/* The type in which sums and products are formed: never narrower than int, never a signed integer. */
typedef uint32_t wide_uint8;
typedef uint32_t wide_uint16;
typedef uint32_t wide_uint32;
typedef uint64_t wide_uint64;
typedef float wide_float;
typedef double wide_double;

/* What kind of element a type is: it decides which of the bodies below an operation has. */
#define KIND_int8 scalar
#define KIND_int16 scalar
#define KIND_int32 scalar
#define KIND_int64 scalar
#define KIND_uint8 scalar
#define KIND_uint16 scalar
#define KIND_uint32 scalar
#define KIND_uint64 scalar
#define KIND_float scalar
#define KIND_double scalar
#define KIND_float_complex complex
#define KIND_double_complex complex
#define KIND_float_int pair
#define KIND_double_int pair
#define KIND_long_int pair
#define KIND_short_int pair
#define KIND_2int pair
#define KIND_2float pair
#define KIND_2double pair

/* *to = acc op x, operands by value. */
#define BODY_scalar_sum(type) *to = (elem_##type)((wide_##type) acc + (wide_##type) x)
#define BODY_scalar_prod(type) *to = (elem_##type)((wide_##type) acc * (wide_##type) x)
#define BODY_scalar_max(type) *to = x > acc ? x : acc
#define BODY_scalar_min(type) *to = x < acc ? x : acc
#define BODY_scalar_land(type) *to = (elem_##type)((0 != acc) & (0 != x))
#define BODY_scalar_lor(type) *to = (elem_##type)((0 != acc) | (0 != x))
#define BODY_scalar_lxor(type) *to = (elem_##type)((0 != acc) ^ (0 != x))
#define BODY_scalar_band(type) *to = (elem_##type)(acc & x)
#define BODY_scalar_bor(type) *to = (elem_##type)(acc | x)
#define BODY_scalar_bxor(type) *to = (elem_##type)(acc ^ x)
#define BODY_complex_sum(type) \
    to->a = acc.a + x.a;       \
    to->b = acc.b + x.b
#define BODY_complex_prod(type)        \
    to->a = acc.a * x.a - acc.b * x.b; \
    to->b = acc.a * x.b + acc.b * x.a
/* Equal values keep the lowest index. */
#define BODY_pair_best(takes)                         \
    const int take = acc.a takes x.a;                 \
    const int lower = acc.a == x.a && !(x.b < acc.b); \
    to->a = take ? acc.a : x.a;                       \
    to->b = take || lower ? acc.b : x.b
#define BODY_pair_minloc(type) BODY_pair_best(<)
#define BODY_pair_maxloc(type) BODY_pair_best(>)

#define BODY(op, type) BODY_OF(KIND_##type, op, type)
#define BODY_OF(kind, op, type) BODY_PASTED(kind, op, type)
#define BODY_PASTED(kind, op, type) BODY_##kind##_##op(type)

/* Elements are independent of each other: `to` may be one of the operands, and overlaps nothing else. */
#if defined(__clang__)
#    define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#    define INDEPENDENT _Pragma("GCC ivdep")
#endif

/* Elements per block. It is a constant: at -O2 gcc vectorises a loop only where no elements are left over. */
#define BLOCK ((size_t) 16)

#define FUNCTION(op, type)                                                                            \
    static inline __attribute__((always_inline)) void op##_block_##type(                              \
        elem_##type *to_first, const elem_##type *acc_first, const elem_##type *x_first, size_t n)    \
    {                                                                                                 \
        INDEPENDENT                                                                                   \
        for (size_t i = 0; i < n; ++i) {                                                              \
            const elem_##type acc = acc_first[i], x = x_first[i];                                     \
            elem_##type *to = to_first + i;                                                           \
            BODY(op, type);                                                                           \
        }                                                                                             \
    }                                                                                                 \
    static void op##_##type(void *to_first, const void *acc_first, const void *x_first, size_t count) \
    {                                                                                                 \
        elem_##type *to = to_first;                                                                   \
        const elem_##type *acc = acc_first, *x = x_first;                                             \
        for (; count >= BLOCK; count -= BLOCK, to += BLOCK, acc += BLOCK, x += BLOCK) {               \
            op##_block_##type(to, acc, x, BLOCK);                                                     \
        }                                                                                             \
        op##_block_##type(to, acc, x, count);                                                         \
    }
GPUHIER_KERNEL_LIST(FUNCTION)

/* The fields of a pair. Where the second field has no bytes, the first one is the whole element. */
typedef struct host_kernel {
    void (*reduce)(void *to, const void *acc, const void *x, size_t count);
    size_t elem_bytes, first_bytes, second_at, second_bytes;
} host_kernel_t;

/* In the order of the list, which gives a kernel's index. */
#define FIELDS_scalar(type) sizeof(elem_##type), 0, 0
#define FIELDS_complex(type) sizeof(elem_##type), 0, 0
#define FIELDS_pair(type) sizeof(((elem_##type *) 0)->a), offsetof(elem_##type, b), sizeof(((elem_##type *) 0)->b)
#define FIELDS(type) FIELDS_OF(KIND_##type, type)
#define FIELDS_OF(kind, type) FIELDS_PASTED(kind, type)
#define FIELDS_PASTED(kind, type) FIELDS_##kind(type)
#define ENTRY(op, type) {op##_##type, sizeof(elem_##type), FIELDS(type)},
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
