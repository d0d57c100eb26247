/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Ranks that wait in Open MPI for those that are still in the call before. Where the network is slow and takes little
 * at a time, the end of what a rank sent last is still in UCX when its call returns, and must get out while it waits.
 *
 *   call_and_barrier [--stock] COUNT CALLS [BARRIERS]   doubles
 *
 * After each call there is a barrier, or so many nonblocking ones: Open MPI gives each a tag of its own.
 */
#include "calls.h"

#include <stdlib.h>

#define AT_ONCE 100

int main(int argc, char **argv)
{
    suite_t suite;

    suite_begin(&suite, "call_and_barrier", &argc, &argv);
    const size_t count = argc > 1 ? strtoul(argv[1], NULL, 0) : 1;
    const int calls = argc > 2 ? atoi(argv[2]) : 1;
    const int barriers = argc > 3 ? atoi(argv[3]) : 0;
    for (int i = 0; i < calls; ++i) {
        call_t call = {.type = value_type_find("double"),
                       .op = value_op_find("sum"),
                       .count = count,
                       .comm = MPI_COMM_WORLD,
                       .in_place = 1 == i % 2,
                       .path = suite.default_path};
        suite_call(&suite, &call);
        if (0 == barriers) {
            MPI_Barrier(MPI_COMM_WORLD);
        }
        for (int k = 0; k < barriers; k += AT_ONCE) {
            MPI_Request requests[AT_ONCE];
            for (int n = 0; n < AT_ONCE; ++n) {
                MPI_Ibarrier(MPI_COMM_WORLD, &requests[n]);
            }
            MPI_Waitall(AT_ONCE, requests, MPI_STATUSES_IGNORE);
        }
    }
    return suite_end(&suite);
}
