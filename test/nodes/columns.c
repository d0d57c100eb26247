/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 *   columns [early]
 *
 * MPI_COMM_WORLD, and columns: communicators of the ranks with the same place on their nodes. Nodes have equal numbers
 * of ranks. A column has one rank on each node, so that it drives all rails of its node, which MPI_COMM_WORLD does not.
 * Columns are used after MPI_COMM_WORLD, and in turn with it; early: the first one before it, too.
 */
#include "calls.h"

#include <string.h>

static void sum(suite_t *suite, MPI_Comm comm, size_t count, call_path_t path)
{
    const call_t call = {.comm = comm,
                         .type = value_type_find("double"),
                         .op = value_op_find("sum"),
                         .count = count,
                         .send_kind = BUFFER_DEVICE,
                         .recv_kind = BUFFER_DEVICE,
                         .path = path};
    suite_call(suite, &call);
}

int main(int argc, char **argv)
{
    static const size_t counts[] = {100, 200000, 524287};
    suite_t suite;
    MPI_Comm node, column;
    int place;

    suite_begin(&suite, "columns", &argc, &argv);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &place);
    MPI_Comm_split(MPI_COMM_WORLD, place, suite.rank, &column);
    if (argc > 1 && 0 == strcmp(argv[1], "early")) {
        /* Values depend on the number of a rank's calls, so all ranks make one. */
        sum(&suite, 0 == place ? column : MPI_COMM_SELF, 200000, 0 == place ? PATH_ACCELERATED : PATH_SAVED);
    }
    sum(&suite, MPI_COMM_WORLD, 200000, PATH_ACCELERATED);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); ++i) {
        sum(&suite, column, counts[i], PATH_ACCELERATED);
        sum(&suite, MPI_COMM_WORLD, counts[i], PATH_ACCELERATED);
    }
    MPI_Comm_free(&column);
    sum(&suite, MPI_COMM_WORLD, 200000, PATH_ACCELERATED);
    MPI_Comm_free(&node);
    return suite_end(&suite);
}
