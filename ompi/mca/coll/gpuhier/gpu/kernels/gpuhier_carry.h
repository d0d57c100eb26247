/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The interface of gpuhier_carry, the kernel of one block that carries a short message's input to the host, and the
 * result back:
 *
 *     pinned = in;  tells the host;  waits for the host's answer;  out = pinned, if that is the answer;  tells the host
 *
 * It starts once where two copies and an event would each have to be started and waited for. It waits only as long as
 * `patience` says: the host may be in a driver call that returns when the GPU is idle, and peers may be late. A host
 * whose answer finds the kernel gone copies the result itself.
 *
 * out may be in, at the same address. Any alignment works.
 *
 * Used by: coll_gpuhier_reduce.c (which launches), gpuhier_kernels.cu (the GPU's code), the host twin in
 * test/cudasim/twin, and the engine, which fills the arguments. Plain C and C++.
 */
#ifndef GPUHIER_CARRY_H
#define GPUHIER_CARRY_H

#include "gpuhier_kernels.h"

#define GPUHIER_CARRY_BLOCK 512 /* threads of its block */
#define GPUHIER_CARRY_MOST 8192 /* bytes: one access of each thread. Longer messages are for the copy engines. */

/* A rank's words in page-locked host memory: bytes from their address. Both hold the call's number << 2 | a state. */
#define GPUHIER_CARRY_KERNEL 0 /* 64 bits; the kernel writes them */
#define GPUHIER_CARRY_HOST 64  /* 64 bits; the host writes them */

/* What the kernel says. */
enum {
    GPUHIER_CARRY_INPUT = 1,    /* the input is in the pinned memory */
    GPUHIER_CARRY_COMPLETE = 2, /* all of `out` is written */
    GPUHIER_CARRY_LEFT = 3      /* it has left, and `out` is as it was */
};

/* What the host says. */
enum {
    GPUHIER_CARRY_RESULT = 1, /* the result is in the pinned memory */
    GPUHIER_CARRY_LEAVE = 2   /* there will be none */
};

/* The argument, passed by value. Addresses are device addresses in the rank's context. */
typedef struct gpuhier_carry_args {
    uint64_t in, out;
    uint64_t pinned;   /* host memory of `bytes` */
    uint64_t bytes;    /* > 0 */
    uint64_t words;    /* the host's */
    uint64_t number;   /* of the call, not 0: tells its words from those of other calls */
    uint64_t patience; /* ns: how long it waits for the host's answer */
} gpuhier_carry_args_t;

GPUHIER_KERNEL_ASSERT(56 == sizeof(gpuhier_carry_args_t), "host and GPU must agree on the argument");

#endif /* GPUHIER_CARRY_H */
