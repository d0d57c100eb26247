/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the form in which a call moves in slices that NVSwitches reduce. All ranks are via scratch, which is the team's
 * memory in the switch, and a slice has one buffer in each member's copy, for input and output.
 *
 * Kernels move whole units of 16 bytes. Every shard begins on a unit, and only a slice's last shard may end elsewhere.
 * The bytes behind that one in a slice buffer belong to no slice.
 */
#include "ompi_config.h"

#include "engine/coll_gpuhier_arrival.h"
#include "engine/coll_gpuhier_place.h"
#include "engine/coll_gpuhier_slices.h"
#include "team/coll_gpuhier_team.h"

_Static_assert(0 == GPUHIER_UNIT_BYTES % GPUHIER_MULTICAST_UNIT, "shards begin on a unit of the kernels");

/* Offers nothing of its own: the memory is mapped already. */
static uint32_t offer(gpuhier_call_t *call, gpuhier_arrival_t *arrival)
{
    (void) arrival;
    return gpuhier_slices_lane(call, NULL);
}

/* The peers' copies have no address here. */
static int agreed(gpuhier_call_t *call, bool opened)
{
    const gpuhier_team_t *team = call->team;
    (void) opened;
    call->slices.member[team->index].scratch = team->multicast.own;
    gpuhier_slices_plan(call, 1 == team->ngroups ? gpuhier_choice_switch_slice(&team->shape, &team->limits)
                                                 : team->limits.slice_bytes);
    return OMPI_SUCCESS;
}

static void release(gpuhier_call_t *call)
{
    if (NULL != call->lane && call->lane->peers_work) {
        gpuhier_multicast_leave(&call->team->multicast);
    }
    gpuhier_arrival_unmap(call);
}

static size_t place(const gpuhier_call_t *call, int buffer)
{
    return gpuhier_switch_place(call->team, buffer);
}

static uint64_t place_of(const gpuhier_call_t *call, uint64_t slice, uint64_t element)
{
    const gpuhier_plan_t *plan = &call->slices.plan;
    return place(call, gpuhier_plan_buffer(plan, slice))
           + (element - gpuhier_plan_slice(plan, slice).begin) * call->elem_bytes;
}

static uint64_t units_of(const gpuhier_call_t *call, gpuhier_range_t range)
{
    const uint64_t unit = GPUHIER_MULTICAST_UNIT;
    return (gpuhier_range_length(range) * call->elem_bytes + unit - 1) / unit * unit;
}

/* Into all copies or, with several groups, into the shard buffer. */
static int reduce(const gpuhier_call_t *call, int level, uint64_t slice, CUstream stream)
{
    const bool to_all = 1 == call->team->ngroups;
    const gpuhier_range_t shard = gpuhier_circle_shard(call, gpuhier_call_circle(call, level), slice);
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
static int gather(const gpuhier_call_t *call, int level, uint64_t slice, CUstream stream)
{
    const gpuhier_plan_t *plan = &call->slices.plan;
    const gpuhier_range_t shard = gpuhier_circle_shard(call, gpuhier_call_circle(call, level), slice);
    const gpuhier_lane_t *lane = call->lane;
    const int buffer = gpuhier_plan_buffer(plan, slice);
    const uint64_t at = place_of(call, slice, shard.begin);
    const gpuhier_action_t action = gpuhier_plan_last_action(plan);
    gpuhier_multicast_args_t store = {.from = (uint64_t) (uintptr_t) lane->exchange.now->shard[buffer],
                                      .to = call->team->multicast.all + at,
                                      .bytes = units_of(call, shard),
                                      .to_all = 1};
    int rc = OMPI_SUCCESS;
    if (GPUHIER_ACTION_NONE != action) {
        const int own = GPUHIER_ACTION_REDUCE_RECEIVED_FIRST == action ? 1 : 0;
        gpuhier_kernel_args_t args = {.count = gpuhier_range_length(shard), .nsrc = 2, .ndst = 1};
        args.src[own] = store.from;
        args.src[1 - own] = (uint64_t) (uintptr_t) lane->exchange.now->recv[buffer];
        store.from = args.dst[0] = call->team->multicast.own + at;
        rc = gpuhier_reduce_launch(&lane->device->reduce, call->kernel, &args, stream);
    }
    return OMPI_SUCCESS != rc
               ? rc
               : gpuhier_multicast_launch(&lane->device->multicast, GPUHIER_REDUCE_COUNT, &store, stream);
}

/* With one group nothing else runs on the stream of AG. With two, recursive doubling leaves EXCHANGE no reductions, so
 * its stream is free, unless links copy on it. */
static gpuhier_stage_t second(const gpuhier_call_t *call, gpuhier_stage_t stage)
{
    const gpuhier_team_t *team = call->team;
    return GPUHIER_STAGE_RS == stage && 1 == team->ngroups                           ? GPUHIER_STAGE_AG
           : GPUHIER_STAGE_AG == stage && 2 == team->ngroups && NULL == team->linked ? GPUHIER_STAGE_EXCHANGE
                                                                                     : stage;
}

static const gpuhier_slices_ops_t ops = {
    .has_one_buffer = true, .place = place, .reduce = reduce, .gather = gather, .second = second};

const gpuhier_form_t gpuhier_form_switched = {.kind = GPUHIER_FORM_SWITCHED,
                                              .doing = "moving slices",
                                              .path = GPUHIER_TRACE_PATH_SWITCH,
                                              .counter = &gpuhier_counters.calls_switch,
                                              .ops = &ops,
                                              .prepare = gpuhier_slices_prepare,
                                              .offer = offer,
                                              .agreed = agreed,
                                              .step = gpuhier_slices_step,
                                              .again = gpuhier_slices_again,
                                              .is_idle = gpuhier_slices_is_idle,
                                              .outcome_known = gpuhier_slices_outcome_known,
                                              .release = release,
                                              .report = gpuhier_slices_report,
                                              .note = gpuhier_slices_note};
