/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the decision which of the user's buffers the peers may map, and what a team remembers of calls whose buffers are
 * mapped. That holds no pins: between calls mappings may be closed, and gpuhier_ipc_epoch() changes when one is.
 */
#include "ompi_config.h"

#include <stdlib.h>

#include "base/coll_gpuhier_params.h"
#include "engine/coll_gpuhier_arrival.h"
#include "opal/util/output.h"

/* Does the message lie in one allocation? Memory of cuMemMap may consist of several, side by side. */
static bool lies_in(CUdeviceptr address, uint64_t bytes, const gpuhier_memref_t *ref)
{
    const uint64_t offset = address - ref->base;
    return offset < ref->bytes && bytes <= ref->bytes - offset;
}

/* Why peers cannot map a buffer, whatever the settings are. */
typedef enum unmappable { MANAGED, OTHER, POOL, CLOSED, CHUNKS, UNMAPPABLE_COUNT } unmappable_t;

/* Prints a reason once per process. */
static void tell_unmappable(unmappable_t why)
{
    static const char *const texts[] = {[MANAGED] = "managed memory",
                                        [OTHER] = "memory of another GPU or context",
                                        [POOL] = "memory of a pool, such as that of cudaMallocAsync",
                                        [CLOSED] =
                                            "memory of cuMemCreate that may not be exported as a POSIX file descriptor",
                                        [CHUNKS] = "a message in several chunks of cuMemCreate"};
    static bool told[UNMAPPABLE_COUNT];
    if (!told[why]) {
        told[why] = true;
        opal_output_verbose(5, gpuhier_output(), "coll:gpuhier: peers see a copy of a buffer, since it is %s",
                            texts[why]);
    }
}

/* Prints why peers cannot map a buffer that gpuhier_export() has refused, or that the team's device does not own. */
static void tell_refused(const gpuhier_buffer_t *buffer, bool owned)
{
    if (GPUHIER_BUFFER_MANAGED == buffer->kind) {
        tell_unmappable(MANAGED);
    } else if (!owned) {
        tell_unmappable(OTHER);
    } else if (buffer->pooled) {
        tell_unmappable(POOL);
    } else if (!buffer->ipc_capable && !buffer->shareable) {
        tell_unmappable(CLOSED);
    }
}

/*
 * May the peers map this buffer? A rank alone in its group needs no mapping. With ipc=auto the program must have used
 * the buffer several times, since mapping costs more than a copy. Adds to *bytes_p what the peers would map: the whole
 * allocation, which may be gigabytes.
 */
static bool direct_ref(const gpuhier_call_t *call, const gpuhier_buffer_t *buffer, CUdeviceptr address, uint64_t length,
                       gpuhier_memref_t *ref_p, size_t *bytes_p)
{
    const gpuhier_device_t *device = call->team->device;
    if (!gpuhier_device_owns(device, buffer)) {
        if (gpuhier_buffer_on_device(buffer) && call->team->group_size > 1) {
            tell_refused(buffer, false);
        }
        return false;
    }
    if (1 == call->team->group_size) {
        return true;
    }
    unsigned uses = 0;
    if (GPUHIER_IPC_SCRATCH == gpuhier_params.ipc) {
        return false;
    }
    if (OMPI_SUCCESS != gpuhier_export((const void *) (uintptr_t) address, buffer, ref_p, &uses)) {
        tell_refused(buffer, true);
        return false;
    }
    if (!lies_in(address, length, ref_p)) {
        tell_unmappable(CHUNKS);
        return false;
    }
    *bytes_p += ref_p->bytes;
    return GPUHIER_IPC_USER == gpuhier_params.ipc || uses > (unsigned) gpuhier_params.ipc_uses;
}

/*
 * May the peers map both buffers? Each of their allocations counts one use, whether or not the other can be mapped.
 * With ipc=auto they may do so only if every peer can keep that much mapped of each of its peers. Otherwise each call
 * would open all of it again.
 */
static bool direct_refs(const gpuhier_call_t *call, gpuhier_arrival_t *arrival)
{
    size_t bytes = 0;
    bool direct = direct_ref(call, &call->from, call->in, call->in_bytes, &arrival->in, &bytes);
    if (lies_in(call->out, call->out_bytes, &arrival->in)) { /* the same allocation */
        arrival->out = arrival->in;
        arrival->out.offset = call->out - arrival->in.base;
    } else {
        direct = direct_ref(call, &call->to, call->out, call->out_bytes, &arrival->out, &bytes) && direct;
    }
    const size_t peers = (size_t) call->team->group_size - 1;
    return direct
           && (GPUHIER_IPC_USER == gpuhier_params.ipc || peers * bytes <= gpuhier_device_budget(call->team->device));
}

bool gpuhier_offer_overwrites(const gpuhier_call_t *call)
{
    return call->in == call->out && call->row->has_blocks && GPUHIER_RANKS_OWNER != call->row->from
           && call->in_bytes > 0 && call->out_bytes > 0;
}

void gpuhier_offer_end(const gpuhier_call_t *call, bool all)
{
    const gpuhier_team_t *team = call->team;
    const gpuhier_arrival_t *arrival = &gpuhier_call_my_slot(call)->arrival;
    for (int i = 0; i < team->group_size && !all; ++i) {
        if (0 != (gpuhier_call_slot(call, i)->unmapped >> team->index & 1)) {
            gpuhier_export_unmapped(&arrival->in, &team->scratch[i]);
            gpuhier_export_unmapped(&arrival->out, &team->scratch[i]);
        }
    }
    gpuhier_export_tried(&arrival->in, all);
    if (arrival->in.base != arrival->out.base) {
        gpuhier_export_tried(&arrival->out, all);
    }
}

/* Finds out which allocation each buffer lies in, since an address may have had other memory before. */
static void identify(gpuhier_call_t *call)
{
    if (GPUHIER_IPC_SCRATCH == gpuhier_params.ipc || 1 == call->team->group_size) {
        return;
    }
    gpuhier_buffer_identify((const void *) (uintptr_t) call->in, &call->from);
    if (call->in == call->out) {
        call->to = call->from;
    } else {
        gpuhier_buffer_identify((const void *) (uintptr_t) call->out, &call->to);
    }
}

/* -- calls whose buffers are mapped -------------------------------------------------------------- */

#define KNOWN_MAX 8 /* calls; programs use a few buffers in turn */

struct gpuhier_known_call {
    uint64_t sequence;                             /* 0: none */
    uint64_t epoch;                                /* the mappings below are valid while it lasts */
    gpuhier_memref_t in, out;                      /* this rank's buffers */
    gpuhier_plan_t plan;                           /* of its last use.. */
    int levels;                                    /* ..which was a call in so many; 1: flat */
    uint64_t longest;                              /* the team's slice_bytes_max when the plan was made */
    gpuhier_mapping_t *pins[GPUHIER_GROUP_MAX][2]; /* of each member's in, and of its out where that is another one */
    CUdeviceptr base[GPUHIER_GROUP_MAX][2];        /* where in and out of each member are mapped; not for this rank */
};

typedef struct gpuhier_known {
    unsigned newest;
    gpuhier_known_call_t call[KNOWN_MAX];
} gpuhier_known_t;

static gpuhier_known_call_t *find(const gpuhier_call_t *call)
{
    gpuhier_known_t *known = call->team->known;
    for (unsigned i = 0; NULL != known && i < KNOWN_MAX; ++i) {
        gpuhier_known_call_t *entry = &known->call[(known->newest - i) % KNOWN_MAX];
        if (0 != entry->sequence && gpuhier_ipc_epoch() == entry->epoch && call->from.id == entry->in.id
            && call->to.id == entry->out.id && lies_in(call->in, call->in_bytes, &entry->in)
            && lies_in(call->out, call->out_bytes, &entry->out)) {
            return entry;
        }
    }
    return NULL;
}

/* Fills the record's references and returns true if a call on the same allocations is known here; its mappings are
 * then pinned. The call's members have no pins. */
static bool known_take(gpuhier_call_t *call, gpuhier_arrival_t *arrival)
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

void gpuhier_offer(gpuhier_call_t *call, gpuhier_arrival_t *arrival)
{
    const gpuhier_team_t *team = call->team;
    identify(call);
    if (!gpuhier_offer_overwrites(call) && !known_take(call, arrival)) {
        arrival->direct = direct_refs(call, arrival);
    }
    if (arrival->direct) { /* a peer may have closed its mapping since the last call */
        gpuhier_export_send(&arrival->in, team->scratch, team->group_size);
        gpuhier_export_send(&arrival->out, team->scratch, team->group_size);
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
        || call->slices.levels != entry->levels || call->team->limits.slice_bytes_max != entry->longest
        || NULL != entry->plan.list || gpuhier_call_part(call) != entry->plan.row
        || (NULL != entry->plan.row && call->root_group != entry->plan.root_group)) {
        return false;
    }
    call->slices.plan = entry->plan;
    return true;
}

void gpuhier_known_plan_keep(const gpuhier_call_t *call)
{
    call->slices.known->plan = call->slices.plan;
    call->slices.known->levels = call->slices.levels;
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
