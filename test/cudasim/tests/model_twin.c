/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Twins of kernels that exist nowhere but here: what model_test times.
 */
#include "../cudasim_twin.h"

static const uint32_t none[] = {0};

static void empty_run(const cudasim_launch_t *launch, void **params)
{
    (void) launch;
    (void) params;
}

static const uint32_t read_bytes[] = {sizeof(uint64_t[8]), sizeof(uint64_t), sizeof(uint32_t), sizeof(uint32_t)};

/* Reads count bytes from each of n addresses, so many at once; moves nothing. */
static void read_run(const cudasim_launch_t *launch, void **params)
{
    const uint64_t *from = params[0], bytes = *(uint64_t *) params[1];
    const uint32_t n = *(uint32_t *) params[2];

    cudasim_shape(launch, 128, *(uint32_t *) params[3]);
    for (uint32_t i = 0; i < n; i++) {
        launch->traffic(launch, (uintptr_t) from[i], bytes, 0);
    }
}

static const uint32_t gate_bytes[] = {sizeof(uint64_t *), sizeof(uint64_t)};

/* Holds its stream until a word in pinned memory has reached a value. */
static void gate_run(const cudasim_launch_t *launch, void **params)
{
    while (__atomic_load_n(*(uint64_t **) params[0], __ATOMIC_ACQUIRE) < *(uint64_t *) params[1]) {
        cudasim_wait(launch);
    }
}

static const uint32_t oneshot_bytes[] = {sizeof(uint64_t *), sizeof(uint64_t *), sizeof(uint64_t), sizeof(uint64_t)};

/* A one-shot all-reduce as inference engines write it: a barrier by flags, a read of the peer, a barrier. */
static void oneshot_run(const cudasim_launch_t *launch, void **params)
{
    uint64_t *mine = *(uint64_t **) params[0], *theirs = *(uint64_t **) params[1];
    const uint64_t data = *(uint64_t *) params[2], round = *(uint64_t *) params[3];
    const uint64_t *view = cudasim_host_view(launch, (uintptr_t) mine);

    for (uint64_t flag = 2 * round - 1; flag <= 2 * round; flag++) {
        cudasim_push(launch, (uintptr_t) theirs, &flag, sizeof(flag));
        while (__atomic_load_n(view, __ATOMIC_ACQUIRE) < flag) {
            cudasim_wait(launch);
        }
        if (flag < 2 * round) {
            launch->traffic(launch, (uintptr_t) data, 512, 0);
        }
    }
}

static const cudasim_kernel_t kernels[] = {
    {"model_empty", 0, none, empty_run, 0},
    {"model_read", 4, read_bytes, read_run, 0},
    {"model_gate", 2, gate_bytes, gate_run, 1},
    {"model_oneshot", 4, oneshot_bytes, oneshot_run, 1},
};

const cudasim_twin_table_t cudasim_twins = {CUDASIM_TWIN_ABI, sizeof(kernels) / sizeof(kernels[0]), kernels};
