/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What others ask of memory pools.
 */
#ifndef SIM_POOL_H
#define SIM_POOL_H

#include <stdbool.h>

#include "sim_memory.h"

/* Whether a GPU (physical number) may access pool memory. */
bool sim_pool_access(const struct sim_alloc *alloc, int physical);

/* The allocation goes; its pool's numbers follow. */
void sim_pool_account(struct sim_alloc *alloc);

#endif /* SIM_POOL_H */
