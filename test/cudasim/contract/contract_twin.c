/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The host twin of the contract test's kernel, and of the one in cudart_launch.cu.
 */
#include "../cudasim_twin.h"

static const uint32_t add_bytes[] = {sizeof(int *), sizeof(int), sizeof(int)};

static void add_run(const cudasim_launch_t *launch, void **params)
{
    int *values = *(int **) params[0], *view = cudasim_host_view(launch, (uintptr_t) values);
    int count = *(int *) params[1], term = *(int *) params[2], i;

    for (i = 0; i < count; i++) {
        view[i] += term;
    }
    if (count > 0) {
        launch->traffic(launch, (uintptr_t) values, (size_t) count * sizeof(*values), 0);
        launch->traffic(launch, (uintptr_t) values, (size_t) count * sizeof(*values), 1);
    }
}

static const cudasim_kernel_t kernels[] = {
    {"contract_add", 3, add_bytes, add_run},
    {"_Z10launch_addPiii", 3, add_bytes, add_run},
};

const cudasim_twin_table_t cudasim_twins = {CUDASIM_TWIN_ABI, sizeof(kernels) / sizeof(kernels[0]), kernels};
