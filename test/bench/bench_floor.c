/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The floor under a row: what the least work of a collective costs on this very machine. For MPI_Allreduce:
 *
 *   memory  the P ranks of a node move 2 P B bytes: each reads P shards of B / P bytes and writes
 *           P, by the component's own kernel on buffers of its own, all ranks at once, with no
 *           protocol at all; for small messages that is the launch and completion of a kernel;
 *   wire    2 (N - 1) / N * B bytes leave each of N nodes, over G rails of the given rate.
 *
 * A rank of a collective that does not reduce reads one shard, and one of a reduction to one place writes one; of
 * MPI_Alltoall(v) a rank reads B bytes and writes as many. The wire carries what bench_bus_factor() says.
 *
 * The floor is the larger of the two. The kernel is launched through the driver's API from the
 * fatbin that the component embeds, too, so the emulated driver runs its twin just as for the component.
 */
#include "bench.h"

#include "ompi/mca/coll/gpuhier/gpu/kernels/gpuhier_kernels.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SAMPLES 4
#define SAMPLE_SECONDS 0.01
#define MAX_REPEATS 10000

/* As in the component's order of magnitude: enough blocks to fill any GPU, each thread moving 16 bytes at a time. */
#define MAX_BLOCKS 1056

struct bench_floor {
    const bench_options_t *options;
    const bench_place_t *place;
    CUmodule module;
    CUresult (*get_function)(CUfunction *, CUmodule, const char *);
    CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                       void **, void **);
    CUresult (*synchronize)(CUstream);
    char *sources; /* the message: P shards to read */
    char *targets; /* P shards to write */
    size_t room;   /* bytes in each */
};

/* What gpu/kernels/gpuhier_fatbin.S embeds. */
extern const unsigned char gpuhier_fatbin[];

static bool load_kernels(bench_floor_t *f)
{
    CUresult (*load)(CUmodule *, const void *);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);

    if (NULL == driver) {
        return false;
    }
    *(void **) &load = dlsym(driver, "cuModuleLoadData");
    *(void **) &f->get_function = dlsym(driver, "cuModuleGetFunction");
    *(void **) &f->launch = dlsym(driver, "cuLaunchKernel");
    *(void **) &f->synchronize = dlsym(driver, "cuStreamSynchronize");
    return NULL != load && NULL != f->get_function && NULL != f->launch && NULL != f->synchronize
           && CUDA_SUCCESS == load(&f->module, gpuhier_fatbin);
}

bench_floor_t *bench_floor_create(const bench_options_t *options, const bench_place_t *place)
{
    bench_floor_t *f = calloc(1, sizeof(*f));
    int loaded;

    if (NULL == f) {
        fprintf(stderr, "gpuhier_bench: no memory\n");
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    f->options = options;
    f->place = place;
    loaded = load_kernels(f);
    MPI_Allreduce(MPI_IN_PLACE, &loaded, 1, MPI_INT, MPI_MIN, place->control);
    if (!loaded) {
        if (0 == place->rank) {
            fprintf(stderr, "gpuhier_bench: no floor is shown: the kernels could not be loaded\n");
        }
        f->module = NULL;
        return f;
    }
    /* Each shard may be rounded up to whole elements, and starts on 256 bytes. */
    f->room = options->max_bytes + (size_t) place->local_size * 512;
    CUDA_MUST(cudaMalloc((void **) &f->sources, f->room));
    CUDA_MUST(cudaMalloc((void **) &f->targets, f->room));
    CUDA_MUST(cudaMemset(f->sources, 0, f->room));
    CUDA_MUST(cudaMemset(f->targets, 0, f->room));
    CUDA_MUST(cudaDeviceSynchronize());
    return f;
}

void bench_floor_destroy(bench_floor_t *f)
{
    if (NULL != f->module) {
        CUDA_MUST(cudaFree(f->sources));
        CUDA_MUST(cudaFree(f->targets));
    }
    free(f);
}

/* The kernel for a type and operation, by the naming rule of gpuhier_kernels.h; false when there is none. */
static bool kernel_name(const value_type_t *type, const value_op_t *op, char *name, size_t bytes)
{
    bool ordered = MPI_MAX == op->op || MPI_MIN == op->op;

    switch (type->kind) {
    case VALUE_INT:
    case VALUE_INTEGER:
        snprintf(name, bytes, "gpuhier_%s_%sint%zu", op->name, ordered ? "" : "u", 8 * type->bytes);
        return true;
    case VALUE_UINT:
        snprintf(name, bytes, "gpuhier_%s_uint%zu", op->name, 8 * type->bytes);
        return true;
    case VALUE_FLOAT:
    case VALUE_COMPLEX:
        snprintf(name, bytes, "gpuhier_%s_%s%s", op->name,
                 sizeof(float) == type->bytes    ? "float"
                 : sizeof(double) == type->bytes ? "double"
                                                 : "float16",
                 VALUE_COMPLEX == type->kind ? "_complex" : "");
        return type->accelerated;
    case VALUE_PAIR_INT:
    case VALUE_PAIR_FLOAT:
        snprintf(name, bytes, "gpuhier_%s_%s", op->name, type->name);
        return type->bytes <= sizeof(double);
    default:
        return false;
    }
}

/* This rank's part of the work: its shard out of P sources into P targets. */
static void fill_arguments(const bench_floor_t *f, const bench_row_t *row, gpuhier_kernel_args_t *args)
{
    size_t nranks = (size_t) f->place->local_size;
    size_t count = row->bytes / row->type->extent, shard = (count + nranks - 1) / nranks;
    size_t stride = (shard * row->type->extent + 255) / 256 * 256;

    if (stride * nranks > f->room) {
        stride = f->room / nranks / 256 * 256;
        shard = stride / row->type->extent;
    }
    memset(args, 0, sizeof(*args));
    for (size_t i = 0; i < nranks && i < GPUHIER_KERNEL_MAX_PEERS; ++i) {
        args->src[i] = (uint64_t) (uintptr_t) (f->sources + i * stride);
        args->dst[i] = (uint64_t) (uintptr_t) (f->targets + i * stride);
    }
    args->count = shard;
    const uint32_t all = (uint32_t) (nranks < GPUHIER_KERNEL_MAX_PEERS ? nranks : GPUHIER_KERNEL_MAX_PEERS);
    args->nsrc = bench_collective_reduces(row->collective) ? all : 1;
    args->ndst = BY_ALL == row->collective->to ? all : 1;
    if (BY_ROOT == row->collective->from && 1 == f->place->nnodes && all > 1) {
        args->ndst = all - 1; /* the root has its message */
    }
    if (BY_PAIR == row->collective->from) {
        args->count = shard * nranks;
    }
}

/* Seconds on the clock that all processes of a machine share; MPI_Wtime may count from each one's start. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

static void run_kernel(const bench_floor_t *f, CUfunction function, gpuhier_kernel_args_t *args, size_t element_bytes)
{
    void *params[] = {args};
    size_t threads = args->count * element_bytes / 16 + 1;
    size_t blocks = (threads + GPUHIER_KERNEL_BLOCK - 1) / GPUHIER_KERNEL_BLOCK;

    CUDA_MUST(f->launch(function, (unsigned) (blocks < MAX_BLOCKS ? blocks : MAX_BLOCKS), 1, 1, GPUHIER_KERNEL_BLOCK, 1,
                        1, 0, NULL, params, NULL));
    CUDA_MUST(f->synchronize(NULL));
}

/*
 * One sample: from the first rank's start to the last one's end on a node, over `repeats` kernels of
 * every rank in a row, divided by them; the least of some samples is the floor. Ranks that share a core
 * take turns, so no rank's own time would do; and repeats make the start, at which ranks leave a
 * barrier one after the other, not count.
 */
static double sample_seconds(const bench_floor_t *f, CUfunction function, gpuhier_kernel_args_t *args,
                             size_t element_bytes, int repeats)
{
    double ends[2]; /* minus the start, and the end: both are maxima */

    MPI_Barrier(f->place->control);
    ends[0] = -now();
    for (int i = 0; i < repeats; ++i) {
        run_kernel(f, function, args, element_bytes);
    }
    ends[1] = now();
    MPI_Allreduce(MPI_IN_PLACE, ends, 2, MPI_DOUBLE, MPI_MAX, f->place->on_node);
    double seconds = (ends[0] + ends[1]) / repeats;
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, f->place->control);
    return seconds;
}

/* Kernels in a row that take SAMPLE_SECONDS on a rank that has a core to itself; equal on all ranks. */
static int pick_repeats(const bench_floor_t *f, CUfunction function, gpuhier_kernel_args_t *args, size_t element_bytes)
{
    double least = 0.0;

    for (int i = 0; i < 4; ++i) {
        double began = now();
        run_kernel(f, function, args, element_bytes);
        double seconds = now() - began;
        least = 0 == i || seconds < least ? seconds : least;
    }
    MPI_Allreduce(MPI_IN_PLACE, &least, 1, MPI_DOUBLE, MPI_MAX, f->place->control);
    double repeats = SAMPLE_SECONDS / (least > 1e-7 ? least : 1e-7);
    return repeats > MAX_REPEATS ? MAX_REPEATS : 1 + (int) repeats;
}

static double memory_floor(bench_floor_t *f, const bench_row_t *row)
{
    char name[64];
    CUfunction function = NULL;
    gpuhier_kernel_args_t args;
    double least = 0.0;
    int found;

    if (NULL == f->module) {
        return 0.0;
    }
    found = kernel_name(row->type, row->op, name, sizeof(name))
            && CUDA_SUCCESS == f->get_function(&function, f->module, name);
    MPI_Allreduce(MPI_IN_PLACE, &found, 1, MPI_INT, MPI_MIN, f->place->control);
    if (!found) {
        return 0.0;
    }
    fill_arguments(f, row, &args);
    int repeats = pick_repeats(f, function, &args, row->type->extent);
    for (int i = 0; i < SAMPLES; ++i) {
        double seconds = sample_seconds(f, function, &args, row->type->extent, repeats);
        least = 0 == i || seconds < least ? seconds : least;
    }
    return least * 1e6;
}

double bench_floor_us(bench_floor_t *f, const bench_row_t *row)
{
    double memory = memory_floor(f, row);
    double wire = 0.0;
    int n = f->place->nnodes;

    if (n > 1 && f->options->wire_gbps > 0.0) {
        double bytes_per_us = f->options->wire_gbps * 125.0 * f->options->rails;
        wire = bench_bus_factor(row->collective, n) * (double) row->bytes / bytes_per_us;
    }
    return memory > wire ? memory : wire;
}
