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
 * This folder, kernels, owns the GPU's code: the list of types and kernels (this file), the arithmetic, which is the
 * host's too (gpuhier_kernel_ops.h), what a thread does (gpuhier_kernel_body.h), the entry points (gpuhier_kernels.cu)
 * and the compiled code as data (gpuhier_fatbin.S). It uses no other code. These kernels wait for nothing; the one-shot
 * kernels (gpuhier_oneshot.h, gpuhier_oneshot_body.h) wait for those of the peers.
 *
 * Used by: coll_gpuhier_reduce.c (which launches), gpuhier_kernels.cu (the GPU's code), the host twin in
 * test/cudasim/twin, coll_gpuhier_host_reduce.c (the lists), and the engine, which fills the arguments. Plain C and
 * C++.
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
 * The types: X(more, kind, type, ...), where `more` is for the caller. The kind says which operations the type has.
 * What follows the name are types of C: of an unsigned integer also the one in which it is added and multiplied, of a
 * complex number that of a part, of a pair (MPI's pair types) those of value and index. Results of signed and unsigned
 * integers have the same bits, except for max and min, so the unsigned kernels serve both. The order gives the index of
 * a kernel, which must be the same on all ranks: only append.
 */
#define GPUHIER_TYPES(X, more)                    \
    X(more, signed, int8, int8_t)                 \
    X(more, signed, int16, int16_t)               \
    X(more, signed, int32, int32_t)               \
    X(more, signed, int64, int64_t)               \
    X(more, unsigned, uint8, uint8_t, uint32_t)   \
    X(more, unsigned, uint16, uint16_t, uint32_t) \
    X(more, unsigned, uint32, uint32_t, uint32_t) \
    X(more, unsigned, uint64, uint64_t, uint64_t) \
    X(more, real, float, float)                   \
    X(more, real, double, double)                 \
    X(more, complex, float_complex, float)        \
    X(more, complex, double_complex, double)      \
    X(more, pair, float_int, float, int32_t)      \
    X(more, pair, double_int, double, int32_t)    \
    X(more, pair, long_int, int64_t, int32_t)     \
    X(more, pair, short_int, int16_t, int32_t)    \
    X(more, pair, 2int, int32_t, int32_t)         \
    X(more, pair, 2float, float, float)           \
    X(more, pair, 2double, double, double)

/* The operations of a kind: X(op, ...). */
#define GPUHIER_OPS_signed(X, ...) X(max, __VA_ARGS__) X(min, __VA_ARGS__)
#define GPUHIER_OPS_unsigned(X, ...) \
    X(sum, __VA_ARGS__)              \
    X(prod, __VA_ARGS__)             \
    X(land, __VA_ARGS__)             \
    X(lor, __VA_ARGS__)              \
    X(lxor, __VA_ARGS__)             \
    X(band, __VA_ARGS__)             \
    X(bor, __VA_ARGS__)              \
    X(bxor, __VA_ARGS__)             \
    X(max, __VA_ARGS__)              \
    X(min, __VA_ARGS__)
#define GPUHIER_OPS_real(X, ...) X(sum, __VA_ARGS__) X(prod, __VA_ARGS__) X(max, __VA_ARGS__) X(min, __VA_ARGS__)
#define GPUHIER_OPS_complex(X, ...) X(sum, __VA_ARGS__) X(prod, __VA_ARGS__)
#define GPUHIER_OPS_pair(X, ...) X(minloc, __VA_ARGS__) X(maxloc, __VA_ARGS__)

/* The kernels: X(op, type) stands for gpuhier_<op>_<type>. */
#define GPUHIER_KERNELS_OF(X, kind, type, ...) GPUHIER_OPS_##kind(X, type)
#define GPUHIER_KERNEL_LIST(X) GPUHIER_TYPES(GPUHIER_KERNELS_OF, X)

#endif /* GPUHIER_KERNELS_H */
