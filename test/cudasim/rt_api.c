/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The runtime's entry points.
 *
 * Owns the exported names, initialisation on first use and the thread's last error.
 * The runtime is built on the driver's public interface, as the real one is on the
 * real driver's; what the functions do is in the other rt_*.c files.
 */
#include "rt_api.h"

#include <stdbool.h>
#include <stddef.h>

#include "sim_driver.h"

#define NEEDS_NOTHING 0
#define NEEDS_INIT 1
#define NEEDS_CONTEXT 2

static _Thread_local cudaError_t last_error;

static const struct {
    cudaError_t error;
    const char *name;
    const char *text;
} errors[] = {
#define ERROR(name, text) {name, #name, text},
#include "cudart_errors.def"
#undef ERROR
};

static cudaError_t enter(int needs, const char *name)
{
    cudaError_t rc = (cudaError_t) cudasim_fault(name);

    if (cudaSuccess != rc || NEEDS_NOTHING == needs) {
        return rc;
    }
    rc = rt_error(cuInit(0));
    if (cudaSuccess == rc && NEEDS_CONTEXT == needs) {
        rc = rt_context();
    }
    return rc;
}

static cudaError_t leave(cudaError_t rc)
{
    if (cudaSuccess != rc) {
        last_error = rc;
    }
    return rc;
}

#define RT(needs, name, params, args)                          \
    SIM_EXPORT cudaError_t name params                         \
    {                                                          \
        cudaError_t rc = enter(NEEDS_##needs, #name);          \
        return leave(cudaSuccess == rc ? rt_##name args : rc); \
    }
#define RT_VARIANT(needs, name, exported, params, args)      \
    RT(needs, name, params, args)                            \
    SIM_EXPORT cudaError_t exported params;                  \
    SIM_EXPORT cudaError_t exported params                   \
    {                                                        \
        cudaError_t rc = enter(NEEDS_##needs, #name);        \
        bool outer = cudasim_per_thread_default(true);       \
        rc = leave(cudaSuccess == rc ? rt_##name args : rc); \
        cudasim_per_thread_default(outer);                   \
        return rc;                                           \
    }
#define RT_PTSZ(needs, name, params, args) RT_VARIANT(needs, name, name##_ptsz, params, args)
#define RT_PTDS(needs, name, params, args) RT_VARIANT(needs, name, name##_ptds, params, args)
#include "cudart_api.def"
#undef RT
#undef RT_PTSZ
#undef RT_PTDS

SIM_EXPORT cudaError_t cudaGetLastError(void)
{
    cudaError_t rc = last_error;

    last_error = cudaSuccess;
    return rc;
}

SIM_EXPORT cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}

SIM_EXPORT const char *cudaGetErrorString(cudaError_t error)
{
    size_t i;

    for (i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (error == errors[i].error) {
            return errors[i].text;
        }
    }
    return "unrecognized error code";
}

SIM_EXPORT const char *cudaGetErrorName(cudaError_t error)
{
    size_t i;

    for (i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (error == errors[i].error) {
            return errors[i].name;
        }
    }
    return "unrecognized error code";
}
