/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * One row: warm-up, timed calls of gpuhier and stock in turn, checks, path, traffic, floor.
 *
 * A sample is one call, or the mean of a train of them, in which a barrier that lets ranks go at different times counts
 * once: all ranks meet at a host barrier, each takes its own time, the slowest rank's counts; a row's time is the
 * median of its samples. Before every call, outside of the time, the receive buffer is poisoned (or, in place, filled
 * with the input anew), so each call has the same work to do and none can live on the result of the one before.
 */
#include "bench.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MIN_ITERATIONS 3

/* One row's buffers and samples; lives in bench_measure. */
typedef struct work {
    const bench_options_t *options;
    const bench_place_t *place;
    bench_stock_t *stock;
    bench_row_t *row;
    bench_part_t part; /* this rank's */
    value_case_t values;
    unsigned char *host; /* input, and then each output that is checked */
    buffer_t send;       /* the input; also in place, to refill from */
    buffer_t recv;
    bench_caller_t caller[2]; /* of gpuhier; of stock with host buffers */
    double *gpuhier;          /* seconds per sample */
    double *staged;
    double cpu[2]; /* seconds of this process in timed calls of gpuhier, and of stock */
    pvars_t before;
    uint64_t calls; /* of gpuhier, since `before` */
} work_t;

static uint64_t next_salt(void)
{
    static uint64_t salt = 1000;
    return ++salt;
}

/* Blocks of equal length, one after the other. */
static void lists_fill(bench_row_t *row, int nranks)
{
    row->counts = malloc((size_t) nranks * sizeof(int));
    row->starts = malloc((size_t) nranks * sizeof(int));
    if (NULL == row->counts || NULL == row->starts) {
        fprintf(stderr, "gpuhier_bench: no memory for lists of %d counts\n", nranks);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    for (int i = 0; i < nranks; ++i) {
        row->counts[i] = (int) row->count;
        row->starts[i] = i * (int) row->count;
    }
}

static void work_begin(work_t *w)
{
    size_t bytes = w->row->bytes;

    w->values = (value_case_t){w->row->type,
                               w->row->op,
                               w->place->nranks,
                               next_salt(),
                               MODE_GPUHIER != w->options->mode || w->options->any_path,
                               false};
    w->host = calloc(1, bytes + 1);
    w->gpuhier = calloc((size_t) w->options->iterations, sizeof(double));
    w->staged = calloc((size_t) w->options->iterations, sizeof(double));
    if (NULL == w->host || NULL == w->gpuhier || NULL == w->staged) {
        fprintf(stderr, "gpuhier_bench: no memory for %zu bytes\n", bytes);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    if (w->row->collective->has_lists) {
        lists_fill(w->row, w->place->nranks);
    }
    const size_t block = w->row->count * w->row->type->extent;
    const bool short_send = BY_OWNER == w->row->collective->from;
    const bool short_recv = BY_OWNER == w->row->collective->to && !w->row->in_place;
    buffer_alloc(&w->send, w->options->host ? BUFFER_HOST : BUFFER_DEVICE, short_send ? block : bytes, 0);
    buffer_alloc(&w->recv, w->send.kind, short_recv ? block : bytes, 0);
    w->part = bench_collective_part(w->row, w->place->rank);
    value_fill(&w->values, w->place->rank, 0, w->part.in_bytes / w->row->type->extent, w->host);
    buffer_write(&w->send, w->host, w->part.in_bytes);
    for (int i = 0; i < 2; ++i) {
        w->caller[i] =
            (bench_caller_t){w->options->call, w->row->in_place ? MPI_IN_PLACE : w->send.message, w->recv.message,
                             w->row,           0 == i ? w->place->gpuhier : w->place->stock,      MPI_REQUEST_NULL};
        bench_caller_begin(&w->caller[i]);
    }
}

static void work_end(work_t *w)
{
    bench_caller_end(&w->caller[0]);
    bench_caller_end(&w->caller[1]);
    buffer_free(&w->send);
    buffer_free(&w->recv);
    free(w->row->counts);
    free(w->row->starts);
    w->row->counts = w->row->starts = NULL;
    free(w->host);
    free(w->gpuhier);
    free(w->staged);
}

/* Makes the receive buffer what it has to be before a call. */
static void prepare(work_t *w)
{
    buffer_poison(&w->recv);
    char *in = (char *) w->recv.message + w->part.in_at;
    if (w->row->in_place && w->options->host) {
        memcpy(in, w->send.message, w->part.in_bytes);
    } else if (w->row->in_place && w->part.in_bytes > 0) {
        CUDA_MUST(cudaMemcpy(in, w->send.message, w->part.in_bytes, cudaMemcpyDeviceToDevice));
        CUDA_MUST(cudaDeviceSynchronize());
    }
}

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

static double call_gpuhier(work_t *w)
{
    prepare(w);
    MPI_Barrier(w->place->control);
    double cpu = cpu_seconds();
    double began = MPI_Wtime();
    for (int i = 0; i < w->options->train; ++i) {
        bench_caller_call(&w->caller[0]);
    }
    double seconds = MPI_Wtime() - began;
    w->cpu[0] += cpu_seconds() - cpu;
    w->calls += (uint64_t) w->options->train;
    return seconds / w->options->train;
}

static double call_stock(work_t *w)
{
    prepare(w);
    MPI_Barrier(w->place->control);
    double cpu = cpu_seconds(); /* a system call between the barrier and the call: both must have it */
    double began = MPI_Wtime();
    for (int i = 0; i < w->options->train; ++i) {
        if (w->options->host) {
            bench_caller_call(&w->caller[1]);
        } else {
            bench_stock_call(w->stock, w->send.message, w->recv.message, w->row, w->place->stock);
        }
    }
    double seconds = MPI_Wtime() - began;
    w->cpu[1] += cpu_seconds() - cpu;
    return seconds / w->options->train;
}

/* Compares the output in recv with the reference; wrong elements and guard bytes of this rank. */
static uint64_t check(work_t *w, const char *who)
{
    size_t guards, wrong;
    char line[256];

    if (!w->options->check) {
        return 0;
    }
    buffer_read(&w->recv, w->host, w->part.out_bytes);
    wrong = bench_collective_check(w->row, &w->values, w->place->rank, w->host, line, sizeof(line));
    guards = buffer_check_guards(&w->recv) + buffer_check_guards(&w->send);
    if (wrong > 0) {
        fprintf(stderr, "gpuhier_bench: rank %d, %s, %zu bytes of %s %s: %zu wrong; %s\n", w->place->rank, who,
                w->row->bytes, w->row->type->name, w->row->op->name, wrong, line);
    }
    if (guards > 0) {
        fprintf(stderr, "gpuhier_bench: rank %d, %s, %zu bytes: %zu bytes around the buffers were overwritten\n",
                w->place->rank, who, w->row->bytes, guards);
    }
    return wrong + guards;
}

/* What the calls counted since w->before did, over all ranks. */
static bench_path_t find_path(const work_t *w)
{
    pvars_t after;
    int all, none, staged;

    if (!w->place->has_component) {
        return BENCH_PATH_NONE;
    }
    pvars_read(&after);
    all = after.accelerated - w->before.accelerated == w->calls;
    none = after.accelerated == w->before.accelerated;
    staged = after.staged > w->before.staged;
    MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, w->place->control);
    MPI_Allreduce(MPI_IN_PLACE, &none, 1, MPI_INT, MPI_MIN, w->place->control);
    MPI_Allreduce(MPI_IN_PLACE, &staged, 1, MPI_INT, MPI_MAX, w->place->control);
    if (all) {
        return BENCH_PATH_GPUHIER;
    }
    if (!none) {
        return BENCH_PATH_MIXED;
    }
    return staged ? BENCH_PATH_STAGED : BENCH_PATH_SAVED;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

/* The median over samples of the slowest rank's time, in microseconds; right on all ranks. Keeps them, in order of
 * time. */
static double median_us(double *samples, int n, MPI_Comm comm, double **kept_p)
{
    MPI_Allreduce(MPI_IN_PLACE, samples, n, MPI_DOUBLE, MPI_MAX, comm);
    *kept_p = malloc((size_t) n * sizeof(double));
    for (int i = 0; NULL != *kept_p && i < n; ++i) {
        (*kept_p)[i] = samples[i] * 1e6;
    }
    qsort(samples, (size_t) n, sizeof(double), compare);
    return (0 == n % 2 ? (samples[n / 2 - 1] + samples[n / 2]) / 2 : samples[n / 2]) * 1e6;
}

/* How many samples fit into the row's budget, when one takes this long on rank 0; equal on all ranks. */
static int pick_iterations(const work_t *w, double seconds, double budget)
{
    int n = w->options->iterations;

    if (budget > 0.0 && seconds > 0.0 && budget / seconds < n) {
        n = (int) (budget / seconds);
        n = n < MIN_ITERATIONS ? MIN_ITERATIONS : n;
    }
    n = n > w->options->iterations ? w->options->iterations : n;
    MPI_Bcast(&n, 1, MPI_INT, 0, w->place->control);
    return n;
}

void bench_measure(const bench_options_t *options, const bench_place_t *place, bench_stock_t *stock,
                   bench_floor_t *floor, bench_traffic_t *traffic, double budget, bench_row_t *row)
{
    work_t w = {.options = options, .place = place, .stock = stock, .row = row};
    bool gpuhier = MODE_STOCK != options->mode;
    bool staged = MODE_GPUHIER != options->mode;
    uint64_t wrong[2] = {0, 0};

    work_begin(&w);
    pvars_read(&w.before);
    double began = MPI_Wtime();
    /* The very first call is checked as well: it sets things up, and later ones may not do what it did. */
    if (gpuhier) {
        call_gpuhier(&w);
        wrong[0] += check(&w, "gpuhier");
    }
    began = MPI_Wtime();
    for (int i = 0; i < options->warmups; ++i) {
        if (gpuhier) {
            call_gpuhier(&w);
        }
        if (staged) {
            call_stock(&w);
        }
    }
    double per_sample = options->warmups > 0 ? (MPI_Wtime() - began) / options->warmups : 0.0;
    row->iterations = pick_iterations(&w, per_sample, budget);
    w.cpu[0] = w.cpu[1] = 0.0;
    for (int i = 0; i < row->iterations; ++i) {
        bool last = i == row->iterations - 1;
        /* Each is first as often as the other: on shared cores the second of two like calls finds another order of
         * processes. */
        for (int turn = 0; turn < 2; ++turn) {
            if (turn == i % 2 && gpuhier) {
                w.gpuhier[i] = call_gpuhier(&w);
                wrong[0] += last ? check(&w, "gpuhier") : 0;
            } else if (turn != i % 2 && staged) {
                w.staged[i] = call_stock(&w);
                wrong[1] += last ? check(&w, "stock") : 0;
            }
        }
    }
    if (gpuhier) {
        row->time_us = median_us(w.gpuhier, row->iterations, place->control, &row->samples);
        MPI_Allreduce(&w.cpu[0], &row->cpu_us, 1, MPI_DOUBLE, MPI_SUM, place->control);
        row->cpu_us *= 1e6 / row->iterations / options->train;
        row->path = find_path(&w);
    }
    if (staged) {
        row->stock_us = median_us(w.staged, row->iterations, place->control, &row->stock_samples);
        MPI_Allreduce(&w.cpu[1], &row->stock_cpu_us, 1, MPI_DOUBLE, MPI_SUM, place->control);
        row->stock_cpu_us *= 1e6 / row->iterations / options->train;
    }
    row->traffic_is_right = true;
    if (gpuhier && options->counters && BENCH_PATH_GPUHIER == row->path) {
        prepare(&w);
        bench_traffic_begin(traffic);
        bench_caller_call(&w.caller[0]);
        bench_traffic_end(traffic, row);
    }
    row->floor_us = options->host ? 0.0 : bench_floor_us(floor, row);
    MPI_Allreduce(MPI_IN_PLACE, wrong, 2, MPI_UINT64_T, MPI_SUM, place->control);
    row->wrong = wrong[0];
    row->stock_wrong = wrong[1];
    work_end(&w);
}
