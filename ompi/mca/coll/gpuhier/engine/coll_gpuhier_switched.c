/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the choice of calls that NVSwitches reduce, and the work of their stages RS and AG. Called by the engine and the
 * pipeline.
 *
 * Kernels move whole units of 16 bytes. Every shard begins on a unit, and only a slice's last shard may end elsewhere.
 * The bytes behind that one in a slice buffer belong to no slice.
 */
#include "ompi_config.h"

#include "engine/coll_gpuhier_oneshot.h"
#include "engine/coll_gpuhier_switched.h"
#include "team/coll_gpuhier_switch.h"

_Static_assert(0 == GPUHIER_UNIT_BYTES % GPUHIER_MULTICAST_UNIT, "shards begin on a unit of the kernels");

bool gpuhier_switched_suits(const gpuhier_call_t *call)
{
    return GPUHIER_SWITCH_READY == call->team->switch_state
           && gpuhier_switch_suits(call->team, call->kernel, call->count * call->elem_bytes)
           && !gpuhier_oneshot_suits(call);
}

static uint64_t place_of(const gpuhier_call_t *call, uint64_t slice, uint64_t element)
{
    const gpuhier_plan_t *plan = &call->slices.plan;
    return gpuhier_switch_place(call->team, gpuhier_plan_buffer(plan, slice))
           + (element - gpuhier_plan_slice(plan, slice).begin) * call->elem_bytes;
}

static uint64_t units_of(const gpuhier_call_t *call, gpuhier_range_t range)
{
    const uint64_t unit = GPUHIER_MULTICAST_UNIT;
    return (gpuhier_range_length(range) * call->elem_bytes + unit - 1) / unit * unit;
}

int gpuhier_switched_reduce(const gpuhier_call_t *call, uint64_t slice, gpuhier_range_t shard, CUstream stream)
{
    const bool to_all = 1 == call->team->ngroups;
    const gpuhier_lane_t *lane = call->lane;
    const uint64_t all = call->team->multicast.all + place_of(call, slice, shard.begin);
    gpuhier_multicast_args_t args = {.from = all, .to = all, .bytes = units_of(call, shard), .to_all = to_all};
    if (!to_all) {
        args.to = (uint64_t) (uintptr_t) lane->exchange.now->shard[gpuhier_plan_buffer(&call->slices.plan, slice)];
    }
    return gpuhier_multicast_launch(&lane->device->multicast, call->kernel, &args, stream);
}

/* What the last step of the exchange has received is reduced into the shard's place in this rank's own copy. The kernel
 * behind it reads there, and stores into all copies. */
int gpuhier_switched_gather(const gpuhier_call_t *call, uint64_t slice, gpuhier_range_t shard, CUstream stream)
{
    const gpuhier_plan_t *plan = &call->slices.plan;
    const gpuhier_lane_t *lane = call->lane;
    const int buffer = gpuhier_plan_buffer(plan, slice);
    const uint64_t place = place_of(call, slice, shard.begin);
    const gpuhier_action_t action = gpuhier_plan_last_action(plan);
    gpuhier_multicast_args_t store = {.from = (uint64_t) (uintptr_t) lane->exchange.now->shard[buffer],
                                      .to = call->team->multicast.all + place,
                                      .bytes = units_of(call, shard),
                                      .to_all = 1};
    int rc = OMPI_SUCCESS;
    if (GPUHIER_ACTION_NONE != action) {
        const int own = GPUHIER_ACTION_REDUCE_RECEIVED_FIRST == action ? 1 : 0;
        gpuhier_kernel_args_t args = {.count = gpuhier_range_length(shard), .nsrc = 2, .ndst = 1};
        args.src[own] = store.from;
        args.src[1 - own] = (uint64_t) (uintptr_t) lane->exchange.now->recv[buffer];
        store.from = args.dst[0] = call->team->multicast.own + place;
        rc = gpuhier_reduce_launch(&lane->device->reduce, call->kernel, &args, stream);
    }
    return OMPI_SUCCESS != rc ? rc : gpuhier_multicast_store(&lane->device->multicast, &store, stream);
}
