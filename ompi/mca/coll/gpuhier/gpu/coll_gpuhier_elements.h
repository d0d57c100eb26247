/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The element types of GPUHIER_KERNEL_LIST as the host's C code sees them. Their layout is that of the kernels' types
 * (kernels/gpuhier_kernel_ops.h) and of MPI's pair types. Used by the table of kernels and by the host's reductions.
 */
#ifndef GPUHIER_ELEMENTS_H
#define GPUHIER_ELEMENTS_H

#include <stdint.h>

#define GPUHIER_TWO(first, second) \
    struct {                       \
        first a;                   \
        second b;                  \
    }

/* Calls X(name, C type) for each element type: elem_NAME. */
#define GPUHIER_ELEMENT_LIST(X)                    \
    X(int8, int8_t)                                \
    X(int16, int16_t)                              \
    X(int32, int32_t)                              \
    X(int64, int64_t)                              \
    X(uint8, uint8_t)                              \
    X(uint16, uint16_t)                            \
    X(uint32, uint32_t)                            \
    X(uint64, uint64_t)                            \
    X(float, float)                                \
    X(double, double)                              \
    X(float_complex, GPUHIER_TWO(float, float))    \
    X(double_complex, GPUHIER_TWO(double, double)) \
    X(float_int, GPUHIER_TWO(float, int32_t))      \
    X(double_int, GPUHIER_TWO(double, int32_t))    \
    X(long_int, GPUHIER_TWO(int64_t, int32_t))     \
    X(short_int, GPUHIER_TWO(int16_t, int32_t))    \
    X(2int, GPUHIER_TWO(int32_t, int32_t))         \
    X(2float, GPUHIER_TWO(float, float))           \
    X(2double, GPUHIER_TWO(double, double))

#define GPUHIER_ELEMENT(name, c_type) typedef c_type elem_##name;
GPUHIER_ELEMENT_LIST(GPUHIER_ELEMENT)
#undef GPUHIER_ELEMENT

_Static_assert(8 == sizeof(elem_short_int) && 16 == sizeof(elem_double_int) && 16 == sizeof(elem_long_int),
               "the extents of MPI's pair types");

#endif /* GPUHIER_ELEMENTS_H */
