/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Calls on a few buffers in turn, as programs make them, while single ranks replace buffers. Offsets change from call
 * to call, and some calls are in place. Whatever ranks remember of earlier calls on the same memory, every result must
 * be right.
 */
#include "calls.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

#define CALLS 120
#define BUFFERS 4
#define ELEMENTS 16384 /* longer than the form of short messages, which maps nothing */
#define ROOM (ELEMENTS + 64)

/* The same on all ranks. */
static unsigned draw(unsigned below)
{
    static unsigned long long state = 20261;
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned) (state >> 33) % below;
}

static void call(suite_t *suite, double *from, double *to, double *host)
{
    const double salt = (double) ++suite->salt, ranks = 0.5 * suite->nranks * (suite->nranks + 1);
    for (int i = 0; i < ELEMENTS; ++i) {
        host[i] = (suite->rank + 1) * (salt + i % 1021);
    }
    CUDA_MUST(cudaMemcpy(from, host, ELEMENTS * sizeof(*host), cudaMemcpyHostToDevice));
    ++suite->calls;
    if (MPI_SUCCESS
        != MPI_Allreduce(from == to ? MPI_IN_PLACE : from, to, ELEMENTS, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD)) {
        suite_fail(suite, "call %lu: an error", suite->calls);
    }
    CUDA_MUST(cudaMemcpy(host, to, ELEMENTS * sizeof(*host), cudaMemcpyDeviceToHost));
    for (int i = 0; i < ELEMENTS; ++i) {
        if (ranks * (salt + i % 1021) != host[i]) {
            suite_fail(suite, "call %lu: element %d is %g and not %g", suite->calls, i, host[i],
                       ranks * (salt + i % 1021));
            break;
        }
    }
}

int main(int argc, char **argv)
{
    suite_t suite;
    pvars_t before, after;
    double *buffer[BUFFERS], *host = malloc(ELEMENTS * sizeof(*host));

    suite_begin(&suite, "buffers_again", &argc, &argv);
    for (int i = 0; i < BUFFERS && NULL != host; ++i) {
        CUDA_MUST(cudaMalloc((void **) &buffer[i], ROOM * sizeof(double)));
    }
    if (NULL == host) {
        suite_fail(&suite, "out of memory");
        return suite_end(&suite);
    }
    pvars_read(&before);
    for (int i = 0; i < CALLS; ++i) {
        const unsigned from = draw(BUFFERS), to = draw(BUFFERS), old = draw(BUFFERS),
                       who = draw((unsigned) suite.nranks);
        double *in = buffer[from] + draw(8) * 8, *out = from == to ? in : buffer[to] + draw(8) * 8;
        call(&suite, in, out, host);
        if (0 == draw(8) && (int) who == suite.rank) {
            CUDA_MUST(cudaFree(buffer[old]));
            CUDA_MUST(cudaMalloc((void **) &buffer[old], ROOM * sizeof(double)));
        }
    }
    pvars_read(&after);
    if (CALLS != after.accelerated - before.accelerated) {
        suite_fail(&suite, "%llu of %d calls were accelerated",
                   (unsigned long long) (after.accelerated - before.accelerated), CALLS);
    }
    for (int i = 0; i < BUFFERS; ++i) {
        CUDA_MUST(cudaFree(buffer[i]));
    }
    free(host);
    return suite_end(&suite);
}
