/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The generator of known inputs; see values.h.
 *
 * An input is a hash of (salt, rank, index), brought into a range that suits type and
 * operation.
 */
#include "values_scalar.h"

#include <string.h>

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

/* From 0 to range - 1, without a division. */
static inline uint64_t scale(uint64_t hash, uint64_t range)
{
    return (uint64_t) (((unsigned __int128) hash * range) >> 64);
}

static inline int64_t integer_value(const value_case_t *c, int rank, size_t index, uint64_t hash)
{
    int bits = (int) (8 * c->type->bytes);
    bool is_signed = kind_is_signed(c->type->kind);

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
        return limit < 2 ? (int64_t) (hash & 1) : (int64_t) scale(hash, 2 * limit - 1) - (int64_t) (limit - 1);
    }
    if (MPI_SUM == c->op->op) {
        /* What an unsigned sum beyond the type's range gives is not defined by MPI, and Open MPI 4.1 saturates short
         * ones. */
        return (int64_t) scale(hash, bits < 64 ? (UINT64_C(1) << bits) / (uint64_t) c->nranks
                                               : UINT64_MAX / (uint64_t) c->nranks);
    }
    return (int64_t) (hash >> (64 - bits));
}

/* From -1 up to 1. 24 bits: exact in every type, and sums round in float. */
static inline double unit_of(uint64_t hash)
{
    return (double) ((int64_t) hash >> 40) * 0x1p-23;
}

static inline double float_value(const value_case_t *c, uint64_t hash)
{
    double unit = unit_of(hash);

    if (MPI_PROD == c->op->op) {
        return 1.0 + unit / 8;
    }
    if (MPI_SUM == c->op->op) {
        return unit * (double) (1u << (hash & 7));
    }
    return unit;
}

/* The common case of the benchmark, kept apart because it makes gigabytes. */
static void fill_double_sum(uint64_t seed, size_t first, size_t count, double *out)
{
    static const double scales[] = {1, 2, 4, 8, 16, 32, 64, 128};

    for (size_t i = 0; i < count; ++i) {
        uint64_t hash = mix(seed ^ (first + i));
        out[i] = unit_of(hash) * scales[hash & 7];
    }
}

/* One loop for all types. Its callers pass what they know of the type, and the compiler drops the rest of it. */
static inline __attribute__((always_inline)) void fill(value_case_t c, value_type_t type, value_op_t op, int rank,
                                                       size_t first, size_t count, unsigned char *out)
{
    const uint64_t seed = mix(c.salt * UINT64_C(0x100000001b3) + (uint64_t) rank + 1);

    c.type = &type;
    c.op = &op;
    for (size_t i = 0; i < count; ++i) {
        unsigned char *element = out + i * type.extent;
        uint64_t hash = mix(seed ^ (first + i));
        switch (type.kind) {
        case VALUE_INT:
        case VALUE_UINT:
        case VALUE_INTEGER:
        case VALUE_BOOL:
            store_integer(element, type.bytes, integer_value(&c, rank, first + i, hash));
            break;
        case VALUE_FLOAT:
            store_float(element, type.bytes, float_value(&c, hash));
            break;
        case VALUE_COMPLEX:
            store_float(element, type.bytes, float_value(&c, hash));
            store_float(element + type.bytes, type.bytes, float_value(&c, mix(hash)));
            break;
        case VALUE_PAIR_INT:
        case VALUE_PAIR_FLOAT:
        case VALUE_PAIR_REAL: {
            /* Few values, so that ties are frequent; the smaller index must win them. */
            int64_t value = (int64_t) (hash % 5) - 2;
            int index = (int) ((hash >> 20) % 1000) * c.nranks + rank;
            if (VALUE_PAIR_INT == type.kind) {
                store_integer(element, type.bytes, value);
            } else {
                store_float(element, type.bytes, (long double) value * 0.75L);
            }
            store_index(&type, element, index);
            break;
        }
        case VALUE_NOTHING:
            break;
        }
    }
}

void value_fill(const value_case_t *c, int rank, size_t first, size_t count, void *out)
{
    value_type_t type = *c->type;

    if (MPI_DOUBLE == type.type && MPI_SUM == c->op->op) {
        fill_double_sum(mix(c->salt * UINT64_C(0x100000001b3) + (uint64_t) rank + 1), first, count, out);
    } else if (VALUE_INT == type.kind && sizeof(int64_t) == type.extent) {
        type.kind = VALUE_INT, type.bytes = type.extent = sizeof(int64_t);
        fill(*c, type, *c->op, rank, first, count, out);
    } else if (VALUE_INT == type.kind && sizeof(int32_t) == type.extent) {
        type.kind = VALUE_INT, type.bytes = type.extent = sizeof(int32_t);
        fill(*c, type, *c->op, rank, first, count, out);
    } else if (VALUE_FLOAT == type.kind && sizeof(float) == type.extent) {
        type.kind = VALUE_FLOAT, type.bytes = type.extent = sizeof(float);
        fill(*c, type, *c->op, rank, first, count, out);
    } else {
        fill(*c, type, *c->op, rank, first, count, out);
    }
}

static bool is_gap(const value_type_t *type, size_t byte)
{
    const size_t index_bytes = VALUE_PAIR_REAL == type->kind ? type->bytes : sizeof(int);

    return kind_is_pair(type->kind) && byte >= type->bytes
           && (byte < type->index_offset || byte >= type->index_offset + index_bytes);
}

/* A type's gaps: which bytes of an element they are. */
typedef struct gaps {
    size_t place[MAX_EXTENT];
    size_t count;
} gaps_t;

static gaps_t gaps_of(const value_type_t *type)
{
    gaps_t gaps = {.count = 0};

    for (size_t byte = 0; byte < type->extent; ++byte) {
        if (is_gap(type, byte)) {
            gaps.place[gaps.count++] = byte;
        }
    }
    return gaps;
}

bool value_has_gaps(const value_type_t *type)
{
    return gaps_of(type).count > 0;
}

static uint64_t gap_seed(const value_case_t *c, int rank, value_side_t side)
{
    return mix(c->salt * UINT64_C(0x100000001b3) + 2 * (uint64_t) rank + side);
}

static inline unsigned char gap_byte(uint64_t seed, size_t place)
{
    return (unsigned char) mix(seed ^ place);
}

void value_gaps_fill(const value_case_t *c, int rank, value_side_t side, size_t count, void *out)
{
    const size_t extent = c->type->extent;
    const gaps_t gaps = gaps_of(c->type);
    const uint64_t seed = gap_seed(c, rank, side);

    for (size_t i = 0; i < count && gaps.count > 0; ++i) {
        for (size_t g = 0; g < gaps.count; ++g) {
            const size_t place = i * extent + gaps.place[g];
            ((unsigned char *) out)[place] = gap_byte(seed, place);
        }
    }
}

size_t value_gaps_check(const value_case_t *c, int rank, value_side_t side, size_t count, const void *got,
                        size_t *first_wrong_p)
{
    const unsigned char *bytes = got;
    const size_t extent = c->type->extent;
    const gaps_t gaps = gaps_of(c->type);
    const uint64_t seed = gap_seed(c, rank, side);
    size_t wrong = 0;

    for (size_t i = 0; i < count && gaps.count > 0; ++i) {
        bool same = true;
        for (size_t g = 0; g < gaps.count; ++g) {
            const size_t place = i * extent + gaps.place[g];
            same = same && bytes[place] == gap_byte(seed, place);
        }
        if (!same && 0 == wrong++) {
            *first_wrong_p = i;
        }
    }
    return wrong;
}
