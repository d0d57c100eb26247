/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The host's conversions of 16-bit floats, and its operations on them: all of these numbers to float and back; every
 * value half-way between two neighbours, and the floats beside it; floats of all kinds; and sums, products and
 * extremes of pairs of all kinds. The reference is ../gpu/half.h. Where the compiler has _Float16, in which Open MPI's
 * own functions are written, that is asked, too.
 */
#include "../gpu/half.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "gpuhier_kernel_ops.h"

static unsigned long cases, failures;

static bool is_nan(uint16_t half)
{
    return (half & 0x7fff) > 0x7c00;
}

static void compare(const char *what, double left, double right, uint16_t got, uint16_t expected)
{
    ++cases;
    if (is_nan(expected) ? !is_nan(got) : got != expected) {
        if (++failures <= 20) {
            printf("%s of %a and %a: 0x%04x, not 0x%04x\n", what, left, right, got, expected);
        }
    }
}

#ifdef __FLT16_MANT_DIG__
/* What the compiler makes of it. */
static uint16_t bits_of(_Float16 value)
{
    uint16_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}
static _Float16 native(uint16_t bits)
{
    _Float16 value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}
#endif

static void check_from(float value)
{
    const uint16_t got = gpuhier_half_from_float(value).bits;
    compare("the nearest", value, value, got, half_nearest(value));
#ifdef __FLT16_MANT_DIG__
    compare("the nearest by the compiler", value, value, got, bits_of((_Float16) value));
#endif
}

static void check_to(uint16_t bits)
{
    const gpuhier_half_t half = {bits};
    const float value = gpuhier_half_to_float(half);
    const double expected = half_value(bits);
    const bool is_right = isnan(expected) ? isnan(value) : expected == value && !signbit(expected) == !signbit(value);
    ++cases;
    if (!is_right && ++failures <= 20) {
        printf("0x%04x is %a, not %a\n", bits, (double) value, expected);
    }
    compare("there and back", value, value, gpuhier_half_from_float(value).bits, bits);
}

/* Half-way from a number to the next one, which a float is; the float below and the one above. Beyond the greatest
 * number, 2^16 is the next one. */
static void check_tie(uint16_t bits)
{
    const double next = 0x7bff == bits ? 65536 : half_value((uint16_t) (bits + 1));
    const float tie = (float) ((half_value(bits) + next) / 2);
    const float all[] = {tie, nextafterf(tie, 0), nextafterf(tie, INFINITY)};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); ++i) {
        check_from(all[i]);
        check_from(-all[i]);
    }
}

static void check_pair(uint16_t left, uint16_t right)
{
    const gpuhier_half_t acc = {left}, x = {right};
    const double a = half_value(left), b = half_value(right);
    compare("sum", a, b, elem_sum_float16(acc, x).bits, half_nearest(a + b));
    compare("product", a, b, elem_prod_float16(acc, x).bits, half_nearest(a * b));
    compare("max", a, b, elem_max_float16(acc, x).bits, b > a ? right : left);
    compare("min", a, b, elem_min_float16(acc, x).bits, b < a ? right : left);
#ifdef __FLT16_MANT_DIG__
    /* As in ompi/mca/op/base, where `out` is the right operand. */
    _Float16 sum = native(right), product = native(right);
    const _Float16 in = native(left), out = native(right);
    sum += in;
    product *= in;
    compare("sum by the compiler", a, b, elem_sum_float16(acc, x).bits, bits_of(sum));
    compare("product by the compiler", a, b, elem_prod_float16(acc, x).bits, bits_of(product));
    compare("max by the compiler", a, b, elem_max_float16(acc, x).bits, bits_of(out > in ? out : in));
    compare("min by the compiler", a, b, elem_min_float16(acc, x).bits, bits_of(out < in ? out : in));
#endif
}

int main(void)
{
    /* Primes: no digit and no exponent is left out. */
    enum { FLOATS_APART = 1009, PAIRS_APART = 2503 };
    for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
        check_to((uint16_t) bits);
    }
    for (uint16_t bits = 0; bits < 0x7c00; ++bits) {
        check_tie(bits);
    }
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += FLOATS_APART) {
        const uint32_t word = (uint32_t) bits;
        float value;
        memcpy(&value, &word, sizeof(value));
        check_from(value);
    }
    for (uint64_t pair = 0; pair <= UINT32_MAX; pair += PAIRS_APART) {
        check_pair((uint16_t) (pair >> 16), (uint16_t) pair);
    }
    printf("%lu cases, %lu failures\n", cases, failures);
    return 0 != failures;
}
