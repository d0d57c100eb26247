/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns what a rank and its partner do in a step of an exchange over a link or through a relay; see the header. Does not
 * know which chunks there are (plan/schedule), nor what is done with them (exchange), nor whether links or a relay are
 * used (team/setup_links). Called by the exchange.
 *
 * The receiver copies, and the sender does not write into the receiver's memory: memory that a failed call has given
 * back may by then belong to another call, and only reading it does no harm. What is read then is worthless, and the
 * receiver's call must not succeed with it. So the sender keeps a chunk as it is until the receiver has taken it or has
 * given up.
 *
 * The copy into the relay takes the stream of OUT, so that it does not queue behind those out of the relay. A lane of
 * the relay has a buffer for each of the lane's shard buffers, and a chunk lies at the same offset in both. The ranges
 * of pieces do not overlap, so a chunk stays in the relay until it has been taken.
 */
#include "ompi_config.h"

#include "base/coll_gpuhier_counters.h"
#include "engine/coll_gpuhier_link.h"
#include "team/coll_gpuhier_partners.h"

int gpuhier_link_init(gpuhier_link_t *link)
{
    link->taker = -1;
    int rc = GPUHIER_CU(cuEventCreate, &link->copied, CU_EVENT_DISABLE_TIMING);
    return OMPI_SUCCESS != rc ? rc : GPUHIER_CU(cuEventCreate, &link->put, CU_EVENT_DISABLE_TIMING);
}

void gpuhier_link_fini(gpuhier_link_t *link, bool context_is_there)
{
    if (NULL != link->copied && context_is_there) {
        (void) gpuhier_cu.cuEventDestroy(link->copied);
    }
    if (NULL != link->put && context_is_there) {
        (void) gpuhier_cu.cuEventDestroy(link->put);
    }
}

void gpuhier_link_clear(gpuhier_link_t *link)
{
    link->taker = -1;
    link->puts = false;
    link->phase = GPUHIER_LINK_IDLE;
    link->told.state = link->over.state = link->heard.state = link->thanked.state = GPUHIER_NET_OP_DONE;
}

/* Copies a chunk, and records the event behind that. A kernel copies from host memory to host memory, since the driver
 * would make such a copy itself, within the call that asks for it. */
static int chunk_copy(const gpuhier_call_t *call, CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream,
                      CUevent event)
{
    gpuhier_lane_t *lane = call->lane;
    int rc;
    if (call->team->has_relay && !gpuhier_lane_exchange_on_device(&lane->exchange)) {
        rc = gpuhier_reduce_copy(&lane->device->reduce, to, from, bytes, stream);
    } else {
        rc = gpuhier_cuda_error(gpuhier_cu.cuMemcpyAsync(to, from, bytes, stream), "cuMemcpyAsync of a chunk");
    }
    return OMPI_SUCCESS != rc ? rc : GPUHIER_CU(cuEventRecord, event, stream);
}

static int tell(const gpuhier_call_t *call, gpuhier_link_t *link)
{
    return gpuhier_net_send(call->team->peers[link->taker], link->rail, link->name, &link->mine, sizeof(link->mine),
                            false, &link->told);
}

/* Starts the copy of a chunk into this rank's lane of the relay. */
static int put(const gpuhier_call_t *call, gpuhier_link_t *link, int buffer, size_t offset, size_t bytes)
{
    const gpuhier_team_t *team = call->team;
    const gpuhier_hostmem_t *relay = &team->relay;
    const size_t place = gpuhier_hostmem_place(relay, buffer) + offset;
    link->mine = (gpuhier_memref_t){
        .process = 1 + (uint64_t) team->segment.place, .bytes = relay->lane_bytes, .offset = (uint64_t) place};
    link->puts = true;
    return chunk_copy(call, gpuhier_hostmem_lane(relay, team->segment.place) + place,
                      (CUdeviceptr) (uintptr_t) call->lane->exchange.now->shard[buffer] + offset, bytes,
                      call->lane->stream[GPUHIER_STAGE_OUT], link->put);
}

int gpuhier_link_give(const gpuhier_call_t *call, gpuhier_link_t *link, int rank, int rail, uint64_t name, int buffer,
                      size_t offset, size_t bytes)
{
    link->rail = rail;
    link->name = name;
    link->taker = rank; /* set first: if a later post fails, the partner must still answer the first, or give up */
    int rc = gpuhier_net_recv(call->team->peers[rank], rail, gpuhier_taken_tag(name), NULL, 0, false, &link->over);
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    if (call->team->has_relay) {
        return put(call, link, buffer, offset, bytes);
    }
    link->mine = call->lane->exchange.now->ref[buffer];
    link->mine.offset += offset;
    return tell(call, link);
}

int gpuhier_link_take(const gpuhier_call_t *call, gpuhier_link_t *link, int rank, int rail, uint64_t name, void *into,
                      size_t bytes)
{
    link->giver = rank;
    link->rail = rail;
    link->name = name;
    link->into = (CUdeviceptr) (uintptr_t) into;
    link->bytes = bytes;
    link->phase = GPUHIER_LINK_HEARS;
    return gpuhier_net_recv(call->team->peers[rank], rail, name, &link->theirs, sizeof(link->theirs), false,
                            &link->heard);
}

/* Finds the address of the partner's chunk. What a peer sends is checked before use. */
static int chunk_find(const gpuhier_call_t *call, gpuhier_link_t *link, CUdeviceptr *from_p)
{
    const gpuhier_team_t *team = call->team;
    const gpuhier_memref_t *at = &link->theirs;
    if (sizeof(*at) != link->heard.bytes || team->linked[link->giver] != at->process || at->offset > at->bytes
        || link->bytes > at->bytes - at->offset) {
        return OMPI_ERR_BAD_PARAM;
    }
    if (!team->has_relay) {
        return gpuhier_map(at, true, &link->mapping, from_p);
    }
    *from_p = gpuhier_hostmem_lane(&team->relay, (int) at->process - 1) + at->offset;
    return at->bytes == team->relay.lane_bytes ? OMPI_SUCCESS : OMPI_ERR_BAD_PARAM;
}

/* The word is there: starts the copy. */
static int copy(const gpuhier_call_t *call, gpuhier_link_t *link)
{
    CUdeviceptr from = 0;
    int rc = chunk_find(call, link, &from);
    rc = OMPI_SUCCESS != rc ? rc
                            : chunk_copy(call, link->into, from, link->bytes,
                                         call->lane->stream[GPUHIER_STAGE_EXCHANGE], link->copied);
    if (OMPI_SUCCESS != rc) {
        gpuhier_unmap(link->mapping); /* a copy that was started ends before the stream counts as idle */
        link->mapping = NULL;
        return rc;
    }
    link->phase = GPUHIER_LINK_COPIES;
    return OMPI_SUCCESS;
}

/* The copy has ended: tells the partner that its chunk has been taken. */
static int thank(const gpuhier_call_t *call, gpuhier_link_t *link)
{
    gpuhier_unmap(link->mapping);
    link->mapping = NULL;
    link->phase = GPUHIER_LINK_IDLE;
    gpuhier_count(&gpuhier_counters.link_bytes, link->bytes);
    return gpuhier_net_send(call->team->peers[link->giver], link->rail, gpuhier_taken_tag(link->name), NULL, 0, false,
                            &link->thanked);
}

/* Has the copy ended? Returns 1 if so, 0 if not, < 0 for an error. */
static int has_ended(CUevent event)
{
    const CUresult result = gpuhier_cu.cuEventQuery(event);
    const int rc = CUDA_ERROR_NOT_READY == result ? OMPI_SUCCESS : gpuhier_cuda_error(result, "copy of a chunk");
    return OMPI_SUCCESS != rc ? rc : CUDA_SUCCESS == result;
}

int gpuhier_link_step(const gpuhier_call_t *call, gpuhier_link_t *link)
{
    int events = 0, rc = link->puts ? has_ended(link->put) : 0;
    if (rc > 0) {
        link->puts = false;
        rc = tell(call, link);
        ++events;
    }
    if (rc >= 0 && GPUHIER_LINK_HEARS == link->phase && GPUHIER_NET_OP_DONE == link->heard.state) {
        rc = copy(call, link);
        ++events;
    }
    if (rc >= 0 && GPUHIER_LINK_COPIES == link->phase) {
        rc = has_ended(link->copied);
        if (rc > 0) {
            rc = thank(call, link);
            ++events;
        }
    }
    return rc < 0 ? rc : events;
}

int gpuhier_link_done(const gpuhier_link_t *link)
{
    const gpuhier_net_op_t *const ops[] = {&link->heard, &link->thanked, &link->over, &link->told};
    bool done = GPUHIER_LINK_IDLE == link->phase && !link->puts;
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); ++i) {
        if (GPUHIER_NET_OP_ERROR == ops[i]->state) {
            return ops[i]->status;
        }
        done = done && !gpuhier_net_op_is_pending(ops[i]);
    }
    return done;
}

bool gpuhier_link_in_use(gpuhier_link_t *link, const struct gpuhier_partners *partners, bool context_is_there)
{
    if (context_is_there
        && ((link->puts && CUDA_ERROR_NOT_READY == gpuhier_cu.cuEventQuery(link->put))
            || (GPUHIER_LINK_COPIES == link->phase && CUDA_ERROR_NOT_READY == gpuhier_cu.cuEventQuery(link->copied)))) {
        return true;
    }
    gpuhier_unmap(link->mapping);
    link->mapping = NULL;
    if (link->taker >= 0 && gpuhier_net_op_is_pending(&link->over)
        && gpuhier_partners_rank_is_over(partners, link->taker)) {
        gpuhier_net_cancel(&link->over);
    }
    return gpuhier_net_op_is_pending(&link->heard) || gpuhier_net_op_is_pending(&link->thanked)
           || gpuhier_net_op_is_pending(&link->told) || gpuhier_net_op_is_pending(&link->over);
}
