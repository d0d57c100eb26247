/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Modelled time of a collective on GPU buffers of one size: what test/bench/model.sh runs.
 *
 *   model_calls COLLECTIVE BYTES WARMUPS CALLS [TRAIN]
 *
 * COLLECTIVE: as in the table below. BYTES: of the longer buffer, as nccl-tests count, but at least 8 for each block.
 * The root is rank 0. Rank 0 prints one line for double and one for float: the type, BYTES, the median and the least of
 * CALLS calls in modelled us (a call takes as long as on its slowest rank), and by how many us the emulator was late in
 * the worst case. TRAIN: each of these is the mean of so many calls in a row (default 1). With CUDASIM_TRACE one more
 * call of double is drawn. It needs nothing of this project, so that a stock Open MPI's mpicc can build it as well.
 * Exit status: 0; 1 wrong result, or no model.
 */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long clock_fn_t(void);
typedef void trace_fn_t(int wanted);
typedef int counter_fn_t(const char *name, unsigned long long *value_p);
typedef void reset_fn_t(void);

static void *must_find(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);

    if (NULL == found) {
        void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
        found = NULL == driver ? NULL : dlsym(driver, name);
    }
    if (NULL == found) {
        fprintf(stderr, "model_calls: no %s: this is not the emulated driver\n", name);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return found;
}

static void cuda_must(cudaError_t rc, const char *what)
{
    if (cudaSuccess != rc) {
        fprintf(stderr, "model_calls: %s: %s\n", what, cudaGetErrorString(rc));
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static int by_value(const void *a, const void *b)
{
    return (*(const double *) a > *(const double *) b) - (*(const double *) a < *(const double *) b);
}

/* The emulator's own functions. */
static clock_fn_t *now;
static trace_fn_t *trace;
static counter_fn_t *counter;
static reset_fn_t *reset;

enum {
    ALLREDUCE,
    REDUCE,
    BCAST,
    ALLGATHER,
    ALLGATHERV,
    REDUCE_SCATTER,
    REDUCE_SCATTER_BLOCK,
    ALLTOALL,
    ALLTOALLV,
    KINDS
};

static const struct {
    const char *name;
    int many_in, many_out; /* a rank gives, and takes, a block for each rank */
} collectives[KINDS] = {
    [ALLREDUCE] = {"allreduce", 0, 0},
    [REDUCE] = {"reduce", 0, 0},
    [BCAST] = {"bcast", 0, 0},
    [ALLGATHER] = {"allgather", 0, 1},
    [ALLGATHERV] = {"allgatherv", 0, 1},
    [REDUCE_SCATTER] = {"reduce_scatter", 1, 0},
    [REDUCE_SCATTER_BLOCK] = {"reduce_scatter_block", 1, 0},
    [ALLTOALL] = {"alltoall", 1, 1},
    [ALLTOALLV] = {"alltoallv", 1, 1},
};

static int kind, rank, size;
static long block, warmups, calls, train = 1; /* block: in bytes */
static void *in, *out;                        /* on the GPU */
static int *counts, *starts;                  /* of the blocks; both in elements of the type in use */
static double *us;                            /* of each call */

static void call(int count, MPI_Datatype type)
{
    MPI_Comm comm = MPI_COMM_WORLD;
    switch (kind) {
    case ALLREDUCE:
        MPI_Allreduce(in, out, count, type, MPI_SUM, comm);
        break;
    case REDUCE:
        MPI_Reduce(in, out, count, type, MPI_SUM, 0, comm);
        break;
    case BCAST:
        MPI_Bcast(0 == rank ? in : out, count, type, 0, comm);
        break;
    case REDUCE_SCATTER:
        MPI_Reduce_scatter(in, out, counts, type, MPI_SUM, comm);
        break;
    case ALLGATHER:
        MPI_Allgather(in, count, type, out, count, type, comm);
        break;
    case REDUCE_SCATTER_BLOCK:
        MPI_Reduce_scatter_block(in, out, count, type, MPI_SUM, comm);
        break;
    case ALLGATHERV:
        MPI_Allgatherv(in, count, type, out, counts, starts, type, comm);
        break;
    case ALLTOALL:
        MPI_Alltoall(in, count, type, out, count, type, comm);
        break;
    default:
        MPI_Alltoallv(in, counts, starts, type, out, counts, starts, type, comm);
        break;
    }
}

/* The first and the last element of each block have a value; what lies between stays zero. */
static void set_ends(MPI_Datatype type)
{
    const size_t width = MPI_FLOAT == type ? sizeof(float) : sizeof(double);
    const int nin = collectives[kind].many_in ? size : 1, nout = collectives[kind].many_out ? size : 1;
    cuda_must(cudaMemset(in, 0, (size_t) (nin * block)), "cudaMemset");
    cuda_must(cudaMemset(out, 0, (size_t) (nout * block)), "cudaMemset");
    for (int i = 0; i < nin; i++) {
        const double value = rank + 1 + 100 * i;
        const float narrow = (float) value;
        const void *from = MPI_FLOAT == type ? (const void *) &narrow : &value;
        char *at = (char *) in + i * block;
        cuda_must(cudaMemcpy(at, from, width, cudaMemcpyHostToDevice), "cudaMemcpy");
        cuda_must(cudaMemcpy(at + block - width, from, width, cudaMemcpyHostToDevice), "cudaMemcpy");
    }
}

static double element_of(MPI_Datatype type, long at)
{
    float narrow;
    double value;
    if (MPI_FLOAT == type) {
        cuda_must(cudaMemcpy(&narrow, (char *) out + at, sizeof(narrow), cudaMemcpyDeviceToHost), "cudaMemcpy");
        return narrow;
    }
    cuda_must(cudaMemcpy(&value, (char *) out + at, sizeof(value), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return value;
}

/* What the ends of a block of the result must hold. */
static double expected(int i)
{
    const double sum = size * (size + 1) / 2.0;
    switch (kind) {
    case ALLREDUCE:
    case REDUCE:
        return sum;
    case BCAST:
        return 1;
    case REDUCE_SCATTER:
    case REDUCE_SCATTER_BLOCK:
        return sum + 100.0 * rank * size;
    case ALLGATHER:
    case ALLGATHERV:
        return i + 1;
    default:
        return i + 1 + 100 * rank;
    }
}

static int ends_are_right(MPI_Datatype type)
{
    const int is_idle = (REDUCE == kind && 0 != rank) || (BCAST == kind && 0 == rank); /* it takes nothing */
    int right = 1;
    for (int i = 0; i < (collectives[kind].many_out ? size : 1) && !is_idle; i++) {
        const double first = element_of(type, i * block);
        const double last = element_of(type, (i + 1) * block - (MPI_FLOAT == type ? 4 : 8));
        if (first != expected(i) || last != expected(i)) {
            fprintf(stderr, "model_calls: rank %d, block %d: %g and %g are not %g\n", rank, i, first, last,
                    expected(i));
            right = 0;
        }
    }
    return right;
}

/* Times calls with this type, and prints the line. Returns whether the result is right. */
static int measure(MPI_Datatype type, const char *name, long bytes)
{
    const int count = (int) (block / (MPI_FLOAT == type ? 4 : 8));
    unsigned long long late = 0;

    for (int i = 0; i < size; i++) {
        counts[i] = count;
        starts[i] = i * count;
    }
    set_ends(type);
    cuda_must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    for (long i = 0; i < warmups; i++) {
        call(count, type);
    }
    reset();
    for (long i = 0; i < calls; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        const unsigned long long begin = now();
        for (long k = 0; k < train; k++) {
            call(count, type);
        }
        us[i] = (double) (now() - begin) / 1e3 / (double) train;
    }
    counter("model_worst_ns", &late);
    if (MPI_DOUBLE == type && NULL != getenv("CUDASIM_TRACE")) {
        MPI_Barrier(MPI_COMM_WORLD);
        trace(1);
        MPI_Barrier(MPI_COMM_WORLD);
        call(count, type);
        trace(0);
    }
    int right = ends_are_right(type);
    MPI_Allreduce(MPI_IN_PLACE, us, (int) calls, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &late, 1, MPI_UNSIGNED_LONG_LONG, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &right, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    qsort(us, (size_t) calls, sizeof(*us), by_value);
    if (0 == rank) {
        printf("model_calls %s %ld %.3f %.3f %.3f\n", name, bytes, us[calls / 2], us[0], (double) late / 1e3);
    }
    return right;
}

int main(int argc, char **argv)
{
    long bytes = 0;
    int ngpus;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc == 5 || argc == 6) {
        while (kind < KINDS && 0 != strcmp(collectives[kind].name, argv[1])) {
            kind++;
        }
        bytes = atol(argv[2]);
        warmups = atol(argv[3]);
        calls = atol(argv[4]);
        train = argc == 6 ? atol(argv[5]) : 1;
    }
    if (bytes < 8 || 0 != bytes % 8 || calls < 1 || train < 1 || KINDS == kind) {
        fprintf(stderr, "usage: model_calls COLLECTIVE BYTES WARMUPS CALLS [TRAIN]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    block = collectives[kind].many_in || collectives[kind].many_out ? bytes / size / 8 * 8 : bytes;
    block = block < 8 ? 8 : block;
    const char *local = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
    cuda_must(cudaGetDeviceCount(&ngpus), "cudaGetDeviceCount");
    cuda_must(cudaSetDevice((NULL == local ? rank : atoi(local)) % ngpus), "cudaSetDevice");
    cuda_must(cudaFree(NULL), "cudaFree");

    now = (clock_fn_t *) must_find("cudasim_model_ns");
    trace = (trace_fn_t *) must_find("cudasim_trace");
    counter = (counter_fn_t *) must_find("cudasim_counter");
    reset = (reset_fn_t *) must_find("cudasim_counters_reset");
    if (0 == now()) {
        fprintf(stderr, "model_calls: CUDASIM_MODEL is not set\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    trace(0);

    us = malloc((size_t) calls * sizeof(*us));
    counts = malloc((size_t) size * sizeof(*counts));
    starts = malloc((size_t) size * sizeof(*starts));
    if (NULL == us || NULL == counts || NULL == starts) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    const long in_bytes = collectives[kind].many_in ? size * block : block;
    const long out_bytes = collectives[kind].many_out ? size * block : block;
    cuda_must(cudaMalloc(&in, (size_t) in_bytes), "cudaMalloc");
    cuda_must(cudaMalloc(&out, (size_t) out_bytes), "cudaMalloc");
    const int right = measure(MPI_DOUBLE, "double", bytes) & measure(MPI_FLOAT, "float", bytes);
    cudaFree(in);
    cudaFree(out);
    free(us);
    free(counts);
    free(starts);
    MPI_Finalize();
    return right ? 0 : 1;
}
