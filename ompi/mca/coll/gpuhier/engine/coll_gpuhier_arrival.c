/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the round in which the members of a group learn what each brings to a call, and map what they must; see the
 * header. Does not own what a form offers, nor what follows when all have agreed. Called by the engine and the forms.
 */
#include "ompi_config.h"

#include <string.h>

#include "engine/coll_gpuhier_arrival.h"
#include "engine/coll_gpuhier_form.h"

void gpuhier_arrival_begin(gpuhier_call_t *call)
{
    const gpuhier_team_t *team = call->team;
    gpuhier_slot_t *slot = gpuhier_call_my_slot(call);
    gpuhier_arrival_t *arrival = &slot->arrival;
    memset(arrival, 0, sizeof(*arrival));
    arrival->form = (uint32_t) call->form->kind;
    if (gpuhier_call_is_of_host(call)) {
        arrival->mask |= GPUHIER_MASK_HOST;
    }
    const bool able = OMPI_SUCCESS == team->context_lost && GPUHIER_ORDER_FAILED != call->order && !call->declining;
    const uint32_t refused = able ? call->form->offer(call, arrival) : GPUHIER_MASK_FAIL;
    arrival->mask |= refused;
    call->declining = 0 != (refused & GPUHIER_MASK_FAIL);
    gpuhier_word_publish(&slot->arrived, call->sequence, 1);
    call->state = GPUHIER_CALL_GATHER;
}

void gpuhier_arrival_scratch(const gpuhier_call_t *call, gpuhier_arrival_t *arrival)
{
    const gpuhier_team_t *team = call->team;
    arrival->scratch = call->lane->ref;
    if (!gpuhier_hostmem_is_used(&team->hostmem)) {
        arrival->fresh = 0 != memcmp(&call->lane->ref, &team->scratch[team->index], sizeof(call->lane->ref));
        if (arrival->fresh) {
            gpuhier_export_send(&arrival->scratch, team->scratch, team->group_size);
        }
    }
}

/*
 * The address of a first lane is remembered until any mapping is closed, which may be the lane's own: when a rank has
 * lost its context, a team is made anew, and the old scratch is no longer kept mapped.
 */
int gpuhier_arrival_find(gpuhier_call_t *call, int index)
{
    gpuhier_team_t *team = call->team;
    const gpuhier_arrival_t *arrival = &gpuhier_call_slot(call, index)->arrival;
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

/* Maps a member's scratch, if its record names any, and its buffers if it offers them. Returns false if its buffers
 * cannot be mapped. */
static bool member_map(gpuhier_call_t *call, int index, const gpuhier_arrival_t *arrival, uint64_t *mask_p)
{
    gpuhier_member_t *member = &call->slices.member[index];
    if (gpuhier_hostmem_is_used(&call->team->hostmem)) {
        member->scratch = gpuhier_hostmem_lane(&call->team->hostmem, index);
        return true;
    }
    if (index == call->team->index) {
        member->scratch = NULL != call->lane ? call->lane->scratch : 0;
        member->in = call->in;
        member->out = call->out;
        return true;
    }
    if (0 == arrival->scratch.bytes) {
        return true;
    }
    if (OMPI_SUCCESS != gpuhier_arrival_find(call, index)) {
        *mask_p |= call->slices.is_long ? GPUHIER_MASK_NO_LONG : GPUHIER_MASK_FAIL;
        return true;
    }
    if (call->slices.is_long) {
        call->team->long_scratch[index] = arrival->scratch;
    }
    return !arrival->direct
           || (OMPI_SUCCESS == gpuhier_map(&arrival->in, false, &member->pins[1], &member->in)
               && OMPI_SUCCESS == gpuhier_map(&arrival->out, false, &member->pins[2], &member->out));
}

/* A member that could not map this rank's scratch is sent another descriptor before the next call. */
static void scratch_unsent(const gpuhier_call_t *call)
{
    for (int i = 0; i < call->team->group_size; ++i) {
        if (0 != gpuhier_call_slot(call, i)->opened_mask) {
            gpuhier_export_unmapped(&call->lane->ref, &call->team->scratch[i]);
        }
    }
}

static void run(gpuhier_call_t *call)
{
    call->slices.vote_mask = call->mask;
    call->slices.mask_known = 1 == call->team->ngroups;
    call->state = GPUHIER_CALL_RUN;
}

/* All records are known: makes the group's mask, and decides which members go via scratch. */
static int agree(gpuhier_call_t *call)
{
    const gpuhier_team_t *team = call->team;
    const bool opened = GPUHIER_CALL_OPENED == call->state;
    uint64_t unmapped = 0;
    for (int i = 0; i < team->group_size; ++i) {
        const gpuhier_slot_t *slot = gpuhier_call_slot(call, i);
        call->mask |= slot->arrival.mask;
        if ((uint32_t) call->form->kind != slot->arrival.form) {
            return OMPI_ERROR; /* a vote at set-up reached only some ranks, since another died or left */
        }
        if (opened) {
            call->mask |= (uint32_t) slot->opened_mask;
            unmapped |= slot->unmapped;
        }
    }
    for (int i = 0; i < team->group_size; ++i) {
        call->slices.member[i].via_scratch = !gpuhier_call_slot(call, i)->arrival.direct || 0 != (unmapped >> i & 1);
    }
    if (opened && gpuhier_call_my_slot(call)->arrival.fresh) {
        scratch_unsent(call);
    }
    if (opened && gpuhier_call_my_slot(call)->arrival.direct) {
        gpuhier_offer_end(call, 0 == (unmapped >> team->index & 1));
    }
    const int rc = call->form->agreed(call, opened);
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    run(call);
    return 1;
}

static int gather_step(gpuhier_call_t *call)
{
    const gpuhier_team_t *team = call->team;
    if (!gpuhier_call_all_reached(call, offsetof(gpuhier_slot_t, arrived), 1)) {
        return 0;
    }
    const int recalled = NULL != call->form->recall ? call->form->recall(call) : 0;
    if (0 != recalled) {
        if (recalled > 0) {
            run(call);
        }
        return recalled;
    }
    bool round = false;
    uint64_t unmapped = 0, mask = 0, arrived = 0;
    for (int i = 0; i < team->group_size; ++i) {
        const gpuhier_arrival_t *arrival = &gpuhier_call_slot(call, i)->arrival;
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
        return agree(call);
    }
    gpuhier_slot_t *slot = gpuhier_call_my_slot(call);
    slot->unmapped = unmapped;
    slot->opened_mask = mask;
    gpuhier_word_publish(&slot->opened, call->sequence, 1);
    call->state = GPUHIER_CALL_OPENED;
    return 1;
}

bool gpuhier_arrival_is_idle(const gpuhier_call_t *call)
{
    const size_t word =
        GPUHIER_CALL_GATHER == call->state ? offsetof(gpuhier_slot_t, arrived) : offsetof(gpuhier_slot_t, opened);
    return !gpuhier_call_all_reached(call, word, 1);
}

int gpuhier_arrival_step(gpuhier_call_t *call)
{
    if (GPUHIER_CALL_GATHER == call->state) {
        return gather_step(call);
    }
    return gpuhier_arrival_is_idle(call) ? 0 : agree(call);
}

void gpuhier_arrival_unmap(gpuhier_call_t *call)
{
    for (int i = 0; i < call->team->group_size; ++i) {
        for (int p = 0; p < 3; ++p) {
            gpuhier_unmap(call->slices.member[i].pins[p]);
            call->slices.member[i].pins[p] = NULL;
        }
    }
}
