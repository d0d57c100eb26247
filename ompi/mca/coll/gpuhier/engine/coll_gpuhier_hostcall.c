/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the host all-reduce of calls that the ranks voted down. It is simple rather than fast: it runs only when a rank
 * could not run the call on its GPU. Called by the engine.
 */
#include "ompi_config.h"

#include <stdlib.h>

#include "engine/coll_gpuhier_call.h"
#include "engine/coll_gpuhier_host_reduce.h"
#include "engine/coll_gpuhier_hostcall.h"
#include "host/coll_gpuhier_staging.h"
#include "plan/coll_gpuhier_tree.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/mca/coll/base/coll_tags.h"
#include "ompi/mca/pml/pml.h"
#include "ompi/request/request.h"
#include "opal/sys/atomic.h"

int gpuhier_hostcall_tag(struct ompi_communicator_t *comm)
{
    int32_t seen = comm->c_nbc_tag, tag;
    do {
        tag = seen - 1 < MCA_COLL_BASE_TAG_NONBLOCKING_END ? MCA_COLL_BASE_TAG_NONBLOCKING_BASE : seen;
    } while (!OPAL_ATOMIC_COMPARE_EXCHANGE_STRONG_32(&comm->c_nbc_tag, &seen, tag - 1));
    return tag;
}

static size_t bytes_of(const gpuhier_call_t *call)
{
    return call->count * call->elem_bytes;
}

/* Copies between one of the user's buffers and the call's host memory. */
static int user_copy(const gpuhier_call_t *call, CUdeviceptr user, const gpuhier_buffer_t *place, bool to_host)
{
    char *address = (char *) (uintptr_t) user, *host = call->host.data;
    if (!gpuhier_buffer_on_device(place)) {
        return OMPI_SUCCESS
                       == ompi_datatype_copy_content_same_ddt(call->dtype, call->count, to_host ? host : address,
                                                              to_host ? address : host)
                   ? OMPI_SUCCESS
                   : OMPI_ERROR;
    }
    gpuhier_staging_t staging;
    (void) gpuhier_staging_inspect(&staging, address, call->count, call->dtype);
    staging.place = *place; /* as it was when the call was posted */
    staging.host = host;
    return to_host ? gpuhier_staging_read(&staging) : gpuhier_staging_write(&staging);
}

void gpuhier_hostcall_begin(gpuhier_call_t *call)
{
    gpuhier_hostcall_t *host = &call->host;
    host->data = calloc(1, bytes_of(call)); /* padding is sent too */
    host->heard_data = malloc(bytes_of(call));
    host->verdicts = calloc(1, sizeof(*host->verdicts));
    if (NULL != host->verdicts) {
        host->verdicts->mine = NULL == host->data || NULL == host->heard_data
                               || OMPI_SUCCESS != user_copy(call, call->in, &call->from, true);
    }
}

static int message_post(gpuhier_call_t *call, gpuhier_tree_move_t move, int peer)
{
    gpuhier_hostcall_t *host = &call->host;
    const size_t bytes = host->on_data ? bytes_of(call) : sizeof(host->verdicts->mine);
    void *mine = host->on_data ? (void *) host->data : &host->verdicts->mine;
    void *heard = host->on_data ? (void *) host->heard_data : &host->verdicts->heard;
    host->receiving = GPUHIER_TREE_FROM_CHILD == move;
    if (host->receiving || GPUHIER_TREE_FROM_PARENT == move) {
        return MCA_PML_CALL(
            irecv(host->receiving ? heard : mine, bytes, MPI_BYTE, peer, call->tag, call->team->comm, &host->message));
    }
    return MCA_PML_CALL(
        isend(mine, bytes, MPI_BYTE, peer, call->tag, MCA_PML_BASE_SEND_STANDARD, call->team->comm, &host->message));
}

/* mine = a child's op mine. All operations that have kernels are commutative. MPI_Reduce_local would not do: it needs
 * MPI_COMM_SELF, which a program with nothing but sessions lacks, and Open MPI 4.1 does some integers wrong. */
static void reduce(gpuhier_call_t *call)
{
    gpuhier_hostcall_t *host = &call->host;
    if (host->on_data) {
        const void *from[] = {host->heard_data, host->data};
        gpuhier_host_reduce(call->kernel, host->data, from, 2, call->count);
    } else {
        host->verdicts->mine |= host->verdicts->heard;
    }
}

/* Has the message in flight, if any, ended? 1 if so, 0 if not, < 0 for an error. */
static int message_done(gpuhier_call_t *call)
{
    gpuhier_hostcall_t *host = &call->host;
    if (NULL == host->message) {
        return 1;
    }
    if (!REQUEST_COMPLETE(host->message)) {
        return 0;
    }
    int rc = MPI_SUCCESS == host->message->req_status.MPI_ERROR ? OMPI_SUCCESS : OMPI_ERR_UNREACH;
    (void) ompi_request_free(&host->message);
    host->message = NULL;
    if (OMPI_SUCCESS == rc && host->receiving) {
        reduce(call);
    }
    return OMPI_SUCCESS != rc ? rc : 1;
}

int gpuhier_hostcall_step(gpuhier_call_t *call, bool *done_p, int *status_p)
{
    gpuhier_hostcall_t *host = &call->host;
    const gpuhier_team_t *team = call->team;
    int events = 0;
    *done_p = false;
    if (NULL == host->verdicts) {
        return OMPI_ERR_OUT_OF_RESOURCE; /* the call fails like any other, and the other ranks see it */
    }
    for (;; ++events) {
        gpuhier_tree_move_t move;
        int peer, rc = message_done(call);
        if (rc <= 0) {
            return 0 == rc ? events : rc;
        }
        if (gpuhier_tree_move(team->rank, team->nranks, host->move, &move, &peer)) {
            ++host->move;
            rc = message_post(call, move, peer);
            if (OMPI_SUCCESS != rc) {
                return rc;
            }
            continue;
        }
        if (0 != host->verdicts->mine || host->on_data) {
            break;
        }
        host->on_data = true;
        host->move = 0;
    }
    *status_p = 0 != host->verdicts->mine ? OMPI_ERROR : user_copy(call, call->out, &call->to, false);
    *done_p = true;
    return events + 1;
}

void gpuhier_hostcall_end(gpuhier_call_t *call)
{
    gpuhier_hostcall_t *host = &call->host;
    if (NULL == host->message) {
        free(host->data);
        free(host->heard_data);
        free(host->verdicts);
    }
    host->data = host->heard_data = NULL;
    host->verdicts = NULL;
}
