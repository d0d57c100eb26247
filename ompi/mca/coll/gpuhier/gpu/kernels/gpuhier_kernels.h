/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The interface of the kernels: their one argument, and the list of them.
 *
 * Every kernel does the same, M sources -> K destinations, element by element:
 *
 *     acc = src[0][i];  acc = op(acc, src[s][i]) for s = 1 .. nsrc-1;  dst[d][i] = acc for each d
 *
 * One kernel serves the fused reduce-scatter + all-gather (nsrc = ndst = ranks), the reduce-scatter alone (ndst = 1),
 * the reduction of an exchange (nsrc = 2), and copies of pairs whose gaps must not be written (nsrc = 1). gpuhier_copy
 * has one source, and its elements are bytes: it is the push of an all-gather.
 *
 * A source may also be a destination (in place), at the same address: one thread reads element i and then writes it.
 * Ranges that overlap in any other way are an error. Any alignment works. A buffer that is not congruent to most others
 * modulo 16 costs more accesses, of that buffer only.
 *
 * This folder, kernels, owns the GPU's code: the list of kernels (this file), the arithmetic (gpuhier_kernel_ops.h),
 * what a thread does (gpuhier_kernel_body.h), the entry points (gpuhier_kernels.cu) and the compiled code as data
 * (gpuhier_fatbin.S). It uses no other code. These kernels wait for nothing; the one-shot kernels (gpuhier_oneshot.h,
 * gpuhier_oneshot_body.h, gpuhier_oneshot_entry.h) wait for those of the peers.
 *
 * Used by: coll_gpuhier_reduce.c (which launches), gpuhier_kernels.cu (the GPU's code), the
 * host twin in test/cudasim/twin, and the engine, which fills the arguments. Plain C and C++.
 */
#ifndef GPUHIER_KERNELS_H
#define GPUHIER_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#define GPUHIER_KERNEL_MAX_PEERS 64
#define GPUHIER_KERNEL_BLOCK 256 /* threads of a block */

/*
 * The argument of every kernel, passed by value; owned by the caller until the launch call returns.
 * The addresses are device addresses of the first element of the range that this launch works on.
 */
typedef struct gpuhier_kernel_args {
    uint64_t src[GPUHIER_KERNEL_MAX_PEERS]; /* in the order of the reduction */
    uint64_t dst[GPUHIER_KERNEL_MAX_PEERS];
    uint64_t count; /* elements; bytes for gpuhier_copy */
    uint32_t nsrc;  /* 1 .. GPUHIER_KERNEL_MAX_PEERS; gpuhier_copy reads src[0] only */
    uint32_t ndst;  /* 1 .. GPUHIER_KERNEL_MAX_PEERS */
} gpuhier_kernel_args_t;

#ifdef __cplusplus
#    define GPUHIER_KERNEL_ASSERT static_assert
#else
#    define GPUHIER_KERNEL_ASSERT _Static_assert
#endif
GPUHIER_KERNEL_ASSERT(1040 == sizeof(gpuhier_kernel_args_t), "host and GPU must agree on the argument");
GPUHIER_KERNEL_ASSERT(512 == offsetof(gpuhier_kernel_args_t, dst), "host and GPU must agree on the argument");
GPUHIER_KERNEL_ASSERT(1024 == offsetof(gpuhier_kernel_args_t, count), "host and GPU must agree on the argument");
GPUHIER_KERNEL_ASSERT(1032 == offsetof(gpuhier_kernel_args_t, nsrc), "host and GPU must agree on the argument");
GPUHIER_KERNEL_ASSERT(1036 == offsetof(gpuhier_kernel_args_t, ndst), "host and GPU must agree on the argument");

/*
 * The kernels: X(op, type) stands for the kernel gpuhier_<op>_<type>. Complex and pair types are structs of two fields;
 * pairs are those of MPI's pair types. Results of signed and unsigned integers have the same bits, except for
 * max and min, so the unsigned kernels serve both. The order gives the index of a kernel, which must be the same on all
 * ranks: only append.
 */
#define GPUHIER_KERNEL_ORDER_OPS(X, type) X(max, type) X(min, type)
#define GPUHIER_KERNEL_INTEGER_OPS(X, type) \
    X(sum, type)                            \
    X(prod, type)                           \
    X(land, type)                           \
    X(lor, type)                            \
    X(lxor, type)                           \
    X(band, type)                           \
    X(bor, type)                            \
    X(bxor, type)                           \
    GPUHIER_KERNEL_ORDER_OPS(X, type)
#define GPUHIER_KERNEL_FLOAT_OPS(X, type) X(sum, type) X(prod, type) X(max, type) X(min, type)
#define GPUHIER_KERNEL_COMPLEX_OPS(X, type) X(sum, type) X(prod, type)
#define GPUHIER_KERNEL_PAIR_OPS(X, type) X(minloc, type) X(maxloc, type)

#define GPUHIER_KERNEL_LIST(X)                    \
    GPUHIER_KERNEL_ORDER_OPS(X, int8)             \
    GPUHIER_KERNEL_ORDER_OPS(X, int16)            \
    GPUHIER_KERNEL_ORDER_OPS(X, int32)            \
    GPUHIER_KERNEL_ORDER_OPS(X, int64)            \
    GPUHIER_KERNEL_INTEGER_OPS(X, uint8)          \
    GPUHIER_KERNEL_INTEGER_OPS(X, uint16)         \
    GPUHIER_KERNEL_INTEGER_OPS(X, uint32)         \
    GPUHIER_KERNEL_INTEGER_OPS(X, uint64)         \
    GPUHIER_KERNEL_FLOAT_OPS(X, float)            \
    GPUHIER_KERNEL_FLOAT_OPS(X, double)           \
    GPUHIER_KERNEL_COMPLEX_OPS(X, float_complex)  \
    GPUHIER_KERNEL_COMPLEX_OPS(X, double_complex) \
    GPUHIER_KERNEL_PAIR_OPS(X, float_int)         \
    GPUHIER_KERNEL_PAIR_OPS(X, double_int)        \
    GPUHIER_KERNEL_PAIR_OPS(X, long_int)          \
    GPUHIER_KERNEL_PAIR_OPS(X, short_int)         \
    GPUHIER_KERNEL_PAIR_OPS(X, 2int)              \
    GPUHIER_KERNEL_PAIR_OPS(X, 2float)            \
    GPUHIER_KERNEL_PAIR_OPS(X, 2double)

#endif /* GPUHIER_KERNELS_H */
