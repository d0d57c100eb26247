/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the launches of the kernels that only a call in levels has; see the header. Called by the pipeline.
 */
#include "ompi_config.h"

#include "engine/coll_gpuhier_circle.h"
#include "engine/coll_gpuhier_place.h"

int gpuhier_circle_combine(const gpuhier_call_t *call, int level, uint64_t slice)
{
    const gpuhier_circle_t *circle = gpuhier_call_circle(call, level), *last = gpuhier_call_circle(call, level + 1);
    const gpuhier_range_t shard = gpuhier_circle_shard(call, circle, slice);
    gpuhier_kernel_args_t args;
    if (0 == gpuhier_range_length(shard)) {
        return OMPI_SUCCESS;
    }
    for (int i = 0; i < last->size; ++i) {
        args.src[i] = gpuhier_place_scratch(call, last->member[i], slice, shard.begin);
    }
    args.nsrc = (uint32_t) last->size;
    gpuhier_circle_outputs(call, circle, slice, shard.begin, &args);
    args.count = gpuhier_range_length(shard);
    return gpuhier_reduce_launch(&call->lane->device->reduce, call->kernel, &args,
                                 call->lane->stream[gpuhier_stage_ag(level)]);
}

int gpuhier_circle_pass(const gpuhier_call_t *call, int level, uint64_t slice)
{
    const gpuhier_circle_t *circle = gpuhier_call_circle(call, level);
    const gpuhier_range_t shard = gpuhier_circle_shard(call, circle, slice);
    gpuhier_kernel_args_t args;
    if (0 == gpuhier_range_length(shard)) {
        return OMPI_SUCCESS;
    }
    args.src[0] = gpuhier_place_output(call, call->team->index, slice, shard.begin);
    gpuhier_circle_outputs(call, circle, slice, shard.begin, &args);
    --args.ndst; /* its own output, which is the last one */
    args.count = gpuhier_range_length(shard);
    return gpuhier_reduce_push(&call->lane->device->reduce, call->kernel, &args,
                               call->lane->stream[gpuhier_stage_ag(level)]);
}
