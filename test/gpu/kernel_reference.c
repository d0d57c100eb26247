/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the reference for each kernel, see the header. The formulas are those of the MPI standard and,
 * where it leaves freedom (a comparison with NaN, 0.0 against -0.0), those of Open MPI's functions:
 * max(l, r) is r > l ? r : l. Integers wrap.
 */
#include "kernel_reference.h"

#include "half.h"

#include <math.h>
#include <string.h>

uint64_t kernel_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static float float_from(uint64_t random)
{
    static const float special[] = {0.0f, -0.0f, 1.0f, INFINITY, -INFINITY, NAN, 1e-42f, -3.4e38f, 3.4e38f};
    const size_t n = sizeof(special) / sizeof(special[0]);
    return 0 == random % 32 ? special[(random >> 8) % n]
                            : ldexpf((float) (int32_t) (random >> 32), (int) (random % 23) - 40);
}

static double double_from(uint64_t random)
{
    static const double special[] = {0.0, -0.0, 1.0, INFINITY, -INFINITY, NAN, 5e-324, -1.7e308, 1.7e308};
    const size_t n = sizeof(special) / sizeof(special[0]);
    return 0 == random % 32 ? special[(random >> 8) % n]
                            : ldexp((double) ((int64_t) random >> 8), (int) (random % 23) - 60);
}

/* Most are of about the same size, or subnormal, so that sums round and products vanish. */
static uint16_t half_from(uint64_t random)
{
    const uint64_t bits = random >> 32, sign = bits & 0x8000;
    return (uint16_t) (0 == random % 32 ? bits : sign | (random % 2 ? 0x3000 + bits % 0x2000 : bits % 0x1000));
}

/* Half of the integers are small, so that zeroes and ties occur. */
static uint64_t integer_from(uint64_t random)
{
    return random % 2 ? (random >> 8) % 3 : random >> 1;
}

static bool float_equal(float a, float b)
{
    return (isnan(a) && isnan(b)) || 0 == memcmp(&a, &b, sizeof(a));
}

static bool double_equal(double a, double b)
{
    return (isnan(a) && isnan(b)) || 0 == memcmp(&a, &b, sizeof(a));
}

static bool half_equal(uint16_t a, uint16_t b)
{
    return double_equal(half_value(a), half_value(b));
}

/* An element at any address. */
#define GET(ctype, from)                 \
    __extension__({                      \
        ctype got;                       \
        memcpy(&got, from, sizeof(got)); \
        got;                             \
    })

/* *right = expression of l and r. */
#define REDUCE(op, type, ctype, expression)                         \
    static void reduce_##op##_##type(const void *left, void *right) \
    {                                                               \
        const ctype l = GET(ctype, left), r = GET(ctype, right);    \
        const ctype result = (ctype) (expression);                  \
        memcpy(right, &result, sizeof(result));                     \
    }

/* The formatter takes these for pointers, and the tables at the end for one expression. */
/* clang-format off */
#define ORDER_OPS(type, ctype)              \
    REDUCE(max, type, ctype, r > l ? r : l) \
    REDUCE(min, type, ctype, r < l ? r : l)

#define INTEGER_OPS(type, ctype)                               \
    REDUCE(sum, type, ctype, (uint64_t) l + (uint64_t) r)      \
    REDUCE(prod, type, ctype, (uint64_t) l * (uint64_t) r)     \
    REDUCE(land, type, ctype, l && r ? 1 : 0)                  \
    REDUCE(lor, type, ctype, l || r ? 1 : 0)                   \
    REDUCE(lxor, type, ctype, (!l && r) || (l && !r) ? 1 : 0)  \
    REDUCE(band, type, ctype, l & r)                           \
    REDUCE(bor, type, ctype, l | r)                            \
    REDUCE(bxor, type, ctype, l ^ r)                           \
    ORDER_OPS(type, ctype)

#define FLOAT_OPS(type, ctype)         \
    REDUCE(sum, type, ctype, l + r)    \
    REDUCE(prod, type, ctype, l * r)   \
    ORDER_OPS(type, ctype)

#define HALF_OPS(type, ctype)                                              \
    REDUCE(sum, type, ctype, half_nearest(half_value(l) + half_value(r)))  \
    REDUCE(prod, type, ctype, half_nearest(half_value(l) * half_value(r))) \
    REDUCE(max, type, ctype, half_value(r) > half_value(l) ? r : l)        \
    REDUCE(min, type, ctype, half_value(r) < half_value(l) ? r : l)
/* clang-format on */

#define SCALAR(type, ctype, from, same)                    \
    static void fill_##type(void *elem, uint64_t random)   \
    {                                                      \
        const ctype value = (ctype) from(random);          \
        memcpy(elem, &value, sizeof(value));               \
    }                                                      \
    static bool equal_##type(const void *a, const void *b) \
    {                                                      \
        return same(GET(ctype, a), GET(ctype, b));         \
    }
#define SAME(a, b) ((a) == (b))

SCALAR(int8, int8_t, integer_from, SAME)
SCALAR(int16, int16_t, integer_from, SAME)
SCALAR(int32, int32_t, integer_from, SAME)
SCALAR(int64, int64_t, integer_from, SAME)
SCALAR(uint8, uint8_t, integer_from, SAME)
SCALAR(uint16, uint16_t, integer_from, SAME)
SCALAR(uint32, uint32_t, integer_from, SAME)
SCALAR(uint64, uint64_t, integer_from, SAME)
SCALAR(float, float, float_from, float_equal)
SCALAR(double, double, double_from, double_equal)
SCALAR(float16, uint16_t, half_from, half_equal)

ORDER_OPS(int8, int8_t)
ORDER_OPS(int16, int16_t)
ORDER_OPS(int32, int32_t)
ORDER_OPS(int64, int64_t)
INTEGER_OPS(uint8, uint8_t)
INTEGER_OPS(uint16, uint16_t)
INTEGER_OPS(uint32, uint32_t)
INTEGER_OPS(uint64, uint64_t)
FLOAT_OPS(float, float)
FLOAT_OPS(double, double)
HALF_OPS(float16, uint16_t)

/* Structs of two fields; the fields are filled from one random word and its mixture. */
#define STRUCT(type, atype, afrom, asame, btype, bfrom, bsame)                    \
    typedef struct struct_##type {                                                \
        atype a;                                                                  \
        btype b;                                                                  \
    } struct_##type;                                                              \
    static void fill_##type(void *elem, uint64_t random)                          \
    {                                                                             \
        const atype a = (atype) afrom(random);                                    \
        const btype b = (btype) bfrom(kernel_random(&random));                    \
        memcpy((char *) elem + offsetof(struct_##type, a), &a, sizeof(a));        \
        memcpy((char *) elem + offsetof(struct_##type, b), &b, sizeof(b));        \
    }                                                                             \
    static bool equal_##type(const void *x, const void *y)                        \
    {                                                                             \
        const struct_##type p = GET(struct_##type, x), q = GET(struct_##type, y); \
        return asame(p.a, q.a) && bsame(p.b, q.b);                                \
    }

#define COMPLEX_OPS(type, real)                                                          \
    static void reduce_sum_##type(const void *left, void *right)                         \
    {                                                                                    \
        const struct_##type l = GET(struct_##type, left), r = GET(struct_##type, right); \
        const struct_##type result = {l.a + r.a, l.b + r.b};                             \
        memcpy(right, &result, sizeof(result));                                          \
    }                                                                                    \
    static void reduce_prod_##type(const void *left, void *right)                        \
    {                                                                                    \
        const struct_##type l = GET(struct_##type, left), r = GET(struct_##type, right); \
        const struct_##type result = {l.a * r.a - l.b * r.b, l.a * r.b + l.b * r.a};     \
        memcpy(right, &result, sizeof(result));                                          \
    }

/* Equal values: the lower index. Fields are written one by one, so that padding stays. */
#define LOCATION_OP(op, better, type, itype)                                    \
    static void reduce_##op##_##type(const void *left, void *right)             \
    {                                                                           \
        const struct_##type l = GET(struct_##type, left);                       \
        struct_##type r = GET(struct_##type, right);                            \
        if (l.a better r.a) {                                                   \
            r.a = l.a;                                                          \
            r.b = l.b;                                                          \
        } else if (l.a == r.a) {                                                \
            r.b = r.b < l.b ? r.b : l.b;                                        \
        }                                                                       \
        memcpy((char *) right + offsetof(struct_##type, a), &r.a, sizeof(r.a)); \
        memcpy((char *) right + offsetof(struct_##type, b), &r.b, sizeof(r.b)); \
    }
#define LOCATION_OPS(type, itype)       \
    LOCATION_OP(minloc, <, type, itype) \
    LOCATION_OP(maxloc, >, type, itype)

STRUCT(float_complex, float, float_from, float_equal, float, float_from, float_equal)
STRUCT(double_complex, double, double_from, double_equal, double, double_from, double_equal)
STRUCT(float_int, float, float_from, float_equal, int, integer_from, SAME)
STRUCT(double_int, double, double_from, double_equal, int, integer_from, SAME)
STRUCT(long_int, long, integer_from, SAME, int, integer_from, SAME)
STRUCT(short_int, short, integer_from, SAME, int, integer_from, SAME)
STRUCT(2int, int, integer_from, SAME, int, integer_from, SAME)
STRUCT(2float, float, float_from, float_equal, float, float_from, float_equal)
STRUCT(2double, double, double_from, double_equal, double, double_from, double_equal)

COMPLEX_OPS(float_complex, float)
COMPLEX_OPS(double_complex, double)
LOCATION_OPS(float_int, int)
LOCATION_OPS(double_int, int)
LOCATION_OPS(long_int, int)
LOCATION_OPS(short_int, int)
LOCATION_OPS(2int, int)
LOCATION_OPS(2float, float)
LOCATION_OPS(2double, double)

#define ENTRY(op, type, ctype) \
    {"gpuhier_" #op "_" #type, sizeof(ctype), 0, 0, reduce_##op##_##type, fill_##type, equal_##type},
#define ORDER_ENTRIES(type, ctype) ENTRY(max, type, ctype) ENTRY(min, type, ctype)
#define FLOAT_ENTRIES(type, ctype) ENTRY(sum, type, ctype) ENTRY(prod, type, ctype) ORDER_ENTRIES(type, ctype)
/* clang-format off */
#define INTEGER_ENTRIES(type, ctype)                                                              \
    FLOAT_ENTRIES(type, ctype)                                                                    \
    ENTRY(land, type, ctype) ENTRY(lor, type, ctype) ENTRY(lxor, type, ctype)                     \
    ENTRY(band, type, ctype) ENTRY(bor, type, ctype) ENTRY(bxor, type, ctype)
/* clang-format on */
#define COMPLEX_ENTRIES(type) ENTRY(sum, type, struct_##type) ENTRY(prod, type, struct_##type)

/* The gap is between the end of the first field and the second, or after the second. */
#define PAIR_ENTRY(op, type, gap_at, gap_bytes)                               \
    {"gpuhier_" #op "_" #type, sizeof(struct_##type), gap_at,      gap_bytes, \
     reduce_##op##_##type,     fill_##type,           equal_##type},
#define PAIR_ENTRIES(type, gap_at, gap_bytes) \
    PAIR_ENTRY(minloc, type, gap_at, gap_bytes) PAIR_ENTRY(maxloc, type, gap_at, gap_bytes)

const kernel_reference_t kernel_references[] = {
    /* clang-format off */
    ORDER_ENTRIES(int8, int8_t)
    ORDER_ENTRIES(int16, int16_t)
    ORDER_ENTRIES(int32, int32_t)
    ORDER_ENTRIES(int64, int64_t)
    INTEGER_ENTRIES(uint8, uint8_t)
    INTEGER_ENTRIES(uint16, uint16_t)
    INTEGER_ENTRIES(uint32, uint32_t)
    INTEGER_ENTRIES(uint64, uint64_t)
    FLOAT_ENTRIES(float, float)
    FLOAT_ENTRIES(double, double)
    COMPLEX_ENTRIES(float_complex)
    COMPLEX_ENTRIES(double_complex)
    PAIR_ENTRIES(float_int, 0, 0)
    PAIR_ENTRIES(double_int, 12, 4)
    PAIR_ENTRIES(long_int, 12, 4)
    PAIR_ENTRIES(short_int, 2, 2)
    PAIR_ENTRIES(2int, 0, 0)
    PAIR_ENTRIES(2float, 0, 0)
    PAIR_ENTRIES(2double, 0, 0)
    FLOAT_ENTRIES(float16, uint16_t)
    /* clang-format on */
};
const size_t kernel_reference_count = sizeof(kernel_references) / sizeof(kernel_references[0]);

const kernel_reference_t *kernel_reference_find(const char *name)
{
    for (size_t i = 0; i < kernel_reference_count; ++i) {
        if (0 == strcmp(name, kernel_references[i].name)) {
            return &kernel_references[i];
        }
    }
    return NULL;
}
