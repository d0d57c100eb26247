/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Set-up tries what the GPUs of a node can map once for the same processes, and anew where a context was lost.
 *
 *   fault_tried
 *
 * Counts the kernels that the component launches in the first call of a communicator, which sets it up, and in the
 * second one. A trial launches kernels. It takes place in the first call of MPI_COMM_WORLD, and not in those of a
 * duplicate, of a part, and of the same ranks in another order. Then rank 0 resets its GPU: its neighbours remember a
 * context that is gone, so the trial takes place in the next duplicate, and not in the one after. All results are
 * right. Where ranks share a node with no other rank there is no trial.
 */
#include <cuda_runtime_api.h>
#include <stdlib.h>

#include "fault_lib.h"

#define COUNT 1000

/* The component's launches in a call. */
static long launches_of(suite_t *suite, const saboteur_t *saboteur, MPI_Comm comm, pair_t *pair)
{
    saboteur->arm("");
    if (OUTCOME_RIGHT != pair_call(suite, comm, pair, COUNT, ++suite->salt)) {
        suite_fail(suite, "a call is not right");
    }
    return saboteur->calls("cuLaunchKernel");
}

/* Sets the communicator up. tries: this rank takes part in a trial. */
static void expect(suite_t *suite, const saboteur_t *saboteur, MPI_Comm comm, pair_t *pair, bool tries,
                   const char *what)
{
    const long first = launches_of(suite, saboteur, comm, pair), second = launches_of(suite, saboteur, comm, pair);
    if (tries != (first > second)) {
        suite_fail(suite, "%s: %ld launches in the first call, %ld in the second", what, first, second);
    }
    ++suite->calls;
}

int main(int argc, char **argv)
{
    suite_t suite;
    saboteur_t saboteur;
    pair_t pair;
    MPI_Comm comm, node;
    int on_node;
    suite_begin(&suite, "fault_tried", &argc, &argv);
    saboteur_find(&saboteur);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &on_node);
    const bool is_first_node = suite.rank<on_node, has_neighbours = on_node> 1;
    MPI_Comm_free(&node);
    pair_alloc(&pair, COUNT);

    expect(&suite, &saboteur, MPI_COMM_WORLD, &pair, has_neighbours, "MPI_COMM_WORLD");
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    expect(&suite, &saboteur, comm, &pair, false, "a duplicate");
    MPI_Comm_free(&comm);
    MPI_Comm_split(MPI_COMM_WORLD, suite.rank > 0, -suite.rank, &comm);
    if (suite.rank > 0 && suite.nranks > 2) {
        expect(&suite, &saboteur, comm, &pair, false, "a part");
    }
    MPI_Comm_free(&comm);

    suite.salt = 100; /* the same on all ranks again */
    if (0 == suite.rank) {
        pair_free(&pair);
        CUDA_MUST(cudaDeviceReset());
        pair_alloc(&pair, COUNT);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int tries = 1; tries >= 0; --tries) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        expect(&suite, &saboteur, comm, &pair, tries && has_neighbours && is_first_node, "a duplicate after the reset");
        MPI_Comm_free(&comm);
    }
    pair_free(&pair);
    return suite_end(&suite);
}
