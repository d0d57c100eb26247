/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A latency benchmark of MPI_Allreduce, or of an exchange around the ring of
 * ranks, in the manner of the OSU programs: it knows MPI and the CUDA runtime,
 * and nothing of this project. It stands for the user's program when a
 * CUDA-aware Open MPI, its UCX and the emulated GPUs are put together, so it is
 * written against CUDA's own headers and linked with the toolkit's shared
 * libcudart.
 *
 * For each size: warm-up, a timed loop, and one checked call. The checked call
 * has inputs that depend on rank and index, a poisoned output and guard zones
 * around every buffer; every element is compared with what the host works out,
 * exactly (all values are small integers). Not checked: rounding.
 *
 *   osu_like [-o allreduce|exchange] [-d device|managed|host] [-t float|double|int] [-m MIN:MAX] [-i N] [-x N]
 *            [-n] [-l] [-c NAME]
 *     -o  what is measured: MPI_Allreduce, or MPI_Sendrecv with both neighbours
 *     -d  where the buffers are             -m  bytes of a message, doubled from MIN to MAX
 *     -i  timed calls per size              -x  calls before the timed ones
 *     -n  MPI_IN_PLACE                      -l  MPI_Init first, CUDA afterwards
 *     -c  at the end, print this counter of the driver, summed over the ranks (an
 *         emulated driver has counters; it shows what the MPI library did)
 *
 * Exit status: 0 all right, 1 wrong result or error, 77 no GPU, 2 usage.
 */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GUARD_BYTES 256 /* a multiple of every element's size and of CUDA's alignment */
#define GUARD_BYTE 0xa5
#define POISON_BYTE 0x5a

enum place { ON_DEVICE, MANAGED, ON_HOST };
static const char *const places[] = {"device", "managed", "host"};

struct options {
    int exchange; /* in place of the all-reduce */
    enum place place;
    MPI_Datatype type;
    size_t size;     /* of an element, bytes */
    size_t min, max; /* bytes of a message */
    int iterations, warmup;
    int in_place, late;
    const char *counter; /* NULL: none */
};

/* One message buffer with a guard zone before and after. */
struct buffer {
    unsigned char *base; /* of the first guard */
    void *data;
    size_t bytes; /* without the guards */
};

static enum place place = ON_DEVICE;

static void die(const char *what, const char *why)
{
    int running = 0, ended = 0;

    fprintf(stderr, "osu_like: %s: %s\n", what, why);
    MPI_Initialized(&running);
    MPI_Finalized(&ended);
    if (running && !ended) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    exit(1);
}

static void check_cuda(cudaError_t status, const char *what)
{
    if (cudaSuccess != status) {
        die(what, cudaGetErrorString(status));
    }
}

static void usage(void)
{
    fprintf(stderr, "usage: osu_like [-o allreduce|exchange] [-d device|managed|host] [-t float|double|int] "
                    "[-m MIN:MAX] [-i N] [-x N] [-n] [-l] [-c NAME]\n");
    exit(2);
}

static enum place place_parse(const char *text)
{
    for (int i = 0; i < (int) (sizeof(places) / sizeof(places[0])); i++) {
        if (0 == strcmp(text, places[i])) {
            return (enum place) i;
        }
    }
    usage();
    return ON_HOST;
}

/* Names the element type; returns its size in bytes. */
static size_t type_parse(const char *text, MPI_Datatype *type_p)
{
    if (0 == strcmp(text, "float")) {
        *type_p = MPI_FLOAT;
        return sizeof(float);
    }
    if (0 == strcmp(text, "double")) {
        *type_p = MPI_DOUBLE;
        return sizeof(double);
    }
    if (0 == strcmp(text, "int")) {
        *type_p = MPI_INT;
        return sizeof(int);
    }
    usage();
    return 0;
}

static struct options options_parse(int argc, char **argv)
{
    struct options options = {0, ON_DEVICE, MPI_DATATYPE_NULL, 0, 4, 1 << 20, 20, 5, 0, 0, NULL};
    const char *type = "float";
    int letter;

    while (-1 != (letter = getopt(argc, argv, "o:d:t:m:i:x:nlc:"))) {
        switch (letter) {
        case 'o':
            options.exchange = 0 == strcmp(optarg, "exchange");
            if (!options.exchange && 0 != strcmp(optarg, "allreduce")) {
                usage();
            }
            break;
        case 'd':
            options.place = place_parse(optarg);
            break;
        case 't':
            type = optarg;
            break;
        case 'm':
            if (2 != sscanf(optarg, "%zu:%zu", &options.min, &options.max) || options.min > options.max) {
                usage();
            }
            break;
        case 'i':
            options.iterations = atoi(optarg);
            break;
        case 'x':
            options.warmup = atoi(optarg);
            break;
        case 'n':
            options.in_place = 1;
            break;
        case 'l':
            options.late = 1;
            break;
        case 'c':
            options.counter = optarg;
            break;
        default:
            usage();
        }
    }
    options.size = type_parse(type, &options.type);
    if (options.min < options.size) {
        options.min = options.size;
    }
    if (optind != argc || (options.exchange && options.in_place) || options.iterations < 1 || options.warmup < 0
        || options.max < options.min) {
        usage();
    }
    return options;
}

/* Takes the GPU of this local rank, as Open MPI's launcher numbers it. */
static void device_take(void)
{
    const char *local = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
    int count = 0;

    if (cudaSuccess != cudaGetDeviceCount(&count) || 0 == count) {
        fprintf(stderr, "osu_like: no GPU\n");
        exit(77);
    }
    check_cuda(cudaSetDevice((NULL == local ? 0 : atoi(local)) % count), "cudaSetDevice");
    check_cuda(cudaFree(NULL), "making the context");
}

/* Copies between a buffer and host memory. */
static void move(void *to, const void *from, size_t bytes)
{
    if (ON_HOST == place) {
        memcpy(to, from, bytes);
    } else {
        check_cuda(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "cudaMemcpy");
    }
}

static void fill(void *to, int byte, size_t bytes)
{
    if (ON_HOST == place) {
        memset(to, byte, bytes);
    } else {
        check_cuda(cudaMemset(to, byte, bytes), "cudaMemset");
        check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    }
}

static struct buffer buffer_make(size_t bytes)
{
    struct buffer buffer = {NULL, NULL, bytes};
    size_t whole = bytes + 2 * GUARD_BYTES;
    void *base = NULL;

    if (ON_DEVICE == place) {
        struct cudaPointerAttributes attributes;

        check_cuda(cudaMalloc(&base, whole), "cudaMalloc");
        check_cuda(cudaPointerGetAttributes(&attributes, base), "cudaPointerGetAttributes");
        if (cudaMemoryTypeDevice != attributes.type) {
            die("cudaMalloc", "the memory is not device memory");
        }
    } else if (MANAGED == place) {
        check_cuda(cudaMallocManaged(&base, whole, cudaMemAttachGlobal), "cudaMallocManaged");
    } else if (NULL == (base = malloc(whole))) {
        die("malloc", "out of memory");
    }
    buffer.base = base;
    buffer.data = buffer.base + GUARD_BYTES;
    fill(base, GUARD_BYTE, whole);
    return buffer;
}

static void buffer_free(struct buffer *buffer)
{
    if (ON_HOST == place) {
        free(buffer->base);
    } else {
        check_cuda(cudaFree(buffer->base), "cudaFree");
    }
}

/* Bytes of the guard zones that no longer hold what they should. */
static size_t buffer_guards_wrong(const struct buffer *buffer)
{
    unsigned char guards[2 * GUARD_BYTES];
    size_t wrong = 0;

    move(guards, buffer->base, GUARD_BYTES);
    move(guards + GUARD_BYTES, buffer->base + GUARD_BYTES + buffer->bytes, GUARD_BYTES);
    for (size_t i = 0; i < sizeof(guards); i++) {
        wrong += GUARD_BYTE != guards[i];
    }
    return wrong;
}

/* The value that a rank contributes to an element: small, so that any type sums it exactly. */
static int64_t contribution(int rank, size_t index)
{
    return (int64_t) ((index * 31 + (size_t) rank * 17) % 251) - 100;
}

static void element_put(void *array, size_t index, MPI_Datatype type, int64_t value)
{
    if (MPI_FLOAT == type) {
        ((float *) array)[index] = (float) value;
    } else if (MPI_DOUBLE == type) {
        ((double *) array)[index] = (double) value;
    } else {
        ((int *) array)[index] = (int) value;
    }
}

static int element_is(const void *array, size_t index, MPI_Datatype type, int64_t value)
{
    if (MPI_FLOAT == type) {
        return (float) value == ((const float *) array)[index];
    }
    if (MPI_DOUBLE == type) {
        return (double) value == ((const double *) array)[index];
    }
    return (int) value == ((const int *) array)[index];
}

/* The call that is measured. */
static void call(const struct options *options, struct buffer *send, struct buffer *receive, size_t count)
{
    int rank, ranks;

    if (!options->exchange) {
        MPI_Allreduce(options->in_place ? MPI_IN_PLACE : send->data, receive->data, (int) count, options->type, MPI_SUM,
                      MPI_COMM_WORLD);
        return;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Sendrecv(send->data, (int) count, options->type, (rank + 1) % ranks, 0, receive->data, (int) count,
                 options->type, (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* What an element of the output must be. */
static int64_t expected(const struct options *options, int rank, int ranks, size_t index)
{
    int64_t sum = 0;

    if (options->exchange) {
        return contribution((rank + ranks - 1) % ranks, index);
    }
    for (int peer = 0; peer < ranks; peer++) {
        sum += contribution(peer, index);
    }
    return sum;
}

/* One call with checked data; returns the number of wrong elements and guard bytes on this rank. */
static size_t checked_call(const struct options *options, struct buffer *send, struct buffer *receive, size_t count)
{
    size_t wrong = 0;
    int rank, ranks;
    void *host = malloc(count * options->size);

    if (NULL == host) {
        die("malloc", "out of memory");
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (size_t i = 0; i < count; i++) {
        element_put(host, i, options->type, contribution(rank, i));
    }
    fill(receive->data, POISON_BYTE, receive->bytes);
    move(options->in_place ? receive->data : send->data, host, count * options->size);
    call(options, send, receive, count);
    if (!options->in_place) {
        /* The input must have stayed as it was. */
        move(host, send->data, count * options->size);
        for (size_t i = 0; i < count; i++) {
            wrong += !element_is(host, i, options->type, contribution(rank, i));
        }
    }
    move(host, receive->data, count * options->size);
    for (size_t i = 0; i < count; i++) {
        wrong += !element_is(host, i, options->type, expected(options, rank, ranks, i));
    }
    free(host);
    return wrong + buffer_guards_wrong(send) + buffer_guards_wrong(receive);
}

/* Mean time of one call on this rank, in microseconds. */
static double timed_calls(const struct options *options, struct buffer *send, struct buffer *receive, size_t count)
{
    double spent = 0.0;

    /* In place, sums of sums would overflow: zeros stay zeros. */
    fill(send->data, 0, send->bytes);
    fill(receive->data, 0, receive->bytes);
    for (int i = -options->warmup; i < options->iterations; i++) {
        double begin;

        MPI_Barrier(MPI_COMM_WORLD);
        begin = MPI_Wtime();
        call(options, send, receive, count);
        if (i >= 0) {
            spent += MPI_Wtime() - begin;
        }
    }
    return spent * 1e6 / options->iterations;
}

/* Measures and checks one size; returns the number of wrong elements on all ranks. */
static unsigned long long size_run(const struct options *options, size_t bytes)
{
    size_t count = bytes / options->size;
    struct buffer send = buffer_make(count * options->size);
    struct buffer receive = buffer_make(count * options->size);
    unsigned long long wrong, wrong_all = 0;
    double mine, least = 0.0, most = 0.0, sum = 0.0;
    int rank, ranks;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    mine = timed_calls(options, &send, &receive, count);
    wrong = checked_call(options, &send, &receive, count);
    MPI_Reduce(&mine, &least, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Reduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Allreduce(&wrong, &wrong_all, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (0 == rank) {
        printf("%10zu %14.2f %14.2f %14.2f %10llu\n", count * options->size, sum / ranks, least, most, wrong_all);
        fflush(stdout);
    }
    buffer_free(&send);
    buffer_free(&receive);
    return wrong_all;
}

/* Prints a counter of the emulated driver; without such a driver, or such a counter, that is an error. */
static void counter_print(const char *name)
{
    int (*counter)(const char *name, unsigned long long *value_p);
    unsigned long long value = 0, sum = 0;
    int rank;

    *(void **) &counter = dlsym(RTLD_DEFAULT, "cudasim_counter");
    if (NULL == counter) {
        die(name, "this CUDA driver has no counters");
    }
    if (0 != counter(name, &value)) {
        die(name, "the driver knows no such counter");
    }
    MPI_Reduce(&value, &sum, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (0 == rank) {
        printf("# %s %llu\n", name, sum);
    }
}

int main(int argc, char **argv)
{
    struct options options = options_parse(argc, argv);
    unsigned long long wrong = 0;
    int rank, ranks;

    place = options.place;
    if (ON_HOST != place && !options.late) {
        device_take();
    }
    MPI_Init(&argc, &argv);
    if (ON_HOST != place && options.late) {
        device_take();
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (0 == rank) {
        printf("# %s, %d ranks, %s buffers%s\n", options.exchange ? "exchange" : "allreduce, sum", ranks, places[place],
               options.in_place ? ", in place" : "");
        printf("# %8s %14s %14s %14s %10s\n", "bytes", "mean us", "least us", "most us", "#wrong");
    }
    for (size_t bytes = options.min; bytes <= options.max; bytes *= 2) {
        wrong += size_run(&options, bytes);
    }
    if (0 == rank && 0 != wrong) {
        fprintf(stderr, "osu_like: %llu wrong elements\n", wrong);
    }
    if (NULL != options.counter) {
        counter_print(options.counter);
    }
    MPI_Finalize();
    return 0 == wrong ? 0 : 1;
}
