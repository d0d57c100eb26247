/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns what a team remembers of calls whose buffers are mapped. It holds no pins: between calls mappings may be closed,
 * and gpuhier_ipc_epoch() changes when one is. Called by the engine.
 */
#include "ompi_config.h"

#include <stdlib.h>

#include "engine/coll_gpuhier_known.h"

#define KNOWN_MAX 8 /* calls; programs use a few buffers in turn */

struct gpuhier_known_call {
    uint64_t sequence;                             /* 0: none */
    uint64_t epoch;                                /* the mappings below are valid while it lasts */
    gpuhier_memref_t in, out;                      /* this rank's buffers */
    gpuhier_plan_t plan;                           /* of its last use */
    uint64_t longest;                              /* the team's slice_bytes_max when the plan was made */
    gpuhier_mapping_t *pins[GPUHIER_GROUP_MAX][2]; /* of each member's in, and of its out where that is another one */
    CUdeviceptr base[GPUHIER_GROUP_MAX][2];        /* where in and out of each member are mapped; not for this rank */
};

typedef struct gpuhier_known {
    unsigned newest;
    gpuhier_known_call_t call[KNOWN_MAX];
} gpuhier_known_t;

static bool lies_in(const gpuhier_memref_t *ref, CUdeviceptr address, uint64_t bytes, uint64_t id)
{
    const uint64_t offset = address - ref->base;
    return id == ref->id && offset < ref->bytes && bytes <= ref->bytes - offset;
}

static gpuhier_known_call_t *find(const gpuhier_call_t *call)
{
    gpuhier_known_t *known = call->team->known;
    for (unsigned i = 0; NULL != known && i < KNOWN_MAX; ++i) {
        gpuhier_known_call_t *entry = &known->call[(known->newest - i) % KNOWN_MAX];
        if (0 != entry->sequence && gpuhier_ipc_epoch() == entry->epoch
            && lies_in(&entry->in, call->in, call->in_bytes, call->from.id)
            && lies_in(&entry->out, call->out, call->out_bytes, call->to.id)) {
            return entry;
        }
    }
    return NULL;
}

bool gpuhier_known_take(gpuhier_call_t *call, gpuhier_arrival_t *arrival)
{
    gpuhier_known_call_t *entry = find(call);
    call->slices.known = entry;
    if (NULL == entry) {
        return false;
    }
    arrival->in = entry->in;
    arrival->in.offset = call->in - entry->in.base;
    arrival->out = entry->out;
    arrival->out.offset = call->out - entry->out.base;
    arrival->direct = 1;
    arrival->known = entry->sequence;
    for (int i = 0; i < call->team->group_size; ++i) {
        gpuhier_mapping_t **pins = call->slices.member[i].pins;
        pins[1] = entry->pins[i][0];
        pins[2] = entry->pins[i][1];
    }
    gpuhier_map_again(entry->pins[0], 2 * call->team->group_size);
    return true;
}

static void drop(gpuhier_call_t *call)
{
    for (int i = 0; i < call->team->group_size; ++i) {
        gpuhier_mapping_t **pins = call->slices.member[i].pins;
        for (int p = 1; p < 3; ++p) {
            gpuhier_unmap(pins[p]);
            pins[p] = NULL;
        }
    }
}

bool gpuhier_known_use(gpuhier_call_t *call)
{
    const gpuhier_team_t *team = call->team;
    const uint64_t mine = gpuhier_call_my_slot(call)->arrival.known;
    bool all = 0 != mine;
    for (int i = 0; i < team->group_size && all; ++i) {
        const gpuhier_arrival_t *arrival = &gpuhier_call_slot(call, i)->arrival;
        all = mine == arrival->known
              && !(call->slices.levels > 1 && 0 != arrival->fresh); /* fresh scratch may be unmapped */
        call->slices.member[i].in = arrival->in.offset;
        call->slices.member[i].out = arrival->out.offset;
    }
    if (!all) {
        if (0 != mine) {
            drop(call);
        }
        return false;
    }
    const gpuhier_known_call_t *entry = call->slices.known;
    for (int i = 0; i < team->group_size; ++i) {
        call->slices.member[i].in += entry->base[i][0];
        call->slices.member[i].out += entry->base[i][1];
    }
    call->slices.member[team->index].in = call->in;
    call->slices.member[team->index].out = call->out;
    return true;
}

bool gpuhier_known_plan(gpuhier_call_t *call)
{
    const gpuhier_known_call_t *entry = call->slices.known;
    if (call->count != entry->plan.count || call->elem_bytes != entry->plan.elem_bytes
        || call->team->limits.slice_bytes_max != entry->longest || NULL != entry->plan.list
        || gpuhier_call_part(call) != entry->plan.row
        || (NULL != entry->plan.row && call->root_group != entry->plan.root_group)) {
        return false;
    }
    call->slices.plan = entry->plan;
    return true;
}

void gpuhier_known_plan_keep(const gpuhier_call_t *call)
{
    call->slices.known->plan = call->slices.plan;
    call->slices.known->longest = call->team->limits.slice_bytes_max;
}

void gpuhier_known_add(const gpuhier_call_t *call)
{
    gpuhier_team_t *team = call->team;
    const gpuhier_arrival_t *arrival = &gpuhier_call_my_slot(call)->arrival;
    if (NULL == team->known && NULL == (team->known = calloc(1, sizeof(*team->known)))) {
        return; /* this rank will not name this call, so the round takes place */
    }
    gpuhier_known_call_t *entry = &team->known->call[++team->known->newest % KNOWN_MAX];
    entry->sequence = call->sequence;
    entry->plan.count = 0;
    entry->epoch = gpuhier_ipc_epoch();
    entry->in = arrival->in;
    entry->out = arrival->out;
    for (int i = 0; i < team->group_size; ++i) {
        const gpuhier_member_t *member = &call->slices.member[i];
        const gpuhier_arrival_t *theirs = &gpuhier_call_slot(call, i)->arrival;
        entry->pins[i][0] = member->pins[1];
        entry->pins[i][1] = member->pins[1] != member->pins[2] ? member->pins[2] : NULL;
        entry->base[i][0] = member->in - theirs->in.offset;
        entry->base[i][1] = member->out - theirs->out.offset;
    }
}

void gpuhier_known_leave(gpuhier_team_t *team)
{
    free(team->known);
    team->known = NULL;
}
