/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What a program does without the component: a CUDA-aware Open MPI takes the device pointers;
 * any other gets staging as careful users write it, in pinned memory that is made once.
 */
#include "bench.h"

#include <cuda_runtime_api.h>
#include <mpi-ext.h>
#include <stdio.h>
#include <stdlib.h>

struct bench_stock {
    bool host;
    bool cuda_aware;
    void *pinned; /* one message */
};

bench_stock_t *bench_stock_create(const bench_options_t *options)
{
    bench_stock_t *stock = calloc(1, sizeof(*stock));

    if (NULL == stock) {
        fprintf(stderr, "gpuhier_bench: no memory\n");
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    stock->host = options->host;
#if defined(OMPI_HAVE_MPI_EXT_CUDA) && OMPI_HAVE_MPI_EXT_CUDA
    stock->cuda_aware = 1 == MPIX_Query_cuda_support();
#endif
    if (!stock->cuda_aware && !stock->host) {
        CUDA_MUST(cudaMallocHost(&stock->pinned, options->max_bytes + 64));
    }
    return stock;
}

void bench_stock_destroy(bench_stock_t *stock)
{
    if (NULL != stock->pinned) {
        CUDA_MUST(cudaFreeHost(stock->pinned));
    }
    free(stock);
}

const char *bench_stock_name(const bench_stock_t *stock)
{
    if (stock->host) {
        return "Open MPI without the component, host buffers";
    }
    return stock->cuda_aware ? "Open MPI's own CUDA path" : "staging through pinned host memory";
}

int bench_stock_call(bench_stock_t *stock, const void *send, void *recv, const bench_row_t *row, MPI_Comm comm)
{
    int rank;

    if (stock->cuda_aware) {
        return bench_collective_call(row, row->in_place ? MPI_IN_PLACE : send, recv, comm);
    }
    MPI_Comm_rank(comm, &rank);
    const bench_part_t part = bench_collective_part(row, rank);
    if (part.in_bytes > 0) {
        CUDA_MUST(cudaMemcpy((char *) stock->pinned + part.in_at, row->in_place ? (char *) recv + part.in_at : send,
                             part.in_bytes, cudaMemcpyDeviceToHost));
    }
    int error = bench_collective_call(row, MPI_IN_PLACE, stock->pinned, comm);
    if (part.out_bytes > 0) {
        CUDA_MUST(cudaMemcpy(recv, stock->pinned, part.out_bytes, cudaMemcpyHostToDevice));
        /* The copy from pinned memory may return early; the result must be there when the call is over. */
        CUDA_MUST(cudaStreamSynchronize(0));
    }
    return error;
}
