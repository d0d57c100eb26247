/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
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
 * By pairs (args.pairs) a rank gives each peer a message of `count` elements of its own, which lie in_step bytes apart,
 * or gives only_to alone. A kernel pushes its messages, and reduces what it takes with the one that it has for itself.
 * gpuhier_oneshot_move knows pairs only, and elements of one byte: it stores the message of rank s at out + s *
 * out_step, of all ranks or of only_from alone, and its own one where that is elsewhere.
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
 * out may be in (in place), at the same address, but for a reduction by pairs with in_step. Any alignment works. A
 * peer's program sees no store of these kernels: they write to mailboxes, to their own rank's `out`, and to its host's
 * words.
 *
 * Used by: coll_gpuhier_reduce.c (which launches), gpuhier_kernels.cu (the entry points), the host twin in
 * test/cudasim/twin, and the engine, which fills the arguments. Plain C and C++.
 */
#ifndef GPUHIER_ONESHOT_H
#define GPUHIER_ONESHOT_H

#include "gpuhier_kernels.h"

#ifndef __cplusplus
#    include <stdbool.h>
#endif

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
    uint32_t two_shots;                      /* 0 or 1, the same on all ranks */
    uint32_t pairs;                          /* 0 or 1, the same on all ranks; not both */
    uint64_t in_step, out_step;              /* pairs: bytes from one rank's message to the next one's; else 0 */
    uint32_t only_to, only_from;             /* pairs: a rank; nranks: all */
} gpuhier_oneshot_args_t;

GPUHIER_KERNEL_ASSERT(872 == sizeof(gpuhier_oneshot_args_t), "host and GPU must agree on the argument");
GPUHIER_KERNEL_ASSERT(768 == offsetof(gpuhier_oneshot_args_t, own), "host and GPU must agree on the argument");
GPUHIER_KERNEL_ASSERT(832 == offsetof(gpuhier_oneshot_args_t, nranks), "host and GPU must agree on the argument");

/* Bytes that a message of `bytes` needs in a part of a mailbox. */
static inline uint64_t gpuhier_oneshot_part(uint64_t bytes, uint32_t nranks, bool two_shots)
{
    const uint64_t units = (bytes + GPUHIER_ONESHOT_UNIT - 1) / GPUHIER_ONESHOT_UNIT;
    const uint64_t used = two_shots ? (units + nranks - 1) / nranks : units;
    const uint64_t places = (used + GPUHIER_ONESHOT_PLACES - 1) / GPUHIER_ONESHOT_PLACES * GPUHIER_ONESHOT_PLACES;
    return places * GPUHIER_ONESHOT_UNIT * GPUHIER_ONESHOT_WIRE * (two_shots ? 2 : 1);
}

#endif /* GPUHIER_ONESHOT_H */
