/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the host form of calls that the ranks voted down. It is simple rather than fast: it runs only when a rank
 * could not run the call on its GPU. Called by the engine.
 */
#include "ompi_config.h"

#include <stdlib.h>
#include <string.h>

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

/* Copies between one of the user's buffers, which has so many bytes, and the call's host memory. */
static int user_copy(const gpuhier_call_t *call, CUdeviceptr user, const gpuhier_buffer_t *place, size_t bytes,
                     char *host, bool to_host)
{
    char *address = (char *) (uintptr_t) user;
    const size_t count = bytes / call->elem_bytes;
    if (0 == count) {
        return OMPI_SUCCESS;
    }
    if (!gpuhier_buffer_on_device(place)) {
        return OMPI_SUCCESS
                       == ompi_datatype_copy_content_same_ddt(call->dtype, count, to_host ? host : address,
                                                              to_host ? address : host)
                   ? OMPI_SUCCESS
                   : OMPI_ERROR;
    }
    gpuhier_staging_t staging;
    gpuhier_staging_shape(&staging, address, count, call->dtype);
    staging.place = *place; /* as it was when the call was posted */
    staging.host = host;
    return gpuhier_staging_copy(&staging, to_host);
}

/* The same for the whole input or output, or for the blocks in its list, between which lies the program's own. */
static int blocks_copy(const gpuhier_call_t *call, bool is_input, char *host)
{
    const CUdeviceptr user = is_input ? call->in : call->out;
    const gpuhier_buffer_t *place = is_input ? &call->from : &call->to;
    const gpuhier_block_t *list = is_input ? call->given : call->taken;
    int rc = OMPI_SUCCESS;
    if (NULL == list) {
        return user_copy(call, user, place, is_input ? call->in_bytes : call->out_bytes, host, is_input);
    }
    for (int i = 0; i < call->team->nranks && OMPI_SUCCESS == rc; ++i) {
        const size_t at = list[i].begin * call->elem_bytes, bytes = list[i].length * call->elem_bytes;
        rc = user_copy(call, user + at, place, bytes, 0 == bytes ? NULL : host + at, is_input);
    }
    return rc;
}

/* A block in this rank's input or output, for a rank or of it. */
typedef struct piece {
    size_t at, bytes;
} piece_t;

static piece_t piece_find(const gpuhier_call_t *call, bool is_input, int rank)
{
    const gpuhier_ranks_t side = is_input ? call->row->from : call->row->to;
    const gpuhier_block_t *lengths = gpuhier_call_lengths(call, is_input), *list = is_input ? call->given : call->taken;
    const bool has_all = call->row->has_blocks && GPUHIER_RANKS_OWNER != side;
    const size_t block = has_all ? (size_t) rank : 0;
    return (piece_t){.at = NULL != list ? list[block].begin * call->elem_bytes : block * call->count * call->elem_bytes,
                     .bytes = NULL == lengths ? call->count * call->elem_bytes
                                              : lengths[has_all ? rank : call->team->rank].length * call->elem_bytes};
}

void gpuhier_hostcall_begin(gpuhier_call_t *call)
{
    gpuhier_hostcall_t *host = &call->host;
    const bool gives = gpuhier_collective_gives(call->row, call->root_rank == call->team->rank);
    const bool lacks_list = call->row->has_lists && NULL == gpuhier_call_lengths(call, true);
    host->data = calloc(1, call->in_bytes + 1);                                  /* padding is sent too */
    host->heard_data = malloc(call->count * call->elem_bytes + call->out_bytes); /* a block of either */
    const bool is_all_reduce = gpuhier_collective_is_all_to_all(call->row);
    host->result = is_all_reduce ? NULL : calloc(1, call->out_bytes + 1);
    host->verdicts = calloc(1, sizeof(*host->verdicts));
    if (NULL != host->verdicts) {
        host->verdicts->mine = lacks_list || NULL == host->data || NULL == host->heard_data
                               || (NULL == host->result && !is_all_reduce)
                               || (gives && OMPI_SUCCESS != blocks_copy(call, true, host->data));
    }
}

static int message_post(gpuhier_call_t *call, gpuhier_tree_move_t move, int peer)
{
    gpuhier_hostcall_t *host = &call->host;
    const size_t bytes = host->on_data ? call->count * call->elem_bytes : sizeof(host->verdicts->mine);
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

/* Has a message, if any is in flight, ended? 1 if so, 0 if not, < 0 for an error. */
static int request_done(struct ompi_request_t **request_p)
{
    if (NULL == *request_p) {
        return 1;
    }
    if (!REQUEST_COMPLETE(*request_p)) {
        return 0;
    }
    const int rc = MPI_SUCCESS == (*request_p)->req_status.MPI_ERROR ? 1 : OMPI_ERR_UNREACH;
    (void) ompi_request_free(request_p);
    *request_p = NULL;
    return rc;
}

/* The same for the message of a move along the tree, which is then reduced if it comes from a child. */
static int message_done(gpuhier_call_t *call)
{
    const bool is_new = NULL != call->host.message && call->host.receiving;
    const int rc = request_done(&call->host.message);
    if (rc > 0 && is_new) {
        reduce(call);
    }
    return rc;
}

/* -- the data round of a collective other than all-reduce ----------------------------------- */

/* Takes the block that has come from a peer. */
static void block_take(gpuhier_call_t *call, int peer, const void *block)
{
    gpuhier_hostcall_t *host = &call->host;
    const piece_t piece = piece_find(call, false, peer);
    char *at = host->result + piece.at;
    if (host->has_result && GPUHIER_RANKS_ALL == call->row->from) {
        const void *from[] = {at, block};
        gpuhier_host_reduce(call->kernel, at, from, 2, piece.bytes / call->elem_bytes);
    } else if (piece.bytes > 0) {
        memcpy(at, block, piece.bytes);
    }
    host->has_result = true;
}

/* Does a rank take a block of another one, which may be itself? */
static bool takes_from(const gpuhier_call_t *call, int rank, int peer)
{
    return gpuhier_collective_takes(call->row, rank == call->root_rank)
           && gpuhier_collective_gives(call->row, peer == call->root_rank);
}

/* Posts the step with the ranks at this distance: gives to one, and takes from the other. */
static int peers_post(gpuhier_call_t *call, int to, int from)
{
    gpuhier_hostcall_t *host = &call->host;
    struct ompi_communicator_t *comm = call->team->comm;
    const int me = call->team->rank;
    const piece_t given = piece_find(call, true, to), taken = piece_find(call, false, from);
    char *block = host->data + (given.bytes > 0 ? given.at : 0);
    int rc = OMPI_SUCCESS;
    if (to == me) {
        if (takes_from(call, me, me)) {
            block_take(call, me, block);
        }
        return OMPI_SUCCESS;
    }
    host->receiving = takes_from(call, me, from);
    if (host->receiving) {
        rc = MCA_PML_CALL(irecv(host->heard_data, taken.bytes, MPI_BYTE, from, call->tag, comm, &host->message));
    }
    if (OMPI_SUCCESS == rc && takes_from(call, to, me)) {
        rc = MCA_PML_CALL(
            isend(block, given.bytes, MPI_BYTE, to, call->tag, MCA_PML_BASE_SEND_STANDARD, comm, &host->sent));
    }
    return rc;
}

/* Returns 1 once all blocks have moved, 0 while messages are under way, < 0 for an error. */
static int blocks_step(gpuhier_call_t *call)
{
    gpuhier_hostcall_t *host = &call->host;
    const int me = call->team->rank, n = call->team->nranks;
    for (;;) {
        int rc = request_done(&host->sent);
        if (rc > 0) {
            rc = request_done(&host->message);
        }
        if (rc <= 0) {
            return rc;
        }
        if (host->receiving) {
            block_take(call, (me - host->move + 1 + n) % n, host->heard_data);
            host->receiving = false;
        }
        if (host->move == n) {
            return 1;
        }
        rc = peers_post(call, (me + host->move) % n, (me - host->move + n) % n);
        if (OMPI_SUCCESS != rc) {
            return rc;
        }
        ++host->move;
    }
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
        const bool by_blocks = host->on_data && NULL != host->result; /* on data, all ranks have their memory */
        gpuhier_tree_move_t move;
        int peer, rc = by_blocks ? blocks_step(call) : message_done(call);
        if (rc > 0 && by_blocks) {
            break;
        }
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
    const bool takes = gpuhier_collective_takes(call->row, call->root_rank == team->rank);
    *status_p = 0 != host->verdicts->mine ? OMPI_ERROR
                : !takes                  ? OMPI_SUCCESS
                                          : blocks_copy(call, false, NULL == host->result ? host->data : host->result);
    *done_p = true;
    return events + 1;
}

void gpuhier_hostcall_end(gpuhier_call_t *call)
{
    gpuhier_hostcall_t *host = &call->host;
    if (NULL == host->message && NULL == host->sent) {
        free(host->result);
        free(host->data);
        free(host->heard_data);
        free(host->verdicts);
    }
    host->data = host->heard_data = host->result = NULL;
    host->verdicts = NULL;
}
