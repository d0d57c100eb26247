/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The collectives that the benchmark knows. Sizes, counts and the factor of the bus bandwidth are those of nccl-tests:
 * the size is that of the longer buffer, and the count that of a rank's block where there are blocks.
 */
#include "bench.h"

#include <stdio.h>
#include <string.h>

#define ROOT 0

static const struct {
    const char *name, *function;
    bool reduces, has_blocks;
} collectives[COLL_COUNT] = {
    [COLL_ALLREDUCE] = {"allreduce", "MPI_Allreduce", true, false},
    [COLL_REDUCE] = {"reduce", "MPI_Reduce", true, false},
    [COLL_BCAST] = {"bcast", "MPI_Bcast", false, false},
    [COLL_ALLGATHER] = {"allgather", "MPI_Allgather", false, true},
    [COLL_REDUCE_SCATTER_BLOCK] = {"reduce_scatter_block", "MPI_Reduce_scatter_block", true, true},
    [COLL_ALLTOALL] = {"alltoall", "MPI_Alltoall", false, true},
};

bool bench_collective_find(const char *name, bench_collective_t *collective_p)
{
    for (int i = 0; i < COLL_COUNT; ++i) {
        if (0 == strcmp(name, collectives[i].name)) {
            *collective_p = (bench_collective_t) i;
            return true;
        }
    }
    return false;
}

const char *bench_collective_function(bench_collective_t collective)
{
    return collectives[collective].function;
}

bool bench_collective_reduces(bench_collective_t collective)
{
    return collectives[collective].reduces;
}

bool bench_collective_has_blocks(bench_collective_t collective)
{
    return collectives[collective].has_blocks;
}

double bench_bus_factor(bench_collective_t collective, int n)
{
    return COLL_ALLREDUCE == collective         ? 2.0 * (n - 1) / n
           : collectives[collective].has_blocks ? (double) (n - 1) / n
                                                : 1.0;
}

bench_part_t bench_collective_part(const bench_row_t *row, int rank)
{
    const size_t block = row->count * row->type->extent;
    bench_part_t part = {0, row->bytes, row->bytes};

    switch (row->collective) {
    case COLL_REDUCE:
        part.out_bytes = ROOT == rank ? row->bytes : 0;
        break;
    case COLL_BCAST:
        part.in_bytes = ROOT == rank ? row->bytes : 0;
        part.out_bytes = row->bytes - part.in_bytes;
        break;
    case COLL_ALLGATHER:
        part.in_at = (size_t) rank * block;
        part.in_bytes = block;
        break;
    case COLL_REDUCE_SCATTER_BLOCK:
        part.out_bytes = block;
        break;
    default:
        break;
    }
    return part;
}

int bench_collective_call(const bench_row_t *row, const void *send, void *recv, MPI_Comm comm)
{
    const int count = (int) row->count;
    MPI_Datatype type = row->type->type;
    MPI_Op op = row->op->op;
    int rank;

    switch (row->collective) {
    case COLL_REDUCE:
        MPI_Comm_rank(comm, &rank);
        return MPI_Reduce(MPI_IN_PLACE == send && ROOT != rank ? recv : send, recv, count, type, op, ROOT, comm);
    case COLL_BCAST:
        return MPI_Bcast(recv, count, type, ROOT, comm);
    case COLL_ALLGATHER:
        return MPI_Allgather(send, count, type, recv, count, type, comm);
    case COLL_REDUCE_SCATTER_BLOCK:
        return MPI_Reduce_scatter_block(send, recv, count, type, op, comm);
    case COLL_ALLTOALL:
        return MPI_Alltoall(send, count, type, recv, count, type, comm);
    default:
        return MPI_Allreduce(send, recv, count, type, op, comm);
    }
}

size_t bench_collective_check(const bench_row_t *row, const value_case_t *values, int rank, const void *got, char *line,
                              size_t room)
{
    const size_t extent = row->type->extent, n = bench_collective_part(row, rank).out_bytes / extent;
    const size_t first = COLL_REDUCE_SCATTER_BLOCK == row->collective ? (size_t) rank * row->count : 0;
    const unsigned char *bytes = got;
    size_t first_wrong = 0, wrong = 0;

    if (collectives[row->collective].reduces) {
        wrong = value_check(values, first, n, got, &first_wrong);
        if (wrong > 0) {
            value_describe(values, first_wrong, bytes + (first_wrong - first) * extent, line, room);
        }
        return wrong;
    }
    for (size_t i = 0; i < n; ++i) {
        const int from = COLL_BCAST == row->collective ? ROOT : (int) (i / row->count);
        const size_t before = COLL_ALLTOALL == row->collective ? (size_t) rank * row->count : 0; /* in the input */
        unsigned char want[64];
        memcpy(want, bytes + i * extent, extent); /* gaps keep what they hold */
        value_fill(values, from, before + i % row->count, 1, want);
        if (0 != memcmp(want, bytes + i * extent, extent) && 0 == wrong++) {
            snprintf(line, room, "element %zu is not rank %d's", i, from);
        }
    }
    return wrong;
}
