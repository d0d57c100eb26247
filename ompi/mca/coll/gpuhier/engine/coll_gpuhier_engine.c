/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the start and the agreement of a call. The stages that move its slices are in coll_gpuhier_pipeline.c, and the
 * end of a call, with or without an error, is in coll_gpuhier_ending.c. Called by the queue.
 *
 * Every member publishes an arrival record at once, even after a local failure, so
 * that no member waits for one that has given up. A local failure is a bit in the
 * record's mask, and all members decline the call before they write any user's
 * buffer.
 */
#include "ompi_config.h"

#include <string.h>

#include "plan/coll_gpuhier_choice.h"
#include "engine/coll_gpuhier_engine.h"
#include "engine/coll_gpuhier_engine_internal.h"
#include "engine/coll_gpuhier_exchange.h"
#include "engine/coll_gpuhier_known.h"
#include "engine/coll_gpuhier_offer.h"
#include "engine/coll_gpuhier_oneshot.h"
#include "engine/coll_gpuhier_order.h"
#include "engine/coll_gpuhier_pipeline.h"
#include "engine/coll_gpuhier_switched.h"
#include "engine/coll_gpuhier_vote.h"
#include "engine/coll_gpuhier_watch.h"
#include "team/coll_gpuhier_partners.h"
#include "engine/coll_gpuhier_small_exchange.h"
#include "opal/util/output.h"

static gpuhier_slot_t *my_slot(const gpuhier_call_t *call)
{
    return gpuhier_team_slot(call->team, call->team->index, call->sequence);
}

void gpuhier_engine_prepare(gpuhier_call_t *call, gpuhier_team_t *team, const gpuhier_call_args_t *args)
{
    memset(call, 0, offsetof(gpuhier_call_t, slices));
    call->team = team;
    call->kernel = args->kernel;
    call->elem_bytes = args->elem_bytes;
    call->has_gaps = gpuhier_reduce_has_gaps(args->kernel);
    call->count = args->count;
    call->in = (CUdeviceptr) (uintptr_t) args->in;
    call->out = (CUdeviceptr) (uintptr_t) args->out;
    call->trace = args->trace;
    call->ended = args->ended;
    call->outcome_p = args->outcome_p;
    call->dtype = args->dtype;
    call->tag = args->tag;
    gpuhier_buffer_inspect(args->in, &call->from);
    if (args->in == args->out) {
        call->to = call->from;
    } else {
        gpuhier_buffer_inspect(args->out, &call->to);
    }
    call->is_small = gpuhier_small_takes(call->count * call->elem_bytes)
                     && (0 == team->oneshot_bytes || !gpuhier_oneshot_suits(call));
    if (call->is_small) {
        memset(&call->small, 0, sizeof(call->small));
        gpuhier_small_map(call);
    } else {
        memset(&call->slices, 0, offsetof(gpuhier_slices_t, member));
        call->in_switch = gpuhier_switched_suits(call);
    }
    gpuhier_order_decide(call);
}

/* Takes a lane with exchange buffers, if there are several groups. */
static int lane_take(gpuhier_call_t *call)
{
    gpuhier_team_t *team = call->team;
    const bool by_host = gpuhier_plan_by_host(&team->shape, &team->limits, call->count * call->elem_bytes);
    const bool is_short = team->net_all_on_device && by_host && !team->device->short_refused;
    const gpuhier_exchange_kind_t kind = is_short ? GPUHIER_EXCHANGE_SHORT : team->exchange_kind;
    const size_t exchange_bytes =
        GPUHIER_EXCHANGE_SHORT == kind ? gpuhier_lane_exchange_short_bytes()
        : call->is_long
            ? gpuhier_choice_longest(&team->shape, &team->limits) / (size_t) team->group_size + 4 * GPUHIER_UNIT_BYTES
            : gpuhier_slice_buffer_bytes(false);
    int rc = gpuhier_lane_take(team->device, call->is_long ? GPUHIER_LANE_LONG : GPUHIER_LANE_SLICES, team->by_ipc,
                               kind, exchange_bytes, &call->lane);
    if (OMPI_SUCCESS == rc && call->in_levels) {
        rc = gpuhier_lane_levels(call->lane, team->levels.count);
    }
    if (OMPI_SUCCESS == rc && team->ngroups > 1) {
        rc = gpuhier_lane_exchange_use(&call->lane->exchange, kind, exchange_bytes);
        if (OMPI_SUCCESS == rc && NULL != team->linked && !team->has_relay
            && !gpuhier_lane_exchange_is_mappable(&call->lane->exchange)) {
            gpuhier_lane_exchange_free(&call->lane->exchange,
                                       kind); /* the next call that takes the lane makes others */
            rc = OMPI_ERR_NOT_SUPPORTED;
        }
    }
    if (OMPI_SUCCESS != rc && is_short && NULL != call->lane) {
        team->device->short_refused = true;
        gpuhier_lane_give(call->lane);
        call->lane = NULL;
        return lane_take(call);
    }
    return rc;
}

/* Takes what the call needs of the device. */
static int resources_take(gpuhier_call_t *call)
{
    const gpuhier_team_t *team = call->team;
    if (OMPI_SUCCESS != team->context_lost || GPUHIER_ORDER_FAILED == call->order) {
        return OMPI_SUCCESS != team->context_lost ? team->context_lost : OMPI_ERROR;
    }
    return lane_take(call);
}

void gpuhier_engine_begin(gpuhier_call_t *call)
{
    gpuhier_team_t *team = call->team;
    call->sequence = ++team->sequence;
    if (!call->is_small) {
        memset(call->slices.member, 0, sizeof(call->slices.member[0]) * (size_t) team->group_size);
    }
    if (OMPI_SUCCESS != team->failed) {
        /* The call that failed has told the other ranks for all later calls: quiet_say() in coll_gpuhier_ending.c. */
        gpuhier_engine_end(call, team->failed);
        return;
    }
    if (call->is_small) {
        call->state = GPUHIER_CALL_SMALL;
        gpuhier_small_begin(call);
        return;
    }
    gpuhier_slot_t *slot = my_slot(call);
    gpuhier_arrival_t *arrival = &slot->arrival;
    memset(arrival, 0, sizeof(*arrival));
    arrival->in_switch = call->in_switch;
    if (!gpuhier_buffer_on_device(&call->from) || !gpuhier_buffer_on_device(&call->to)) {
        arrival->mask |= GPUHIER_MASK_HOST;
    }
    call->in_levels = gpuhier_levels_take(&team->levels, call->count * call->elem_bytes) && !gpuhier_oneshot_suits(call)
                      && !call->in_switch;
    call->is_long = gpuhier_choice_is_long(&team->shape, call->count * call->elem_bytes, &team->limits);
    if (OMPI_SUCCESS == resources_take(call)) {
        arrival->scratch = call->lane->ref;
        if (!gpuhier_hostmem_is_used(&team->hostmem) && !call->in_switch) {
            arrival->fresh = 0 != memcmp(&call->lane->ref, &team->scratch[team->index], sizeof(call->lane->ref));
            if (arrival->fresh) {
                gpuhier_export_send(&arrival->scratch, team->scratch, team->group_size);
            }
            if (gpuhier_oneshot_suits(call)) {
                gpuhier_oneshot_offer(call, arrival);
            } else {
                gpuhier_offer_identify(call);
                if (!gpuhier_known_take(call, arrival)) {
                    gpuhier_offer_make(call, arrival);
                }
                gpuhier_offer_send(call, arrival);
            }
        }
    } else if (call->is_long && OMPI_SUCCESS == team->context_lost && GPUHIER_ORDER_FAILED != call->order) {
        arrival->mask |= GPUHIER_MASK_NO_LONG;
    } else {
        arrival->mask |= GPUHIER_MASK_FAIL;
        call->declining = true;
    }
    gpuhier_word_publish(&slot->arrived, call->sequence, 1);
    call->state = GPUHIER_CALL_GATHER;
}

static bool all_reached(const gpuhier_call_t *call, size_t word_offset)
{
    for (int i = 0; i < call->team->group_size; ++i) {
        gpuhier_slot_t *slot = gpuhier_team_slot(call->team, i, call->sequence);
        if (!gpuhier_word_reached((gpuhier_word_t *) ((char *) slot + word_offset), call->sequence, 1)) {
            return false;
        }
    }
    return true;
}

/*
 * Finds the address of a member's scratch. The address of a first lane is remembered until any mapping is closed, which
 * may be the lane's own: when a rank has lost its context, a team is made anew, and the old scratch is no longer kept
 * mapped.
 */
static int scratch_find(gpuhier_call_t *call, int index, const gpuhier_arrival_t *arrival)
{
    gpuhier_team_t *team = call->team;
    gpuhier_member_t *member = &call->slices.member[index];
    gpuhier_team_scratch_t *found = &team->scratch_found[index];
    if (gpuhier_ipc_epoch() != team->scratch_epoch) {
        memset(team->scratch_found, 0, sizeof(*team->scratch_found) * (size_t) team->group_size);
        team->scratch_epoch = gpuhier_ipc_epoch();
    }
    if (!arrival->fresh && 0 != found->address) {
        member->scratch = found->address;
        member->pins[0] = found->mapping;
        gpuhier_map_again(&member->pins[0], 1);
        return OMPI_SUCCESS;
    }
    int rc = gpuhier_map(&arrival->scratch, true, &member->pins[0], &member->scratch);
    if (OMPI_SUCCESS == rc && !arrival->fresh) {
        *found = (gpuhier_team_scratch_t){member->pins[0], member->scratch};
    }
    return rc;
}

/* Maps a member's scratch, and its buffers if it offers them. Returns false if its buffers cannot be mapped. */
static bool member_map(gpuhier_call_t *call, int index, const gpuhier_arrival_t *arrival, uint64_t *mask_p)
{
    gpuhier_member_t *member = &call->slices.member[index];
    if (gpuhier_hostmem_is_used(&call->team->hostmem)) {
        member->scratch = gpuhier_hostmem_lane(&call->team->hostmem, index);
        return true;
    }
    if (call->in_switch) {
        member->scratch = index == call->team->index ? call->team->multicast.own : 0; /* the peers' have no address */
        return true;
    }
    if (index == call->team->index) {
        member->scratch = NULL != call->lane ? call->lane->scratch : 0;
        member->in = call->in;
        member->out = call->out;
        return true;
    }
    if (OMPI_SUCCESS != scratch_find(call, index, arrival)) {
        *mask_p |= call->is_long ? GPUHIER_MASK_NO_LONG : GPUHIER_MASK_FAIL;
        return true;
    }
    if (call->is_long) {
        call->team->long_scratch[index] = arrival->scratch;
    }
    return !arrival->direct
           || (OMPI_SUCCESS == gpuhier_map(&arrival->in, false, &member->pins[1], &member->in)
               && OMPI_SUCCESS == gpuhier_map(&arrival->out, false, &member->pins[2], &member->out));
}

/* Makes the plan. A failure is the same on all ranks, since all know what it depends on. */
static void plan_make(gpuhier_call_t *call, bool any_via_scratch)
{
    const gpuhier_team_t *team = call->team;
    gpuhier_limits_t limits = team->limits;
    if (call->in_switch && 1 == team->ngroups) {
        limits.slice_bytes = gpuhier_choice_switch_slice(&team->shape, &limits);
    } else if (call->in_levels && 1 == team->ngroups) {
        limits.slice_bytes =
            gpuhier_levels_slice_bytes(&team->levels, call->count * call->elem_bytes, limits.slice_bytes);
    } else if (1 == team->ngroups && !any_via_scratch) {
        limits.slice_bytes = INT64_MAX; /* nothing to overlap: one kernel */
    }
    if (0 != gpuhier_choice_plan(&call->slices.plan, &team->shape, team->rank, call->count, call->elem_bytes, &limits)
        || call->slices.plan.nslices > GPUHIER_WORD_PROGRESS_MAX) {
        call->mask |= GPUHIER_MASK_FAIL;
    }
}

static void run_enter(gpuhier_call_t *call)
{
    call->slices.vote_mask = call->mask;
    call->slices.mask_known = 1 == call->team->ngroups;
    call->state = GPUHIER_CALL_RUN;
}

/* A member that could not map this rank's scratch is sent another descriptor before the next call. */
static void scratch_unsent(const gpuhier_call_t *call)
{
    const gpuhier_team_t *team = call->team;
    for (int i = 0; i < team->group_size; ++i) {
        if (0 != gpuhier_team_slot(team, i, call->sequence)->opened_mask) {
            gpuhier_export_unmapped(&call->lane->ref, &team->scratch[i]);
        }
    }
}

/* All records are known: decides which members go via scratch, and makes the group's mask and the plan. */
static int run_begin(gpuhier_call_t *call)
{
    const gpuhier_team_t *team = call->team;
    uint64_t unmapped = 0;
    bool any_via_scratch = false;
    const bool opened = GPUHIER_CALL_OPENED == call->state;
    for (int i = 0; i < team->group_size; ++i) {
        const gpuhier_slot_t *slot = gpuhier_team_slot(team, i, call->sequence);
        call->mask |= slot->arrival.mask;
        if (call->in_switch != (0 != slot->arrival.in_switch)) {
            return OMPI_ERROR; /* a vote at set-up reached only some ranks, since another died or left */
        }
        if (opened) {
            call->mask |= (uint32_t) slot->opened_mask;
            unmapped |= slot->unmapped;
        }
    }
    for (int i = 0; i < team->group_size; ++i) {
        const gpuhier_slot_t *slot = gpuhier_team_slot(team, i, call->sequence);
        call->slices.member[i].via_scratch = !slot->arrival.direct || 0 != (unmapped >> i & 1);
        any_via_scratch = any_via_scratch || call->slices.member[i].via_scratch;
    }
    if (opened && my_slot(call)->arrival.fresh) {
        scratch_unsent(call);
    }
    if (opened && my_slot(call)->arrival.direct) {
        gpuhier_offer_end(call, 0 == (unmapped >> team->index & 1));
    }
    call->slices.oneshot = gpuhier_oneshot_agreed(call);
    if (!call->slices.oneshot && GPUHIER_ORDER_KERNEL == call->order && 0 == (call->mask & GPUHIER_MASK_FAIL)
        && GPUHIER_ORDER_FAILED == gpuhier_order_mark(call)) {
        return OMPI_ERROR;
    }
    if (call->slices.oneshot) {
        call->slices.member[team->index].via_scratch = !gpuhier_oneshot_is_direct(call);
    } else if (opened && !any_via_scratch && 0 == (call->mask & (GPUHIER_MASK_FAIL | GPUHIER_MASK_NO_LONG))) {
        gpuhier_known_add(call);
    }
    plan_make(call, any_via_scratch && !call->slices.oneshot);
    run_enter(call);
    return 1;
}

/* In levels each rank reads the scratch of the members of all its circles but the first, even when all work on their
 * own buffers. Scratch of the team's first lanes is mapped already, unless it was closed meanwhile (scratch_find()). */
static int partners_find(gpuhier_call_t *call)
{
    const gpuhier_team_t *team = call->team;
    int rc = OMPI_SUCCESS;
    call->slices.member[team->index].scratch = call->lane->scratch;
    for (int level = 1; level < team->levels.count; ++level) {
        const gpuhier_circle_t *circle = &team->levels.circle[level];
        for (int i = 0; i < circle->size && OMPI_SUCCESS == rc; ++i) {
            const int index = circle->member[i];
            if (index != team->index) {
                rc = scratch_find(call, index, &gpuhier_team_slot(team, index, call->sequence)->arrival);
            }
        }
    }
    return rc;
}

/* Maps scratch that the call does not need while its descriptors are there. Later calls may need it. */
static void fresh_find(gpuhier_call_t *call)
{
    const gpuhier_team_t *team = call->team;
    for (int i = 0; i < team->group_size; ++i) {
        const gpuhier_arrival_t *arrival = &gpuhier_team_slot(team, i, call->sequence)->arrival;
        if (0 != arrival->fresh && i != team->index) {
            (void) scratch_find(call, i, arrival);
        }
    }
}

static int gather_step(gpuhier_call_t *call)
{
    const gpuhier_team_t *team = call->team;
    if (!all_reached(call, offsetof(gpuhier_slot_t, arrived))) {
        return 0;
    }
    if (gpuhier_known_use(call)) { /* all members work directly, and no mask has a bit */
        fresh_find(call);
        int rc = call->in_levels ? partners_find(call) : OMPI_SUCCESS;
        if (OMPI_SUCCESS != rc) {
            return rc; /* an error, since no vote follows in which this rank could decline */
        }
        if (!gpuhier_known_plan(call)) {
            plan_make(call, false);
            gpuhier_known_plan_keep(call);
        }
        run_enter(call);
        return 1;
    }
    bool round = false;
    uint64_t unmapped = 0, mask = 0, arrived = 0;
    for (int i = 0; i < team->group_size; ++i) {
        const gpuhier_arrival_t *arrival = &gpuhier_team_slot(team, i, call->sequence)->arrival;
        arrived |= arrival->mask;
        if (0 != (arrival->mask & (GPUHIER_MASK_FAIL | GPUHIER_MASK_NO_LONG))) {
            continue;
        }
        round = round || (team->group_size > 1 && (arrival->direct || arrival->fresh));
        /* A rank that declines may have no context, or one that its process's mappings do not belong to. */
        if (!call->declining && !member_map(call, i, arrival, &mask)) {
            unmapped |= (uint64_t) 1 << i;
        }
    }
    if (!round) {
        /* This rank cannot map again what it had mapped, and no vote follows; it fails, unless all decline anyway. */
        if (0 != mask && 0 == (arrived & GPUHIER_MASK_FAIL)) {
            return OMPI_ERROR;
        }
        return run_begin(call);
    }
    gpuhier_slot_t *slot = my_slot(call);
    slot->unmapped = unmapped;
    slot->opened_mask = mask;
    gpuhier_word_publish(&slot->opened, call->sequence, 1);
    call->state = GPUHIER_CALL_OPENED;
    return 1;
}

static int opened_step(gpuhier_call_t *call)
{
    if (!all_reached(call, offsetof(gpuhier_slot_t, opened))) {
        return 0;
    }
    return run_begin(call);
}

/* Ends a call that the ranks voted down, or continues it on the host. All ranks do so, and none has written a user's
 * buffer. */
static void decline(gpuhier_call_t *call)
{
    if (NULL == call->ended) {
        gpuhier_engine_end(call, GPUHIER_DECLINED);
        return;
    }
    gpuhier_engine_give(call, false);
    gpuhier_hostcall_begin(call);
    call->state = GPUHIER_CALL_HOST;
}

/* Begins the call again as one that is not long, since a rank has no long lane or cannot map a peer's. All members of
 * the group have left the call's pipeline. */
static void begin_again(gpuhier_call_t *call)
{
    gpuhier_engine_unmap(call);
    if (NULL != call->lane) {
        gpuhier_lane_give(call->lane);
        call->lane = NULL;
    }
    call->mask = 0;
    call->slices.mask_known = call->slices.claimed = call->input_done = false;
    call->slices.vote_step = 0;
    memset(call->slices.stage, 0, sizeof(call->slices.stage));
    gpuhier_engine_begin(call);
}

static int host_step(gpuhier_call_t *call)
{
    bool done;
    int status, events = gpuhier_hostcall_step(call, &done, &status);
    if (events >= 0 && done) {
        call->outcome_known = true; /* even if the copy to this rank's buffer failed, which no other rank hears of */
        gpuhier_engine_end(call, status);
        call->on_host = true;
    }
    return events;
}

/* While the groups vote, the stages already reduce slices into scratch. Messages and writes to the users' buffers wait
 * for the vote. */
static int run_step(gpuhier_call_t *call)
{
    int events = call->slices.mask_known ? 0 : gpuhier_vote_step(call);
    if (events < 0) {
        return events;
    }
    const bool failed = 0 != (call->mask & GPUHIER_MASK_FAIL), again = 0 != (call->mask & GPUHIER_MASK_NO_LONG);
    if ((failed || again) && !call->slices.mask_known) {
        return events; /* this group does nothing but vote */
    }
    bool done = failed && 1 == call->team->ngroups;
    int moved = 0;
    if (!done) {
        moved = failed || again ? gpuhier_pipeline_quit(call, &done) : gpuhier_pipeline_step(call, &done);
    }
    if (moved < 0) {
        return moved;
    }
    if (done && again) {
        call->team->limits.slice_bytes_max = 0;
        opal_output_verbose(
            1, gpuhier_output(),
            "coll:gpuhier: a rank of communicator %s has no GPU memory for long messages: all use set-up's scratch",
            call->team->comm->c_name);
    }
    if (done && failed && gpuhier_call_has_failed_member(call)) {
        return OMPI_ERROR; /* it has returned, and would be missing where the others continue */
    }
    if (done && failed) {
        decline(call);
    } else if (done && again) {
        begin_again(call);
    } else if (done) {
        gpuhier_engine_end(call, OMPI_SUCCESS);
    }
    return events + moved + done;
}

static int small_step(gpuhier_call_t *call)
{
    bool done = false;
    int events = gpuhier_small_step(call, &done);
    if (events >= 0 && done) {
        if (0 != (call->mask & GPUHIER_MASK_FAIL)) {
            decline(call);
        } else {
            gpuhier_engine_end(call, OMPI_SUCCESS);
        }
    }
    return events;
}

bool gpuhier_engine_wants_net(const gpuhier_call_t *call)
{
    return call->team->ngroups > 1 && (GPUHIER_CALL_SMALL != call->state || gpuhier_small_wants_net(call));
}

bool gpuhier_engine_is_idle(const gpuhier_call_t *call)
{
    switch (call->state) {
    case GPUHIER_CALL_GATHER:
        return !all_reached(call, offsetof(gpuhier_slot_t, arrived));
    case GPUHIER_CALL_OPENED:
        return !all_reached(call, offsetof(gpuhier_slot_t, opened));
    case GPUHIER_CALL_RUN:
        if (call->slices.oneshot) {
            return gpuhier_oneshot_waits(call);
        }
        return call->slices.mask_known && 0 == (call->mask & (GPUHIER_MASK_FAIL | GPUHIER_MASK_NO_LONG))
               && gpuhier_pipeline_is_idle(call);
    case GPUHIER_CALL_SMALL:
        return gpuhier_small_is_idle(call);
    default:
        return false;
    }
}

int gpuhier_engine_step(gpuhier_call_t *call)
{
    int rc = 0;
    switch (call->state) {
    case GPUHIER_CALL_QUEUED:
        break;
    case GPUHIER_CALL_GATHER:
        rc = gather_step(call);
        break;
    case GPUHIER_CALL_OPENED:
        rc = opened_step(call);
        break;
    case GPUHIER_CALL_RUN:
        rc = run_step(call);
        break;
    case GPUHIER_CALL_SMALL:
        rc = small_step(call);
        break;
    case GPUHIER_CALL_HOST:
        rc = host_step(call);
        break;
    case GPUHIER_CALL_FAILED:
        rc = gpuhier_engine_failed_step(call);
        break;
    case GPUHIER_CALL_DONE:
        break;
    }
    if (rc < 0) {
        gpuhier_watch_tell(call, rc);
        gpuhier_engine_fail(call, rc);
        return 1;
    }
    if (__builtin_expect(NULL != call->trace, 0)) {
        gpuhier_call_note(call);
    }
    return rc;
}
