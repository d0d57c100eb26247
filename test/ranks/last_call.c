/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Ranks that are done go straight from their last call to MPI_Finalize; one whose GPU is slow is still in
 * that call then, and must end it as if they were there.
 *
 *   last_call COUNT [free]   doubles; the last rank is the slow one
 *
 * free: the call's communicator is freed before, and others than MPI_COMM_WORLD are not used.
 */
#include "calls.h"

#include <stdlib.h>
#include <string.h>

/* Longest delay of one piece of GPU work, far more than others need to leave and a waiting rank to notice that. */
#define SLOW_US "150000"

int main(int argc, char **argv)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *size = getenv("OMPI_COMM_WORLD_SIZE");
    if (NULL != rank && NULL != size && atoi(rank) + 1 == atoi(size)) {
        setenv("CUDASIM_ASYNC", "thread", 1);
        setenv("CUDASIM_MAX_DELAY_US", SLOW_US, 1);
    }
    suite_t suite;
    suite_begin(&suite, "last_call", &argc, &argv);
    const bool frees = argc > 2 && 0 == strcmp(argv[2], "free");
    MPI_Comm comm = MPI_COMM_WORLD;
    if (frees) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    }
    call_t call = {.comm = comm, .type = value_type_find("double"), .op = value_op_find("sum"), .count = argc > 1 ? strtoul(argv[1], NULL, 0) : 1};
    call.path = suite.default_path;
    for (int i = 0; i < 2; ++i) {
        suite_call(&suite, &call);
    }
    if (frees) {
        MPI_Comm_free(&comm);
    }
    return suite_end(&suite);
}
