/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The one clock of the component.
 */
#ifndef GPUHIER_CLOCK_H
#define GPUHIER_CLOCK_H

#include <time.h>

/* Seconds since some moment, the same for all processes of a machine. Never steps back. */
static inline double gpuhier_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
}

#endif /* GPUHIER_CLOCK_H */
