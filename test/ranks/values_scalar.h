/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Loads and stores of one scalar of any width, at any address; private to values*.c.
 */
#ifndef GPUHIER_TEST_VALUES_SCALAR_H
#define GPUHIER_TEST_VALUES_SCALAR_H

#include <float.h>
#include <string.h>

#include "../gpu/half.h"
#include "values.h"

/* Bytes of the largest element: MPI_LONG_DOUBLE_INT, or a complex of long doubles. */
#define MAX_EXTENT 32

static inline void store_integer(void *out, size_t bytes, int64_t value)
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

static inline void store_float(void *out, size_t bytes, long double value)
{
    if (sizeof(float) == bytes) {
        float v = (float) value;
        memcpy(out, &v, sizeof(v));
    } else if (sizeof(double) == bytes) {
        double v = (double) value;
        memcpy(out, &v, sizeof(v));
    } else if (sizeof(uint16_t) == bytes) {
        uint16_t v = half_nearest((double) value);
        memcpy(out, &v, sizeof(v));
    } else {
        /* Without the padding of x86's long double, which may hold anything. */
        memcpy(out, &value, 64 == LDBL_MANT_DIG ? 10 : sizeof(value));
    }
}

static inline long double load_float(const void *in, size_t bytes)
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
    if (sizeof(uint16_t) == bytes) {
        uint16_t v;
        memcpy(&v, in, sizeof(v));
        return half_value(v);
    }
    long double v;
    memcpy(&v, in, sizeof(v));
    return v;
}

/* Sign-extended for signed types, zero-extended for the others. */
static inline int64_t load_integer(const void *in, size_t bytes, bool is_signed)
{
    uint64_t value = 0;
    int unused = (int) (64 - 8 * bytes);

    memcpy(&value, in, bytes);
    value <<= unused;
    return is_signed ? (int64_t) value >> unused : (int64_t) (value >> unused);
}

/* The kinds that are signed integers, and those that are pairs. */
static inline bool kind_is_signed(value_kind_t kind)
{
    return 0 != (kind & (VALUE_INT | VALUE_INTEGER));
}
static inline bool kind_is_pair(value_kind_t kind)
{
    return 0 != (kind & (VALUE_PAIR_INT | VALUE_PAIR_FLOAT | VALUE_PAIR_REAL));
}

/* A pair's second part. */
static inline void store_index(const value_type_t *type, unsigned char *element, int index)
{
    if (VALUE_PAIR_REAL == type->kind) {
        store_float(element + type->index_offset, type->bytes, index);
    } else {
        memcpy(element + type->index_offset, &index, sizeof(index));
    }
}
static inline int load_index(const value_type_t *type, const unsigned char *element)
{
    int index;
    if (VALUE_PAIR_REAL == type->kind) {
        return (int) load_float(element + type->index_offset, type->bytes);
    }
    memcpy(&index, element + type->index_offset, sizeof(index));
    return index;
}

#endif /* GPUHIER_TEST_VALUES_SCALAR_H */
