/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The ranks of a node cannot map each other's GPU memory ("as isolated"): right results, and no byte goes through
 * the network between ranks of a node. Out of place, in place, nonblocking and persistent calls.
 *
 *   isolated NODES [declined]     1 or 2 nodes; declined: the component must leave all calls to Open MPI
 *
 * Two nodes exchange each of a message's B bytes once in both directions, whatever the algorithm: 2 B in all.
 */
#include "calls.h"

#include <stdlib.h>
#include <string.h>

static void one(suite_t *suite, const call_t *call, int nnodes, bool declined)
{
    pvars_t before, after;
    uint64_t got = 0;
    pvars_read(&before);
    suite_call(suite, call);
    pvars_read(&after);
    got = pvars_net_bytes(&before, &after);
    MPI_Allreduce(MPI_IN_PLACE, &got, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    const uint64_t expected = 1 == nnodes || declined ? 0 : 2 * call->count * sizeof(double);
    if (got != expected) {
        suite_fail(suite, "%zu doubles took %llu bytes over the network, expected %llu", call->count,
                   (unsigned long long) got, (unsigned long long) expected);
    }
}

int main(int argc, char **argv)
{
    /* 64 KiB to 4 MiB, and the longest not in whole units. */
    static const size_t counts[] = {8192, 65536, 262144, 524288, 524287};
    suite_t suite;

    suite_begin(&suite, "isolated", &argc, &argv);
    const int nnodes = argc > 1 ? atoi(argv[1]) : 0;
    const bool declined = argc > 2 && 0 == strcmp(argv[2], "declined");
    if (nnodes < 1 || nnodes > 2) {
        suite_fail(&suite, "1 or 2 nodes");
        return suite_end(&suite);
    }
    call_t call = {.comm = MPI_COMM_NULL, .type = value_type_find("double"), .op = value_op_find("sum")};
    call.count = counts[0];
    suite_call(&suite, &call); /* sets up */
    call.path = declined ? PATH_SAVED : PATH_ACCELERATED;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); ++i) {
        call.count = counts[i];
        for (int in_place = 0; in_place < 2; ++in_place) {
            call.in_place = 0 != in_place;
            one(&suite, &call, nnodes, declined);
        }
    }
    return suite_end(&suite);
}
