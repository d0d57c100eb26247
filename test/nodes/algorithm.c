/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * coll_gpuhier_algorithm forces the exchange between nodes: right results, and over all ranks as many
 * payload steps, bytes and kernels as that algorithm takes, by formulas that are written down here again.
 *
 *   algorithm recursive_doubling|ring|halving [HOST]     one rank on each node
 *
 * N nodes, p = 2^floor(log2 N), r = N - p; S slices of together B bytes:
 *
 *   recursive_doubling   S (p log2 p + 2 r) steps    (p log2 p + 2 r) B bytes
 *   ring                 S 2 N (N - 1)               2 (N - 1) B
 *   halving              S (2 p log2 p + 2 r)        (2 (p - 1) + 2 r) B
 *
 * Each rank starts a kernel for each slice before the exchange and one after it. Between these two no rank starts any
 * where the host reduces, which it does up to HOST bytes (65536). Else they start
 *
 *   recursive_doubling   S p (log2 p - 1) if r = 0, S (p log2 p + r) if not
 *   ring                 S N (N - 1)
 *   halving              S (p log2 p + r)
 */
#include "calls.h"

#include <stdlib.h>
#include <string.h>

/* Slices of a message on one rank a node; the component's rule on TCP, see docs/tuning.md. */
static uint64_t slices_of(uint64_t bytes, uint64_t limit)
{
    uint64_t slice = bytes / 8 > 131072 ? bytes / 8 : 131072;
    slice = slice < limit ? slice : limit;
    return (bytes + slice - 1) / slice;
}

static void expect(suite_t *suite, const char *name, uint64_t bytes, uint64_t slices, bool by_host,
                   const uint64_t got[3])
{
    const uint64_t n = (uint64_t) suite->nranks;
    uint64_t p = 1, rounds = 0, steps, times, reductions;

    while (2 * p <= n) {
        p *= 2;
        ++rounds;
    }
    if (0 == strcmp(name, "ring")) {
        steps = 2 * n * (n - 1);
        times = 2 * (n - 1);
        reductions = n * (n - 1);
    } else if (0 == strcmp(name, "halving")) {
        steps = 2 * p * rounds + 2 * (n - p);
        times = 2 * (p - 1) + 2 * (n - p);
        reductions = p * rounds + n - p;
    } else {
        steps = times = p * rounds + 2 * (n - p);
        reductions = n == p ? p * (rounds - 1) : p * rounds + n - p;
    }
    if (got[0] != steps * slices || got[1] != times * bytes) {
        suite_fail(suite, "%s of %llu bytes in %llu slices: %llu steps and %llu bytes, expected %llu and %llu", name,
                   (unsigned long long) bytes, (unsigned long long) slices, (unsigned long long) got[0],
                   (unsigned long long) got[1], (unsigned long long) (steps * slices),
                   (unsigned long long) (times * bytes));
    }
    const uint64_t kernels = slices * (2 * n + (by_host ? 0 : reductions));
    if (got[2] != kernels) {
        suite_fail(suite, "%s of %llu bytes in %llu slices: %llu kernels, expected %llu", name,
                   (unsigned long long) bytes, (unsigned long long) slices, (unsigned long long) got[2],
                   (unsigned long long) kernels);
    }
}

/* Kernels that this process has started. */
static uint64_t kernels_started(suite_t *suite)
{
    unsigned long long launches = 0;
    if (!buffer_emulator_count("launches", &launches)) {
        suite_fail(suite, "needs emulated GPUs, which count kernels");
    }
    return launches;
}

int main(int argc, char **argv)
{
    /* Too long for the host; whole units for every chunk of 2 to 4 nodes, in one slice and in several. */
    static const size_t counts[] = {16 * 3 * 4 * 8, 16 * 3 * 4 * 40, 16 * 3 * 4 * 400};
    uint64_t limit = 0;
    suite_t suite;

    suite_begin(&suite, "algorithm", &argc, &argv);
    if (argc < 2 || !pvars_number("coll_gpuhier_slice_bytes", &limit)) {
        suite_fail(&suite, "no algorithm named, or no component");
        return suite_end(&suite);
    }
    const uint64_t host = argc > 2 ? strtoull(argv[2], NULL, 10) : 65536;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); ++i) {
        call_t call = {.comm = MPI_COMM_NULL,
                       .type = value_type_find("double"),
                       .op = value_op_find("sum"),
                       .count = counts[i],
                       .path = PATH_ACCELERATED};
        pvars_t before, after;
        uint64_t got[3];
        suite_call(&suite, &call); /* sets up */
        pvars_read(&before);
        got[2] = kernels_started(&suite);
        suite_call(&suite, &call);
        pvars_read(&after);
        got[0] = after.net_steps_sent - before.net_steps_sent;
        got[1] = pvars_net_bytes(&before, &after);
        got[2] = kernels_started(&suite) - got[2];
        MPI_Allreduce(MPI_IN_PLACE, got, 3, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        uint64_t bytes = counts[i] * sizeof(double);
        expect(&suite, argv[1], bytes, slices_of(bytes, limit), bytes <= host, got);
    }
    return suite_end(&suite);
}
