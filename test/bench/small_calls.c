/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Many short calls, of which the highest rank is always the last to come, so that it never waits: what it
 * executes in counted_call() is the whole host overhead of a call. For the script `instructions`.
 *
 *   small_calls N
 */
#include "../ranks/calls.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WARMUPS 2
#define LATE_US 10000

__attribute__((noinline)) int counted_call(const double *in, double *out);

int counted_call(const double *in, double *out)
{
    return MPI_Allreduce(in, out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    suite_t suite;
    double *in, *out, got = 0.0;
    pvars_t before, after;

    suite_begin(&suite, "small_calls", &argc, &argv);
    const int n = argc > 1 ? atoi(argv[1]) : 100;
    CUDA_MUST(cudaMalloc((void **) &in, sizeof(double)));
    CUDA_MUST(cudaMalloc((void **) &out, sizeof(double)));
    const double mine = suite.rank + 1;
    CUDA_MUST(cudaMemcpy(in, &mine, sizeof(mine), cudaMemcpyHostToDevice));
    for (int i = 0; i < WARMUPS; ++i) {
        MPI_Allreduce(in, out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    pvars_read(&before);
    for (int i = 0; i < n; ++i) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (suite.nranks - 1 == suite.rank) {
            usleep(LATE_US);
        }
        if (MPI_SUCCESS != counted_call(in, out)) {
            suite_fail(&suite, "call %d failed", i);
        }
        ++suite.calls;
    }
    pvars_read(&after);
    if ((uint64_t) n != after.small - before.small) {
        suite_fail(&suite, "%llu of %d calls were reduced by the host", (unsigned long long) (after.small - before.small), n);
    }
    CUDA_MUST(cudaMemcpy(&got, out, sizeof(got), cudaMemcpyDeviceToHost));
    if (got != suite.nranks * (suite.nranks + 1) / 2.0) {
        suite_fail(&suite, "the sum is %g", got);
    }
    CUDA_MUST(cudaFree(in));
    CUDA_MUST(cudaFree(out));
    return suite_end(&suite);
}
