/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The host twins of the contract test's kernels, and of the one in cudart_launch.cu.
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

static const uint32_t wait_bytes[] = {sizeof(uint64_t *), sizeof(uint64_t *)};

/* Waits until the first word is not zero, then pushes its value to the second. */
static void wait_run(const cudasim_launch_t *launch, void **params)
{
    uint64_t *flag = *(uint64_t **) params[0], *out = *(uint64_t **) params[1];
    uint64_t *view = cudasim_host_view(launch, (uintptr_t) flag), value;

    while (0 == (value = __atomic_load_n(view, __ATOMIC_ACQUIRE))) {
        cudasim_wait(launch);
    }
    cudasim_push(launch, (uintptr_t) out, &value, sizeof(value));
}

static const uint32_t multicast_bytes[] = {sizeof(unsigned *), sizeof(int)};

static void multicast_run(const cudasim_launch_t *launch, void **params)
{
    const uintptr_t at = *(uintptr_t *) params[0];
    const size_t count = (size_t) * (int *) params[1], bytes = count * sizeof(unsigned);
    void *copies[CUDASIM_MULTICAST_MAX];
    const int n = cudasim_multicast(launch, at, bytes, copies, CUDASIM_MULTICAST_MAX);

    for (size_t i = 0; i < count && n > 0; i++) {
        unsigned sum = 0;
        for (int m = 0; m < n; m++) {
            sum += ((unsigned *) copies[m])[i];
        }
        for (int m = 0; m < n; m++) {
            ((unsigned *) copies[m])[i] = sum;
        }
    }
    if (n > 0) {
        cudasim_multimem(launch, at, bytes, 0);
        cudasim_multimem(launch, at, bytes, 1);
    }
}

static const cudasim_kernel_t kernels[] = {
    {"contract_multicast", 2, multicast_bytes, multicast_run, 0},
    {"contract_add", 3, add_bytes, add_run, 0},
    {"_Z10launch_addPiii", 3, add_bytes, add_run, 0},
    {"contract_wait", 2, wait_bytes, wait_run, 1},
};

const cudasim_twin_table_t cudasim_twins = {CUDASIM_TWIN_ABI, sizeof(kernels) / sizeof(kernels[0]), kernels};
