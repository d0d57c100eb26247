/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the kernels compute: the element types, and op(acc, x) for each operation. Owns the arithmetic only. Loads and
 * stores are in gpuhier_kernel_body.h (the GPU, and the twin's exact form) and test/cudasim/twin (the twin's fast
 * form).
 *
 * The results have the bits of Open MPI's own functions (ompi/mca/op/base), except for the payload of a NaN. acc is
 * MPI's left operand: op(acc, x) is what MPI_Reduce_local(acc, x) leaves in x. That decides the result of a comparison
 * with NaN, or of 0.0 with -0.0. Integers wrap around, so all arithmetic is on unsigned types at least as wide as int:
 * signed overflow is undefined in C++, and so is uint16 * uint16 after promotion to int.
 */
#ifndef GPUHIER_KERNEL_OPS_H
#define GPUHIER_KERNEL_OPS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__
#    define GPUHIER_HD __host__ __device__ __forceinline__
#else
#    define GPUHIER_HD inline __attribute__((always_inline))
#endif

namespace gpuhier
{

/*
 * An element of two fields, with the layout of C's struct { A a; B b; }. A padded pair is stored field by field, so the
 * gap in MPI's type map keeps the bytes of the destination.
 */
template <class A, class B> struct pair {
    A a;
    B b;
};

template <class T> struct is_padded {
    static constexpr bool value = false;
};
template <class A, class B> struct is_padded<pair<A, B>> {
    static constexpr bool value = sizeof(pair<A, B>) != sizeof(A) + sizeof(B);
};

/* The type names of GPUHIER_KERNEL_LIST, with t_ in front. */
typedef int8_t t_int8;
typedef int16_t t_int16;
typedef int32_t t_int32;
typedef int64_t t_int64;
typedef uint8_t t_uint8;
typedef uint16_t t_uint16;
typedef uint32_t t_uint32;
typedef uint64_t t_uint64;
typedef float t_float;
typedef double t_double;
typedef pair<float, float> t_float_complex;
typedef pair<double, double> t_double_complex;
typedef pair<float, int32_t> t_float_int;
typedef pair<double, int32_t> t_double_int;
typedef pair<int64_t, int32_t> t_long_int;
typedef pair<int16_t, int32_t> t_short_int;
typedef pair<int32_t, int32_t> t_2int;
typedef pair<float, float> t_2float;
typedef pair<double, double> t_2double;

static_assert(8 == sizeof(t_short_int) && 16 == sizeof(t_double_int) && 16 == sizeof(t_long_int),
              "the extents of MPI's pair types");

/* The type in which T is added and multiplied: never a signed integer, never narrower than int. */
template <class T> struct arithmetic {
    typedef T type;
};
template <> struct arithmetic<int8_t> {
    typedef uint32_t type;
};
template <> struct arithmetic<int16_t> {
    typedef uint32_t type;
};
template <> struct arithmetic<int32_t> {
    typedef uint32_t type;
};
template <> struct arithmetic<int64_t> {
    typedef uint64_t type;
};
template <> struct arithmetic<uint8_t> {
    typedef uint32_t type;
};
template <> struct arithmetic<uint16_t> {
    typedef uint32_t type;
};

template <class T> struct op_sum {
    typedef typename arithmetic<T>::type wide;
    static GPUHIER_HD T apply(T acc, T x)
    {
        return (T) ((wide) acc + (wide) x);
    }
};
template <class A> struct op_sum<pair<A, A>> {
    static GPUHIER_HD pair<A, A> apply(pair<A, A> acc, pair<A, A> x)
    {
        pair<A, A> r;
        r.a = acc.a + x.a;
        r.b = acc.b + x.b;
        return r;
    }
};

template <class T> struct op_prod {
    typedef typename arithmetic<T>::type wide;
    static GPUHIER_HD T apply(T acc, T x)
    {
        return (T) ((wide) acc * (wide) x);
    }
};
/* The plain formula, without the recovery of infinities that C's annex G adds: it needs no branch. */
template <class A> struct op_prod<pair<A, A>> {
    static GPUHIER_HD pair<A, A> apply(pair<A, A> acc, pair<A, A> x)
    {
        pair<A, A> r;
        r.a = acc.a * x.a - acc.b * x.b;
        r.b = acc.a * x.b + acc.b * x.a;
        return r;
    }
};

template <class T> struct op_max {
    static GPUHIER_HD T apply(T acc, T x)
    {
        return x > acc ? x : acc;
    }
};
template <class T> struct op_min {
    static GPUHIER_HD T apply(T acc, T x)
    {
        return x < acc ? x : acc;
    }
};
template <class T> struct op_land {
    static GPUHIER_HD T apply(T acc, T x)
    {
        return (T) ((0 != acc) & (0 != x));
    }
};
template <class T> struct op_lor {
    static GPUHIER_HD T apply(T acc, T x)
    {
        return (T) ((0 != acc) | (0 != x));
    }
};
template <class T> struct op_lxor {
    static GPUHIER_HD T apply(T acc, T x)
    {
        return (T) ((0 != acc) ^ (0 != x));
    }
};
template <class T> struct op_band {
    static GPUHIER_HD T apply(T acc, T x)
    {
        return (T) (acc & x);
    }
};
template <class T> struct op_bor {
    static GPUHIER_HD T apply(T acc, T x)
    {
        return (T) (acc | x);
    }
};
template <class T> struct op_bxor {
    static GPUHIER_HD T apply(T acc, T x)
    {
        return (T) (acc ^ x);
    }
};

/* Equal values keep the lowest index; a comparison with NaN is false, so x wins. */
template <class T> struct op_minloc {
    static GPUHIER_HD T apply(T acc, T x)
    {
        const bool take = acc.a < x.a;
        const bool lower = acc.a == x.a && !(x.b < acc.b);
        T r;
        r.a = take ? acc.a : x.a;
        r.b = take || lower ? acc.b : x.b;
        return r;
    }
};
template <class T> struct op_maxloc {
    static GPUHIER_HD T apply(T acc, T x)
    {
        const bool take = acc.a > x.a;
        const bool lower = acc.a == x.a && !(x.b < acc.b);
        T r;
        r.a = take ? acc.a : x.a;
        r.b = take || lower ? acc.b : x.b;
        return r;
    }
};

} /* namespace gpuhier */

#endif /* GPUHIER_KERNEL_OPS_H */
