/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Calls that are to fail: CUDASIM_FAIL.
 */
#ifndef SIM_FAULT_H
#define SIM_FAULT_H

#include <stdatomic.h>
#include <stdbool.h>

extern bool sim_fault_armed;

/* Reads the list NAME:COUNT:ERROR[,...]; COUNT is which call fails, or * for each. Returns 0, or -1 after a message. */
int sim_fault_setup(void);

/* The error with which this call is to fail, or 0. Counts the call. */
int sim_fault_count(const char *name, const char *symbol);

/* The number of an error name, or -1. */
int sim_error_number(const char *name);

#endif /* SIM_FAULT_H */
