/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_Init before any CUDA call, after it, and long before it.
 *
 *   init_order [--stock] cuda-first | mpi-first | cuda-late
 */
#include "calls.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

static void device_calls(suite_t *suite, int ncalls, call_path_t path)
{
    for (int i = 0; i < ncalls; ++i) {
        call_t call = {.comm = MPI_COMM_NULL,
                       .type = value_type_find("double"),
                       .op = value_op_find("sum"),
                       .count = 1000,
                       .in_place = 1 == i % 2,
                       .path = path};
        suite_call(suite, &call);
    }
}

/* A program that computes on the host for a while, with the very key that it later uses on the GPU. */
static void host_calls(suite_t *suite, int ncalls)
{
    for (int i = 0; i < ncalls; ++i) {
        call_t call = {.comm = MPI_COMM_NULL,
                       .type = value_type_find("double"),
                       .op = value_op_find("sum"),
                       .count = 1000,
                       .send_kind = BUFFER_HOST,
                       .recv_kind = BUFFER_HOST,
                       .path = PATH_SAVED};
        suite_call(suite, &call);
    }
}

int main(int argc, char **argv)
{
    const char *mode = argv[argc - 1];
    suite_t suite;

    if (0 == strcmp(mode, "cuda-first")) {
        suite_choose_gpu();
        suite_begin_host(&suite, "init_order cuda-first", &argc, &argv);
        device_calls(&suite, 20, PATH_ACCELERATED);
    } else if (0 == strcmp(mode, "mpi-first")) {
        suite_begin_host(&suite, "init_order mpi-first", &argc, &argv);
        suite_choose_gpu();
        device_calls(&suite, 20, PATH_ACCELERATED);
    } else if (0 == strcmp(mode, "cuda-late")) {
        pvars_t before, after;
        suite_begin_host(&suite, "init_order cuda-late", &argc, &argv);
        host_calls(&suite, 100);
        suite_choose_gpu();
        pvars_read(&before);
        /* The key is probed again within 64 calls, and accelerated from there on. */
        device_calls(&suite, 130, PATH_ANY);
        pvars_read(&after);
        if (PATH_ACCELERATED == suite.default_path && after.accelerated - before.accelerated < 60) {
            suite_fail(&suite, "only %llu of 130 calls on device memory were accelerated",
                       (unsigned long long) (after.accelerated - before.accelerated));
        }
    } else {
        fprintf(stderr, "usage: init_order [--stock] cuda-first | mpi-first | cuda-late\n");
        return 2;
    }
    return suite_end(&suite);
}
