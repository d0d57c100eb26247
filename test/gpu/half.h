/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What a 16-bit float is, IEEE 754's binary16, written down from the standard by way of double: one bit of sign, five
 * of exponent, ten of digits. Every one of them is a double; and so is the sum or product of any two, without rounding.
 * Shares no code with the kernels, and needs no compiler that has _Float16. unit/float16 compares it with those that
 * have. Used by the references of test/gpu and test/ranks.
 */
#ifndef GPUHIER_TEST_HALF_H
#define GPUHIER_TEST_HALF_H

#include <math.h>
#include <stdint.h>

static inline double half_value(uint16_t half)
{
    const int exponent = half >> 10 & 31, digits = half & 1023;
    double magnitude = ldexp(1024 + digits, exponent - 25);
    if (31 == exponent) {
        magnitude = 0 == digits ? INFINITY : NAN;
    } else if (0 == exponent) {
        magnitude = ldexp(digits, -24);
    }
    return half & 0x8000 ? -magnitude : magnitude;
}

/* The one that is nearest to a value; of two the one whose last digit is 0. */
static inline uint16_t half_nearest(double value)
{
    const unsigned sign = signbit(value) ? 0x8000 : 0;
    int exponent;
    if (isnan(value)) {
        return (uint16_t) (sign | 0x7e00);
    }
    (void) frexp(value, &exponent);
    const int place = 0 == value || exponent < -13 ? -24 : exponent - 11; /* of the last digit */
    const double digits = rint(ldexp(fabs(value), -place));
    /* The least that would be too great is 2^16. */
    return (uint16_t) (sign | (ldexp(digits, place) < 65536 ? (unsigned) (1024 * (place + 24) + digits) : 0x7c00));
}

#endif /* GPUHIER_TEST_HALF_H */
