/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * One message of more bytes, or nearly as many elements, as an int counts; or of more elements, by MPI_Allreduce_c. In
 * place, since memory is what such a test lacks; skipped (status 77) where it lacks more than that, or Open MPI lacks
 * that function.
 *
 *   allreduce_large [--stock] TYPE COUNT NEED_GIB [staged]     (TYPE as in values.h; all ranks' memory together)
 *
 * staged: is run with coll_gpuhier_probe 0, so that no call is accelerated.
 *
 * Every byte of the input is the same but at marks: places where an offset would wrap around, the end, and
 * one in every 16 million elements. Sums of the constant and of the marks are exact.
 */
#include "calls.h"

#include <cuda_runtime_api.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 6
#    define COUNT_MAX INT64_MAX
#    define ALLREDUCE MPI_Allreduce_c
#else
#    define COUNT_MAX INT_MAX
#    define ALLREDUCE MPI_Allreduce
#endif

#define FILL 0x01
#define CHUNK ((size_t) 4 << 20) /* bytes of the result that are compared at once */
#define MARK_EVERY ((uint64_t) 16777259)

static const uint64_t wraps[] = {UINT64_C(1) << 31, UINT64_C(1) << 32, UINT64_C(1) << 33};

/* Is this element marked? Near each place where a number of bytes or of elements gets a bit longer, at both ends, and
 * now and then. */
static bool is_marked(uint64_t i, uint64_t count, size_t bytes)
{
    if (0 == i % MARK_EVERY || i + 1 == count) {
        return true;
    }
    for (size_t w = 0; w < sizeof(wraps) / sizeof(wraps[0]); ++w) {
        if (i == wraps[w] / bytes || i + 1 == wraps[w] / bytes) {
            return true;
        }
    }
    return false;
}

/* What a rank has at a mark: small integers, so that sums are exact in all types. */
static int mark(int rank, uint64_t i)
{
    return 1 + (int) ((i % 7 + (uint64_t) rank * 3) % 11);
}

static void store(const value_type_t *type, int value, unsigned char *element)
{
    const int64_t integer = value;
    const double real = value;
    const float single = (float) value;
    if (VALUE_FLOAT == type->kind) {
        memcpy(element, sizeof(float) == type->bytes ? (const void *) &single : (const void *) &real, type->bytes);
    } else {
        memcpy(element, &integer, type->bytes);
    }
}

/* The constant's sum: of nranks times the same bits, in this type. */
static void store_sum_of_fill(const value_type_t *type, int nranks, unsigned char *element)
{
    unsigned char fill[8];
    memset(fill, FILL, sizeof(fill));
    if (sizeof(float) == type->bytes && VALUE_FLOAT == type->kind) {
        float x;
        memcpy(&x, fill, sizeof(x));
        x *= (float) nranks;
        memcpy(element, &x, sizeof(x));
    } else if (VALUE_FLOAT == type->kind) {
        double x;
        memcpy(&x, fill, sizeof(x));
        x *= nranks;
        memcpy(element, &x, sizeof(x));
    } else {
        memset(element, FILL * nranks, type->bytes); /* no byte carries */
    }
}

/* Calls visit for each marked element of [begin, end). */
static void each_mark(uint64_t begin, uint64_t end, uint64_t count, size_t bytes, void (*visit)(void *, uint64_t),
                      void *arg)
{
    for (uint64_t i = (begin + MARK_EVERY - 1) / MARK_EVERY * MARK_EVERY; i < end; i += MARK_EVERY) {
        visit(arg, i);
    }
    for (size_t w = 0; w < sizeof(wraps) / sizeof(wraps[0]); ++w) {
        for (uint64_t i = wraps[w] / bytes - 1; i <= wraps[w] / bytes; ++i) {
            if (i >= begin && i < end && is_marked(i, count, bytes)) {
                visit(arg, i);
            }
        }
    }
    if (count - 1 >= begin && count - 1 < end) {
        visit(arg, count - 1);
    }
}

typedef struct large {
    suite_t *suite;
    const value_type_t *type;
    uint64_t count;
    char *message;         /* on the device */
    unsigned char *wanted; /* the chunk that begins at element `first`; between two chunks, without marks */
    uint64_t first;
} large_t;

static void mark_input(void *arg, uint64_t i)
{
    large_t *l = arg;
    unsigned char element[8];
    store(l->type, mark(l->suite->rank, i), element);
    CUDA_MUST(cudaMemcpy(l->message + i * l->type->extent, element, l->type->extent, cudaMemcpyHostToDevice));
}

static void mark_wanted(void *arg, uint64_t i)
{
    large_t *l = arg;
    int sum = 0;
    for (int rank = 0; rank < l->suite->nranks; ++rank) {
        sum += mark(rank, i);
    }
    store(l->type, sum, l->wanted + (i - l->first) * l->type->extent);
}

static void unmark_wanted(void *arg, uint64_t i)
{
    large_t *l = arg;
    store_sum_of_fill(l->type, l->suite->nranks, l->wanted + (i - l->first) * l->type->extent);
}

static void check(large_t *l)
{
    const size_t extent = l->type->extent, step = CHUNK / extent;
    unsigned char *got;
    CUDA_MUST(cudaMallocHost((void **) &got, CHUNK));
    l->wanted = malloc(CHUNK);
    for (size_t i = 0; i < step; ++i) {
        store_sum_of_fill(l->type, l->suite->nranks, l->wanted + i * extent);
    }
    for (l->first = 0; l->first < l->count; l->first += step) {
        const size_t n = l->count - l->first < step ? l->count - l->first : step;
        each_mark(l->first, l->first + n, l->count, l->type->bytes, mark_wanted, l);
        CUDA_MUST(cudaMemcpy(got, l->message + l->first * extent, n * extent, cudaMemcpyDeviceToHost));
        if (0 != memcmp(got, l->wanted, n * extent)) {
            size_t wrong = 0;
            while (got[wrong] == l->wanted[wrong]) {
                ++wrong;
            }
            suite_fail(l->suite, "element %llu is wrong", (unsigned long long) (l->first + wrong / extent));
            break;
        }
        each_mark(l->first, l->first + n, l->count, l->type->bytes, unmark_wanted, l);
    }
    free(l->wanted);
    CUDA_MUST(cudaFreeHost(got));
}

static bool has_memory(double need_gib)
{
    char line[256];
    unsigned long long kib = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    while (NULL != file && NULL != fgets(line, sizeof(line), file) && 1 != sscanf(line, "MemAvailable: %llu", &kib)) {
    }
    if (NULL != file) {
        fclose(file);
    }
    return (double) kib / (1 << 20) > need_gib;
}

int main(int argc, char **argv)
{
    suite_t suite;
    large_t l = {.suite = &suite};
    pvars_t before;

    suite_begin(&suite, "allreduce_large", &argc, &argv);
    l.type = argc > 3 ? value_type_find(argv[1]) : NULL;
    if (NULL == l.type || l.type->extent > 8) {
        fprintf(stderr, "usage: allreduce_large [--stock] TYPE COUNT NEED_GIB [staged]\n");
        return 2;
    }
    l.count = strtoull(argv[2], NULL, 0);
    int enough = has_memory(atof(argv[3])) && l.count <= COUNT_MAX, all = 0;
    MPI_Allreduce(&enough, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!all) {
        printf("allreduce_large: there are no %s GiB of memory, or no MPI_Allreduce_c\n", argv[3]);
        pvars_close();
        MPI_Finalize();
        return 77;
    }
    CUDA_MUST(cudaMalloc((void **) &l.message, l.count * l.type->extent));
    CUDA_MUST(cudaMemset(l.message, FILL, l.count * l.type->extent));
    each_mark(0, l.count, l.count, l.type->bytes, mark_input, &l);
    CUDA_MUST(cudaDeviceSynchronize());
    pvars_read(&before);
    int error = l.count > INT_MAX
                    ? ALLREDUCE(MPI_IN_PLACE, l.message, l.count, l.type->type, MPI_SUM, MPI_COMM_WORLD)
                    : MPI_Allreduce(MPI_IN_PLACE, l.message, (int) l.count, l.type->type, MPI_SUM, MPI_COMM_WORLD);
    ++suite.calls;
    if (MPI_SUCCESS != error) {
        suite_fail(&suite, "MPI_Allreduce returned %d", error);
    }
    const bool on_gpus = l.type->accelerated && (argc < 5 || 0 != strcmp(argv[4], "staged"));
    suite_check_paths(&suite, "a large message", &before, on_gpus, !on_gpus);
    check(&l);
    CUDA_MUST(cudaFree(l.message));
    return suite_end(&suite);
}
