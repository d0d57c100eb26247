/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Kernel twins: finding them and running them.
 */
#ifndef SIM_LAUNCH_H
#define SIM_LAUNCH_H

#include <cuda.h>

#include "cudasim_twin.h"

/* Loads the libraries that CUDASIM_TWINS names. Returns 0, or -1 after a message. */
int sim_launch_setup(void);

/* The twin of a kernel, or NULL. */
const cudasim_kernel_t *sim_launch_find(const char *name);

/*
 * Queues a launch. params has one pointer per parameter; the values are copied now.
 * Alternatively packed holds them all, each at a multiple of its own alignment.
 */
CUresult sim_launch(const cudasim_kernel_t *kernel, const uint32_t grid[3], const uint32_t block[3],
                    size_t shared_bytes, CUstream stream, void **params, const void *packed, size_t packed_bytes);

#endif /* SIM_LAUNCH_H */
