/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Many calls, of which the highest rank is always the last to come, so that it waits for its own GPU at most: what it
 * executes in counted_call() is the whole host overhead of a call. For the script `instructions`.
 *
 *   small_calls N [DOUBLES]
 *
 * Without DOUBLES the calls are short ones, of one double. Else they must be longer than short ones.
 */
#include "../ranks/calls.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WARMUPS 16 /* after so many calls buffers are mapped */
#define LATE_US 10000

__attribute__((noinline)) int counted_call(const double *in, double *out, int count);

int counted_call(const double *in, double *out, int count)
{
    return MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    suite_t suite;
    double *in, *out, got = 0.0;
    pvars_t before, after;

    suite_begin(&suite, "small_calls", &argc, &argv);
    const int n = argc > 1 ? atoi(argv[1]) : 100, count = argc > 2 ? atoi(argv[2]) : 1;
    const size_t bytes = (size_t) count * sizeof(double);
    CUDA_MUST(cudaMalloc((void **) &in, bytes));
    CUDA_MUST(cudaMalloc((void **) &out, bytes));
    CUDA_MUST(cudaMemset(in, 0, bytes));
    const double mine = suite.rank + 1;
    CUDA_MUST(cudaMemcpy(in, &mine, sizeof(mine), cudaMemcpyHostToDevice));
    for (int i = 0; i < WARMUPS; ++i) {
        MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    pvars_read(&before);
    for (int i = 0; i < n; ++i) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (suite.nranks - 1 == suite.rank) {
            usleep(LATE_US);
        }
        if (MPI_SUCCESS != counted_call(in, out, count)) {
            suite_fail(&suite, "call %d failed", i);
        }
        ++suite.calls;
    }
    pvars_read(&after);
    const uint64_t wanted = count > 1 ? 0 : (uint64_t) n;
    if (wanted != after.small - before.small || (uint64_t) n != after.accelerated - before.accelerated) {
        suite_fail(&suite, "of %d calls %llu were accelerated, %llu of these short", n,
                   (unsigned long long) (after.accelerated - before.accelerated),
                   (unsigned long long) (after.small - before.small));
    }
    CUDA_MUST(cudaMemcpy(&got, out, sizeof(got), cudaMemcpyDeviceToHost));
    if (got != suite.nranks * (suite.nranks + 1) / 2.0) {
        suite_fail(&suite, "the sum is %g", got);
    }
    CUDA_MUST(cudaFree(in));
    CUDA_MUST(cudaFree(out));
    return suite_end(&suite);
}
