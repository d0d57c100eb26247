/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the kernels and the host compute: elem_<type> for each type of GPUHIER_TYPES, and elem_<op>_<type>(acc, x)
 * for each entry of GPUHIER_KERNEL_LIST. Owns types and arithmetic only. Loads and stores are in gpuhier_kernel_body.h
 * (the GPU, and the twin's exact form), test/cudasim/twin (the twin's fast form) and coll_gpuhier_host_reduce.c (the
 * host). Plain C and C++; to be compiled without contraction of a*b+c, for the same bits everywhere.
 *
 * The results have the bits of Open MPI's own functions (ompi/mca/op/base), except for the payload of a NaN. acc is
 * MPI's left operand: op(acc, x) is what MPI_Reduce_local(acc, x) leaves in x. That decides the result of a comparison
 * with NaN, or of 0.0 with -0.0. Integers wrap around, so all arithmetic is on unsigned types at least as wide as int:
 * signed overflow is undefined in C, and so is uint16 * uint16 after promotion to int.
 */
#ifndef GPUHIER_KERNEL_OPS_H
#define GPUHIER_KERNEL_OPS_H

#include "gpuhier_kernels.h"

#ifdef __CUDACC__
#    define GPUHIER_INLINE static __host__ __device__ __forceinline__
#else
#    define GPUHIER_INLINE static inline __attribute__((always_inline))
#endif

/* A 16-bit float, IEEE 754's binary16. It is no integer, so that no other arithmetic takes it. */
typedef struct gpuhier_half {
    uint16_t bits;
} gpuhier_half_t;

GPUHIER_INLINE float gpuhier_half_to_float(gpuhier_half_t half)
{
    float value;
#ifdef __CUDA_ARCH__
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half.bits));
#else
    const uint32_t magnitude = half.bits & 0x7fff;
    const uint32_t bits = (magnitude << 13) + ((magnitude < 0x7c00 ? 127u - 15 : 255u - 31) << 23);
    __builtin_memcpy(&value, &bits, sizeof(value));
    value = magnitude < 0x400 ? (float) magnitude * 0x1p-24f : value; /* subnormal */
    value = half.bits & 0x8000 ? -value : value;
#endif
    return value;
}

/* The nearest one; of two the even one. */
GPUHIER_INLINE gpuhier_half_t gpuhier_half_from_float(float value)
{
    gpuhier_half_t half;
#ifdef __CUDA_ARCH__
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half.bits) : "f"(value));
#else
    const float sum = __builtin_fabsf(value) + 0.5f; /* rounded to a multiple of 2^-24, as a subnormal is */
    uint32_t bits, sum_bits;
    __builtin_memcpy(&bits, &value, sizeof(bits));
    __builtin_memcpy(&sum_bits, &sum, sizeof(sum_bits));
    const uint32_t magnitude = bits & 0x7fffffff, even = magnitude >> 13 & 1;
    const uint32_t normal = (magnitude - ((127u - 15) << 23) + 0xfff + even) >> 13; /* from 65520 on it is infinity */
    const uint32_t beyond = magnitude > 0x7f800000 ? 0x7e00 : 0x7c00;
    const uint32_t rest = magnitude < 113u << 23 ? sum_bits - (126u << 23) : magnitude < 143u << 23 ? normal : beyond;
    half.bits = (uint16_t) ((bits >> 16 & 0x8000) | rest);
#endif
    return half;
}

/* The result of acc op x: of scalars, which are added and multiplied as `wide`; and the two fields of the others. */
#define GPUHIER_SCALAR_sum(wide) ((wide) acc) + ((wide) x)
#define GPUHIER_SCALAR_prod(wide) ((wide) acc) * ((wide) x)
#define GPUHIER_SCALAR_max(wide) x > acc ? x : acc
#define GPUHIER_SCALAR_min(wide) x < acc ? x : acc
#define GPUHIER_SCALAR_land(wide) (0 != acc) & (0 != x)
#define GPUHIER_SCALAR_lor(wide) (0 != acc) | (0 != x)
#define GPUHIER_SCALAR_lxor(wide) (0 != acc) ^ (0 != x)
#define GPUHIER_SCALAR_band(wide) (acc) & (x)
#define GPUHIER_SCALAR_bor(wide) (acc) | (x)
#define GPUHIER_SCALAR_bxor(wide) (acc) ^ (x)
#define GPUHIER_COMPLEX_sum acc.a + x.a, acc.b + x.b
/* The plain formula, without the recovery of infinities that C's annex G adds: it needs no branch. */
#define GPUHIER_COMPLEX_prod (acc.a * x.a) - (acc.b * x.b), (acc.a * x.b) + (acc.b * x.a)
/* Equal values keep the lowest index; a comparison with NaN is false, so x wins. */
#define GPUHIER_PAIR_minloc acc.a < x.a
#define GPUHIER_PAIR_maxloc acc.a > x.a

#define GPUHIER_SCALAR(op, type, wide)                                            \
    GPUHIER_INLINE elem_##type elem_##op##_##type(elem_##type acc, elem_##type x) \
    {                                                                             \
        return (elem_##type)(GPUHIER_SCALAR_##op(wide));                          \
    }
#define GPUHIER_COMPLEX(op, type)                                                 \
    GPUHIER_INLINE elem_##type elem_##op##_##type(elem_##type acc, elem_##type x) \
    {                                                                             \
        const elem_##type result = {GPUHIER_COMPLEX_##op};                        \
        return result;                                                            \
    }
#define GPUHIER_PAIR(op, type)                                                        \
    GPUHIER_INLINE elem_##type elem_##op##_##type(elem_##type acc, elem_##type x)     \
    {                                                                                 \
        const int take = GPUHIER_PAIR_##op;                                           \
        const int lower = acc.a == x.a && !(x.b < acc.b);                             \
        const elem_##type result = {take ? acc.a : x.a, take || lower ? acc.b : x.b}; \
        return result;                                                                \
    }
/* A float has two digits more than twice those of a half, so rounding twice gives what rounding once would (S. A.
 * Figueroa, When is double rounding innocuous?, 1995). */
#define GPUHIER_HALF(op, type)                                                           \
    GPUHIER_INLINE elem_##type elem_##op##_##type(elem_##type left, elem_##type right)   \
    {                                                                                    \
        const float acc = gpuhier_half_to_float(left), x = gpuhier_half_to_float(right); \
        return gpuhier_half_from_float(GPUHIER_SCALAR_##op(float));                      \
    }

/*
 * A type with its functions, by its kind, and where its fields are: bytes of the first, and place and bytes of the
 * second, which a scalar has behind its end and without bytes.
 */
#define GPUHIER_FIELDS(type, first, at, second) \
    enum { elem_first_##type = first, elem_at_##type = at, elem_second_##type = second };
#define GPUHIER_TYPE_scalar(type, c_type) \
    typedef c_type elem_##type;           \
    GPUHIER_FIELDS(type, sizeof(c_type), sizeof(c_type), 0)
#define GPUHIER_TYPE_struct(type, c_first, c_second) \
    typedef struct elem_##type {                     \
        c_first a;                                   \
        c_second b;                                  \
    } elem_##type;                                   \
    GPUHIER_FIELDS(type, sizeof(c_first), offsetof(elem_##type, b), sizeof(c_second))

#define GPUHIER_TYPE_signed(type, c_type) \
    GPUHIER_TYPE_scalar(type, c_type) GPUHIER_OPS_signed(GPUHIER_SCALAR, type, c_type)
#define GPUHIER_TYPE_unsigned(type, c_type, wide) \
    GPUHIER_TYPE_scalar(type, c_type) GPUHIER_OPS_unsigned(GPUHIER_SCALAR, type, wide)
#define GPUHIER_TYPE_real(type, c_type) GPUHIER_TYPE_scalar(type, c_type) GPUHIER_OPS_real(GPUHIER_SCALAR, type, c_type)
#define GPUHIER_TYPE_complex(type, part) \
    GPUHIER_TYPE_struct(type, part, part) GPUHIER_OPS_complex(GPUHIER_COMPLEX, type)
#define GPUHIER_TYPE_pair(type, value, index) \
    GPUHIER_TYPE_struct(type, value, index) GPUHIER_OPS_pair(GPUHIER_PAIR, type)
#define GPUHIER_TYPE_half(type, c_type) GPUHIER_TYPE_scalar(type, c_type) GPUHIER_OPS_half(GPUHIER_HALF, type)
#define GPUHIER_TYPE(unused, kind, type, ...) GPUHIER_TYPE_##kind(type, __VA_ARGS__)
GPUHIER_TYPES(GPUHIER_TYPE, )

static_assert(8 == sizeof(elem_short_int) && 16 == sizeof(elem_double_int) && 16 == sizeof(elem_long_int),
              "the extents of MPI's pair types");

#ifdef __cplusplus
namespace gpuhier
{

/* The same as types, for templates. */
#    define GPUHIER_OP(op, type)                                             \
        struct op_##op##_##type {                                            \
            GPUHIER_INLINE elem_##type apply(elem_##type acc, elem_##type x) \
            {                                                                \
                return elem_##op##_##type(acc, x);                           \
            }                                                                \
        };
GPUHIER_KERNEL_LIST(GPUHIER_OP)

/* A pair with a gap between its fields or behind them. */
template <class T, class = void> struct is_padded {
    static constexpr bool value = false;
};
template <class T> struct is_padded<T, decltype((void) T::b)> {
    static constexpr bool value = sizeof(T) != sizeof(T::a) + sizeof(T::b);
};

} /* namespace gpuhier */
#endif

#endif /* GPUHIER_KERNEL_OPS_H */
