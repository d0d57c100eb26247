/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The implementations behind the exported runtime functions, and what they share.
 */
#ifndef CUDASIM_RT_API_H
#define CUDASIM_RT_API_H

#include <cuda.h>
#include <cuda_runtime_api.h>

#define RT(needs, name, params, args) cudaError_t rt_##name params;
#define RT_PTSZ RT
#define RT_PTDS RT
#include "cudart_api.def"
#undef RT
#undef RT_PTSZ
#undef RT_PTDS

#define SIM_EXPORT __attribute__((visibility("default")))

/* The driver's and the runtime's errors have the same numbers where both have one. */
static inline cudaError_t rt_error(CUresult error)
{
    return (cudaError_t) error;
}

/* Makes sure that the thread has a current context: the device's primary one unless the program chose another. */
cudaError_t rt_context(void);

/* The function of a kernel, by its host stub or its handle, in the current context. */
cudaError_t rt_function(const void *symbol, CUfunction *function_p);

#endif /* CUDASIM_RT_API_H */
