/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Whether a kernel sees what a NIC has just written into GPU memory, and what must be done first if it does not.
 * coll_gpuhier_device.c collects the facts when it makes a device, and set-up and the exchange obey the answer.
 */
#ifndef GPUHIER_FLUSH_H
#define GPUHIER_FLUSH_H

#include <stdbool.h>

#include <cuda.h>

/* The facts that decide. Zeros are safe: if the driver does not know an attribute, it counts as not promising
 * anything. */
typedef struct gpuhier_flush_facts {
    int compute_capability; /* 90 for sm_90 */
    bool is_coherent;       /* the GPU shares page tables or managed memory with the host: C2C, or NVLink to the CPU */
    int ordering;           /* CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING */
    int options;            /* CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS */
} gpuhier_flush_facts_t;

/* What has to happen between the end of a receive into GPU memory and a kernel that reads it. */
typedef enum gpuhier_flush {
    GPUHIER_FLUSH_NONE = 0,  /* nothing */
    GPUHIER_FLUSH_CALL,      /* cuFlushGPUDirectRDMAWrites() */
    GPUHIER_FLUSH_IMPOSSIBLE /* a flush that the driver does not have: NICs must not write there */
} gpuhier_flush_t;

/*
 * The platform decides, as in NCCL (ncclTopoNeedFlush()): GPUs below sm_90 always need a flush, and so do GPUs behind
 * C2C, whose NICs may have a second path to them. Other GPUs need it where the driver promises no order.
 *
 * Where the driver promises order, the call does nothing (cuda.h). That suffices below sm_90, where there is one path.
 * The promise holds for each path alone, so behind C2C it is not enough.
 *
 * for_peers: other GPUs read there as well. The driver promises order to them in a value of its own.
 */
static inline gpuhier_flush_t gpuhier_flush_decide(const gpuhier_flush_facts_t *facts, bool for_peers)
{
    const bool is_ordered = facts->ordering >= CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER;
    const bool suffices =
        is_ordered && (!for_peers || facts->ordering >= CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES);
    if (suffices && facts->compute_capability >= 90 && !facts->is_coherent) {
        return GPUHIER_FLUSH_NONE;
    }
    const bool has_call = 0 != (facts->options & CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST);
    const bool is_idle_call = is_ordered && facts->is_coherent;
    return has_call && !is_idle_call ? GPUHIER_FLUSH_CALL : GPUHIER_FLUSH_IMPOSSIBLE;
}

#endif /* GPUHIER_FLUSH_H */
