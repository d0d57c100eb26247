/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * coll_gpuhier_algorithm forces the exchange between nodes: right results, and over all ranks as many
 * payload steps and bytes as that algorithm takes, by formulas that are written down here again.
 *
 *   algorithm recursive_doubling|ring|halving     one rank on each node
 *
 * N nodes, p = 2^floor(log2 N), r = N - p; S slices of together B bytes:
 *
 *   recursive_doubling   S (p log2 p + 2 r) steps    (p log2 p + 2 r) B bytes
 *   ring                 S 2 N (N - 1)               2 (N - 1) B
 *   halving              S (2 p log2 p + 2 r)        (2 (p - 1) + 2 r) B
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

static void expect(suite_t *suite, const char *name, uint64_t bytes, uint64_t slices, const uint64_t got[2])
{
    const uint64_t n = (uint64_t) suite->nranks;
    uint64_t p = 1, rounds = 0, steps, times;

    while (2 * p <= n) {
        p *= 2;
        ++rounds;
    }
    if (0 == strcmp(name, "ring")) {
        steps = 2 * n * (n - 1);
        times = 2 * (n - 1);
    } else if (0 == strcmp(name, "halving")) {
        steps = 2 * p * rounds + 2 * (n - p);
        times = 2 * (p - 1) + 2 * (n - p);
    } else {
        steps = times = p * rounds + 2 * (n - p);
    }
    if (got[0] != steps * slices || got[1] != times * bytes) {
        suite_fail(suite, "%s of %llu bytes in %llu slices: %llu steps and %llu bytes, expected %llu and %llu", name,
                   (unsigned long long) bytes, (unsigned long long) slices, (unsigned long long) got[0],
                   (unsigned long long) got[1], (unsigned long long) (steps * slices),
                   (unsigned long long) (times * bytes));
    }
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
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); ++i) {
        call_t call = {.comm = MPI_COMM_NULL,
                       .type = value_type_find("double"),
                       .op = value_op_find("sum"),
                       .count = counts[i],
                       .path = PATH_ACCELERATED};
        pvars_t before, after;
        uint64_t got[2];
        suite_call(&suite, &call); /* sets up */
        pvars_read(&before);
        suite_call(&suite, &call);
        pvars_read(&after);
        got[0] = after.net_steps_sent - before.net_steps_sent;
        got[1] = pvars_net_bytes(&before, &after);
        MPI_Allreduce(MPI_IN_PLACE, got, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        uint64_t bytes = counts[i] * sizeof(double);
        expect(&suite, argv[1], bytes, slices_of(bytes, limit), got);
    }
    return suite_end(&suite);
}
