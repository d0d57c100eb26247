/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The GPU's entry points, two for each entry of GPUHIER_KERNEL_LIST. Kernels wait for nothing: each thread works on its
 * share of the elements and ends, whatever other threads do. One-shot kernels (gpuhier_oneshot_entry.h) wait for those
 * of the peers.
 */
#include "gpuhier_kernel_body.h"

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

} /* namespace gpuhier */

/* 256 threads a block, and at least 3 blocks fit: up to 80 registers, enough for 8 loads in flight without spills. */
#define GPUHIER_ENTRY(name)                                                                                            \
    extern "C" __global__ void __launch_bounds__(GPUHIER_KERNEL_BLOCK, 3)                                              \
        name(const __grid_constant__ gpuhier_kernel_args_t args)

/* This thread's number, and how many there are. */
#define GPUHIER_THREADS blockIdx.x *(uint64_t) blockDim.x + threadIdx.x, gridDim.x *(uint64_t) blockDim.x

#define GPUHIER_KERNEL(op, type)                                                                                       \
    GPUHIER_ENTRY(gpuhier_##op##_##type)                                                                               \
    {                                                                                                                  \
        gpuhier::reduce_thread<gpuhier::device_memory, elem_##type, gpuhier::op_##op##_##type>(        \
            gpuhier::device_memory(), args, GPUHIER_THREADS);                                                          \
    }

#include "gpuhier_oneshot_entry.h"

GPUHIER_KERNEL_LIST(GPUHIER_KERNEL)
GPUHIER_KERNEL_LIST(GPUHIER_ONESHOT)

GPUHIER_ENTRY(gpuhier_copy)
{
    gpuhier::copy_thread<gpuhier::device_memory>(gpuhier::device_memory(), args, GPUHIER_THREADS);
}
