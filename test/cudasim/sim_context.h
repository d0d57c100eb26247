/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Contexts, the devices' primary contexts and each thread's stack of contexts.
 */
#ifndef SIM_CONTEXT_H
#define SIM_CONTEXT_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sim_topology.h"

#define SIM_CONTEXT_MAGIC 0x63747831u
#define SIM_STACK_DEPTH 64
#define SIM_NLIMITS 16

struct sim_alloc;

/*
 * A context. Created by cuCtxCreate or the first retain of a primary one; never
 * freed, so that a stale handle is recognised (alive is false) instead of followed.
 * The lists are guarded: allocs by the memory lock, streams by the engine's.
 */
struct CUctx_st {
    uint32_t magic;
    _Atomic bool alive;
    bool primary;
    int ordinal;  /* of the device as this process counts */
    int physical; /* number of the device in the machine */
    unsigned flags;
    unsigned api_version;
    uint64_t id;
    _Atomic int sticky;                  /* CUresult that every later call returns: a kernel did something illegal */
    _Atomic uint8_t peers[SIM_MAX_GPUS]; /* by physical number: access enabled */
    size_t limits[SIM_NLIMITS];
    _Atomic(CUstream) legacy; /* made on first use */
    CUstream streams;         /* all streams of the context that are not finished for good */
    struct sim_alloc *allocs;
    CUcontext next; /* in the list of all contexts ever made */
};

/* One visible device; guarded by the context lock. */
struct sim_device {
    int physical;
    CUcontext primary; /* NULL until first used; the same handle after a reset */
    unsigned primary_refs;
    unsigned primary_flags;
    CUmemoryPool pool;         /* the current pool */
    CUmemoryPool default_pool; /* created with the device's first use */
};

struct sim_driver {
    _Atomic int state; /* CUresult of a call made now: NOT_INITIALIZED, SUCCESS, or why cuInit failed */
    int ndevices;
    struct sim_device devices[SIM_MAX_GPUS];
    sim_topology_t topology;
};

extern struct sim_driver sim_driver;

/* What a thread carries. */
struct sim_thread {
    CUcontext stack[SIM_STACK_DEPTH];
    int depth;
    bool per_thread; /* the call in progress was made through a _ptsz or _ptds name */
    uint64_t id;     /* 0: not given yet */
};

extern _Thread_local struct sim_thread sim_thread;

/* The calling thread's context, NULL if none. */
static inline CUcontext sim_context_current(void)
{
    return sim_thread.depth > 0 ? sim_thread.stack[sim_thread.depth - 1] : NULL;
}

/* CUDA_SUCCESS if the handle is a living context's, else the driver's error for it. */
CUresult sim_context_check(CUcontext ctx);

/* Notes that work of the context did something illegal; says it once on stderr. */
void sim_context_poison(CUcontext ctx, CUresult error, const char *what);

/* The visible device with that physical number, or -1. */
int sim_device_ordinal(int physical);

/* Whether a GPU can reach the other's memory by peer access (physical numbers). */
static inline bool sim_device_peer(int a, int b)
{
    return a != b && sim_driver.topology.peers[a][b];
}

#endif /* SIM_CONTEXT_H */
