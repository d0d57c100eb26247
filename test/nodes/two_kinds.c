/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Communicators between nodes in turn, some of which exchange GPU memory and some pinned host memory, since not all
 * NICs reach GPU memory (made_up_nic.c): right results, and after the first calls no memory is made or given back.
 */
#include "calls.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>

#define COUNT (1 << 15)
#define ROUNDS 12
#define FIRST 2 /* rounds that may make memory */

static unsigned long long counter(const char *name)
{
    unsigned long long value = 0;
    return buffer_emulator_count(name, &value) ? value : 0;
}

/* Sums what each rank has, i + rank * round, and looks at the result. */
static void sum(suite_t *suite, MPI_Comm comm, int round, double *host, void *from, void *to)
{
    int size, sum_of_ranks = 0;
    MPI_Comm_size(comm, &size);
    MPI_Allreduce(&suite->rank, &sum_of_ranks, 1, MPI_INT, MPI_SUM, comm);
    for (int i = 0; i < COUNT; ++i) {
        host[i] = i + suite->rank * round;
    }
    (void) cudaMemcpy(from, host, COUNT * sizeof(*host), cudaMemcpyHostToDevice);
    MPI_Allreduce(from, to, COUNT, MPI_DOUBLE, MPI_SUM, comm);
    ++suite->calls;
    (void) cudaMemcpy(host, to, COUNT * sizeof(*host), cudaMemcpyDeviceToHost);
    for (int i = 0; i < COUNT; ++i) {
        if (host[i] != (double) i * size + sum_of_ranks * round) {
            suite_fail(suite, "round %d, element %d of %d ranks: %f", round, i, size, host[i]);
            return;
        }
    }
}

int main(int argc, char **argv)
{
    suite_t suite;
    MPI_Comm half;
    void *from = NULL, *to = NULL;
    suite_begin(&suite, "two_kinds", &argc, &argv);
    MPI_Comm_split(MPI_COMM_WORLD, suite.rank % 2, suite.rank, &half);
    double *host = malloc(COUNT * sizeof(*host));
    if (NULL == host || cudaSuccess != cudaMalloc(&from, COUNT * sizeof(*host))
        || cudaSuccess != cudaMalloc(&to, COUNT * sizeof(*host))) {
        suite_fail(&suite, "no memory");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    pvars_t before, after;
    unsigned long long made = 0, given_back = 0;
    for (int round = 0; round < ROUNDS; ++round) {
        if (FIRST == round) {
            pvars_read(&before);
            made = counter("allocs");
            given_back = counter("frees");
        }
        sum(&suite, MPI_COMM_WORLD, round, host, from, to);
        sum(&suite, half, round, host, from, to);
    }
    pvars_read(&after);
    made = counter("allocs") - made;
    given_back = counter("frees") - given_back;
    if (0 != made || 0 != given_back) {
        suite_fail(&suite, "memory was made %llu times and given back %llu times", made, given_back);
    }
    if (after.accelerated - before.accelerated < 2 * (ROUNDS - FIRST)) {
        suite_fail(&suite, "%llu calls ran on the GPUs", (unsigned long long) (after.accelerated - before.accelerated));
    }
    cudaFree(from);
    cudaFree(to);
    free(host);
    MPI_Comm_free(&half);
    return suite_end(&suite);
}
