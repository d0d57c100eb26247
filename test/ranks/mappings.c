/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * How long peers' buffers stay mapped by default. Calls on the same buffers again and again open them
 * once, if what a rank maps in a call takes a quarter of the GPU's memory at most. More than that is not mapped at all:
 * it would not stay mapped, since a peer that frees such buffers wants its memory back, and so each call would open all
 * of it anew. What is mapped is the whole allocation, however small the buffers in it are; pools of memory make large
 * ones.
 * Before that, an allocation is used ipc_uses times (a key of coll_gpuhier_tune), a call being one use, whatever its
 * other buffer is.
 *
 *   mappings     for emulated GPUs only, whose openings are counted
 */
#include "calls.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

#define CALLS 8
#define PART_BYTES ((size_t) 1 << 20) /* too long for the form of short messages, which maps nothing */

/* By the emulator's count, of this process. */
static unsigned long long count(const char *name)
{
    unsigned long long value = 0;

    if (!buffer_emulator_count(name, &value)) {
        fprintf(stderr, "mappings: these GPUs are not emulated\n");
        exit(2);
    }
    return value;
}

/* So many calls on the same buffers, which may be one, each with other values. */
static void calls(suite_t *suite, int ncalls, double *send, double *recv, size_t n, double *host)
{
    const double ranks = 0.5 * suite->nranks * (suite->nranks + 1);

    for (int call = 0; call < ncalls; ++call) {
        const double salt = (double) ++suite->salt;
        for (size_t i = 0; i < n; ++i) {
            host[i] = (suite->rank + 1) * salt + suite->nranks * (double) (i % 1021);
        }
        CUDA_MUST(cudaMemcpy(send, host, n * sizeof(*host), cudaMemcpyHostToDevice));
        ++suite->calls;
        const void *input = send == recv ? MPI_IN_PLACE : send;
        if (MPI_SUCCESS != MPI_Allreduce(input, recv, (int) n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD)) {
            suite_fail(suite, "call %d: an error", call);
        }
        CUDA_MUST(cudaMemcpy(host, recv, n * sizeof(*host), cudaMemcpyDeviceToHost));
        for (size_t i = 0; i < n; ++i) {
            if (ranks * salt + suite->nranks * suite->nranks * (double) (i % 1021) != host[i]) {
                suite_fail(suite, "call %d: wrong at element %zu", call, i);
                break;
            }
        }
    }
}

static double *host_make(size_t bytes)
{
    double *host = malloc(bytes);

    if (NULL == host) {
        fprintf(stderr, "mappings: out of memory\n");
        exit(2);
    }
    return host;
}

/* How often this rank opened a peer's buffer, first, and then in calls that had all been made before. */
static void count_opened(suite_t *suite, size_t bytes, unsigned long long *first_p, unsigned long long *again_p)
{
    double *send, *recv, *host = host_make(bytes);

    CUDA_MUST(cudaMalloc((void **) &send, bytes));
    CUDA_MUST(cudaMalloc((void **) &recv, bytes));
    const unsigned long long before = count("ipc_opens");
    calls(suite, CALLS, send, recv, bytes / sizeof(*host), host);
    const unsigned long long between = count("ipc_opens");
    calls(suite, CALLS, send, recv, bytes / sizeof(*host), host);
    *first_p = between - before;
    *again_p = count("ipc_opens") - between;
    MPI_Barrier(MPI_COMM_WORLD);
    CUDA_MUST(cudaFree(send));
    CUDA_MUST(cudaFree(recv));
    free(host);
}

/* How often this rank opened a peer's memory in calls on two small parts of one allocation of so many bytes. */
static unsigned long long opened_of_pool(suite_t *suite, size_t pool_bytes)
{
    double *pool, *host = host_make(PART_BYTES);

    CUDA_MUST(cudaMalloc((void **) &pool, pool_bytes));
    const unsigned long long before = count("ipc_opens");
    for (int i = 0; i < 2; ++i) {
        calls(suite, CALLS, pool, pool + PART_BYTES / sizeof(*pool), PART_BYTES / sizeof(*pool), host);
    }
    const unsigned long long opened = count("ipc_opens") - before;
    MPI_Barrier(MPI_COMM_WORLD);
    CUDA_MUST(cudaFree(pool));
    free(host);
    return opened;
}

/* Is it the next call but `uses` on these buffers that opens the peers', and so many allocations of each? */
static void check_opened_after(suite_t *suite, const char *what, uint64_t uses, double *send, double *recv,
                               size_t allocations, double *host)
{
    const size_t n = PART_BYTES / sizeof(*host);
    const unsigned long long before = count("ipc_opens"), wanted = allocations * (size_t) (suite->nranks - 1);
    calls(suite, (int) uses, send, recv, n, host);
    const unsigned long long early = count("ipc_opens") - before;
    calls(suite, 1, send, recv, n, host);
    const unsigned long long now = count("ipc_opens") - before - early;
    calls(suite, 1, send, recv, n, host);
    const unsigned long long late = count("ipc_opens") - before - early - now;
    if (0 != early || wanted != now || 0 != late) {
        suite_fail(suite, "%s: %llu buffers were opened in %llu calls, %llu in the next, %llu then, and not 0, %llu, 0",
                   what, early, (unsigned long long) uses, now, late, wanted);
    }
}

/* From which call on buffers are mapped. Returns the number of calls. */
static uint64_t check_uses(suite_t *suite)
{
    const unsigned long before = suite->calls;
    const size_t n = PART_BYTES / sizeof(double);
    const uint64_t uses = 3; /* the default of ipc_uses */
    double *buffer[9], *unmapped, *host = host_make(PART_BYTES);

    for (int i = 0; i < 9; ++i) {
        CUDA_MUST(cudaMalloc((void **) &buffer[i], 2 * PART_BYTES));
    }
    CUDA_MUST(cudaMallocAsync((void **) &unmapped, PART_BYTES, 0));
    CUDA_MUST(cudaDeviceSynchronize());
    check_opened_after(suite, "apart", uses, buffer[0], buffer[1], 2, host);
    check_opened_after(suite, "in place", uses, buffer[2], buffer[2], 1, host);
    check_opened_after(suite, "two parts of an allocation", uses, buffer[3] + n, buffer[3], 1, host);
    calls(suite, (int) uses, buffer[4], buffer[4], n, host);
    check_opened_after(suite, "apart, the receive buffer used before", uses, buffer[5], buffer[4], 2, host);
    calls(suite, (int) uses, buffer[6], buffer[6], n, host);
    check_opened_after(suite, "apart, the send buffer used before", uses, buffer[6], buffer[7], 2, host);
    calls(suite, (int) uses, unmapped, buffer[8], n, host);
    check_opened_after(suite, "received from what cannot be mapped before", 0, buffer[8], buffer[8], 1, host);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 9; ++i) {
        CUDA_MUST(cudaFree(buffer[i]));
    }
    CUDA_MUST(cudaFreeAsync(unmapped, 0));
    CUDA_MUST(cudaDeviceSynchronize());
    free(host);
    return suite->calls - before;
}

int main(int argc, char **argv)
{
    size_t free_bytes, quarter;
    suite_t suite;
    pvars_t before, after;

    suite_begin(&suite, "mappings", &argc, &argv);
    CUDA_MUST(cudaMemGetInfo(&free_bytes, &quarter));
    quarter /= 4;
    const size_t mapped = 2 * (size_t) (suite.nranks - 1); /* buffers of peers in a call */
    const size_t fits = quarter / mapped / 10 * 8 / 4096 * 4096, too_long = quarter / mapped / 10 * 15 / 4096 * 4096;
    pvars_read(&before);
    unsigned long long first, again, opened;
    count_opened(&suite, 64 << 10, &first, &again); /* scratch is mapped once */
    count_opened(&suite, fits, &first, &again);
    if (mapped != first || 0 != again) {
        suite_fail(
            &suite,
            "%zu buffers of %zu bytes fit a quarter of the GPU's memory, and were opened %llu times, then %llu times",
            mapped, fits, first, again);
    }
    count_opened(&suite, too_long, &first, &again);
    if (0 != first + again) {
        suite_fail(&suite,
                   "%zu buffers of %zu bytes are more than a quarter of the GPU's memory, and were opened %llu times",
                   mapped, too_long, first + again);
    }
    const size_t peers = (size_t) (suite.nranks - 1), pool_fits = quarter / peers / 10 * 8,
                 pool_too_long = quarter / peers / 10 * 12;
    opened = opened_of_pool(&suite, pool_fits);
    if (peers != opened) {
        suite_fail(&suite, "%zu allocations of %zu bytes fit a quarter of the GPU's memory, and were opened %llu times",
                   peers, pool_fits, opened);
    }
    opened = opened_of_pool(&suite, pool_too_long);
    if (0 != opened) {
        suite_fail(
            &suite,
            "%zu allocations of %zu bytes are more than a quarter of the GPU's memory, and were opened %llu times",
            peers, pool_too_long, opened);
    }
    const uint64_t all = 10 * CALLS + check_uses(&suite);
    pvars_read(&after);
    if (all != after.accelerated - before.accelerated) {
        suite_fail(&suite, "%llu of %llu calls were accelerated",
                   (unsigned long long) (after.accelerated - before.accelerated), (unsigned long long) all);
    }
    return suite_end(&suite);
}
