/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The times of a row of the report: the first call stands apart, the least is exact, and the median lies within a
 * sixteenth of that of the sorted times.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/coll_gpuhier_clock.h"

#define MOST 1000

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *) a, y = *(const double *) b;
    return x < y ? -1 : x > y;
}

static void check(const double *times, int n)
{
    static gpuhier_spread_t spread;
    static double sorted[MOST];
    memset(&spread, 0, sizeof(spread));
    gpuhier_spread_add(&spread, 7.0); /* sets up */
    for (int i = 0; i < n; ++i) {
        gpuhier_spread_add(&spread, times[i]);
    }
    memcpy(sorted, times, (size_t) n * sizeof(*times));
    qsort(sorted, (size_t) n, sizeof(*sorted), by_value);
    const double median = sorted[(n - 1) / 2], found = gpuhier_spread_median(&spread);
    assert_int_equal(n + 1, spread.calls);
    assert_true(7.0 == spread.first && sorted[0] == spread.least);
    assert_true(found >= spread.least && found >= median * 15 / 16 && found <= median * 17 / 16);
}

/* Numbers of calls, odd and even, with times over nine powers of ten. */
static void all_lengths(void **state)
{
    double times[MOST];
    uint64_t seed = 17;
    (void) state;
    for (int n = 1; n <= MOST; n = n < 20 ? n + 1 : n * 2 + 1) {
        for (double scale = 1e-7; scale < 1e2; scale *= 10) {
            for (int i = 0; i < n; ++i) {
                seed = seed * 6364136223846793005u + 1442695040888963407u;
                times[i] = scale * (1.0 + 9.0 * (double) (seed >> 40) / (double) (1 << 24));
            }
            check(times, n);
        }
    }
}

/* One slow call of many moves a mean, and not the median. */
static void outlier(void **state)
{
    double times[100];
    (void) state;
    for (int i = 0; i < 100; ++i) {
        times[i] = 383e-6;
    }
    times[50] = 1.2;
    check(times, 100);
}

/* Without a second call there is no median. Times beyond all buckets are counted in the last ones. */
static void bounds(void **state)
{
    static gpuhier_spread_t spread;
    (void) state;
    gpuhier_spread_add(&spread, 1e-6);
    assert_true(0 == gpuhier_spread_median(&spread));
    gpuhier_spread_add(&spread, 0.0);
    assert_true(gpuhier_spread_median(&spread) < 2e-8);
    gpuhier_spread_add(&spread, 1e9);
    gpuhier_spread_add(&spread, 1e9);
    assert_true(gpuhier_spread_median(&spread) > 1e3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_lengths), cmocka_unit_test(outlier),
                                       cmocka_unit_test(bounds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
