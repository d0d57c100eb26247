/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The interface of the kernels that let an NVSwitch reduce: gpuhier_multicast_<name> for each entry of
 * GPUHIER_MULTICAST_LIST, and gpuhier_multicast_store.
 *
 * A multicast address stands for the same place in the memory of several GPUs, the copies. A load there returns the
 * copies' values, reduced by the switch in an order of its own; a store there goes to all copies. A kernel does so for
 * its range: what it stores, into all copies or into memory of this GPU, is the reduction of what the copies held.
 * gpuhier_multicast_store has an ordinary source, and stores it into all copies.
 *
 * Ranges are whole units of 16 bytes and begin on one. No other kernel works on a range meanwhile. Kernels wait for
 * nothing. They exist for compute capability 9.0 and later, in a module of their own.
 *
 * Used by: coll_gpuhier_reduce.c (which launches), gpuhier_multicast.cu (the GPU's code), and the host twin
 * in test/cudasim/twin. Plain C and C++.
 */
#ifndef GPUHIER_MULTICAST_H
#define GPUHIER_MULTICAST_H

#include "gpuhier_kernels.h"

#define GPUHIER_MULTICAST_UNIT 16 /* bytes */

/* The argument of these kernels, passed by value. */
typedef struct gpuhier_multicast_args {
    uint64_t from;   /* multicast address; of gpuhier_multicast_store: ordinary memory of this GPU or the host */
    uint64_t to;     /* multicast address, or ordinary memory of this GPU or the host */
    uint64_t bytes;  /* a multiple of GPUHIER_MULTICAST_UNIT */
    uint32_t to_all; /* 1: `to` is a multicast address, as it always is for gpuhier_multicast_store */
    uint32_t unused;
} gpuhier_multicast_args_t;

GPUHIER_KERNEL_ASSERT(32 == sizeof(gpuhier_multicast_args_t), "host and GPU must agree on the argument");

/*
 * X(name, type, op): gpuhier_multicast_<name> gives the bits of op over elements of the type, both as in
 * GPUHIER_KERNEL_LIST. The order of operands does not change the bits for integers. It does for the last two entries.
 * Bitwise operations are the same for all lengths of elements. What the switch cannot do is not here: products, logical
 * operations, narrow integers, extremes of float and double, complex numbers and pairs.
 */
#define GPUHIER_MULTICAST_LIST(X) \
    X(add_u32, uint32, sum)       \
    X(add_u64, uint64, sum)       \
    X(max_s32, int32, max)        \
    X(max_u32, uint32, max)       \
    X(max_s64, int64, max)        \
    X(max_u64, uint64, max)       \
    X(min_s32, int32, min)        \
    X(min_u32, uint32, min)       \
    X(min_s64, int64, min)        \
    X(min_u64, uint64, min)       \
    X(and_b64, uint64, band)      \
    X(or_b64, uint64, bor)        \
    X(xor_b64, uint64, bxor)      \
    X(add_f32, float, sum)        \
    X(add_f64, double, sum)

/* X(name, type, op): what those of 64 bits serve besides, elements of fewer bits. */
#define GPUHIER_MULTICAST_NARROW(X, name, op) X(name, uint8, op) X(name, uint16, op) X(name, uint32, op)
#define GPUHIER_MULTICAST_BITWISE(X)           \
    GPUHIER_MULTICAST_NARROW(X, and_b64, band) \
    GPUHIER_MULTICAST_NARROW(X, or_b64, bor)   \
    GPUHIER_MULTICAST_NARROW(X, xor_b64, bxor)

#endif /* GPUHIER_MULTICAST_H */
