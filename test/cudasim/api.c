/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The driver's entry points.
 *
 * Owns the exported names, the check that each call begins with (state, context,
 * injected faults) and cuGetProcAddress. Does not own what the functions do
 * (drv_*.c). Everything here is made from cuda_api.def.
 *
 * UCX and others hook some functions by rewriting their first bytes, and understand
 * few instructions; ordinary compiled code is refused. Those functions are entered
 * through a few immediate moves and a jump.
 */
#include "api.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "sim_context.h"
#include "sim_driver.h"
#include "sim_engine.h"
#include "sim_fault.h"
#include "sim_model.h"

#define NEEDS_NOTHING 0
#define NEEDS_INIT 1
#define NEEDS_CONTEXT 2

/* The functions' numbers: the order of cuda_api.def. */
enum call {
#define API(needs, name, symbol, since, params, args) CALL_##symbol,
#define API_PTSZ API
#define API_PTDS API
#define API_THUNK API
#include "cuda_api.def"
#undef API
#undef API_PTSZ
#undef API_PTDS
#undef API_THUNK
};

/* What every call begins with. CUDA_SUCCESS: go on. */
static CUresult enter(int needs, enum call call, const char *name, const char *symbol)
{
    CUcontext ctx;
    CUresult rc;

    if (sim_fault_armed) {
        rc = (CUresult) sim_fault_count(name, symbol);
        if (CUDA_SUCCESS != rc) {
            return rc;
        }
    }
    if (NEEDS_NOTHING == needs) {
        return CUDA_SUCCESS;
    }
    if (sim_model.on) {
        sim_model_pay(call);
    }
    rc = (CUresult) atomic_load_explicit(&sim_driver.state, memory_order_acquire);
    sim_kernels_turn();
    if (CUDA_SUCCESS != rc || NEEDS_INIT == needs) {
        return rc;
    }
    ctx = sim_context_current();
    if (NULL == ctx) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (!atomic_load_explicit(&ctx->alive, memory_order_acquire)) {
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    return (CUresult) atomic_load_explicit(&ctx->sticky, memory_order_relaxed);
}

#define ENTRY(needs, name, symbol, exported, params, args, per_thread_stream) \
    exported params                                                           \
    {                                                                         \
        CUresult rc = enter(NEEDS_##needs, CALL_##symbol, name, #symbol);     \
        bool outer = sim_thread.per_thread;                                   \
        if (CUDA_SUCCESS == rc) {                                             \
            sim_thread.per_thread = per_thread_stream || outer;               \
            rc = sim_##symbol args;                                           \
            sim_thread.per_thread = outer;                                    \
        }                                                                     \
        return rc;                                                            \
    }

#define API(needs, name, symbol, since, params, args) \
    ENTRY(needs, #name, symbol, SIM_EXPORT CUresult symbol, params, args, false)
#define API_PTSZ(needs, name, symbol, since, params, args) \
    API(needs, name, symbol, since, params, args)          \
    SIM_EXPORT CUresult symbol##_ptsz params;              \
    ENTRY(needs, #name, symbol, SIM_EXPORT CUresult symbol##_ptsz, params, args, true)
#define API_PTDS(needs, name, symbol, since, params, args) \
    API(needs, name, symbol, since, params, args)          \
    SIM_EXPORT CUresult symbol##_ptds params;              \
    ENTRY(needs, #name, symbol, SIM_EXPORT CUresult symbol##_ptds, params, args, true)
#define API_THUNK(needs, name, symbol, since, params, args)                          \
    __attribute__((visibility("hidden"))) CUresult thunk_target_##symbol params;     \
    ENTRY(needs, #name, symbol, CUresult thunk_target_##symbol, params, args, false) \
    __asm__(".pushsection .text\n"                                                   \
            ".globl " #symbol "\n"                                                   \
            ".type " #symbol ",@function\n"                                          \
            ".balign 16\n" #symbol ":\n"                                             \
            "mov $1, %eax\n"                                                         \
            "mov $2, %eax\n"                                                         \
            "mov $3, %eax\n"                                                         \
            "mov $4, %eax\n"                                                         \
            "jmp thunk_target_" #symbol "\n"                                         \
            ".size " #symbol ", .-" #symbol "\n"                                     \
            ".popsection\n");
#include "cuda_api.def"
#undef API
#undef API_PTSZ
#undef API_PTDS
#undef API_THUNK

/* What a name means from a version on; sorted by version within a name, as in cuda_api.def. */
static const struct entry {
    const char *name;
    int since;
    void *function;
    void *per_thread; /* the variant with the thread's default stream */
} entries[] = {
#define API(needs, name, symbol, since, params, args) {#name, since, (void *) symbol, (void *) symbol},
#define API_PTSZ(needs, name, symbol, since, params, args) {#name, since, (void *) symbol, (void *) symbol##_ptsz},
#define API_PTDS(needs, name, symbol, since, params, args) {#name, since, (void *) symbol, (void *) symbol##_ptds},
#define API_THUNK API
#include "cuda_api.def"
#undef API
#undef API_PTSZ
#undef API_PTDS
#undef API_THUNK
};

CUresult sim_cuGetProcAddress_v2(const char *name, void **function_p, int version, cuuint64_t flags,
                                 CUdriverProcAddressQueryResult *status_p)
{
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    void *found = NULL;
    size_t i;

    if (NULL == name || NULL == function_p) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        if (0 != strcmp(entries[i].name, name)) {
            continue;
        }
        if (entries[i].since <= version) {
            found =
                (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) ? entries[i].per_thread : entries[i].function;
        } else if (NULL == found) {
            status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
        }
    }
    if (NULL != found) {
        status = CU_GET_PROC_ADDRESS_SUCCESS;
    }
    *function_p = found;
    if (NULL != status_p) {
        *status_p = status;
        return CUDA_SUCCESS; /* as the driver: with a status, the status says it */
    }
    return NULL != found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult sim_cuGetProcAddress(const char *name, void **function_p, int version, cuuint64_t flags)
{
    return sim_cuGetProcAddress_v2(name, function_p, version, flags, NULL);
}

CUresult sim_cuGetExportTable(const void **table_p, const CUuuid *id)
{
    (void) id;
    *table_p = NULL; /* the real driver's private interfaces do not exist here */
    return CUDA_ERROR_NOT_FOUND;
}

SIM_EXPORT bool cudasim_per_thread_default(bool on)
{
    bool was = sim_thread.per_thread;

    sim_thread.per_thread = on;
    return was;
}

SIM_EXPORT int cudasim_fault(const char *name)
{
    return sim_fault_armed ? sim_fault_count(name, name) : 0;
}
