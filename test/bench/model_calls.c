/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Modelled time of MPI_Allreduce on GPU buffers of one size: what test/bench/model.sh runs.
 *
 *   model_calls BYTES WARMUPS CALLS [TRAIN]
 *
 * Rank 0 prints one line for sums of double and one for sums of float: the type, BYTES, the median and the least of
 * CALLS calls in modelled us (a call takes as long as on its slowest rank), and by how many us the emulator was late in
 * the worst case. TRAIN: each of these is the mean of so many calls in a row (default 1). With CUDASIM_TRACE one more
 * call of each type is drawn. It needs nothing of this project, so that a stock Open MPI's mpicc can build it as well.
 * Exit status: 0; 1 wrong result, or no model.
 */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

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

static int rank, size;
static long bytes, warmups, calls, train = 1;
static void *in, *out; /* on the GPU */
static double *us;     /* of each call */

/* Gives the first and the last element the value; what lies between stays zero. */
static void set_ends(void *data, MPI_Datatype type, double value)
{
    const float narrow = (float) value;
    const size_t width = MPI_FLOAT == type ? sizeof(narrow) : sizeof(value);
    const void *from = MPI_FLOAT == type ? (const void *) &narrow : &value;
    cuda_must(cudaMemset(data, 0, (size_t) bytes), "cudaMemset");
    cuda_must(cudaMemcpy(data, from, width, cudaMemcpyHostToDevice), "cudaMemcpy");
    cuda_must(cudaMemcpy((char *) data + bytes - width, from, width, cudaMemcpyHostToDevice), "cudaMemcpy");
}

static double element_of(MPI_Datatype type, size_t at)
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

static int ends_are_right(MPI_Datatype type)
{
    const double sum = size * (size + 1) / 2.0, first = element_of(type, 0);
    const double last = element_of(type, (size_t) bytes - (MPI_FLOAT == type ? sizeof(float) : sizeof(double)));
    if (first != sum || last != sum) {
        fprintf(stderr, "model_calls: rank %d: %g and %g are not %g\n", rank, first, last, sum);
    }
    return first == sum && last == sum;
}

/* Times sums of this type, and prints the line. Returns whether the result is right. */
static int measure(MPI_Datatype type, const char *name)
{
    const int count = (int) (bytes / (MPI_FLOAT == type ? 4 : 8));
    unsigned long long late = 0;

    set_ends(in, type, rank + 1);
    set_ends(out, type, 0);
    cuda_must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    for (long i = 0; i < warmups; i++) {
        MPI_Allreduce(in, out, count, type, MPI_SUM, MPI_COMM_WORLD);
    }
    reset();
    for (long i = 0; i < calls; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        const unsigned long long begin = now();
        for (long k = 0; k < train; k++) {
            MPI_Allreduce(in, out, count, type, MPI_SUM, MPI_COMM_WORLD);
        }
        us[i] = (double) (now() - begin) / 1e3 / (double) train;
    }
    counter("model_worst_ns", &late);
    if (MPI_DOUBLE == type && NULL != getenv("CUDASIM_TRACE")) {
        MPI_Barrier(MPI_COMM_WORLD);
        trace(1);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Allreduce(in, out, count, type, MPI_SUM, MPI_COMM_WORLD);
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
    int ngpus;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc == 4 || argc == 5) {
        bytes = atol(argv[1]);
        warmups = atol(argv[2]);
        calls = atol(argv[3]);
        train = argc == 5 ? atol(argv[4]) : 1;
    }
    if (bytes < 8 || 0 != bytes % 8 || calls < 1 || train < 1) {
        fprintf(stderr, "usage: model_calls BYTES WARMUPS CALLS [TRAIN]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
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
    if (NULL == us) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    cuda_must(cudaMalloc(&in, (size_t) bytes), "cudaMalloc");
    cuda_must(cudaMalloc(&out, (size_t) bytes), "cudaMalloc");
    const int right = measure(MPI_DOUBLE, "double") & measure(MPI_FLOAT, "float");
    cudaFree(in);
    cudaFree(out);
    free(us);
    MPI_Finalize();
    return right ? 0 : 1;
}
