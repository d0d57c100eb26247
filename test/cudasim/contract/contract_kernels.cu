/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The kernels that the contract test launches.
 */
extern "C" __global__ void contract_add(int *values, int count, int term)
{
    int stride = (int) (gridDim.x * blockDim.x);

    for (int i = (int) (blockIdx.x * blockDim.x + threadIdx.x); i < count; i += stride) {
        values[i] += term;
    }
}

/* Sums of words at a multicast address, stored there: on GPUs that can be in a team. */
extern "C" __global__ void contract_multicast(unsigned *values, int count)
{
#if __CUDA_ARCH__ >= 900
    int stride = (int) (gridDim.x * blockDim.x);

    for (int i = (int) (blockIdx.x * blockDim.x + threadIdx.x); i < count; i += stride) {
        unsigned sum;
        asm volatile("multimem.ld_reduce.relaxed.sys.global.add.u32 %0, [%1];"
                     : "=r"(sum)
                     : "l"(values + i)
                     : "memory");
        asm volatile("multimem.st.relaxed.sys.global.u32 [%0], %1;" ::"l"(values + i), "r"(sum) : "memory");
    }
#endif
}
