/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A least-squares problem on several GPUs, by conjugate gradients: the x for which |A x - b| is least.
 *
 *     mpicc conjugate_gradient.c -I/usr/local/cuda/include -L/usr/local/cuda/lib64 -lcudart -o conjugate_gradient
 *     mpirun -n 4 ./conjugate_gradient
 *
 * A rank owns some rows of the sparse A, the elements of b that belong to them, and some elements of x. All vectors are
 * in GPU memory, and MPI gets them there:
 *
 *   MPI_Bcast           b, which rank 0 makes
 *   MPI_Allgatherv      the parts of the search direction: each rank needs all of it for its rows
 *   MPI_Reduce_scatter  the sum of all ranks' rows times their residuals: each rank gets the elements of its part
 *   MPI_Allreduce       dot products; all ranks get the same bits, so all stop in the same step
 *   MPI_Reduce          the largest difference from x as the host finds it directly, for rank 0
 *
 * A program for real GPUs has kernels, cuBLAS and cuSPARSE between these calls. This one copies to the host and
 * computes there, so that it also runs on emulated GPUs, which cannot run a program's kernels. The calls of MPI would
 * be the same.
 *
 * Status 0: both solutions agree.
 */
#include <cuda_runtime_api.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define COLUMNS 100003
#define ROWS (2 * COLUMNS - 2)
#define MAX_STEPS 200

static int rank, size, step;
static int *counts, *starts; /* of the ranks' parts of a vector of COLUMNS elements */
static int first_row, nrows, ncolumns;
static double *on_gpu; /* one number */

static void must(cudaError_t status, const char *what)
{
    if (cudaSuccess != status) {
        fprintf(stderr, "conjugate_gradient: %s: %s\n", what, cudaGetErrorString(status));
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static double *host_vector(int n)
{
    double *v = calloc((size_t) n + 1, sizeof(*v));
    if (NULL == v) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return v;
}

static double *gpu_vector(int n)
{
    void *v;
    must(cudaMalloc(&v, ((size_t) n + 1) * sizeof(double)), "cudaMalloc");
    return v;
}

static void copy(double *to, const double *from, int n)
{
    must(cudaMemcpy(to, from, (size_t) n * sizeof(*to), cudaMemcpyDefault), "cudaMemcpy");
}

/* Row i of A has 3 in column i / 2, and this in the next one. */
static double beside(int i)
{
    return 0.25 * (1 + i % 5);
}

static void rows_times(double *product, const double *x)
{
    for (int i = 0; i < nrows; ++i) {
        const int row = first_row + i;
        product[i] = 3.0 * x[row / 2] + beside(row) * x[row / 2 + 1];
    }
}

static void transposed_times(double *product, const double *r)
{
    for (int j = 0; j < COLUMNS; ++j) {
        product[j] = 0.0;
    }
    for (int i = 0; i < nrows; ++i) {
        const int row = first_row + i;
        product[row / 2] += 3.0 * r[i];
        product[row / 2 + 1] += beside(row) * r[i];
    }
}

/* The squared length of a vector of which each rank has a part. */
static double squared(const double *part, int n)
{
    double sum = 0.0;
    for (int i = 0; i < n; ++i) {
        sum += part[i] * part[i];
    }
    copy(on_gpu, &sum, 1);
    MPI_Allreduce(MPI_IN_PLACE, on_gpu, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    copy(&sum, on_gpu, 1);
    return sum;
}

/* Finds this rank's part of x. All vectors are on the host but for those that MPI gets. */
static void solve(double *x, const double *b)
{
    double *all = host_vector(COLUMNS), *q = host_vector(nrows), *r = host_vector(nrows), *s = host_vector(ncolumns),
           *p = host_vector(ncolumns);
    double *gpu_all = gpu_vector(COLUMNS), *gpu_part = gpu_vector(ncolumns);
    double gradient = 0.0, first = 0.0;

    for (int i = 0; i < nrows; ++i) {
        r[i] = b[first_row + i];
    }
    for (step = 0; step < MAX_STEPS; ++step) {
        transposed_times(all, r);
        copy(gpu_all, all, COLUMNS);
        MPI_Reduce_scatter(gpu_all, gpu_part, counts, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        copy(s, gpu_part, ncolumns);

        const double before = gradient;
        gradient = squared(s, ncolumns);
        first = 0 == step ? gradient : first;
        if (gradient <= 1e-26 * first) {
            break;
        }
        for (int j = 0; j < ncolumns; ++j) {
            p[j] = s[j] + (0 == step ? 0.0 : gradient / before) * p[j];
        }
        copy(gpu_part, p, ncolumns);
        MPI_Allgatherv(gpu_part, ncolumns, MPI_DOUBLE, gpu_all, counts, starts, MPI_DOUBLE, MPI_COMM_WORLD);
        copy(all, gpu_all, COLUMNS);

        rows_times(q, all);
        const double length = gradient / squared(q, nrows);
        for (int j = 0; j < ncolumns; ++j) {
            x[j] += length * p[j];
        }
        for (int i = 0; i < nrows; ++i) {
            r[i] -= length * q[i];
        }
    }
    cudaFree(gpu_all);
    cudaFree(gpu_part);
    free(all), free(q), free(r), free(s), free(p);
}

/* All of x on the host, without MPI: A transposed times A is tridiagonal, and Gauss needs one pass down and one up. */
static void solve_directly(double *x, const double *b)
{
    double *diagonal = host_vector(COLUMNS), *next = host_vector(COLUMNS);

    for (int i = 0; i < ROWS; ++i) {
        const int j = i / 2;
        diagonal[j] += 9.0;
        next[j] += 3.0 * beside(i);
        diagonal[j + 1] += beside(i) * beside(i);
        x[j] += 3.0 * b[i];
        x[j + 1] += beside(i) * b[i];
    }
    for (int j = 1; j < COLUMNS; ++j) {
        const double factor = next[j - 1] / diagonal[j - 1];
        diagonal[j] -= factor * next[j - 1];
        x[j] -= factor * x[j - 1];
    }
    x[COLUMNS - 1] /= diagonal[COLUMNS - 1];
    for (int j = COLUMNS - 2; j >= 0; --j) {
        x[j] = (x[j] - next[j] * x[j + 1]) / diagonal[j];
    }
    free(diagonal), free(next);
}

static void choose_gpu(void)
{
    MPI_Comm node;
    int local_rank, ngpus = 0;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &local_rank);
    MPI_Comm_free(&node);
    must(cudaGetDeviceCount(&ngpus), "cudaGetDeviceCount");
    must(cudaSetDevice(local_rank % ngpus), "cudaSetDevice");
}

int main(int argc, char **argv)
{
    double error = 0.0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    choose_gpu();

    counts = calloc((size_t) size, sizeof(*counts));
    starts = calloc((size_t) size, sizeof(*starts));
    for (int i = 0; i < size; ++i) {
        starts[i] = (int) ((long) COLUMNS * i / size);
        counts[i] = (int) ((long) COLUMNS * (i + 1) / size) - starts[i];
    }
    first_row = (int) ((long) ROWS * rank / size);
    nrows = (int) ((long) ROWS * (rank + 1) / size) - first_row;
    ncolumns = counts[rank];
    on_gpu = gpu_vector(1);

    double *b = host_vector(ROWS), *gpu_b = gpu_vector(ROWS);
    for (int i = 0; 0 == rank && i < ROWS; ++i) {
        b[i] = i % 17 - 0.5 * (i % 11);
    }
    copy(gpu_b, b, ROWS);
    MPI_Bcast(gpu_b, ROWS, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    copy(b, gpu_b, ROWS);

    double *x = host_vector(ncolumns), *direct = host_vector(COLUMNS);
    solve(x, b);
    solve_directly(direct, b);
    for (int j = 0; j < ncolumns; ++j) {
        const double difference = x[j] - direct[starts[rank] + j];
        if (!(difference <= error && -difference <= error)) {
            error = difference < 0 ? -difference : difference;
        }
    }
    copy(on_gpu, &error, 1);
    MPI_Reduce(0 == rank ? MPI_IN_PLACE : on_gpu, on_gpu, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    copy(&error, on_gpu, 1);
    if (0 == rank) {
        printf(
            "conjugate gradients: %d unknowns on %d ranks, %d steps, largest difference from the direct solution %.1e\n",
            COLUMNS, size, step, error);
    }
    free(b), free(x), free(direct), free(counts), free(starts);
    cudaFree(gpu_b);
    cudaFree(on_gpu);
    MPI_Finalize();
    return error < 1e-9 ? 0 : 1;
}
