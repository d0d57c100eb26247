/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Decides about the flush of what NICs write into GPU memory, from attributes of the GPU. Calls nothing.
 * coll_gpuhier_device.c collects the facts when it makes a device, and set-up and the exchange obey the answer.
 */
#include "gpu/coll_gpuhier_flush.h"

#include <cuda.h>

gpuhier_flush_t gpuhier_flush_decide(const gpuhier_flush_facts_t *facts, bool for_peers)
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
