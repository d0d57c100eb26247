/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A profiling library for the example, which runs as it is: MPI_Finalize ends the job with an error unless the program
 * has called each of five collectives, and all these calls were accelerated.
 */
#include "pvars.h"

#include <mpi.h>
#include <stdio.h>

enum { ALLGATHERV, ALLREDUCE, BCAST, REDUCE, REDUCE_SCATTER, KINDS };

static uint64_t calls[KINDS];
static pvars_t before;

static void count(int kind)
{
    if (!before.present) {
        pvars_read(&before);
    }
    ++calls[kind];
}

int MPI_Allgatherv(const void *send, int nsend, MPI_Datatype send_type, void *recv, const int nrecv[],
                   const int displs[], MPI_Datatype recv_type, MPI_Comm comm)
{
    count(ALLGATHERV);
    return PMPI_Allgatherv(send, nsend, send_type, recv, nrecv, displs, recv_type, comm);
}

int MPI_Allreduce(const void *send, void *recv, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    count(ALLREDUCE);
    return PMPI_Allreduce(send, recv, n, type, op, comm);
}

int MPI_Bcast(void *buffer, int n, MPI_Datatype type, int root, MPI_Comm comm)
{
    count(BCAST);
    return PMPI_Bcast(buffer, n, type, root, comm);
}

int MPI_Reduce(const void *send, void *recv, int n, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm)
{
    count(REDUCE);
    return PMPI_Reduce(send, recv, n, type, op, root, comm);
}

int MPI_Reduce_scatter(const void *send, void *recv, const int counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    count(REDUCE_SCATTER);
    return PMPI_Reduce_scatter(send, recv, counts, type, op, comm);
}

int MPI_Finalize(void)
{
    uint64_t all = 0;
    int rank, kinds = 0;
    pvars_t after;

    for (int i = 0; i < KINDS; ++i) {
        all += calls[i];
        kinds += calls[i] > 0;
    }
    pvars_read(&after);
    const uint64_t accelerated = after.accelerated - before.accelerated;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (kinds < KINDS || accelerated != all) {
        fprintf(stderr, "on_gpus: rank %d: %d collectives, and %llu of %llu calls ran on the GPUs\n", rank, kinds,
                (unsigned long long) accelerated, (unsigned long long) all);
        PMPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (0 == rank) {
        printf("on_gpus: %llu calls of %d collectives ran on the GPUs\n", (unsigned long long) all, kinds);
        fflush(stdout);
    }
    pvars_close();
    return PMPI_Finalize();
}
