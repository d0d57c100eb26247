/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A rank cannot map a neighbour's memory again in a call that another rank declines: all of them decline.
 *
 *   fault_reopen
 *
 * Needs three ranks on one node, and ipc_idle=0.1. Two communicators have their neighbours' memory mapped. Rank 0
 * resets its GPU. The second communicator is set up anew, which closes what was not used lately, also rank 1's mapping
 * of rank 2; from now on the driver refuses rank 1 each mapping. The next call of the first communicator needs that one
 * again, and rank 0 declines it.
 */
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <unistd.h>

#include "fault_lib.h"

#define COUNT 5000 /* doubles: longer than what the host copies */
#define CALLS 4
#define IDLE 300000 /* microseconds: longer than ipc_idle */
#define PATIENCE 20 /* seconds */

/* Each call is followed by a pause, in microseconds. */
static void calls(suite_t *suite, MPI_Comm comm, pair_t *pair, useconds_t pause, const char *what)
{
    for (int i = 0; i < CALLS; ++i) {
        if (OUTCOME_RIGHT != pair_call(suite, comm, pair, COUNT, ++suite->salt)) {
            suite_fail(suite, "%s: call %d is not right", what, i);
        }
        ++suite->calls;
        usleep(pause);
    }
}

int main(int argc, char **argv)
{
    suite_t suite;
    pair_t pair;
    saboteur_t saboteur;
    MPI_Comm other;
    suite_begin(&suite, "fault_reopen", &argc, &argv);
    saboteur_find(&saboteur);
    pair_alloc(&pair, COUNT);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    calls(&suite, MPI_COMM_WORLD, &pair, 0, "MPI_COMM_WORLD");
    calls(&suite, other, &pair, 0, "the duplicate");
    if (0 == suite.rank) {
        pair_free(&pair);
        CUDA_MUST(cudaDeviceReset());
        pair_alloc(&pair, COUNT);
    }
    usleep(IDLE);
    if (1 == suite.rank) {
        saboteur.arm("cuMemImportFromShareableHandle:*:201,cuIpcOpenMemHandle:*:201");
    }
    deadline(PATIENCE, "calls after the reset");
    calls(&suite, other, &pair, IDLE, "the duplicate after the reset");
    const long before = saboteur.strikes();
    calls(&suite, MPI_COMM_WORLD, &pair, 0, "MPI_COMM_WORLD after the reset");
    deadline(0, NULL);
    if (1 == suite.rank && before == saboteur.strikes()) {
        suite_fail(&suite, "MPI_COMM_WORLD mapped nothing again");
    }
    saboteur.arm("");
    MPI_Comm_free(&other);
    pair_free(&pair);
    return suite_end(&suite);
}
