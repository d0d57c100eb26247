/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The end of a process's life in MPI: it comes once, at the beginning of MPI_Finalize, and what is opened again after
 * it begins anew. One process (a singleton), no GPU. Open MPI 5 crashes in the second session of a process by itself,
 * so this is what can be shown of a component that is opened twice.
 */
#include "base/coll_gpuhier_end.h"

#include <stdio.h>

#include <mpi.h>

static int failures, ends;

static void expect(bool holds, const char *what)
{
    if (!holds) {
        printf("failed: %s\n", what);
        ++failures;
    }
}

static void at_end(void)
{
    int flag = 0;
    ++ends;
    expect(gpuhier_end_has_come(), "at the end it has come");
    expect(MPI_SUCCESS == MPI_Initialized(&flag) && 0 != flag, "MPI still works at the end");
}

int main(int argc, char **argv)
{
    gpuhier_end_open(at_end);
    MPI_Init(&argc, &argv);
    expect(!gpuhier_end_has_come(), "the end has not come after MPI_Init");
    expect(0 == gpuhier_end_arm() && 0 == gpuhier_end_arm(), "the end can be armed, again and again");
    expect(0 == ends, "arming is not the end");
    MPI_Finalize();
    expect(1 == ends, "MPI_Finalize is the end, once");
    expect(gpuhier_end_has_come(), "it has come for good");
    gpuhier_end_open(at_end);
    expect(!gpuhier_end_has_come(), "what is opened again begins anew");
    expect(1 == ends, "opening is not the end");
    printf("%d failures\n", failures);
    return 0 != failures;
}
