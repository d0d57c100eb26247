/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Set-up tests what the GPUs of a node can map, for each communicator.
 *
 *   fault_p2p
 *
 * Counts the kernels that the component launches in the first call of a communicator, which sets it up, and in the
 * second one. A test launches kernels. It takes place for MPI_COMM_WORLD, for a duplicate, and for a part of the ranks
 * in another order. Where a rank shares its node with no other rank there is no test.
 *
 * Then rank 0 loses the ability to map its neighbours' memory, while a pending call uses what it has mapped before. The
 * next duplicate is still set up, and its calls are right. So are those of the one after, and of one after rank 0 has
 * reset its GPU.
 */
#include <cuda_runtime_api.h>
#include <stdlib.h>

#include "fault_lib.h"
#include "flight.h"

#define COUNT 1000
#define LONG_COUNT 50000 /* doubles: slices, which need a lane */

static saboteur_t saboteur;
static bool has_neighbours; /* other ranks of this node */

/* The component's launches in a call. */
static long launches_of(suite_t *suite, MPI_Comm comm, pair_t *pair)
{
    saboteur.arm("");
    if (OUTCOME_RIGHT != pair_call(suite, comm, pair, COUNT, ++suite->salt)) {
        suite_fail(suite, "a call is not right");
    }
    return saboteur.calls("cuLaunchKernel");
}

/* Sets the communicator up. tests: this rank takes part in a P2P test. */
static void expect(suite_t *suite, MPI_Comm comm, pair_t *pair, bool tests, const char *what)
{
    const long first = launches_of(suite, comm, pair);
    const long second = launches_of(suite, comm, pair);
    if (tests != (first > second)) {
        suite_fail(suite, "%s: %ld launches in the first call, %ld in the second", what, first, second);
    }
    ++suite->calls;
}

static void expect_duplicate(suite_t *suite, pair_t *pair, const char *what)
{
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    expect(suite, comm, pair, has_neighbours, what);
    MPI_Comm_free(&comm);
}

/* on_node: ranks of MPI_COMM_WORLD on this node. */
static void check_parts(suite_t *suite, pair_t *pair, int on_node)
{
    MPI_Comm comm;
    const uint64_t salt = suite->salt;
    MPI_Comm_split(MPI_COMM_WORLD, suite->rank > 0, -suite->rank, &comm);
    if (suite->rank > 0 && suite->nranks > 2) {
        expect(suite, comm, pair, on_node - (suite->rank < on_node) > 1, "a part");
    }
    MPI_Comm_free(&comm);
    suite->salt = salt + 2; /* the same on all ranks again */
}

/* The last rank posts its part of the call late, so the other ranks' first lanes are in use. */
static void check_unmapped(suite_t *suite, pair_t *pair)
{
    MPI_Comm comm;
    flight_t flight;
    const bool is_last = suite->rank == suite->nranks - 1;
    flight_make(suite, &flight, MPI_COMM_WORLD, "double", "sum", LONG_COUNT, BUFFER_DEVICE, BUFFER_DEVICE, false);
    flight_reduce(suite, &flight);
    flight_fill(suite, &flight);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (!is_last) {
        flight_post(suite, &flight);
    }
    saboteur.arm(0 == suite->rank ? "cuMemImportFromShareableHandle:*:201,cuIpcOpenMemHandle:*:201" : "");
    if (OUTCOME_RIGHT != pair_call(suite, comm, pair, COUNT, ++suite->salt)) {
        suite_fail(suite, "a call is not right on a rank that cannot map its neighbours");
    }
    if (0 == suite->rank && has_neighbours && 0 == saboteur.strikes()) {
        suite_fail(suite, "set-up mapped nothing");
    }
    saboteur.arm("");
    if (is_last) {
        flight_post(suite, &flight);
    }
    MPI_Wait(&flight.request, MPI_STATUS_IGNORE);
    flight_check(suite, &flight, "the pending call");
    flight_free(&flight);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    suite_t suite;
    pair_t pair;
    MPI_Comm node;
    int on_node;
    suite_begin(&suite, "fault_p2p", &argc, &argv);
    saboteur_find(&saboteur);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &on_node);
    MPI_Comm_free(&node);
    has_neighbours = on_node > 1;
    pair_alloc(&pair, COUNT);

    expect(&suite, MPI_COMM_WORLD, &pair, has_neighbours, "MPI_COMM_WORLD");
    expect_duplicate(&suite, &pair, "a duplicate");
    check_parts(&suite, &pair, on_node);
    check_unmapped(&suite, &pair);
    expect_duplicate(&suite, &pair, "a duplicate after a refusal");
    if (0 == suite.rank) {
        pair_free(&pair);
        CUDA_MUST(cudaDeviceReset());
        pair_alloc(&pair, COUNT);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    expect_duplicate(&suite, &pair, "a duplicate after the reset");
    pair_free(&pair);
    return suite_end(&suite);
}
