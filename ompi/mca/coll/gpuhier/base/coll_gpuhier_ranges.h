/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Ranges of NVTX, which profilers such as Nsight Systems show beside the program's own: one for each call, with the
 * bytes of its message.
 */
#ifndef GPUHIER_RANGES_H
#define GPUHIER_RANGES_H

#include <stdbool.h>
#include <stdint.h>

/* Does a profiler take ranges in this process? Loads its library if the environment names one, and no other library. */
bool gpuhier_ranges_open(void);

/* Begins a range of this thread, inside those that it has begun before. pop: ends the innermost one. */
void gpuhier_ranges_push(const char *name, uint64_t bytes);
void gpuhier_ranges_pop(void);

/* Begins a range that any thread may end. Returns its id. */
uint64_t gpuhier_ranges_start(const char *name, uint64_t bytes);
void gpuhier_ranges_end(uint64_t id);

#endif /* GPUHIER_RANGES_H */
