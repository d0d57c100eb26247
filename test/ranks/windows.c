/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Short messages that the host reads and writes in GPU memory itself, through windows that it pins and maps. For
 * emulated GPUs with CUDASIM_GDR, and ipc_uses=2.
 *
 *   windows [mapped|refused|one|asked]   which ranks' calls must be mapped: all, none, or, the default, all but rank
 * 1's; asked: all, and those behind which nothing is queued record no event
 *
 * Many buffers, more than windows are kept for; buffers that are freed and allocated again at the same address; parts
 * of a page, and messages across two; work that is still queued on the default stream and on a blocking stream; and at
 * the end nothing is left pinned.
 */
#include "calls.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USES 2 /* of ipc_uses */
#define PAGE 65536
#define BUFFERS 50 /* each of them in pages of its own; windows have room for 32 pages */
#define MOST_PINNED 33
#define ELEMENTS 17
#define ORDER_ROUNDS 20

static bool is_mapped; /* this rank's calls must be */
static bool
    is_asked; /* a query tells that the program's work has ended (CUDASIM_LEGACY_QUERY=blocking): no event must */

static unsigned long long count(const char *name)
{
    unsigned long long value = 0;

    if (!buffer_emulator_count(name, &value)) {
        fprintf(stderr, "windows: these GPUs are not emulated\n");
        exit(2);
    }
    return value;
}

static void fill(const suite_t *suite, double *host, int n)
{
    for (int i = 0; i < n; ++i) {
        host[i] = (suite->rank + 1) * (double) (suite->salt + (uint64_t) i);
    }
}

static void check(suite_t *suite, const char *what, const double *host, int n)
{
    const double ranks = 0.5 * suite->nranks * (suite->nranks + 1);

    for (int i = 0; i < n; ++i) {
        if (ranks * (double) (suite->salt + (uint64_t) i) != host[i]) {
            suite_fail(suite, "%s: element %d is %g", what, i, host[i]);
            break;
        }
    }
}

/* One call on buffers whose input is there. Was it mapped? */
static bool reduce(suite_t *suite, const char *what, const double *in, double *out, int n)
{
    pvars_t before, after;

    pvars_read(&before);
    ++suite->calls;
    if (MPI_SUCCESS != MPI_Allreduce(in == out ? MPI_IN_PLACE : in, out, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD)) {
        suite_fail(suite, "%s: an error", what);
    }
    pvars_read(&after);
    if (1 != after.accelerated - before.accelerated) {
        suite_fail(suite, "%s: was not accelerated", what);
    }
    return 1 == after.mapped - before.mapped;
}

static bool call(suite_t *suite, const char *what, double *in, double *out, int n)
{
    double host[ELEMENTS];

    ++suite->salt;
    fill(suite, host, n);
    CUDA_MUST(cudaMemcpy(in, host, (size_t) n * sizeof(*host), cudaMemcpyHostToDevice));
    const bool mapped = reduce(suite, what, in, out, n);
    CUDA_MUST(cudaMemcpy(host, out, (size_t) n * sizeof(*host), cudaMemcpyDeviceToHost));
    check(suite, what, host, n);
    return mapped;
}

/* So many calls: none of the first USES of them is mapped, and all others are. */
static void calls(suite_t *suite, const char *what, double *in, double *out, int ncalls)
{
    for (int i = 0; i < ncalls; ++i) {
        const bool mapped = call(suite, what, in, out, ELEMENTS);
        if ((is_mapped && i >= USES) != mapped) {
            suite_fail(suite, "%s, call %d: was %smapped", what, i, mapped ? "" : "not ");
        }
    }
}

static double *make(size_t bytes)
{
    void *memory;

    CUDA_MUST(cudaMalloc(&memory, bytes));
    return memory;
}

/* Allocations of a page each, and large ones, of which each has a window of its own. */
static void run_many(suite_t *suite)
{
    double *buffers[BUFFERS];
    int mapped = 0;

    for (int i = 0; i < BUFFERS; ++i) {
        buffers[i] = make(i % 10 ? PAGE : 4 << 20);
    }
    for (int round = 0; round < 2 * USES + 2; ++round) {
        for (int i = 0; i < BUFFERS; ++i) {
            mapped += call(suite, "many buffers", buffers[i], buffers[(i + round) % BUFFERS], ELEMENTS);
        }
        if (count("gdr_live") > MOST_PINNED) {
            suite_fail(suite, "%llu windows are pinned", count("gdr_live"));
        }
    }
    if (is_mapped != (mapped > 0)) {
        suite_fail(suite, "of calls on many buffers %d were mapped", mapped);
    }
    for (int i = 0; i < BUFFERS; ++i) {
        CUDA_MUST(cudaFree(buffers[i]));
    }
}

/* A stale window of large memory gives SIGBUS, and one of small memory may lie elsewhere. */
static void run_freed(suite_t *suite, size_t bytes)
{
    double *last = NULL, *buffer;
    int same = 0;

    for (int round = 0; round < 6; ++round) {
        buffer = make(bytes);
        same += last == buffer;
        last = buffer;
        calls(suite, "freed and allocated again", buffer, buffer, USES + 2);
        CUDA_MUST(cudaFree(buffer));
    }
    if (0 == same) {
        suite_fail(suite, "no allocation came to lie where the one before had been: this checks nothing");
    }
}

/* In place, in two parts of an allocation, across the border of two pages, at odd elements. */
static void run_places(suite_t *suite)
{
    double *memory = make(4 * PAGE);
    double *border = memory + 2 * PAGE / sizeof(double) - (uintptr_t) memory % PAGE / sizeof(double);

    calls(suite, "in place", memory + 1, memory + 1, USES + 2);
    calls(suite, "parts of an allocation", border - ELEMENTS / 2, memory + 2000, USES + 2);
    const unsigned long long before = count("event_records");
    for (int n = 1; n <= ELEMENTS; ++n) {
        for (int offset = 0; offset < 4; ++offset) {
            if (is_mapped != call(suite, "other lengths", memory + 1 + offset, memory + 2000 + 3 * offset, n)) {
                suite_fail(suite, "%d elements, %d further: was %smapped", n, offset, is_mapped ? "not " : "");
            }
        }
    }
    const unsigned long long records = count("event_records") - before;
    if (is_mapped && records != (is_asked ? 0 : 4 * ELEMENTS)) {
        suite_fail(suite, "%d calls recorded %llu events", 4 * ELEMENTS, records);
    }
    CUDA_MUST(cudaFree(memory));
}

/* The input is still being written, and so is what the program had queued for the receive buffer; the next piece of
 * work reads the result. */
static void run_order(suite_t *suite, cudaStream_t stream, const char *what)
{
    const size_t ballast_bytes = 8 << 20, bytes = ELEMENTS * sizeof(double);
    double *in = make(bytes), *out = make(bytes), *after = make(bytes), *pinned;
    char *ballast = (char *) make(ballast_bytes);
    int mapped = 0;

    CUDA_MUST(cudaMallocHost((void **) &pinned, bytes));
    for (int round = 0; round < ORDER_ROUNDS; ++round) {
        ++suite->salt;
        fill(suite, pinned, ELEMENTS);
        CUDA_MUST(cudaMemsetAsync(ballast, round, ballast_bytes, stream));
        CUDA_MUST(cudaMemcpyAsync(in, pinned, bytes, cudaMemcpyHostToDevice, stream));
        CUDA_MUST(cudaMemsetAsync(out, 0xee, bytes, stream));
        mapped += reduce(suite, what, in, out, ELEMENTS);
        CUDA_MUST(cudaMemcpyAsync(after, out, bytes, cudaMemcpyDeviceToDevice, stream));
        CUDA_MUST(cudaMemcpyAsync(pinned, after, bytes, cudaMemcpyDeviceToHost, stream));
        CUDA_MUST(cudaStreamSynchronize(stream));
        check(suite, what, pinned, ELEMENTS);
    }
    if ((is_mapped ? ORDER_ROUNDS - USES : 0) != mapped) {
        suite_fail(suite, "%s: of %d calls %d were mapped", what, ORDER_ROUNDS, mapped);
    }
    CUDA_MUST(cudaFreeHost(pinned));
    CUDA_MUST(cudaFree(in));
    CUDA_MUST(cudaFree(out));
    CUDA_MUST(cudaFree(after));
    CUDA_MUST(cudaFree(ballast));
}

/* Calls under way at once, two of each kind. */
static void run_nonblocking(suite_t *suite)
{
    double *in[4], *out[4], host[ELEMENTS];
    MPI_Request requests[4];

    for (int i = 0; i < 4; ++i) {
        in[i] = make(sizeof(host));
        out[i] = make(sizeof(host));
    }
    for (int round = 0; round < USES + 3; ++round) {
        pvars_t before, after;
        pvars_read(&before);
        ++suite->salt;
        fill(suite, host, ELEMENTS);
        for (int i = 0; i < 4; ++i) {
            CUDA_MUST(cudaMemcpy(in[i], host, sizeof(host), cudaMemcpyHostToDevice));
            MPI_Iallreduce(in[i], out[i], ELEMENTS, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &requests[i]);
            ++suite->calls;
        }
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        pvars_read(&after);
        for (int i = 0; i < 4; ++i) {
            CUDA_MUST(cudaMemcpy(host, out[i], sizeof(host), cudaMemcpyDeviceToHost));
            check(suite, "nonblocking", host, ELEMENTS);
        }
        if ((is_mapped && round >= USES ? 4 : 0) != after.mapped - before.mapped) {
            suite_fail(suite, "round %d: %llu nonblocking calls were mapped", round,
                       (unsigned long long) (after.mapped - before.mapped));
        }
    }
    for (int i = 0; i < 4; ++i) {
        CUDA_MUST(cudaFree(in[i]));
        CUDA_MUST(cudaFree(out[i]));
    }
}

int main(int argc, char **argv)
{
    suite_t suite;
    cudaStream_t stream;

    suite_begin(&suite, "windows", &argc, &argv);
    const char *what = argc > 1 ? argv[1] : "one";
    is_asked = 0 == strcmp(what, "asked");
    is_mapped = is_asked || 0 == strcmp(what, "mapped") || (0 == strcmp(what, "one") && 1 != suite.rank);
    double *first = make(64);
    /* What a query tells is found out nevertheless while the default stream has work. */
    const size_t ballast_bytes = 16 << 20;
    char *ballast = (char *) make(ballast_bytes);
    for (int i = 0; i < 4; ++i) {
        CUDA_MUST(cudaMemsetAsync(ballast, i, ballast_bytes, 0));
    }
    (void) reduce(&suite, "the first call", first, first, 1);
    CUDA_MUST(cudaFree(ballast));
    (void) call(&suite, "the first call of this size", first, first, 8);
    run_freed(&suite, 4 << 20);
    run_freed(&suite, 1000);
    run_places(&suite);
    CUDA_MUST(cudaStreamCreate(&stream)); /* a blocking one */
    run_order(&suite, 0, "queued on the default stream");
    run_order(&suite, stream, "queued on a blocking stream");
    CUDA_MUST(cudaStreamDestroy(stream));
    run_nonblocking(&suite);
    run_many(&suite);
    if (is_mapped && (0 == count("gdr_reads") || 0 == count("gdr_writes") || 0 == count("gdr_live"))) {
        suite_fail(&suite, "%llu reads, %llu writes, %llu windows", count("gdr_reads"), count("gdr_writes"),
                   count("gdr_live"));
    }
    CUDA_MUST(cudaFree(first));
    int status = suite_end(&suite);
    if (0 != count("gdr_live")) {
        fprintf(stderr, "windows: %llu windows were left pinned\n", count("gdr_live"));
        status = 1;
    }
    return status;
}
