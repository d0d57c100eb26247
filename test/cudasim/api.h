/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The implementations behind the exported driver functions, and the entry check.
 */
#ifndef CUDASIM_API_H
#define CUDASIM_API_H

#include <cuda.h>

/* CUDA 13 names; cuda_api.def gives each symbol's signature. */
#define API(needs, name, symbol, since, params, args) CUresult sim_##symbol params;
#define API_PTSZ API
#define API_PTDS API
#define API_THUNK API
#include "cuda_api.def"
#undef API
#undef API_PTSZ
#undef API_PTDS
#undef API_THUNK

#define SIM_EXPORT __attribute__((visibility("default")))
#define SIM_DRIVER_VERSION 13000

#endif /* CUDASIM_API_H */
