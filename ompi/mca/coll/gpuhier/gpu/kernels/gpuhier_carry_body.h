/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * gpuhier_carry: how a thread moves its share of the bytes, in code that the twin runs as well, and the entry point.
 * Included by gpuhier_kernels.cu. The bytes move in units of gpuhier_oneshot_body.h.
 */
#ifndef GPUHIER_CARRY_BODY_H
#define GPUHIER_CARRY_BODY_H

#include "gpuhier_carry.h"
#include "gpuhier_oneshot_body.h"

namespace gpuhier
{

/* Copies this thread's share of the bytes. */
template <class M>
GPUHIER_WALK void carry_bytes(const M &memory, uint64_t to, uint64_t from, uint64_t bytes, uint64_t thread,
                              uint64_t threads)
{
    for (uint64_t at = thread * GPUHIER_ONESHOT_UNIT; at < bytes; at += threads * GPUHIER_ONESHOT_UNIT) {
        unit<uint8_t> x;
        x.load(memory, from + at, bytes - at);
        x.store(memory, to + at, bytes - at);
    }
}

} /* namespace gpuhier */

#ifdef __CUDACC__
namespace gpuhier
{

/* Tells the host a state. What this thread has stored, and behind a barrier the other threads of its block, is then
 * visible to the host. */
__device__ __forceinline__ void carry_say(const gpuhier_carry_args_t &args, uint64_t state)
{
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(args.words + GPUHIER_CARRY_KERNEL),
                 "l"(args.number << 2 | state)
                 : "memory");
}

__device__ __forceinline__ uint64_t carry_time()
{
    uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

/* One thread waits for the host. Returns its answer, or 0 when patience ends. */
__device__ __forceinline__ uint64_t carry_wait(const gpuhier_carry_args_t &args)
{
    const uint64_t begin = carry_time();
    uint64_t word;
    do {
        asm volatile("ld.acquire.sys.global.u64 %0, [%1];"
                     : "=l"(word)
                     : "l"(args.words + GPUHIER_CARRY_HOST)
                     : "memory");
    } while (args.number != word >> 2 && carry_time() - begin < args.patience);
    return args.number == word >> 2 ? word & 3 : 0;
}

} /* namespace gpuhier */

extern "C" __global__ void __launch_bounds__(GPUHIER_CARRY_BLOCK)
    gpuhier_carry(const __grid_constant__ gpuhier_carry_args_t args)
{
    const gpuhier::device_memory memory;
    bool result = false;
    gpuhier::carry_bytes(memory, args.pinned, args.in, args.bytes, threadIdx.x, blockDim.x);
    __syncthreads();
    if (0 == threadIdx.x) {
        gpuhier::carry_say(args, GPUHIER_CARRY_INPUT);
        result = GPUHIER_CARRY_RESULT == gpuhier::carry_wait(args);
    }
    const bool comes = 0 != __syncthreads_or(result);
    if (comes) {
        gpuhier::carry_bytes(memory, args.out, args.pinned, args.bytes, threadIdx.x, blockDim.x);
        __syncthreads();
    }
    if (0 == threadIdx.x) {
        gpuhier::carry_say(args, comes ? GPUHIER_CARRY_COMPLETE : GPUHIER_CARRY_LEFT);
    }
}
#endif

#endif /* GPUHIER_CARRY_BODY_H */
