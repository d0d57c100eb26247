/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Rounds of nine collectives on host memory: in the stack and in the program's own variables. (The heap is not where
 * the component looks for it under valgrind.) What the component executes in counted_call() is what it costs a program
 * that has nothing on GPUs. For the script `instructions`.
 *
 *   host_calls N
 */
#include "../ranks/calls.h"

#include <stdlib.h>
#include <string.h>

#define RANKS_MAX 16
#define INTS 4 /* of a block */

static int own_in[RANKS_MAX * INTS], own_out[RANKS_MAX * INTS], counts[RANKS_MAX], places[RANKS_MAX];

__attribute__((noinline)) int counted_call(int *in, int *out);

int counted_call(int *in, int *out)
{
    const MPI_Comm all = MPI_COMM_WORLD;
    int failed = MPI_Bcast(in, INTS, MPI_INT, 0, all);
    failed |= MPI_Allgather(in, INTS, MPI_INT, out, INTS, MPI_INT, all);
    failed |= MPI_Allgatherv(in, INTS, MPI_INT, out, counts, places, MPI_INT, all);
    failed |= MPI_Alltoall(in, INTS, MPI_INT, out, INTS, MPI_INT, all);
    failed |= MPI_Alltoallv(in, counts, places, MPI_INT, out, counts, places, MPI_INT, all);
    failed |= MPI_Reduce(in, out, INTS, MPI_INT, MPI_SUM, 0, all);
    failed |= MPI_Reduce_scatter_block(in, out, INTS, MPI_INT, MPI_SUM, all);
    failed |= MPI_Scan(in, out, INTS, MPI_INT, MPI_SUM, all);
    failed |= MPI_Scatter(in, INTS, MPI_INT, out, INTS, MPI_INT, 0, all);
    return failed;
}

int main(int argc, char **argv)
{
    suite_t suite;
    int in[RANKS_MAX * INTS] = {0}, out[RANKS_MAX * INTS];

    suite_begin_host(&suite, "host_calls", &argc, &argv);
    const int n = argc > 1 ? atoi(argv[1]) : 10;
    for (int i = 0; i < suite.nranks; ++i) {
        counts[i] = INTS;
        places[i] = i * INTS;
    }
    for (int i = 0; i < n; ++i) {
        int *from = 0 == i % 2 ? in : own_in, *to = 0 == i % 2 ? out : own_out;
        if (MPI_SUCCESS != counted_call(from, to)) {
            suite_fail(&suite, "round %d failed", i);
        }
        ++suite.calls;
    }
    return suite_end(&suite);
}
