/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Ranks that wait in Open MPI for those that are still in the call before. Where the network is slow and takes little
 * at a time, the end of what a rank sent last is still in UCX when its call returns, and must get out while it waits.
 *
 *   call_and_barrier [--stock] COUNT CALLS   doubles
 */
#include "calls.h"

#include <stdlib.h>

int main(int argc, char **argv)
{
    suite_t suite;

    suite_begin(&suite, "call_and_barrier", &argc, &argv);
    const size_t count = argc > 1 ? strtoul(argv[1], NULL, 0) : 1;
    const int calls = argc > 2 ? atoi(argv[2]) : 1;
    for (int i = 0; i < calls; ++i) {
        call_t call = {.type = value_type_find("double"),
                       .op = value_op_find("sum"),
                       .count = count,
                       .comm = MPI_COMM_WORLD,
                       .in_place = 1 == i % 2,
                       .path = suite.default_path};
        suite_call(&suite, &call);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return suite_end(&suite);
}
