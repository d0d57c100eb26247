/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The one clock of the component.
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

#endif /* GPUHIER_CLOCK_H */
