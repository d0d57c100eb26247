/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Known inputs and an independent reference; see values.h.
 *
 * An input is a hash of (salt, rank, index), brought into a range that suits type and
 * operation. The reference walks the message in blocks that stay in the cache: it makes
 * all ranks' inputs of a block, folds them in plain C, and keeps the sum (or product)
 * of absolute values beside it for the error bound.
 */
#include "values.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_ELEMENTS 1024

/* The largest element: MPI_LONG_DOUBLE_INT, or a complex of long doubles. */
#define MAX_EXTENT 32

typedef struct {
    float value;
    int index;
} float_int_t;
typedef struct {
    double value;
    int index;
} double_int_t;
typedef struct {
    long value;
    int index;
} long_int_t;
typedef struct {
    int value;
    int index;
} two_int_t;
typedef struct {
    short value;
    int index;
} short_int_t;
typedef struct {
    long double value;
    int index;
} long_double_int_t;

#define SCALAR(name, type, kind, c_type, accelerated) \
    { name, type, kind, sizeof(c_type), sizeof(c_type), 0, accelerated }
#define COMPLEX(name, type, c_type, accelerated) \
    { name, type, VALUE_COMPLEX, sizeof(c_type), 2 * sizeof(c_type), 0, accelerated }
#define PAIR(name, type, kind, c_type, c_value, accelerated) \
    { name, type, kind, sizeof(c_value), sizeof(c_type), offsetof(c_type, index), accelerated }

const value_type_t value_types[] = {
    SCALAR("signed_char", MPI_SIGNED_CHAR, VALUE_INT, signed char, true),
    SCALAR("unsigned_char", MPI_UNSIGNED_CHAR, VALUE_UINT, unsigned char, true),
    SCALAR("short", MPI_SHORT, VALUE_INT, short, true),
    SCALAR("unsigned_short", MPI_UNSIGNED_SHORT, VALUE_UINT, unsigned short, true),
    SCALAR("int", MPI_INT, VALUE_INT, int, true),
    SCALAR("unsigned", MPI_UNSIGNED, VALUE_UINT, unsigned, true),
    SCALAR("long", MPI_LONG, VALUE_INT, long, true),
    SCALAR("unsigned_long", MPI_UNSIGNED_LONG, VALUE_UINT, unsigned long, true),
    SCALAR("long_long", MPI_LONG_LONG, VALUE_INT, long long, true),
    SCALAR("unsigned_long_long", MPI_UNSIGNED_LONG_LONG, VALUE_UINT, unsigned long long, true),
    SCALAR("int8", MPI_INT8_T, VALUE_INT, int8_t, true),
    SCALAR("uint8", MPI_UINT8_T, VALUE_UINT, uint8_t, true),
    SCALAR("int16", MPI_INT16_T, VALUE_INT, int16_t, true),
    SCALAR("uint16", MPI_UINT16_T, VALUE_UINT, uint16_t, true),
    SCALAR("int32", MPI_INT32_T, VALUE_INT, int32_t, true),
    SCALAR("uint32", MPI_UINT32_T, VALUE_UINT, uint32_t, true),
    SCALAR("int64", MPI_INT64_T, VALUE_INT, int64_t, true),
    SCALAR("uint64", MPI_UINT64_T, VALUE_UINT, uint64_t, true),
    SCALAR("byte", MPI_BYTE, VALUE_BYTE, unsigned char, true),
    SCALAR("c_bool", MPI_C_BOOL, VALUE_BOOL, bool, false),
    SCALAR("aint", MPI_AINT, VALUE_INT, MPI_Aint, false),
    SCALAR("offset", MPI_OFFSET, VALUE_INT, MPI_Offset, false),
    SCALAR("count", MPI_COUNT, VALUE_INT, MPI_Count, false),
    SCALAR("float", MPI_FLOAT, VALUE_FLOAT, float, true),
    SCALAR("double", MPI_DOUBLE, VALUE_FLOAT, double, true),
    SCALAR("long_double", MPI_LONG_DOUBLE, VALUE_FLOAT, long double, false),
    COMPLEX("c_float_complex", MPI_C_FLOAT_COMPLEX, float, true),
    COMPLEX("c_double_complex", MPI_C_DOUBLE_COMPLEX, double, true),
    COMPLEX("c_long_double_complex", MPI_C_LONG_DOUBLE_COMPLEX, long double, false),
    PAIR("float_int", MPI_FLOAT_INT, VALUE_PAIR_FLOAT, float_int_t, float, true),
    PAIR("double_int", MPI_DOUBLE_INT, VALUE_PAIR_FLOAT, double_int_t, double, true),
    PAIR("long_int", MPI_LONG_INT, VALUE_PAIR_INT, long_int_t, long, true),
    PAIR("2int", MPI_2INT, VALUE_PAIR_INT, two_int_t, int, true),
    PAIR("short_int", MPI_SHORT_INT, VALUE_PAIR_INT, short_int_t, short, true),
    PAIR("long_double_int", MPI_LONG_DOUBLE_INT, VALUE_PAIR_FLOAT, long_double_int_t, long double, false),
};
const int value_ntypes = (int) (sizeof(value_types) / sizeof(value_types[0]));

#define KINDS_INTEGER (VALUE_INT | VALUE_UINT)
#define KINDS_PAIR (VALUE_PAIR_INT | VALUE_PAIR_FLOAT)

const value_op_t value_ops[] = {
    {"sum", MPI_SUM, KINDS_INTEGER | VALUE_FLOAT | VALUE_COMPLEX},
    {"prod", MPI_PROD, KINDS_INTEGER | VALUE_FLOAT | VALUE_COMPLEX},
    {"max", MPI_MAX, KINDS_INTEGER | VALUE_FLOAT},
    {"min", MPI_MIN, KINDS_INTEGER | VALUE_FLOAT},
    {"land", MPI_LAND, KINDS_INTEGER | VALUE_BOOL},
    {"lor", MPI_LOR, KINDS_INTEGER | VALUE_BOOL},
    {"lxor", MPI_LXOR, KINDS_INTEGER | VALUE_BOOL},
    {"band", MPI_BAND, KINDS_INTEGER | VALUE_BYTE},
    {"bor", MPI_BOR, KINDS_INTEGER | VALUE_BYTE},
    {"bxor", MPI_BXOR, KINDS_INTEGER | VALUE_BYTE},
    {"minloc", MPI_MINLOC, KINDS_PAIR},
    {"maxloc", MPI_MAXLOC, KINDS_PAIR},
};
const int value_nops = (int) (sizeof(value_ops) / sizeof(value_ops[0]));

const value_type_t *value_type_find(const char *name)
{
    for (int i = 0; i < value_ntypes; ++i) {
        if (0 == strcmp(name, value_types[i].name)) {
            return &value_types[i];
        }
    }
    return NULL;
}

const value_op_t *value_op_find(const char *name)
{
    for (int i = 0; i < value_nops; ++i) {
        if (0 == strcmp(name, value_ops[i].name)) {
            return &value_ops[i];
        }
    }
    return NULL;
}

/* -- the generator ---------------------------------------------------------------------- */

/* The finalizer of splitmix64 (Steele, Lea and Flood, 2014): every input bit reaches every output bit. */
static inline uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static bool is_logical(const value_op_t *op)
{
    return MPI_LAND == op->op || MPI_LOR == op->op || MPI_LXOR == op->op;
}

static int64_t integer_value(const value_case_t *c, int rank, size_t index, uint64_t hash)
{
    int bits = (int) (8 * c->type->bytes);
    bool is_signed = VALUE_INT == c->type->kind;

    if (VALUE_BOOL == c->type->kind) {
        return (int64_t) (hash & 1);
    }
    if (is_logical(c->op)) {
        /* One in P is the value that decides: zero for LAND, another for LOR. Not only 1 is true. */
        bool is_rare = 0 == hash % (uint64_t) c->nranks;
        int64_t is_true = (int64_t) (1 + (hash >> 32) % 100);
        if (MPI_LOR == c->op->op) {
            return is_rare ? is_true : 0;
        }
        return is_rare ? 0 : is_true;
    }
    if (MPI_PROD == c->op->op && is_signed) {
        /* One rank brings a factor, the others a sign: no type overflows. */
        return (size_t) rank == index % (size_t) c->nranks ? (int64_t) (2 + hash % 50) : (hash & 1 ? 1 : -1);
    }
    if (MPI_SUM == c->op->op && is_signed) {
        uint64_t limit = (UINT64_C(1) << (bits - 1)) / (uint64_t) c->nranks;
        return limit < 2 ? (int64_t) (hash & 1) : (int64_t) (hash % (2 * limit - 1)) - (int64_t) (limit - 1);
    }
    if (MPI_SUM == c->op->op) {
        /* What an unsigned sum beyond the type's range gives is not defined by MPI, and Open MPI 4.1 saturates short ones. */
        return (int64_t) ((hash >> (64 - bits)) / (uint64_t) c->nranks);
    }
    return (int64_t) (hash >> (64 - bits));
}

static long double float_value(const value_case_t *c, uint64_t hash)
{
    /* 24 bits: exact in every type, and sums round in float. */
    double unit = (double) (hash >> 40) * 0x1p-23 - 1.0;

    if (MPI_PROD == c->op->op) {
        return 1.0 + unit / 8;
    }
    if (MPI_SUM == c->op->op) {
        return ldexp(unit, (int) (hash & 7));
    }
    return unit;
}

static void store_integer(void *out, size_t bytes, int64_t value)
{
    switch (bytes) {
    case 1: {
        int8_t v = (int8_t) value;
        memcpy(out, &v, 1);
        break;
    }
    case 2: {
        int16_t v = (int16_t) value;
        memcpy(out, &v, 2);
        break;
    }
    case 4: {
        int32_t v = (int32_t) value;
        memcpy(out, &v, 4);
        break;
    }
    default:
        memcpy(out, &value, 8);
        break;
    }
}

static void store_float(void *out, size_t bytes, long double value)
{
    if (sizeof(float) == bytes) {
        float v = (float) value;
        memcpy(out, &v, sizeof(v));
    } else if (sizeof(double) == bytes) {
        double v = (double) value;
        memcpy(out, &v, sizeof(v));
    } else {
        memcpy(out, &value, sizeof(value));
    }
}

static long double load_float(const void *in, size_t bytes)
{
    if (sizeof(float) == bytes) {
        float v;
        memcpy(&v, in, sizeof(v));
        return v;
    }
    if (sizeof(double) == bytes) {
        double v;
        memcpy(&v, in, sizeof(v));
        return v;
    }
    long double v;
    memcpy(&v, in, sizeof(v));
    return v;
}

/* The common case of the benchmark, kept apart because it makes gigabytes. */
static void fill_double_sum(uint64_t seed, size_t first, size_t count, double *out)
{
    for (size_t i = 0; i < count; ++i) {
        uint64_t hash = mix(seed ^ (first + i));
        out[i] = ((double) (int64_t) (hash >> 40) * 0x1p-23 - 1.0) * (double) (1u << (hash & 7));
    }
}

void value_fill(const value_case_t *c, int rank, size_t first, size_t count, void *out)
{
    const value_type_t *type = c->type;
    uint64_t seed = mix(c->salt * UINT64_C(0x100000001b3) + (uint64_t) rank + 1);

    if (MPI_DOUBLE == type->type && MPI_SUM == c->op->op) {
        fill_double_sum(seed, first, count, out);
        return;
    }
    for (size_t i = 0; i < count; ++i) {
        unsigned char *element = (unsigned char *) out + i * type->extent;
        uint64_t hash = mix(seed ^ (first + i));
        switch (type->kind) {
        case VALUE_INT:
        case VALUE_UINT:
        case VALUE_BYTE:
        case VALUE_BOOL:
            store_integer(element, type->bytes, integer_value(c, rank, first + i, hash));
            break;
        case VALUE_FLOAT:
            store_float(element, type->bytes, float_value(c, hash));
            break;
        case VALUE_COMPLEX:
            store_float(element, type->bytes, float_value(c, hash));
            store_float(element + type->bytes, type->bytes, float_value(c, mix(hash)));
            break;
        case VALUE_PAIR_INT:
        case VALUE_PAIR_FLOAT: {
            /* Few values, so that ties are frequent; the smaller index must win them. */
            int64_t value = (int64_t) (hash % 5) - 2;
            int index = (int) ((hash >> 20) % 1000) * c->nranks + rank;
            if (VALUE_PAIR_INT == type->kind) {
                store_integer(element, type->bytes, value);
            } else {
                store_float(element, type->bytes, (long double) value * 0.75L);
            }
            memcpy(element + type->index_offset, &index, sizeof(index));
            break;
        }
        }
    }
}

/* -- the reference ---------------------------------------------------------------------- */

/* One element of the result while ranks are added to it; which members count depends on the type. */
typedef struct partial {
    int64_t integer; /* bits of the integer, or the value of an integer pair */
    long double real; /* of floating point, complex, or the value of a pair */
    long double imaginary;
    int index;
} partial_t;

typedef struct reference {
    _Alignas(16) unsigned char expected[BLOCK_ELEMENTS * MAX_EXTENT];
    _Alignas(16) unsigned char input[BLOCK_ELEMENTS * MAX_EXTENT];
    partial_t partial[BLOCK_ELEMENTS];
    double magnitude[BLOCK_ELEMENTS]; /* sum or product of |x| over the ranks */
} reference_t;

static bool is_rounded(const value_case_t *c)
{
    return 0 != (c->type->kind & (VALUE_FLOAT | VALUE_COMPLEX)) &&
           (MPI_SUM == c->op->op || MPI_PROD == c->op->op);
}

/* Sign-extended for signed types, zero-extended for the others. */
static int64_t load_integer(const void *in, size_t bytes, bool is_signed)
{
    uint64_t value = 0;
    int unused = (int) (64 - 8 * bytes);

    memcpy(&value, in, bytes);
    value <<= unused;
    return is_signed ? (int64_t) value >> unused : (int64_t) (value >> unused);
}

static int64_t fold_integer(const value_op_t *op, bool is_signed, int64_t a, int64_t b)
{
    bool less = is_signed ? a < b : (uint64_t) a < (uint64_t) b;

    if (MPI_SUM == op->op) {
        return (int64_t) ((uint64_t) a + (uint64_t) b);
    }
    if (MPI_PROD == op->op) {
        return (int64_t) ((uint64_t) a * (uint64_t) b);
    }
    if (MPI_MAX == op->op) {
        return less ? b : a;
    }
    if (MPI_MIN == op->op) {
        return less ? a : b;
    }
    if (MPI_LAND == op->op) {
        return 0 != a && 0 != b;
    }
    if (MPI_LOR == op->op) {
        return 0 != a || 0 != b;
    }
    if (MPI_LXOR == op->op) {
        return (0 != a) != (0 != b);
    }
    if (MPI_BAND == op->op) {
        return a & b;
    }
    return MPI_BOR == op->op ? (a | b) : (a ^ b);
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
    partial_t p = {0, 0.0L, 0.0L, 0};

    switch (type->kind) {
    case VALUE_INT:
    case VALUE_UINT:
    case VALUE_BYTE:
    case VALUE_BOOL:
        p.integer = load_integer(element, type->bytes, VALUE_INT == type->kind);
        break;
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
        memcpy(&p.index, element + type->index_offset, sizeof(p.index));
        break;
    case VALUE_PAIR_FLOAT:
        p.real = load_float(element, type->bytes);
        memcpy(&p.index, element + type->index_offset, sizeof(p.index));
        break;
    }
    return p;
}

static void store_partial(const value_type_t *type, const partial_t *p, unsigned char *element)
{
    switch (type->kind) {
    case VALUE_INT:
    case VALUE_UINT:
    case VALUE_BYTE:
    case VALUE_BOOL:
        store_integer(element, type->bytes, p->integer);
        break;
    case VALUE_FLOAT:
        store_float(element, type->bytes, p->real);
        break;
    case VALUE_COMPLEX:
        store_float(element, type->bytes, p->real);
        store_float(element + type->bytes, type->bytes, p->imaginary);
        break;
    case VALUE_PAIR_INT:
        store_integer(element, type->bytes, (int64_t) p->real);
        memcpy(element + type->index_offset, &p->index, sizeof(p->index));
        break;
    case VALUE_PAIR_FLOAT:
        store_float(element, type->bytes, p->real);
        memcpy(element + type->index_offset, &p->index, sizeof(p->index));
        break;
    }
}

static void fold(const value_case_t *c, partial_t *a, const partial_t *b)
{
    switch (c->type->kind) {
    case VALUE_FLOAT:
    case VALUE_COMPLEX:
        fold_float(c->op, a, b);
        break;
    case VALUE_PAIR_INT:
    case VALUE_PAIR_FLOAT:
        fold_pair(c->op, a, b);
        break;
    default:
        a->integer = fold_integer(c->op, VALUE_INT == c->type->kind, a->integer, b->integer);
        break;
    }
}

/* The common case of the benchmark; adding in double is within the bound that the check allows. */
static void reference_double_sum(const value_case_t *c, size_t first, size_t count, reference_t *r)
{
    double *expected = (double *) (void *) r->expected, *input = (double *) (void *) r->input;

    value_fill(c, 0, first, count, expected);
    for (size_t i = 0; i < count; ++i) {
        r->magnitude[i] = fabs(expected[i]);
    }
    for (int rank = 1; rank < c->nranks; ++rank) {
        value_fill(c, rank, first, count, input);
        for (size_t i = 0; i < count; ++i) {
            expected[i] += input[i];
            r->magnitude[i] += fabs(input[i]);
        }
    }
}

/* Makes the result of elements first .. by plain C, in the widest type there is. */
static void reference_make(const value_case_t *c, size_t first, size_t count, reference_t *r)
{
    const value_type_t *type = c->type;

    if (MPI_DOUBLE == type->type && MPI_SUM == c->op->op) {
        reference_double_sum(c, first, count, r);
        return;
    }
    for (int rank = 0; rank < c->nranks; ++rank) {
        value_fill(c, rank, first, count, r->input);
        for (size_t i = 0; i < count; ++i) {
            partial_t x = load_partial(type, r->input + i * type->extent);
            double magnitude = VALUE_COMPLEX == type->kind ? hypot((double) x.real, (double) x.imaginary) : fabs((double) x.real);
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
            double error = (double) (load_float(got + offset, type->bytes) - load_float(expected + offset, type->bytes));
            if (!(fabs(error) <= bound)) {
                return false;
            }
        }
        return true;
    }
    if (0 != (type->kind & KINDS_PAIR)) {
        bool same = VALUE_PAIR_FLOAT == type->kind
                        ? load_float(got, type->bytes) == load_float(expected, type->bytes)
                        : 0 == memcmp(got, expected, type->bytes);
        return same && 0 == memcmp(got + type->index_offset, expected + type->index_offset, sizeof(int));
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
    return c->by_open_mpi && (MPI_MAX == c->op->op || MPI_MIN == c->op->op) && sizeof(int64_t) == c->type->bytes &&
           0 != (c->type->kind & KINDS_INTEGER);
}

size_t value_check(const value_case_t *c, size_t first, size_t count, const void *got, size_t *first_wrong_p)
{
    reference_t *r = malloc(sizeof(*r));
    reference_t *other = open_mpi_differs(c) ? malloc(sizeof(*other)) : NULL;
    size_t wrong = 0;

    if (NULL == r) {
        return count > 0 ? count : 1;
    }
    for (size_t done = 0; done < count; done += BLOCK_ELEMENTS) {
        size_t n = count - done < BLOCK_ELEMENTS ? count - done : BLOCK_ELEMENTS;
        const unsigned char *block = (const unsigned char *) got + done * c->type->extent;
        reference_make(c, first + done, n, r);
        if (NULL != other) {
            reference_make_by_open_mpi(c, first + done, n, other);
        }
        for (size_t i = 0; i < n; ++i) {
            const unsigned char *element = block + i * c->type->extent;
            if (!element_is_right(c, r, i, element) && (NULL == other || !element_is_right(c, other, i, element))) {
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
    int index;
    int64_t value = 0;

    switch (type->kind) {
    case VALUE_FLOAT:
        return snprintf(line, bytes, "%.17Lg", load_float(element, type->bytes));
    case VALUE_COMPLEX:
        return snprintf(line, bytes, "%.17Lg%+.17Lgi", load_float(element, type->bytes),
                        load_float(element + type->bytes, type->bytes));
    case VALUE_PAIR_FLOAT:
        memcpy(&index, element + type->index_offset, sizeof(index));
        return snprintf(line, bytes, "{%.9Lg, %d}", load_float(element, type->bytes), index);
    default:
        memcpy(&value, element, type->bytes);
        used = snprintf(line, bytes, "0x%0*llx", (int) (2 * type->bytes), (unsigned long long) value);
        if (VALUE_PAIR_INT == type->kind && used >= 0 && (size_t) used < bytes) {
            memcpy(&index, element + type->index_offset, sizeof(index));
            used += snprintf(line + used, bytes - (size_t) used, " index %d", index);
        }
        return used;
    }
}

void value_describe(const value_case_t *c, size_t index, const void *got, char *line, size_t line_bytes)
{
    reference_t *r = malloc(sizeof(*r));
    char a[96] = "?", b[96] = "?";

    if (NULL != r) {
        reference_make(c, index, 1, r);
        describe_element(c->type, got, a, sizeof(a));
        describe_element(c->type, r->expected, b, sizeof(b));
        free(r);
    }
    snprintf(line, line_bytes, "element %zu is %s, want %s", index, a, b);
}
