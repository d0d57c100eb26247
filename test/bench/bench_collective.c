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

const bench_collective_t *bench_collective_find(const char *name)
{
    static const bench_collective_t collectives[] = {
        {"allreduce", "MPI_Allreduce", BY_ALL, BY_ALL, false},
        {"reduce", "MPI_Reduce", BY_ALL, BY_ROOT, false},
        {"bcast", "MPI_Bcast", BY_ROOT, BY_ALL, false},
        {"allgather", "MPI_Allgather", BY_OWNER, BY_ALL, false},
        {"allgatherv", "MPI_Allgatherv", BY_OWNER, BY_ALL, true},
        {"reduce_scatter", "MPI_Reduce_scatter", BY_ALL, BY_OWNER, true},
        {"reduce_scatter_block", "MPI_Reduce_scatter_block", BY_ALL, BY_OWNER, false},
        {"alltoall", "MPI_Alltoall", BY_PAIR, BY_PAIR, false},
        {"alltoallv", "MPI_Alltoallv", BY_PAIR, BY_PAIR, true},
    };

    for (size_t i = 0; i < sizeof(collectives) / sizeof(collectives[0]); ++i) {
        if (0 == strcmp(name, collectives[i].name)) {
            return &collectives[i];
        }
    }
    return NULL;
}

double bench_bus_factor(const bench_collective_t *collective, int n)
{
    return bench_collective_is_allreduce(collective) ? 2.0 * (n - 1) / n
           : bench_collective_has_blocks(collective) ? (double) (n - 1) / n
                                                     : 1.0;
}

bench_part_t bench_collective_part(const bench_row_t *row, int rank)
{
    const size_t block = row->count * row->type->extent;
    const bench_who_t from = row->collective->from, to = row->collective->to;
    bench_part_t part = {0, row->bytes, row->bytes};

    if (BY_OWNER == from) {
        part.in_at = (size_t) rank * block;
        part.in_bytes = block;
    } else if (BY_ROOT == from && ROOT != rank) {
        part.in_bytes = 0;
    }
    if (BY_OWNER == to) {
        part.out_bytes = block;
    } else if ((BY_ROOT == to && ROOT != rank) || (BY_ROOT == from && ROOT == rank)) {
        part.out_bytes = 0;
    }
    return part;
}

static int call_with_lists(const bench_row_t *row, const void *send, void *recv, MPI_Comm comm)
{
    MPI_Datatype type = row->type->type;

    switch (row->collective->from) {
    case BY_OWNER:
        return MPI_Allgatherv(send, (int) row->count, type, recv, row->counts, row->starts, type, comm);
    case BY_PAIR:
        return MPI_Alltoallv(send, row->counts, row->starts, type, recv, row->counts, row->starts, type, comm);
    default:
        return MPI_Reduce_scatter(send, recv, row->counts, type, row->op->op, comm);
    }
}

int bench_collective_call(const bench_row_t *row, const void *send, void *recv, MPI_Comm comm)
{
    const int count = (int) row->count;
    const bench_who_t from = row->collective->from, to = row->collective->to;
    MPI_Datatype type = row->type->type;
    MPI_Op op = row->op->op;
    int rank;

    if (row->collective->has_lists) {
        return call_with_lists(row, send, recv, comm);
    }
    switch (from) {
    case BY_ROOT:
        return MPI_Bcast(recv, count, type, ROOT, comm);
    case BY_OWNER:
        return MPI_Allgather(send, count, type, recv, count, type, comm);
    case BY_PAIR:
        return MPI_Alltoall(send, count, type, recv, count, type, comm);
    default:
        break;
    }
    if (BY_OWNER == to) {
        return MPI_Reduce_scatter_block(send, recv, count, type, op, comm);
    }
    if (BY_ROOT == to) {
        MPI_Comm_rank(comm, &rank);
        return MPI_Reduce(MPI_IN_PLACE == send && ROOT != rank ? recv : send, recv, count, type, op, ROOT, comm);
    }
    return MPI_Allreduce(send, recv, count, type, op, comm);
}

size_t bench_collective_check(const bench_row_t *row, const value_case_t *values, int rank, const void *got, char *line,
                              size_t room)
{
    const size_t extent = row->type->extent, n = bench_collective_part(row, rank).out_bytes / extent;
    const size_t first = BY_OWNER == row->collective->to ? (size_t) rank * row->count : 0;
    const unsigned char *bytes = got;
    size_t first_wrong = 0, wrong = 0;

    if (bench_collective_reduces(row->collective)) {
        wrong = value_check(values, first, n, got, &first_wrong);
        if (wrong > 0) {
            value_describe(values, first_wrong, bytes + (first_wrong - first) * extent, line, room);
        }
        return wrong;
    }
    for (size_t i = 0; i < n; ++i) {
        const int from = BY_ROOT == row->collective->from ? ROOT : (int) (i / row->count);
        const size_t before = BY_PAIR == row->collective->from ? (size_t) rank * row->count : 0; /* in the input */
        unsigned char want[64];
        memcpy(want, bytes + i * extent, extent); /* gaps keep what they hold */
        value_fill(values, from, before + i % row->count, 1, want);
        if (0 != memcmp(want, bytes + i * extent, extent) && 0 == wrong++) {
            snprintf(line, room, "element %zu is not rank %d's", i, from);
        }
    }
    return wrong;
}
