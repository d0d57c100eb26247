/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The one clock of the component, and the times of many calls.
 */
#ifndef GPUHIER_CLOCK_H
#define GPUHIER_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Seconds since a moment that is the same for all processes of a machine. The clock never steps back. */
static inline double gpuhier_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
}

/* The same in milliseconds and in microseconds. */
static inline uint64_t gpuhier_clock_ms(void)
{
    return (uint64_t) (1e3 * gpuhier_clock());
}

static inline uint64_t gpuhier_clock_us(void)
{
    return (uint64_t) (1e6 * gpuhier_clock());
}

/* Seconds of the same clock, to a few milliseconds, in a fraction of the time. */
static inline double gpuhier_clock_coarse(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
}

/*
 * The times of many calls in a fixed space: the first one apart, since it may set up a communicator, then the least and
 * the median. A histogram with eight buckets for each power of two nanoseconds gives the median within a sixteenth.
 */
#define GPUHIER_SPREAD_LOG2_LEAST 3 /* the first bucket has all times below 9 ns ... */
#define GPUHIER_SPREAD_BUCKETS 320  /* ... and the last one all from 2.4 hours on */

/* All zero: no calls. */
typedef struct gpuhier_spread {
    uint64_t calls;
    double first, least; /* seconds; the least of the calls after the first */
    uint32_t later[GPUHIER_SPREAD_BUCKETS];
} gpuhier_spread_t;

static inline void gpuhier_spread_add(gpuhier_spread_t *spread, double seconds)
{
    if (0 == spread->calls++) {
        spread->first = seconds;
        return;
    }
    spread->least = 2 == spread->calls || seconds < spread->least ? seconds : spread->least;
    const uint64_t ns = seconds < 8e-9 ? 8 : seconds > 9e9 ? (uint64_t) 9e18 : (uint64_t) (seconds * 1e9);
    const int log2 = 63 - __builtin_clzll((unsigned long long) ns);
    const int bucket = 8 * (log2 - GPUHIER_SPREAD_LOG2_LEAST) + (int) (ns >> (log2 - 3) & 7);
    ++spread->later[bucket < GPUHIER_SPREAD_BUCKETS ? bucket : GPUHIER_SPREAD_BUCKETS - 1];
}

/* The median of the calls after the first, in seconds; 0: there are none. */
static inline double gpuhier_spread_median(const gpuhier_spread_t *spread)
{
    uint64_t before = 0;
    for (int i = 0; i < GPUHIER_SPREAD_BUCKETS; ++i) {
        before += spread->later[i];
        if (2 * before >= spread->calls - 1 && before > 0) {
            const double width = (double) ((uint64_t) 1 << i / 8) * 1e-9;
            const double middle = width * (8 + i % 8 + 0.5);
            return middle > spread->least ? middle : spread->least;
        }
    }
    return 0;
}

#endif /* GPUHIER_CLOCK_H */
