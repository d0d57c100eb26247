/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns what a rank and its partner do in a step of an exchange over a link; see the header. Does not know which chunks
 * there are (plan/schedule), nor what is done with them (exchange), nor whether links are used (team/setup_links).
 * Called by the exchange.
 *
 * The receiver copies, and the sender does not write: memory that a failed call has given back may by then belong to
 * another call, and only reading it does no harm. What is read then is worthless, and the receiver's call must not
 * succeed with it. So the sender keeps a chunk as it is until the receiver has taken it or has given up.
 */
#include "ompi_config.h"

#include <string.h>

#include "base/coll_gpuhier_counters.h"
#include "engine/coll_gpuhier_link.h"
#include "team/coll_gpuhier_partners.h"
#include "team/coll_gpuhier_tags.h"

int gpuhier_link_init(gpuhier_link_t *link)
{
    link->taker = -1;
    return gpuhier_cuda_error(gpuhier_cu.cuEventCreate(&link->copied, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
}

void gpuhier_link_fini(gpuhier_link_t *link, bool context_is_there)
{
    if (NULL != link->copied && context_is_there) {
        (void) gpuhier_cu.cuEventDestroy(link->copied);
    }
}

void gpuhier_link_clear(gpuhier_link_t *link)
{
    link->taker = -1;
    link->phase = GPUHIER_LINK_IDLE;
    link->told.state = link->over.state = link->heard.state = link->thanked.state = GPUHIER_NET_OP_DONE;
}

int gpuhier_link_give(const gpuhier_call_t *call, gpuhier_link_t *link, int rank, int rail, uint64_t name, int buffer,
                      size_t offset)
{
    gpuhier_net_peer_t *peer = call->team->peers[rank];
    link->mine = call->lane->exchange.now->ref[buffer];
    link->mine.offset += offset;
    link->taker = rank; /* a post that fails leaves one that a partner must answer or give up */
    int rc = gpuhier_net_recv(peer, rail, gpuhier_taken_tag(name), NULL, 0, false, &link->over);
    rc = OMPI_SUCCESS != rc ? rc
                            : gpuhier_net_send(peer, rail, name, &link->mine, sizeof(link->mine), false, &link->told);
    return rc;
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

/* The word is there: starts the copy. */
static int copy(const gpuhier_call_t *call, gpuhier_link_t *link)
{
    const gpuhier_memref_t *at = &link->theirs;
    CUstream stream = call->lane->stream[GPUHIER_STAGE_EXCHANGE];
    CUdeviceptr from;
    /* What a peer sends is checked before use. */
    if (sizeof(*at) != link->heard.bytes || call->team->linked[link->giver] != at->process || at->offset > at->bytes
        || link->bytes > at->bytes - at->offset) {
        return OMPI_ERR_BAD_PARAM;
    }
    int rc = gpuhier_map(at, true, &link->mapping, &from);
    rc = OMPI_SUCCESS != rc ? rc
                            : gpuhier_cuda_error(gpuhier_cu.cuMemcpyAsync(link->into, from, link->bytes, stream),
                                                 "cuMemcpyAsync from a partner");
    rc = OMPI_SUCCESS != rc ? rc : gpuhier_cuda_error(gpuhier_cu.cuEventRecord(link->copied, stream), "cuEventRecord");
    if (OMPI_SUCCESS != rc) {
        gpuhier_unmap(link->mapping); /* a copy that was started ends before the stream counts as idle */
        link->mapping = NULL;
        return rc;
    }
    link->phase = GPUHIER_LINK_COPIES;
    return OMPI_SUCCESS;
}

/* The copy has ended. */
static int thank(const gpuhier_call_t *call, gpuhier_link_t *link)
{
    gpuhier_unmap(link->mapping);
    link->mapping = NULL;
    link->phase = GPUHIER_LINK_IDLE;
    gpuhier_count(&gpuhier_counters.link_bytes, link->bytes);
    return gpuhier_net_send(call->team->peers[link->giver], link->rail, gpuhier_taken_tag(link->name), NULL, 0, false,
                            &link->thanked);
}

int gpuhier_link_step(const gpuhier_call_t *call, gpuhier_link_t *link)
{
    int events = 0;
    if (GPUHIER_LINK_HEARS == link->phase && GPUHIER_NET_OP_DONE == link->heard.state) {
        int rc = copy(call, link);
        if (OMPI_SUCCESS != rc) {
            return rc;
        }
        ++events;
    }
    if (GPUHIER_LINK_COPIES == link->phase) {
        const CUresult result = gpuhier_cu.cuEventQuery(link->copied);
        if (CUDA_ERROR_NOT_READY != result) {
            int rc = gpuhier_cuda_error(result, "copy from a partner");
            rc = OMPI_SUCCESS != rc ? rc : thank(call, link);
            if (OMPI_SUCCESS != rc) {
                return rc;
            }
            ++events;
        }
    }
    return events;
}

int gpuhier_link_done(const gpuhier_link_t *link)
{
    const gpuhier_net_op_t *const ops[] = {&link->heard, &link->thanked, &link->over, &link->told};
    bool done = GPUHIER_LINK_IDLE == link->phase;
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); ++i) {
        if (GPUHIER_NET_OP_ERROR == ops[i]->state) {
            return ops[i]->status;
        }
        done = done && !gpuhier_net_op_is_pending(ops[i]);
    }
    return done;
}

void gpuhier_link_cancel(gpuhier_link_t *link)
{
    gpuhier_net_cancel(&link->heard);
}

bool gpuhier_link_in_use(gpuhier_link_t *link, const struct gpuhier_partners *partners, bool context_is_there)
{
    if (NULL != link->mapping) {
        if (context_is_there && CUDA_ERROR_NOT_READY == gpuhier_cu.cuEventQuery(link->copied)) {
            return true;
        }
        gpuhier_unmap(link->mapping);
        link->mapping = NULL;
    }
    if (link->taker >= 0 && gpuhier_net_op_is_pending(&link->over)
        && gpuhier_partners_rank_is_over(partners, link->taker)) {
        gpuhier_net_cancel(&link->over);
    }
    return gpuhier_net_op_is_pending(&link->heard) || gpuhier_net_op_is_pending(&link->thanked)
           || gpuhier_net_op_is_pending(&link->told) || gpuhier_net_op_is_pending(&link->over);
}
