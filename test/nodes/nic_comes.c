/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A process opens UCX for the interfaces of its node that are up, and then works on another GPU, once one more
 * interface has come up, or one has gone down. Calls on both GPUs are accelerated, and results are right.
 *
 *   nic_comes INTERFACE comes|goes     one rank on each node, two GPUs
 */
#include "calls.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void set_interface(const char *name, const char *state)
{
    char command[128];
    snprintf(command, sizeof(command), "ip link set %s %s", name, state);
    if (0 != system(command)) {
        fprintf(stderr, "nic_comes: '%s' failed\n", command);
        exit(1);
    }
}

/* On a communicator of its own, with the memory of that GPU. */
static void sums(suite_t *suite, int gpu)
{
    static const size_t counts[] = {10, 30000, 1000003};
    MPI_Comm comm;
    CUDA_MUST(cudaSetDevice(gpu));
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int i = 0; i < 12; ++i) {
        call_t call = {.comm = comm,
                       .type = value_type_find("double"),
                       .op = value_op_find("sum"),
                       .count = counts[i % 3],
                       .path = PATH_ACCELERATED};
        suite_call(suite, &call);
    }
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    suite_t suite;
    if (argc < 3) {
        return 2;
    }
    const bool comes = 0 == strcmp("comes", argv[2]);
    set_interface(argv[1], comes ? "down" : "up");
    suite_begin(&suite, "nic_comes", &argc, &argv);
    sums(&suite, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    set_interface(argv[1], comes ? "up" : "down");
    MPI_Barrier(MPI_COMM_WORLD);
    sums(&suite, 1);
    sums(&suite, 0);
    return suite_end(&suite);
}
