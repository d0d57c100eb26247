/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The interface of the kernels: their arguments, and the lists of them.
 *
 * Every kernel does the same, M sources -> K destinations, element by element:
 *
 *     acc = src[0][i];  acc = op(acc, src[s][i]) for s = 1 .. nsrc-1;  dst[d][i] = acc for each d
 *
 * One kernel serves the fused reduce-scatter + all-gather (nsrc = ndst = ranks), the reduce-scatter alone (ndst = 1),
 * the reduction of an exchange (nsrc = 2), and copies of pairs whose gaps must not be written (nsrc = 1). gpuhier_copy
 * has one source, and its elements are bytes: it is the push of an all-gather. gpuhier_moves copies many ranges.
 *
 * A source may also be a destination (in place), at the same address: one thread reads element i and then writes it.
 * Ranges that overlap in any other way are an error. Any alignment works. A buffer that is not congruent to most others
 * modulo 16 costs more accesses, of that buffer only.
 *
 * This folder, kernels, owns the GPU's code: the list of types and kernels (this file), the arithmetic, which is the
 * host's too (gpuhier_kernel_ops.h), what a thread does (gpuhier_kernel_body.h), the entry points (gpuhier_kernels.cu)
 * and the compiled code as data (gpuhier_fatbin.S). It uses no other code. These kernels wait for nothing; the one-shot
 * kernels (gpuhier_oneshot_body.h) wait for those of the peers.
 *
 * Used by: coll_gpuhier_reduce.c (which launches), gpuhier_kernels.cu (the GPU's code), the host twin in
 * test/cudasim/twin, coll_gpuhier_host_reduce.c (the lists), and the engine, which fills the arguments. Plain C and
 * C++.
 */
#ifndef GPUHIER_KERNELS_H
#define GPUHIER_KERNELS_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#ifndef __cplusplus
#    include <stdbool.h>
#endif

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

static_assert(1040 == sizeof(gpuhier_kernel_args_t), "host and GPU must agree on the argument");
static_assert(512 == offsetof(gpuhier_kernel_args_t, dst), "host and GPU must agree on the argument");
static_assert(1024 == offsetof(gpuhier_kernel_args_t, count), "host and GPU must agree on the argument");
static_assert(1032 == offsetof(gpuhier_kernel_args_t, nsrc), "host and GPU must agree on the argument");
static_assert(1036 == offsetof(gpuhier_kernel_args_t, ndst), "host and GPU must agree on the argument");

/*
 * The argument of gpuhier_moves, passed by value: ranges of bytes that go to places of their own at the same time, as
 * the blocks of MPI_Alltoall do. A block of the grid works on one range. CUDA 11 allows 4 KiB of arguments.
 */
#define GPUHIER_MOVES_MAX 64 /* a power of two; as many as a group has ranks */
typedef struct gpuhier_moves_args {
    uint64_t src[GPUHIER_MOVES_MAX], dst[GPUHIER_MOVES_MAX];
    uint64_t bytes[GPUHIER_MOVES_MAX]; /* > 0 */
    uint32_t end[GPUHIER_MOVES_MAX];   /* the first block behind those of this range and of all before it */
    uint32_t count;                    /* of ranges */
} gpuhier_moves_args_t;

static_assert(1800 == sizeof(gpuhier_moves_args_t), "host and GPU must agree on the argument");

/*
 * The types: X(more, kind, type, ...), where `more` is for the caller. The kind says which operations the type has.
 * What follows the name are types of C: of an unsigned integer also the one in which it is added and multiplied, of a
 * complex number that of a part, of a pair (MPI's pair types) those of value and index, of a 16-bit float (half) the
 * one that holds its bits. Results of signed and unsigned integers have the same bits, except for max and min, so the
 * unsigned kernels serve both. The order gives the index of a kernel, which must be the same on all ranks: only append.
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
    X(more, pair, 2double, double, double)        \
    X(more, half, float16, gpuhier_half_t)

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
#define GPUHIER_OPS_half GPUHIER_OPS_real

/* The kernels: X(op, type) stands for gpuhier_<op>_<type>. */
#define GPUHIER_KERNELS_OF(X, kind, type, ...) GPUHIER_OPS_##kind(X, type)
#define GPUHIER_KERNEL_LIST(X) GPUHIER_TYPES(GPUHIER_KERNELS_OF, X)

/*
 * -- one-shot kernels ------------------------------------------------------------------------
 *
 * The interface of the one-shot kernels, gpuhier_oneshot_<op>_<type> for each entry of GPUHIER_KERNEL_LIST, and
 * gpuhier_oneshot_move. Such a kernel runs on every GPU of a group at the same time, and the kernels wait for each
 * other:
 *
 *     pushes its rank's input into the mailbox of every peer, waits for the peers' input in its own mailbox,
 *     acc = x[0][i];  acc = op(acc, x[s][i]) for s = 1 .. nranks-1;  out[i] = acc;  tells its host
 *
 * In two shots (args.two_shots) each rank has a shard of the message. A kernel pushes shard s of its input to rank s
 * only, reduces its own shard, pushes the result to every peer, and waits for the peers' results.
 *
 * By pairs (args.by_pairs) ranks have messages for each other, the longest of which has `count` elements: a rank gives
 * message given[s] to rank s, and takes message taken[s] of it. That may be shorter than what rank s gives: the rest
 * stays in the mailbox. A reduction takes messages of one length for `out`: a kernel pushes its messages, and reduces
 * what it takes with the one that it has for itself. gpuhier_oneshot_move, whose elements are bytes, knows pairs only,
 * and stores what it takes; its own message where that is elsewhere.
 *
 * A mailbox is memory of one GPU that the peers have mapped. It has a part for each rank, into which only that rank
 * writes. Data travel in words of 64 bits, half of which is a flag: a word with the flag that the reader waits for has
 * its data, so no other order between stores is needed.
 *
 *      bits 63 .. 32   31 .. 0
 *     +--------------+--------+
 *     | flag         | data   |      two words are stored at a time
 *     +--------------+--------+
 *
 * Elements are packed into units, as many as 16 bytes hold. In two shots unit u is in shard u mod nranks, so that
 * neighbouring threads use different links, and has place u / nranks there. The first half of a part is for input then,
 * the second for results.
 *
 * The lines of 32 places lie together: first the first line of each place, then the second line of each. So the threads
 * of a warp store and load 512 bytes side by side (an estimate of what that gains is in docs/decisions.md):
 *
 *       0        16              496       512      528             1008      1024
 *     +--------+--------+-----+---------+--------+--------+-----+---------+----------
 *     | 0, 1st | 1, 1st | ... | 31, 1st | 0, 2nd | 1, 2nd | ... | 31, 2nd | 32, 1st ..   places and their lines
 *     +--------+--------+-----+---------+--------+--------+-----+---------+----------
 *
 * out may be in (in place), at the same address, but for a reduction of several messages. Any alignment works. A peer's
 * program sees no store of these kernels: they write to mailboxes, to their own rank's `out`, and to its host's words.
 */

#define GPUHIER_ONESHOT_BLOCKS 32 /* most blocks of a grid: enough to fill the links, few beside the program's own */
#define GPUHIER_ONESHOT_UNIT 16   /* bytes of data in a unit */
#define GPUHIER_ONESHOT_WIRE 2    /* bytes in a mailbox for each byte of data */
#define GPUHIER_ONESHOT_PLACES 32 /* units whose lines lie together, one for each thread of a warp */

/* A rank's words in page-locked host memory: bytes from their address. */
#define GPUHIER_ONESHOT_DONE 0   /* 64 bits: the call's number << 2 | how the kernel ended */
#define GPUHIER_ONESHOT_ABORT 64 /* 64 bits: the number of the call whose kernel must leave; its host writes it */

/* How a kernel ended. */
enum {
    GPUHIER_ONESHOT_COMPLETE = 1, /* all of `out` is written */
    GPUHIER_ONESHOT_LEFT = 2      /* it was told to leave; a part of `out` may be written */
};

/* By pairs: the messages for all ranks, or of them, in bytes. */
typedef struct gpuhier_oneshot_list {
    uint64_t at[GPUHIER_KERNEL_MAX_PEERS]; /* from in, or out */
    uint32_t bytes[GPUHIER_KERNEL_MAX_PEERS];
} gpuhier_oneshot_list_t;

/* The argument of every one-shot kernel, passed by value. Addresses are device addresses in the rank's context. */
typedef struct gpuhier_oneshot_args {
    uint64_t box[GPUHIER_KERNEL_MAX_PEERS];  /* this rank's part of each peer's mailbox; of its own: unused */
    uint32_t flag[GPUHIER_KERNEL_MAX_PEERS]; /* not 0: the flag that the reader of each mailbox waits for */
    uint64_t own;                            /* part 0 of this rank's mailbox */
    uint64_t part_bytes;                     /* from one part to the next */
    uint64_t in, out;                        /* first element */
    uint64_t count;                          /* elements, > 0 */
    uint64_t counter;                        /* 32 bits of device memory, 0 at the start and at the end */
    uint64_t words;                          /* the host's */
    uint64_t number;                         /* of the call, not 0: tells its words from those of other calls */
    uint32_t nranks;                         /* 2 .. GPUHIER_KERNEL_MAX_PEERS */
    uint32_t index;                          /* of this rank */
    uint32_t two_shots, by_pairs;            /* 0 or 1, not both 1, the same on all ranks */
    gpuhier_oneshot_list_t given, taken;     /* by pairs */
} gpuhier_oneshot_args_t;

static_assert(2384 == sizeof(gpuhier_oneshot_args_t), "host and GPU must agree on the argument");
static_assert(768 == offsetof(gpuhier_oneshot_args_t, own), "host and GPU must agree on the argument");
static_assert(832 == offsetof(gpuhier_oneshot_args_t, nranks), "host and GPU must agree on the argument");
static_assert(848 == offsetof(gpuhier_oneshot_args_t, given), "host and GPU must agree on the argument");

/* Bytes that a message of `bytes` needs in a part of a mailbox. */
static inline uint64_t gpuhier_oneshot_part(uint64_t bytes, uint32_t nranks, bool two_shots)
{
    const uint64_t units = (bytes + GPUHIER_ONESHOT_UNIT - 1) / GPUHIER_ONESHOT_UNIT;
    const uint64_t used = two_shots ? (units + nranks - 1) / nranks : units;
    const uint64_t places = (used + GPUHIER_ONESHOT_PLACES - 1) / GPUHIER_ONESHOT_PLACES * GPUHIER_ONESHOT_PLACES;
    return places * GPUHIER_ONESHOT_UNIT * GPUHIER_ONESHOT_WIRE * (two_shots ? 2 : 1);
}

/*
 * -- reductions in an NVSwitch ---------------------------------------------------------------
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
 */

#define GPUHIER_MULTICAST_UNIT 16 /* bytes */

/* The argument of these kernels, passed by value. */
typedef struct gpuhier_multicast_args {
    uint64_t from;   /* multicast address; of gpuhier_multicast_store: ordinary memory of this GPU or the host */
    uint64_t to;     /* multicast address, or ordinary memory of this GPU or the host */
    uint64_t bytes;  /* a multiple of GPUHIER_MULTICAST_UNIT */
    uint32_t to_all; /* 1: `to` is a multicast address, as it always is for gpuhier_multicast_store */
    uint32_t unused;
} gpuhier_multicast_args_t;

static_assert(32 == sizeof(gpuhier_multicast_args_t), "host and GPU must agree on the argument");

/*
 * X(name, type, op): gpuhier_multicast_<name> gives the bits of op over elements of the type, both as in
 * GPUHIER_KERNEL_LIST. The order of operands does not change the bits for integers. It does for the last two entries.
 * Bitwise operations are the same for all lengths of elements. What the switch cannot do is not here: products, logical
 * operations, narrow integers, extremes of float and double, complex numbers and pairs. Nor are 16-bit floats here.
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

#endif /* GPUHIER_KERNELS_H */
