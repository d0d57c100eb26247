/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Modelled time of MPI_Allreduce on GPU buffers of one size: what test/bench/model.sh runs.
 *
 *   model_calls BYTES WARMUPS CALLS [TRAIN]
 *
 * Rank 0 prints one line: BYTES, the median and the least of CALLS calls in modelled us (a call takes as long as on its
 * slowest rank), and by how many us the emulator was late in the worst case. TRAIN: each of these is the mean of so
 * many calls in a row (default 1). With CUDASIM_TRACE one more call is drawn. It needs nothing of this project, so that
 * a stock Open MPI's mpicc can build it as well. Exit status: 0; 1 wrong result, or no model.
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

/* Gives the first and the last element the rank's value; what lies between stays zero. */
static void set_ends(double *data, int count, double value)
{
    cuda_must(cudaMemcpy(data, &value, sizeof(value), cudaMemcpyHostToDevice), "cudaMemcpy");
    cuda_must(cudaMemcpy(data + count - 1, &value, sizeof(value), cudaMemcpyHostToDevice), "cudaMemcpy");
}

int main(int argc, char **argv)
{
    int rank, size, ngpus, right = 1;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int given = argc == 4 || argc == 5;
    const long bytes = given ? atol(argv[1]) : 0, warmups = given ? atol(argv[2]) : 0;
    const long calls = given ? atol(argv[3]) : 0, train = argc == 5 ? atol(argv[4]) : 1;
    if (bytes < 8 || 0 != bytes % 8 || calls < 1 || train < 1) {
        fprintf(stderr, "usage: model_calls BYTES WARMUPS CALLS [TRAIN]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    const char *local = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
    cuda_must(cudaGetDeviceCount(&ngpus), "cudaGetDeviceCount");
    cuda_must(cudaSetDevice((NULL == local ? rank : atoi(local)) % ngpus), "cudaSetDevice");
    cuda_must(cudaFree(NULL), "cudaFree");

    clock_fn_t *now = (clock_fn_t *) must_find("cudasim_model_ns");
    trace_fn_t *trace = (trace_fn_t *) must_find("cudasim_trace");
    counter_fn_t *counter = (counter_fn_t *) must_find("cudasim_counter");
    reset_fn_t *reset = (reset_fn_t *) must_find("cudasim_counters_reset");
    if (0 == now()) {
        fprintf(stderr, "model_calls: CUDASIM_MODEL is not set\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    trace(0);

    const int count = (int) (bytes / 8);
    double *in, *out, *us = malloc((size_t) calls * sizeof(*us));
    if (NULL == us) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    cuda_must(cudaMalloc((void **) &in, (size_t) bytes), "cudaMalloc");
    cuda_must(cudaMalloc((void **) &out, (size_t) bytes), "cudaMalloc");
    cuda_must(cudaMemset(in, 0, (size_t) bytes), "cudaMemset");
    cuda_must(cudaMemset(out, 0, (size_t) bytes), "cudaMemset");
    set_ends(in, count, rank + 1);
    cuda_must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");

    for (long i = 0; i < warmups; i++) {
        MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    reset();
    for (long i = 0; i < calls; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        const unsigned long long begin = now();
        for (long k = 0; k < train; k++) {
            MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        }
        us[i] = (double) (now() - begin) / 1e3 / (double) train;
    }
    unsigned long long late = 0;
    counter("model_worst_ns", &late);
    if (NULL != getenv("CUDASIM_TRACE")) {
        MPI_Barrier(MPI_COMM_WORLD);
        trace(1);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        trace(0);
    }

    double ends[2];
    cuda_must(cudaMemcpy(&ends[0], out, sizeof(double), cudaMemcpyDeviceToHost), "cudaMemcpy");
    cuda_must(cudaMemcpy(&ends[1], out + count - 1, sizeof(double), cudaMemcpyDeviceToHost), "cudaMemcpy");
    if (ends[0] != size * (size + 1) / 2.0 || ends[1] != size * (size + 1) / 2.0) {
        fprintf(stderr, "model_calls: rank %d: %g and %g are not %g\n", rank, ends[0], ends[1],
                size * (size + 1) / 2.0);
        right = 0;
    }
    MPI_Allreduce(MPI_IN_PLACE, us, (int) calls, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &late, 1, MPI_UNSIGNED_LONG_LONG, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &right, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    qsort(us, (size_t) calls, sizeof(*us), by_value);
    if (0 == rank) {
        printf("model_calls %ld %.3f %.3f %.3f\n", bytes, us[calls / 2], us[0], (double) late / 1e3);
    }
    cudaFree(in);
    cudaFree(out);
    free(us);
    MPI_Finalize();
    return right ? 0 : 1;
}
