/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Twins of kernels that exist nowhere but here: what the multicast tests run.
 */
#include <string.h>

#include "../cudasim_twin.h"

static const uint32_t sum_bytes[] = {sizeof(uint64_t), sizeof(uint64_t), sizeof(uint32_t)};

/* multimem.ld_reduce of n words at a multicast address, as 32-bit integers or as floats, and multimem.st there. */
static void sum_run(const cudasim_launch_t *launch, void **params)
{
    const uint64_t at = *(uint64_t *) params[0], n = *(uint64_t *) params[1];
    const uint32_t floats = *(uint32_t *) params[2];
    void *copies[CUDASIM_MULTICAST_MAX];
    const int members = cudasim_multicast(launch, at, 4 * n, copies, CUDASIM_MULTICAST_MAX);

    for (uint64_t i = 0; i < n && members > 0; i++) {
        uint32_t sum, term;
        memcpy(&sum, (char *) copies[0] + 4 * i, 4);
        for (int m = 1; m < members; m++) {
            memcpy(&term, (char *) copies[m] + 4 * i, 4);
            if (floats) {
                float a, b;
                memcpy(&a, &sum, 4);
                memcpy(&b, &term, 4);
                a += b;
                memcpy(&sum, &a, 4);
            } else {
                sum += term;
            }
        }
        for (int m = 0; m < members; m++) {
            memcpy((char *) copies[m] + 4 * i, &sum, 4);
        }
    }
    if (members > 0) {
        cudasim_multimem(launch, at, 4 * n, 0);
        cudasim_multimem(launch, at, 4 * n, 1);
    }
}

static const uint32_t load_bytes[] = {sizeof(uint64_t), sizeof(uint64_t), sizeof(uint64_t)};

/* The sum of one word of floats, to an ordinary address. */
static void load_run(const cudasim_launch_t *launch, void **params)
{
    const uint64_t at = *(uint64_t *) params[0], to = *(uint64_t *) params[1], n = *(uint64_t *) params[2];
    float *out = cudasim_host_view(launch, to);
    void *copies[CUDASIM_MULTICAST_MAX];
    const int members = cudasim_multicast(launch, at, 4 * n, copies, CUDASIM_MULTICAST_MAX);

    if (0 == members) {
        return;
    }
    for (uint64_t i = 0; i < n; i++) {
        float sum = ((float *) copies[0])[i];
        for (int m = 1; m < members; m++) {
            sum += ((float *) copies[m])[i];
        }
        out[i] = sum;
    }
    cudasim_multimem(launch, at, 4 * n, 0);
    launch->traffic(launch, to, 4 * n, 1);
}

static const uint32_t time_bytes[] = {sizeof(uint64_t), sizeof(uint64_t)};

/* What multicast_sum says that it does, without doing it. */
static void time_run(const cudasim_launch_t *launch, void **params)
{
    const uint64_t at = *(uint64_t *) params[0], n = *(uint64_t *) params[1];

    cudasim_shape(launch, 128, 0);
    cudasim_multimem(launch, at, 4 * n, 0);
    cudasim_multimem(launch, at, 4 * n, 1);
}

static const uint32_t plain_bytes[] = {sizeof(uint64_t), sizeof(uint32_t)};

/* What no kernel may do: a plain load or store at a multicast address. */
static void plain_run(const cudasim_launch_t *launch, void **params)
{
    launch->traffic(launch, *(uint64_t *) params[0], 16, (int) *(uint32_t *) params[1]);
}

static const uint32_t signal_bytes[] = {sizeof(uint64_t), sizeof(uint64_t), sizeof(uint64_t)};

/* Pushes a value to a multicast address, and waits until a word of this GPU has it. */
static void signal_run(const cudasim_launch_t *launch, void **params)
{
    const uint64_t at = *(uint64_t *) params[0], own = *(uint64_t *) params[1], value = *(uint64_t *) params[2];
    const uint64_t *view = cudasim_host_view(launch, own);

    if (0 != at) {
        cudasim_push(launch, at, &value, sizeof(value));
    }
    while (__atomic_load_n(view, __ATOMIC_ACQUIRE) != value) {
        cudasim_wait(launch);
    }
}

static const cudasim_kernel_t kernels[] = {
    {"multicast_sum", 3, sum_bytes, sum_run, 0},          {"multicast_load", 3, load_bytes, load_run, 0},
    {"multicast_time", 2, time_bytes, time_run, 0},       {"multicast_plain", 2, plain_bytes, plain_run, 0},
    {"multicast_signal", 3, signal_bytes, signal_run, 1},
};

const cudasim_twin_table_t cudasim_twins = {CUDASIM_TWIN_ABI, sizeof(kernels) / sizeof(kernels[0]), kernels};
