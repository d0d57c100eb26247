/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The independent reference and the comparison; see values.h.
 *
 * The reference walks the message in blocks that stay in the cache: it makes all ranks' inputs
 * of a block, folds them in plain C, and keeps the sum (or product) of absolute values beside it
 * for the error bound.
 */
#include "values_scalar.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_ELEMENTS 1024

/* One element of the result while ranks are added to it, but for integers; which members count depends on the type. */
typedef struct partial {
    long double real; /* of floating point, complex, or the value of a pair */
    long double imaginary;
    int index;
} partial_t;

typedef struct reference {
    _Alignas(16) unsigned char expected[BLOCK_ELEMENTS * MAX_EXTENT];
    _Alignas(16) unsigned char input[BLOCK_ELEMENTS * MAX_EXTENT];
    union {
        struct {
            int64_t integer[BLOCK_ELEMENTS], others[BLOCK_ELEMENTS];
        };
        double real[BLOCK_ELEMENTS];
        partial_t partial[BLOCK_ELEMENTS];
    };
    double magnitude[BLOCK_ELEMENTS]; /* sum or product of |x| over the ranks */
} reference_t;

static bool is_rounded(const value_case_t *c)
{
    return 0 != (c->type->kind & (VALUE_FLOAT | VALUE_COMPLEX)) && (MPI_SUM == c->op->op || MPI_PROD == c->op->op);
}

static void fold_float(const value_op_t *op, partial_t *a, const partial_t *b)
{
    if (MPI_SUM == op->op) {
        a->real += b->real;
        a->imaginary += b->imaginary;
    } else if (MPI_PROD == op->op) {
        long double real = a->real * b->real - a->imaginary * b->imaginary;
        a->imaginary = a->real * b->imaginary + a->imaginary * b->real;
        a->real = real;
    } else if (MPI_MAX == op->op) {
        a->real = a->real < b->real ? b->real : a->real;
    } else {
        a->real = b->real < a->real ? b->real : a->real;
    }
}

/* Of equal values the smaller index wins. */
static void fold_pair(const value_op_t *op, partial_t *a, const partial_t *b)
{
    bool better = MPI_MINLOC == op->op ? b->real < a->real : a->real < b->real;
    if (better || (a->real == b->real && b->index < a->index)) {
        *a = *b;
    }
}

static partial_t load_partial(const value_type_t *type, const unsigned char *element)
{
    partial_t p = {0.0L, 0.0L, 0};

    switch (type->kind) {
    case VALUE_FLOAT:
        p.real = load_float(element, type->bytes);
        break;
    case VALUE_COMPLEX:
        p.real = load_float(element, type->bytes);
        p.imaginary = load_float(element + type->bytes, type->bytes);
        break;
    case VALUE_PAIR_INT:
        /* A long double holds any 64-bit integer. */
        p.real = (long double) load_integer(element, type->bytes, true);
        p.index = load_index(type, element);
        break;
    case VALUE_PAIR_FLOAT:
    case VALUE_PAIR_REAL:
        p.real = load_float(element, type->bytes);
        p.index = load_index(type, element);
        break;
    default:
        break;
    }
    return p;
}

static void store_partial(const value_type_t *type, const partial_t *p, unsigned char *element)
{
    switch (type->kind) {
    case VALUE_FLOAT:
        store_float(element, type->bytes, p->real);
        break;
    case VALUE_COMPLEX:
        store_float(element, type->bytes, p->real);
        store_float(element + type->bytes, type->bytes, p->imaginary);
        break;
    case VALUE_PAIR_INT:
        store_integer(element, type->bytes, (int64_t) p->real);
        store_index(type, element, p->index);
        break;
    case VALUE_PAIR_FLOAT:
    case VALUE_PAIR_REAL:
        store_float(element, type->bytes, p->real);
        store_index(type, element, p->index);
        break;
    default:
        break;
    }
}

static void fold(const value_case_t *c, partial_t *a, const partial_t *b)
{
    if (kind_is_pair(c->type->kind)) {
        fold_pair(c->op, a, b);
    } else {
        fold_float(c->op, a, b);
    }
}

/* The common case of the benchmark; adding in double is within the bound that the check allows. */
static void reference_double_sum(const value_case_t *c, size_t first, size_t count, bool bounds, reference_t *r)
{
    double *expected = (double *) (void *) r->expected, *input = (double *) (void *) r->input;

    value_fill(c, 0, first, count, expected);
    for (size_t i = 0; i < count && bounds; ++i) {
        r->magnitude[i] = fabs(expected[i]);
    }
    for (int rank = 1; rank < c->nranks; ++rank) {
        value_fill(c, rank, first, count, input);
        for (size_t i = 0; i < count; ++i) {
            expected[i] += input[i];
        }
        for (size_t i = 0; i < count && bounds; ++i) {
            r->magnitude[i] += fabs(input[i]);
        }
    }
}

/* Elements of an integer type as they are in 64 bits. Each length has its own loop. */
static void load_integers(const value_type_t *type, const unsigned char *in, size_t count, int64_t *out)
{
    const bool is_signed = kind_is_signed(type->kind);

    switch (type->bytes) {
    case sizeof(int8_t):
        for (size_t i = 0; i < count; ++i) {
            out[i] = load_integer(in + i, sizeof(int8_t), is_signed);
        }
        break;
    case sizeof(int16_t):
        for (size_t i = 0; i < count; ++i) {
            out[i] = load_integer(in + i * sizeof(int16_t), sizeof(int16_t), is_signed);
        }
        break;
    case sizeof(int32_t):
        for (size_t i = 0; i < count; ++i) {
            out[i] = load_integer(in + i * sizeof(int32_t), sizeof(int32_t), is_signed);
        }
        break;
    default:
        memcpy(out, in, count * sizeof(int64_t));
        break;
    }
}

/* a[i] becomes a[i] op b[i]: one loop for each operation. */
#define FOLD(expression)                                         \
    for (size_t i = 0; i < count; ++i) {                         \
        const uint64_t x = (uint64_t) a[i], y = (uint64_t) b[i]; \
        a[i] = (int64_t) (expression);                           \
    }
static void fold_integers(MPI_Op op, bool is_signed, size_t count, int64_t *a, const int64_t *b)
{
    const uint64_t flip = is_signed ? UINT64_C(1) << 63 : 0; /* signed numbers with it are in unsigned order */

    if (MPI_SUM == op) {
        FOLD(x + y)
    } else if (MPI_PROD == op) {
        FOLD(x * y)
    } else if (MPI_MAX == op) {
        FOLD((x ^ flip) < (y ^ flip) ? y : x)
    } else if (MPI_MIN == op) {
        FOLD((x ^ flip) < (y ^ flip) ? x : y)
    } else if (MPI_LAND == op) {
        FOLD(0 != x && 0 != y)
    } else if (MPI_LOR == op) {
        FOLD(0 != x || 0 != y)
    } else if (MPI_LXOR == op) {
        FOLD((0 != x) != (0 != y))
    } else if (MPI_BAND == op) {
        FOLD(x & y)
    } else if (MPI_BOR == op) {
        FOLD(x | y)
    } else {
        FOLD(x ^ y)
    }
}

static void reference_integers(const value_case_t *c, size_t first, size_t count, reference_t *r)
{
    const value_type_t *type = c->type;

    value_fill(c, 0, first, count, r->input);
    load_integers(type, r->input, count, r->integer);
    for (int rank = 1; rank < c->nranks; ++rank) {
        value_fill(c, rank, first, count, r->input);
        load_integers(type, r->input, count, r->others);
        fold_integers(c->op->op, kind_is_signed(type->kind), count, r->integer, r->others);
    }
    for (size_t i = 0; i < count; ++i) {
        store_integer(r->expected + i * type->bytes, type->bytes, r->integer[i]);
    }
}

/* For floats and doubles. Of a double the rounding of this reference, too, is within the bound that the check allows.
 */
static void reference_floats(const value_case_t *c, size_t first, size_t count, reference_t *r)
{
    const bool is_product = MPI_PROD == c->op->op, is_sum = MPI_SUM == c->op->op, is_max = MPI_MAX == c->op->op;
    const bool is_short = sizeof(float) == c->type->bytes;
    const float *input = (const float *) (const void *) r->input;
    const double *inputs = (const double *) (const void *) r->input;

    for (size_t i = 0; i < count; ++i) {
        r->real[i] = is_product ? 1.0 : is_sum ? 0.0 : is_max ? -INFINITY : INFINITY;
        r->magnitude[i] = is_product ? 1.0 : 0.0;
    }
    for (int rank = 0; rank < c->nranks; ++rank) {
        value_fill(c, rank, first, count, r->input);
        for (size_t i = 0; i < count; ++i) {
            const double x = is_short ? (double) input[i] : inputs[i], so_far = r->real[i];
            r->real[i] = is_product ? so_far * x : is_sum ? so_far + x : is_max == (so_far < x) ? x : so_far;
            r->magnitude[i] = is_product ? r->magnitude[i] * fabs(x) : r->magnitude[i] + fabs(x);
        }
    }
    for (size_t i = 0; i < count; ++i) {
        if (is_short) {
            ((float *) (void *) r->expected)[i] = (float) r->real[i];
        } else {
            ((double *) (void *) r->expected)[i] = r->real[i];
        }
    }
}

/* For all other types, in the widest there is. */
static void reference_widest(const value_case_t *c, size_t first, size_t count, reference_t *r)
{
    const value_type_t *type = c->type;
    const bool rounded = is_rounded(c);

    for (int rank = 0; rank < c->nranks; ++rank) {
        value_fill(c, rank, first, count, r->input);
        for (size_t i = 0; i < count; ++i) {
            partial_t x = load_partial(type, r->input + i * type->extent);
            double magnitude = !rounded ? 0.0
                               : VALUE_COMPLEX == type->kind
                                   ? sqrt((double) (x.real * x.real + x.imaginary * x.imaginary))
                                   : fabs((double) x.real);
            if (0 == rank) {
                r->partial[i] = x;
                r->magnitude[i] = magnitude;
                continue;
            }
            fold(c, &r->partial[i], &x);
            r->magnitude[i] = MPI_PROD == c->op->op ? r->magnitude[i] * magnitude : r->magnitude[i] + magnitude;
        }
    }
    for (size_t i = 0; i < count; ++i) {
        store_partial(type, &r->partial[i], r->expected + i * type->extent);
    }
}

static bool is_double_sum(const value_case_t *c)
{
    return MPI_DOUBLE == c->type->type && MPI_SUM == c->op->op;
}

/* Makes the result of elements first .. by plain C, with what a rounded one may differ by; of a sum of doubles only if
 * bounds says so. */
static void reference_make(const value_case_t *c, size_t first, size_t count, bool bounds, reference_t *r)
{
    const value_type_t *type = c->type;

    if (is_double_sum(c)) {
        reference_double_sum(c, first, count, bounds, r);
    } else if (0 != (type->kind & (VALUE_INT | VALUE_UINT | VALUE_INTEGER | VALUE_BOOL))) {
        reference_integers(c, first, count, r);
    } else if (VALUE_FLOAT == type->kind && (sizeof(float) == type->bytes || sizeof(double) == type->bytes)) {
        reference_floats(c, first, count, r);
    } else {
        reference_widest(c, first, count, r);
    }
}

/* The same by Open MPI's own operations, for the types where these are known to differ. */
static void reference_make_by_open_mpi(const value_case_t *c, size_t first, size_t count, reference_t *r)
{
    value_fill(c, 0, first, count, r->expected);
    for (int rank = 1; rank < c->nranks; ++rank) {
        value_fill(c, rank, first, count, r->input);
        MPI_Reduce_local(r->input, r->expected, (int) count, c->type->type, c->op->op);
    }
}

static double type_epsilon(const value_type_t *type)
{
    if (sizeof(uint16_t) == type->bytes) {
        return 0x1p-10;
    }
    if (sizeof(float) == type->bytes) {
        return FLT_EPSILON;
    }
    return sizeof(double) == type->bytes ? DBL_EPSILON : (double) LDBL_EPSILON;
}

static bool element_is_right(const value_case_t *c, const reference_t *r, size_t i, const unsigned char *got)
{
    const value_type_t *type = c->type;
    const unsigned char *expected = r->expected + i * type->extent;

    if (is_rounded(c)) {
        double factor = MPI_PROD == c->op->op ? 2.0 : 1.0;
        if (VALUE_COMPLEX == type->kind) {
            factor *= 2.0;
        }
        double bound = factor * c->nranks * type_epsilon(type) * r->magnitude[i];
        int parts = VALUE_COMPLEX == type->kind ? 2 : 1;
        for (int part = 0; part < parts; ++part) {
            size_t offset = (size_t) part * type->bytes;
            double error =
                (double) (load_float(got + offset, type->bytes) - load_float(expected + offset, type->bytes));
            if (!(fabs(error) <= bound)) {
                return false;
            }
        }
        return true;
    }
    if (kind_is_pair(type->kind)) {
        bool same = VALUE_PAIR_INT == type->kind ? 0 == memcmp(got, expected, type->bytes)
                                                 : load_float(got, type->bytes) == load_float(expected, type->bytes);
        return same && load_index(type, got) == load_index(type, expected);
    }
    if (VALUE_FLOAT == type->kind) {
        return load_float(got, type->bytes) == load_float(expected, type->bytes);
    }
    return 0 == memcmp(got, expected, type->bytes);
}

/*
 * Open MPI 4.1 compares MPI_UNSIGNED_LONG as signed and MPI_OFFSET as unsigned in MPI_MAX and MPI_MIN. What
 * it reduces itself is taken as it is, then.
 */
static bool open_mpi_differs(const value_case_t *c)
{
    return (MPI_MAX == c->op->op || MPI_MIN == c->op->op) && sizeof(int64_t) == c->type->bytes
           && 0 != (c->type->kind & (VALUE_INT | VALUE_UINT));
}

/* An element is right by the plain reference; by Open MPI's, `other`, too or instead. */
static bool is_right(const value_case_t *c, const reference_t *r, const reference_t *other, size_t i,
                     const unsigned char *got)
{
    const bool right = element_is_right(c, r, i, got);

    if (NULL == other || is_rounded(c)) {
        return right; /* roundings are compared with the exact result only */
    }
    if (open_mpi_differs(c)) {
        return right || (c->by_open_mpi && element_is_right(c, other, i, got));
    }
    return right && element_is_right(c, other, i, got);
}

size_t value_check(const value_case_t *c, size_t first, size_t count, const void *got, size_t *first_wrong_p)
{
    const bool want_other = c->twice || (c->by_open_mpi && open_mpi_differs(c));
    reference_t *r = malloc(sizeof(*r));
    reference_t *other = want_other ? malloc(sizeof(*other)) : NULL;
    size_t wrong = 0;

    if (NULL == r || (want_other && NULL == other)) {
        free(other);
        free(r);
        return count > 0 ? count : 1;
    }
    for (size_t done = 0; done < count; done += BLOCK_ELEMENTS) {
        size_t n = count - done < BLOCK_ELEMENTS ? count - done : BLOCK_ELEMENTS;
        const unsigned char *block = (const unsigned char *) got + done * c->type->extent;
        reference_make(c, first + done, n, false, r);
        if (NULL == other && !value_has_gaps(c->type) && 0 == memcmp(block, r->expected, n * c->type->extent)) {
            continue;
        }
        if (is_double_sum(c)) {
            reference_make(c, first + done, n, true, r);
        }
        if (NULL != other) {
            reference_make_by_open_mpi(c, first + done, n, other);
            memcpy(other->magnitude, r->magnitude, sizeof(r->magnitude));
        }
        for (size_t i = 0; i < n; ++i) {
            if (!is_right(c, r, other, i, block + i * c->type->extent)) {
                if (0 == wrong) {
                    *first_wrong_p = first + done + i;
                }
                ++wrong;
            }
        }
    }
    free(other);
    free(r);
    return wrong;
}

/* -- messages --------------------------------------------------------------------------- */

static int describe_element(const value_type_t *type, const unsigned char *element, char *line, size_t bytes)
{
    int used = 0;
    int64_t value = 0;

    switch (type->kind) {
    case VALUE_FLOAT:
        return snprintf(line, bytes, "%.17Lg", load_float(element, type->bytes));
    case VALUE_COMPLEX:
        return snprintf(line, bytes, "%.17Lg%+.17Lgi", load_float(element, type->bytes),
                        load_float(element + type->bytes, type->bytes));
    case VALUE_PAIR_FLOAT:
    case VALUE_PAIR_REAL:
        return snprintf(line, bytes, "{%.9Lg, %d}", load_float(element, type->bytes), load_index(type, element));
    default:
        memcpy(&value, element, type->bytes);
        used = snprintf(line, bytes, "0x%0*llx", (int) (2 * type->bytes), (unsigned long long) value);
        if (VALUE_PAIR_INT == type->kind && used >= 0 && (size_t) used < bytes) {
            used += snprintf(line + used, bytes - (size_t) used, " index %d", load_index(type, element));
        }
        return used;
    }
}

void value_describe(const value_case_t *c, size_t index, const void *got, char *line, size_t line_bytes)
{
    reference_t *r = malloc(sizeof(*r));
    char a[96] = "?", b[96] = "?";

    if (NULL != r) {
        reference_make(c, index, 1, false, r);
        describe_element(c->type, got, a, sizeof(a));
        describe_element(c->type, r->expected, b, sizeof(b));
        free(r);
    }
    snprintf(line, line_bytes, "element %zu is %s, want %s", index, a, b);
}
