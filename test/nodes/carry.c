/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Short calls between nodes, whose input and result a kernel carries: it is the only work on the GPU, unless it leaves
 * before the result is there. Then the host copies the result. Counted by the emulator.
 *
 *   carry [none]
 *
 * none: here all such calls are copied in and out.
 * Work on a stream fills the call's buffers, and the program does not wait for it before the call.
 */
#include "calls.h"

#include <cuda_runtime.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define CALLS 20
#define COUNT 1000 /* most doubles: 8000 bytes */

typedef struct work {
    unsigned long long launches, copies;
} work_t;

static bool work_count(work_t *work)
{
    return buffer_emulator_count("launches", &work->launches) && buffer_emulator_count("copies", &work->copies);
}

/* One call of `count` doubles, each the sum of rank + i + round over all ranks. late: rank 0 comes 50 ms after the
 * others. Adds the work that the call itself was to this rank's GPU. */
static void one_call(suite_t *suite, double *in, double *out, int count, int round, bool late, work_t *sum)
{
    static double host[COUNT], result[COUNT];
    const struct timespec pause = {.tv_nsec = 50000000};
    work_t first = {0, 0}, last = {0, 0};
    for (int i = 0; i < count; ++i) {
        host[i] = suite->rank + i + round;
    }
    CUDA_MUST(cudaMemcpyAsync(in, host, sizeof(double) * (size_t) count, cudaMemcpyHostToDevice, 0));
    if (late && 0 == suite->rank) {
        nanosleep(&pause, NULL);
    }
    const bool counted = work_count(&first);
    MPI_Allreduce(in == out ? MPI_IN_PLACE : in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (counted && work_count(&last)) {
        sum->launches += last.launches - first.launches;
        sum->copies += last.copies - first.copies;
    }
    CUDA_MUST(cudaMemcpy(result, out, sizeof(double) * (size_t) count, cudaMemcpyDeviceToHost));
    const double ranks = suite->nranks;
    suite->calls++;
    for (int i = 0; i < count; ++i) {
        if (result[i] != ranks * (ranks - 1) / 2 + ranks * (i + round)) {
            suite_fail(suite, "call %d: element %d is %g", round, i, result[i]);
            return;
        }
    }
}

int main(int argc, char **argv)
{
    suite_t suite;
    work_t prompt = {0, 0}, late = {0, 0}, none = {0, 0};
    double *in, *out;
    suite_begin(&suite, "carry", &argc, &argv);
    const unsigned long long launches = argc > 1 ? 0 : CALLS, most_copies = argc > 1 ? 2 * CALLS : CALLS;
    CUDA_MUST(cudaMalloc((void **) &in, sizeof(double) * COUNT));
    CUDA_MUST(cudaMalloc((void **) &out, sizeof(double) * COUNT));
    for (int i = 0; i < 3; ++i) { /* the first ones set up */
        one_call(&suite, in, out, 1, i, false, &none);
    }
    for (int i = 0; i < CALLS; ++i) {
        one_call(&suite, in, 0 == i % 3 ? in : out, 1 + i * (COUNT - 1) / (CALLS - 1), i, false, &prompt);
    }
    for (int i = 0; i < CALLS; ++i) {
        one_call(&suite, in, out, COUNT, i, true, &late);
    }
    if (work_count(&none)) {
        printf("rank %d: %llu launches and %llu copies in %d calls; where one rank is late %llu and %llu\n", suite.rank,
               prompt.launches, prompt.copies, CALLS, late.launches, late.copies);
        if (launches != prompt.launches || launches != late.launches) {
            suite_fail(&suite, "%llu and %llu launches in %d calls", prompt.launches, late.launches, CALLS);
        }
        if (prompt.copies > most_copies || late.copies > most_copies) {
            suite_fail(&suite, "%llu and %llu copies in %d calls", prompt.copies, late.copies, CALLS);
        }
        if ((0 != suite.rank && 0 == late.copies) || (0 == launches && prompt.copies < most_copies)) {
            suite_fail(&suite, "%llu and %llu copies are too few", prompt.copies, late.copies);
        }
    }
    CUDA_MUST(cudaFree(in));
    CUDA_MUST(cudaFree(out));
    return suite_end(&suite);
}
