/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the emulated libcudart.so asks of the emulated libcuda.so beyond the driver's interface.
 */
#ifndef SIM_DRIVER_H
#define SIM_DRIVER_H

#include <stdbool.h>

/* From now on this thread's calls with the default stream mean its own, or the legacy one. Returns what it was. */
bool cudasim_per_thread_default(bool on);

/* The error with which a call of that name is to fail (CUDASIM_FAIL), or 0. */
int cudasim_fault(const char *name);

#endif /* SIM_DRIVER_H */
