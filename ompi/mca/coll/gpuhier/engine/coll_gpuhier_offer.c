/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "ompi_config.h"

#include "base/coll_gpuhier_params.h"
#include "engine/coll_gpuhier_call.h"
#include "engine/coll_gpuhier_offer.h"
#include "opal/util/output.h"

/* Does the message lie in one allocation? Memory of cuMemMap may consist of several, side by side. */
static bool lies_in(CUdeviceptr address, uint64_t bytes, const gpuhier_memref_t *ref)
{
    const uint64_t offset = address - ref->base;
    return offset < ref->bytes && bytes <= ref->bytes - offset;
}

/* Why peers cannot map a buffer, whatever the settings are. */
#define UNMAPPABLE(X)                                                                      \
    X(MANAGED, "managed memory")                                                           \
    X(OTHER, "memory of another GPU or context")                                           \
    X(POOL, "memory of a pool, such as that of cudaMallocAsync")                           \
    X(CLOSED, "memory of cuMemCreate that may not be exported as a POSIX file descriptor") \
    X(CHUNKS, "a message in several chunks of cuMemCreate")

#define UNMAPPABLE_NAME(name, text) UNMAPPABLE_##name,
typedef enum unmappable { UNMAPPABLE(UNMAPPABLE_NAME) UNMAPPABLE_COUNT } unmappable_t;
#undef UNMAPPABLE_NAME

/* Prints a reason once per process. */
static void tell_unmappable(unmappable_t why)
{
#define UNMAPPABLE_TEXT(name, text) text,
    static const char *const texts[] = {UNMAPPABLE(UNMAPPABLE_TEXT)};
#undef UNMAPPABLE_TEXT
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
        tell_unmappable(UNMAPPABLE_MANAGED);
    } else if (!owned) {
        tell_unmappable(UNMAPPABLE_OTHER);
    } else if (buffer->pooled) {
        tell_unmappable(UNMAPPABLE_POOL);
    } else if (!buffer->ipc_capable && !buffer->shareable) {
        tell_unmappable(UNMAPPABLE_CLOSED);
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
        tell_unmappable(UNMAPPABLE_CHUNKS);
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

void gpuhier_offer_make(const gpuhier_call_t *call, gpuhier_arrival_t *arrival)
{
    arrival->direct = direct_refs(call, arrival);
}

void gpuhier_offer_send(const gpuhier_call_t *call, const gpuhier_arrival_t *arrival)
{
    const gpuhier_team_t *team = call->team;
    if (arrival->direct) {
        gpuhier_export_send(&arrival->in, team->scratch, team->group_size);
        gpuhier_export_send(&arrival->out, team->scratch, team->group_size);
    }
}

void gpuhier_offer_end(const gpuhier_call_t *call, bool all)
{
    const gpuhier_team_t *team = call->team;
    const gpuhier_arrival_t *arrival = &gpuhier_call_my_slot(call)->arrival;
    if (all) {
        gpuhier_export_mapped(&arrival->in);
        gpuhier_export_mapped(&arrival->out);
        return;
    }
    for (int i = 0; i < team->group_size; ++i) {
        if (0 != (gpuhier_call_slot(call, i)->unmapped >> team->index & 1)) {
            gpuhier_export_unmapped(&arrival->in, &team->scratch[i]);
            gpuhier_export_unmapped(&arrival->out, &team->scratch[i]);
        }
    }
    gpuhier_export_failed(&arrival->in);
    if (arrival->in.base != arrival->out.base) {
        gpuhier_export_failed(&arrival->out);
    }
}

void gpuhier_offer_identify(gpuhier_call_t *call)
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
