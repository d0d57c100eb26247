/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Operations that the program makes, commutative or not, on types that it makes: vectors, structs with gaps,
 * resized types, negative lower bounds, pieces in any order, several allocations in one type. On
 * device memory they are staged; what lies between the pieces is not touched, not even while
 * the call runs.
 *
 *   allreduce_derived [--stock]
 *
 * All types consist of MPI_INT, an even number of them; packed, an element is a row of pairs (a, b), each
 * of which stands for x -> a x + b. Composition of such maps is associative and not commutative.
 */
#include "calls.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct shape {
    const char *name;
    MPI_Datatype type;
    int ints; /* of one element */
} shape_t;

/* What the operations do to the gaps of a rank's receive buffer while a call runs; NULL: nothing. */
static unsigned char *gap_device;
static bool gap_marked;

static void compose(uint32_t *in, uint32_t *out, size_t n)
{
    for (size_t i = 0; i + 1 < n; i += 2) {
        uint32_t a = in[i] * out[i], b = in[i + 1] * out[i] + out[i + 1];
        out[i] = a;
        out[i + 1] = b;
    }
}

static void add(uint32_t *in, uint32_t *out, size_t n)
{
    for (size_t i = 0; i < n; ++i) {
        out[i] += in[i];
    }
}

static void apply(void *in, void *out, int count, MPI_Datatype type, void (*combine)(uint32_t *, uint32_t *, size_t))
{
    int bytes, at = 0;
    MPI_Pack_size(count, type, MPI_COMM_SELF, &bytes);
    uint32_t *a = malloc((size_t) bytes), *b = malloc((size_t) bytes);
    MPI_Pack(in, count, type, a, bytes, &at, MPI_COMM_SELF);
    at = 0;
    MPI_Pack(out, count, type, b, bytes, &at, MPI_COMM_SELF);
    combine(a, b, (size_t) at / sizeof(*a));
    bytes = at;
    at = 0;
    MPI_Unpack(b, bytes, &at, out, count, type, MPI_COMM_SELF);
    free(a);
    free(b);
    if (NULL != gap_device) {
        CUDA_MUST(cudaMemset(gap_device, 0x77, 1));
        gap_marked = true;
    }
}

static void op_compose(void *in, void *out, int *count, MPI_Datatype *type)
{
    apply(in, out, *count, *type, compose);
}

static void op_add(void *in, void *out, int *count, MPI_Datatype *type)
{
    apply(in, out, *count, *type, add);
}

static uint32_t value(uint64_t salt, int rank, size_t i)
{
    uint64_t x = (salt * 1000003 + (uint64_t) rank) * UINT64_C(0x9e3779b97f4a7c15) + i * UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 29;
    return (uint32_t) (x * UINT64_C(0x94d049bb133111eb) >> 32);
}

/* The result, packed. */
static uint32_t *expected(const suite_t *suite, size_t n, bool is_sum)
{
    uint32_t *acc = malloc(n * sizeof(*acc)), *x = malloc(n * sizeof(*x));
    for (int rank = suite->nranks - 1; rank >= 0; --rank) {
        for (size_t i = 0; i < n; ++i) {
            x[i] = value(suite->salt, rank, i);
        }
        if (suite->nranks - 1 == rank) {
            memcpy(acc, x, n * sizeof(*x));
        } else if (is_sum) {
            add(x, acc, n);
        } else {
            compose(x, acc, n);
        }
    }
    free(x);
    return acc;
}

/* One call. The host images hold what is on the device, guards included; the type's origin is `origin` bytes into them.
 */
static void one(suite_t *suite, const shape_t *shape, MPI_Op op, bool is_sum, int count, buffer_kind_t kind,
                bool in_place)
{
    MPI_Aint lb, extent, true_lb, true_extent;
    MPI_Type_get_extent(shape->type, &lb, &extent);
    MPI_Type_get_true_extent(shape->type, &true_lb, &true_extent);
    const size_t span = (size_t) ((count - 1) * extent + true_extent), n = (size_t) count * (size_t) shape->ints;
    unsigned char *image = malloc(span + 2), *after = malloc(span + 2);
    uint32_t *packed = malloc(n * sizeof(*packed)), *want;
    buffer_t send = {0}, recv;
    char what[128];
    int at = 0;

    ++suite->salt;
    snprintf(what, sizeof(what), "%s, %s, count %d, %s%s", shape->name, is_sum ? "sum" : "composition", count,
             buffer_kind_name(kind), in_place ? " in place" : "");
    for (size_t i = 0; i < n; ++i) {
        packed[i] = value(suite->salt, suite->rank, i);
    }
    memset(image, 0x3c, span + 2);
    buffer_alloc(&recv, kind, span + 2, 0);
    buffer_write(&recv, image, span + 2);
    MPI_Unpack(packed, (int) (n * sizeof(*packed)), &at, image - true_lb, count, shape->type, MPI_COMM_SELF);
    if (in_place) {
        buffer_write(&recv, image, span + 2);
    } else {
        buffer_alloc(&send, kind, span + 2, 0);
        buffer_write(&send, image, span + 2);
    }
    /* The byte behind the first piece, if it is a gap, is written while the call runs. */
    memset(image, 0x3c, span + 2);
    want = expected(suite, n, is_sum);
    at = 0;
    MPI_Unpack(want, (int) (n * sizeof(*want)), &at, image - true_lb, count, shape->type, MPI_COMM_SELF);
    memset(after, 0xc3, span + 2);
    at = 0;
    MPI_Unpack(want, (int) (n * sizeof(*want)), &at, after - true_lb, count, shape->type, MPI_COMM_SELF);
    size_t gap = 0;
    while (gap < span && image[gap] == after[gap]) {
        ++gap;
    }
    gap_device = gap < span && buffer_kind_on_device(kind) ? (unsigned char *) recv.message + gap : NULL;

    gap_marked = false;
    pvars_t before, now;
    pvars_read(&before);
    int error = MPI_Allreduce(in_place ? MPI_IN_PLACE : send.message - true_lb, recv.message - true_lb, count,
                              shape->type, op, MPI_COMM_WORLD);
    pvars_read(&now);
    ++suite->calls;
    gap_device = NULL;
    if (MPI_SUCCESS != error) {
        suite_fail(suite, "%s: MPI_Allreduce returned %d", what, error);
    }
    const bool staged = buffer_kind_on_device(kind);
    if (PATH_ACCELERATED == suite->default_path
        && ((uint64_t) staged != now.staged - before.staged || now.accelerated != before.accelerated)) {
        suite_fail(suite, "%s: took another path than the staged one", what);
    }
    buffer_read(&recv, after, span + 2);
    if (gap_marked) {
        image[gap] = 0x77;
    }
    if (0 != memcmp(image, after, span + 2)) {
        size_t i = 0;
        while (image[i] == after[i]) {
            ++i;
        }
        suite_fail(suite, "%s: byte %zu of %zu is 0x%02x, want 0x%02x", what, i, span, after[i], image[i]);
    }
    if (0 != buffer_check_guards(&recv)) {
        suite_fail(suite, "%s: bytes around the buffer were overwritten", what);
    }
    buffer_free(&recv);
    if (!in_place) {
        buffer_free(&send);
    }
    free(image);
    free(after);
    free(packed);
    free(want);
}

/* One type that names two allocations by their addresses. */
static void two_allocations(suite_t *suite, MPI_Op op)
{
    enum { N = 500 };
    buffer_t part[2];
    MPI_Aint places[2];
    const int lengths[2] = {N, N};
    MPI_Datatype type;
    uint32_t mine[2 * N], got[2 * N], *want;

    ++suite->salt;
    for (size_t i = 0; i < 2 * N; ++i) {
        mine[i] = value(suite->salt, suite->rank, i);
    }
    for (int i = 0; i < 2; ++i) {
        buffer_alloc(&part[i], BUFFER_DEVICE, N * sizeof(uint32_t), 0);
        buffer_write(&part[i], mine + i * N, N * sizeof(uint32_t));
        MPI_Get_address(part[i].message, &places[i]);
    }
    MPI_Type_create_hindexed(2, lengths, places, MPI_INT, &type);
    MPI_Type_commit(&type);
    pvars_t before;
    pvars_read(&before);
    ++suite->calls;
    if (MPI_SUCCESS != MPI_Allreduce(MPI_IN_PLACE, MPI_BOTTOM, 1, type, op, MPI_COMM_WORLD)) {
        suite_fail(suite, "two allocations in one type: an error");
    }
    suite_check_paths(suite, "two allocations in one type", &before, 0, 1);
    want = expected(suite, 2 * N, false);
    for (int i = 0; i < 2; ++i) {
        buffer_read(&part[i], got + i * N, N * sizeof(uint32_t));
        if (0 != buffer_check_guards(&part[i])) {
            suite_fail(suite, "two allocations in one type: bytes around a buffer were overwritten");
        }
        buffer_free(&part[i]);
    }
    if (0 != memcmp(want, got, sizeof(got))) {
        suite_fail(suite, "two allocations in one type: a wrong result");
    }
    free(want);
    MPI_Type_free(&type);
}

#define NSHAPES 8

static void shapes_make(shape_t *shapes)
{
    const int lengths[] = {1, 3, 2}, places[] = {9, 0, 5}, one_each[] = {1, 1};
    const MPI_Aint two_apart[] = {0, 12}, below[] = {-20, 8};
    const MPI_Datatype ints[] = {MPI_INT, MPI_INT};
    MPI_Datatype inner;

    memset(shapes, 0, NSHAPES * sizeof(*shapes));
    shapes[0] = (shape_t){"contiguous", MPI_DATATYPE_NULL, 6};
    MPI_Type_contiguous(6, MPI_INT, &shapes[0].type);
    shapes[1] = (shape_t){"vector", MPI_DATATYPE_NULL, 40};
    MPI_Type_vector(20, 2, 5, MPI_INT, &shapes[1].type);
    shapes[2] = (shape_t){"vector of odd bytes", MPI_DATATYPE_NULL, 10};
    MPI_Type_create_hvector(10, 1, 7, MPI_INT, &shapes[2].type);
    shapes[3] = (shape_t){"struct with gaps", MPI_DATATYPE_NULL, 2};
    MPI_Type_create_struct(2, one_each, two_apart, ints, &shapes[3].type);
    shapes[4] = (shape_t){"resized", MPI_DATATYPE_NULL, 2};
    MPI_Type_create_struct(2, one_each, two_apart, ints, &inner);
    MPI_Type_create_resized(inner, 0, 40, &shapes[4].type);
    MPI_Type_free(&inner);
    shapes[5] = (shape_t){"negative lower bound", MPI_DATATYPE_NULL, 2};
    MPI_Type_create_struct(2, one_each, below, ints, &shapes[5].type);
    shapes[6] = (shape_t){"negative lower bound, resized", MPI_DATATYPE_NULL, 2};
    MPI_Type_create_struct(2, one_each, below, ints, &inner);
    MPI_Type_create_resized(inner, -32, 48, &shapes[6].type);
    MPI_Type_free(&inner);
    shapes[7] = (shape_t){"indexed, out of order", MPI_DATATYPE_NULL, 6};
    MPI_Type_indexed(3, lengths, places, MPI_INT, &shapes[7].type);
    for (int i = 0; i < NSHAPES; ++i) {
        MPI_Type_commit(&shapes[i].type);
    }
}

int main(int argc, char **argv)
{
    static const int counts[] = {1, 7, 1500};
    static const buffer_kind_t kinds[] = {BUFFER_DEVICE, BUFFER_CHUNKS, BUFFER_POOL, BUFFER_HOST};
    suite_t suite;
    shape_t shapes[NSHAPES];
    MPI_Op ops[2];
    unsigned turn = 0;

    suite_begin(&suite, "allreduce_derived", &argc, &argv);
    shapes_make(shapes);
    MPI_Op_create(op_compose, 0, &ops[0]);
    MPI_Op_create(op_add, 1, &ops[1]);
    const shape_t plain = {"MPI_INT", MPI_INT, 1};
    for (int o = 0; o < 2; ++o) {
        one(&suite, &plain, ops[o], 1 == o, 20000, BUFFER_DEVICE, 0 == o);
        for (int i = 0; i < NSHAPES; ++i) {
            for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); ++k, ++turn) {
                one(&suite, &shapes[i], ops[o], 1 == o, counts[k], BUFFER_DEVICE, 0 == turn % 2);
                one(&suite, &shapes[i], ops[o], 1 == o, counts[k], kinds[1 + turn % 3], 0 == turn / 2 % 2);
            }
        }
        /* Longer than what is staged in one piece when the test is told so. */
        one(&suite, &shapes[0], ops[o], 1 == o, 900001, BUFFER_DEVICE, 0 == o);
    }
    two_allocations(&suite, ops[0]);
    for (int i = 0; i < NSHAPES; ++i) {
        MPI_Type_free(&shapes[i].type);
    }
    MPI_Op_free(&ops[0]);
    MPI_Op_free(&ops[1]);
    return suite_end(&suite);
}
