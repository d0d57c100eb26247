/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The GPU's entry points, two for each entry of GPUHIER_KERNEL_LIST, and how a one-shot kernel tells its host that it
 * is over. Kernels wait for nothing: each thread works on its share of the elements and ends, whatever others do.
 *
 * One-shot kernels wait: for the peers' words, and at the end of a block for its other threads. They end if the kernels
 * of all peers run at the same time, or if the host says so; no block waits for another block of its grid.
 */
#include "gpuhier_oneshot_body.h"

namespace gpuhier {

/* Plain accesses to global memory: own, a mapped peer's, or mapped host memory. Never through the read-only cache. */
struct device_memory {
    template <class U> __device__ __forceinline__ U get(uint64_t address) const
    {
        return *static_cast<const U *>(__cvta_global_to_generic(address));
    }
    template <class U> __device__ __forceinline__ void put(uint64_t address, const U &value) const
    {
        *static_cast<U *>(__cvta_global_to_generic(address)) = value;
    }
    __device__ __forceinline__ void touch(uint64_t, uint64_t, bool) const
    {
    }
};

/* Of floats, nvcc would split every second plain store in an unrolled loop into four. */
template <> __device__ __forceinline__ void device_memory::put<wide>(uint64_t address, const wide &value) const
{
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(value.word[0]), "r"(value.word[1]),
                 "r"(value.word[2]), "r"(value.word[3])
                 : "memory");
}

/* Elements are moved as in the other kernels. Other GPUs and the host see the accesses to mailboxes and to the host's
 * words. A mailbox is accessed in vectors of two 64-bit words, and each word is stored and loaded whole. */
struct shared_memory : device_memory {
    __device__ __forceinline__ void push(uint64_t address, const line &x) const
    {
        asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(address), "l"(x.word[0]), "l"(x.word[1])
                     : "memory");
    }
    __device__ __forceinline__ line take(uint64_t address) const
    {
        line x;
        asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
                     : "=l"(x.word[0]), "=l"(x.word[1])
                     : "l"(address)
                     : "memory");
        return x;
    }
    /* A look at host memory takes as long as many looks at the mailbox. */
    __device__ __forceinline__ bool stops(const gpuhier_oneshot_args_t &args, uint32_t turns) const
    {
        uint64_t number = 0;
        if (0 == turns % 1024) {
            asm volatile("ld.relaxed.sys.global.u64 %0, [%1];"
                         : "=l"(number)
                         : "l"(args.words + GPUHIER_ONESHOT_ABORT)
                         : "memory");
        }
        return args.number == number;
    }
};

/*
 * The last block to come here tells the host, when all blocks' stores are visible to it. What a block's threads have
 * stored comes before its barrier, and that before what its thread 0 releases: to the last block by the counter, which
 * acquires it, and by the word to the host. Each of these steps is one of the causality order of PTX's memory model,
 * and that order is transitive. The counter's low half counts blocks, its high half those that have left. A block that
 * is alone needs no counter.
 */
__device__ __forceinline__ void grid_end(const gpuhier_oneshot_args_t &args, bool complete)
{
    const int left = __syncthreads_or(!complete);
    if (0 != threadIdx.x) {
        return;
    }
    uint32_t before = 0;
    if (gridDim.x > 1) {
        asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
                     : "=r"(before)
                     : "l"(args.counter), "r"(left ? 0x10001u : 1u)
                     : "memory");
        if (gridDim.x - 1 != (before & 0xffff)) {
            return;
        }
        asm volatile("st.relaxed.gpu.global.u32 [%0], 0;" ::"l"(args.counter) : "memory");
    }
    const uint64_t how = left || before >> 16 ? GPUHIER_ONESHOT_LEFT : GPUHIER_ONESHOT_COMPLETE;
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(args.words + GPUHIER_ONESHOT_DONE),
                 "l"(args.number << 2 | how)
                 : "memory");
}

} /* namespace gpuhier */

/* 256 threads a block, and at least 3 blocks fit: up to 80 registers, enough for 8 loads in flight without spills. */
#define GPUHIER_ENTRY(name, args_t)                                                                                    \
    extern "C" __global__ void __launch_bounds__(GPUHIER_KERNEL_BLOCK, 3) name(const __grid_constant__ args_t args)

/* This thread's number, and how many there are. */
#define GPUHIER_THREADS blockIdx.x *(uint64_t) blockDim.x + threadIdx.x, gridDim.x *(uint64_t) blockDim.x

#define GPUHIER_KERNEL(op, type)                                                                                       \
    GPUHIER_ENTRY(gpuhier_##op##_##type, gpuhier_kernel_args_t)                                                        \
    {                                                                                                                  \
        gpuhier::reduce_thread<gpuhier::device_memory, elem_##type, gpuhier::op_##op##_##type>(                        \
            gpuhier::device_memory(), args, args.nsrc, GPUHIER_THREADS);                                               \
    }

/* The __syncthreads_or() of grid_end() is reached by all threads of a block. */
#define GPUHIER_ONESHOT(op, type)                                                                                      \
    extern "C" __global__ void __launch_bounds__(GPUHIER_KERNEL_BLOCK, 2)                                              \
        gpuhier_oneshot_##op##_##type(const __grid_constant__ gpuhier_oneshot_args_t args)                             \
    {                                                                                                                  \
        const gpuhier::shared_memory memory;                                                                           \
        gpuhier::oneshot_push<gpuhier::shared_memory, elem_##type>(memory, args, GPUHIER_THREADS);                     \
        gpuhier::grid_end(                                                                                             \
            args, gpuhier::oneshot_reduce<gpuhier::shared_memory, elem_##type, gpuhier::op_##op##_##type>(             \
                      memory, args, GPUHIER_THREADS)                                                                   \
                      && gpuhier::oneshot_gather<gpuhier::shared_memory, elem_##type>(memory, args, GPUHIER_THREADS)); \
    }

GPUHIER_KERNEL_LIST(GPUHIER_KERNEL)
GPUHIER_KERNEL_LIST(GPUHIER_ONESHOT)

extern "C" __global__ void __launch_bounds__(GPUHIER_KERNEL_BLOCK, 2)
    gpuhier_oneshot_move(const __grid_constant__ gpuhier_oneshot_args_t args)
{
    const gpuhier::shared_memory memory;
    gpuhier::oneshot_give(memory, args, GPUHIER_THREADS);
    gpuhier::grid_end(args, gpuhier::oneshot_move(memory, args, GPUHIER_THREADS));
}

GPUHIER_ENTRY(gpuhier_copy, gpuhier_kernel_args_t)
{
    gpuhier::reduce_thread<gpuhier::device_memory, uint8_t, gpuhier::op_copy>(gpuhier::device_memory(), args, 1,
                                                                              GPUHIER_THREADS);
}

GPUHIER_ENTRY(gpuhier_moves, gpuhier_moves_args_t)
{
    gpuhier::moves_thread(gpuhier::device_memory(), args, blockIdx.x, threadIdx.x, blockDim.x);
}
