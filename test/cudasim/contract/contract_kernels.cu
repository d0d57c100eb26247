/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The kernel that the contract test launches.
 */
extern "C" __global__ void contract_add(int *values, int count, int term)
{
    int stride = (int) (gridDim.x * blockDim.x);

    for (int i = (int) (blockIdx.x * blockDim.x + threadIdx.x); i < count; i += stride) {
        values[i] += term;
    }
}
