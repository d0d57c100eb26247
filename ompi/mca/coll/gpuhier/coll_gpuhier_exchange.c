/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the exchange between groups: for each piece a walk through the steps
 * that the schedule gives, and the tags of all messages. Does not choose steps
 * (schedule) nor move bytes (net).
 *
 *            post           both sent and received          kernel done
 *   IDLE -> send, recv -> WIRE -----------------> REDUCE ----------------> next step
 *                           |    COPY, NONE, nothing received                  ^
 *                           +--------------------------------------------------+
 *
 * Tags. A receiver is sent one message per (call, slice, piece, step), so
 *     63..32 team id   31..28 call   27..20 slice   19..10 piece   9..0 step
 * each modulo its width tells apart what can be in flight at once: two calls,
 * four slices, and the pieces of one owner, which are neighbours.
 * The vote is piece 1023 of slice 255.
 */
#include "ompi_config.h"

#include <stdlib.h>
#include <string.h>

#include "coll_gpuhier_component.h"
#include "coll_gpuhier_exchange.h"
#include "coll_gpuhier_process.h"

typedef enum piece_phase { PIECE_IDLE, PIECE_WIRE, PIECE_REDUCE, PIECE_DONE } piece_phase_t;

typedef struct piece_state {
    piece_phase_t phase;
    int step;
    gpuhier_transfer_t transfer;
    gpuhier_net_op_t send, recv;
    CUevent reduced;
} piece_state_t;

/* [slices in flight][my pieces] */
typedef struct gpuhier_exchange {
    int npieces;
    piece_state_t pieces[];
} gpuhier_exchange_t;

#define VOTE_SLICE 255u
#define VOTE_PIECE 1023u

static uint64_t tag(const gpuhier_call_t *call, uint64_t slice, uint64_t piece, uint64_t step)
{
    return (uint64_t) call->team->id << 32 | (uint64_t) (call->sequence & 15u) << 28 | (slice & 255u) << 20 | (piece & 1023u) << 10
           | (step & 1023u);
}

static piece_state_t *state_of(const gpuhier_call_t *call, uint64_t slice, int piece)
{
    gpuhier_exchange_t *exchange = call->team->exchange;
    int buffer = gpuhier_plan_buffer(&call->plan, slice);
    return &exchange->pieces[buffer * exchange->npieces + piece - call->plan.first_piece];
}

int gpuhier_exchange_init(gpuhier_team_t *team)
{
    int npieces = gpuhier_shape_first_piece(&team->shape, team->index + 1, team->group_size)
                  - gpuhier_shape_first_piece(&team->shape, team->index, team->group_size);
    size_t states = (size_t) npieces * (size_t) team->limits.slice_buffers;
    gpuhier_exchange_t *exchange = calloc(1, sizeof(*exchange) + states * sizeof(piece_state_t));
    if (NULL == exchange) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    exchange->npieces = npieces;
    team->exchange = exchange;
    for (size_t i = 0; i < states; ++i) {
        int rc = gpuhier_cuda_error(gpuhier_cu.cuEventCreate(&exchange->pieces[i].reduced, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
        if (OMPI_SUCCESS != rc) {
            return rc; /* the team's destruction frees the rest */
        }
    }
    return OMPI_SUCCESS;
}

void gpuhier_exchange_fini(gpuhier_team_t *team)
{
    gpuhier_exchange_t *exchange = team->exchange;
    if (NULL == exchange) {
        return;
    }
    for (int i = 0; i < exchange->npieces * team->limits.slice_buffers; ++i) {
        if (NULL != exchange->pieces[i].reduced) {
            (void) gpuhier_cu.cuEventDestroy(exchange->pieces[i].reduced); /* an event needs no context to be current */
        }
    }
    free(exchange);
    team->exchange = NULL;
}

void gpuhier_exchange_begin(gpuhier_call_t *call, uint64_t slice)
{
    for (int i = 0; i < call->plan.npieces; ++i) {
        piece_state_t *state = state_of(call, slice, call->plan.first_piece + i);
        state->phase = PIECE_IDLE;
        state->step = 0;
    }
}

/* Place of an element range in an exchange buffer, which holds the slice's shard of mine from its first element on. */
static char *place(const gpuhier_call_t *call, uint64_t slice, void *const buffers[], gpuhier_range_t range)
{
    gpuhier_range_t shard = gpuhier_plan_shard(&call->plan, slice, call->plan.index);
    return (char *) buffers[gpuhier_plan_buffer(&call->plan, slice)] + (range.begin - shard.begin) * call->elem_bytes;
}

/*
 * The rail must be the same on both sides, which may have different indices and numbers of rails: it follows from the
 * piece, and from the slice, so that a rank with several rails uses them in turn.
 */
static int rail_of(const gpuhier_call_t *call, uint64_t slice, int piece)
{
    return gpuhier_shape_owner_index(&call->team->shape, piece, call->team->shape.max_group_size)
           + (int) (slice % GPUHIER_RAILS_MAX);
}

static int step_post(gpuhier_call_t *call, uint64_t slice, int piece, piece_state_t *state)
{
    gpuhier_team_t *team = call->team;
    gpuhier_lane_t *lane = call->lane;
    const gpuhier_transfer_t *t = &state->transfer;
    const uint64_t name = tag(call, slice, (uint64_t) piece, (uint64_t) state->step);
    int rc = OMPI_SUCCESS;
    state->send.state = state->recv.state = GPUHIER_NET_OP_DONE;
    if (t->recv_from >= 0) {
        void *const *into = GPUHIER_ACTION_COPY == t->action ? lane->shard : lane->recv;
        rc = gpuhier_net_recv(gpuhier_process_net(), team->peers[t->recv_from], rail_of(call, slice, piece), name,
                              place(call, slice, into, t->recv), gpuhier_range_length(t->recv) * call->elem_bytes,
                              lane->exchange_on_device, &state->recv);
    }
    if (OMPI_SUCCESS == rc && t->send_to >= 0) {
        rc = gpuhier_net_send(team->peers[t->send_to], rail_of(call, slice, piece), name, place(call, slice, lane->shard, t->send),
                              gpuhier_range_length(t->send) * call->elem_bytes, lane->exchange_on_device, &state->send);
    }
    return rc;
}

/* Launches shard = first op second on the received range. */
static int reduce_launch(gpuhier_call_t *call, uint64_t slice, piece_state_t *state)
{
    gpuhier_lane_t *lane = call->lane;
    const gpuhier_transfer_t *t = &state->transfer;
    const bool local_first = GPUHIER_ACTION_REDUCE_LOCAL_FIRST == t->action;
    const uint64_t shard = (uint64_t) (uintptr_t) place(call, slice, lane->shard, t->recv);
    const uint64_t received = (uint64_t) (uintptr_t) place(call, slice, lane->recv, t->recv);
    gpuhier_kernel_args_t args;
    args.src[0] = local_first ? shard : received;
    args.src[1] = local_first ? received : shard;
    args.dst[0] = shard;
    args.nsrc = 2;
    args.ndst = 1;
    args.count = gpuhier_range_length(t->recv);
    if (lane->exchange_on_device && lane->device->flush_needed) {
        int rc = gpuhier_cuda_error(gpuhier_cu.cuFlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                                                                          CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER),
                                    "cuFlushGPUDirectRDMAWrites");
        if (OMPI_SUCCESS != rc) {
            return rc;
        }
    }
    int rc = gpuhier_reduce_launch(&lane->device->reduce, call->kernel, &args, lane->stream[GPUHIER_STREAM_EXCHANGE]);
    return OMPI_SUCCESS != rc ? rc
                              : gpuhier_cuda_error(gpuhier_cu.cuEventRecord(state->reduced, lane->stream[GPUHIER_STREAM_EXCHANGE]), "cuEventRecord");
}

static int wire_check(gpuhier_call_t *call, uint64_t slice, piece_state_t *state)
{
    if (GPUHIER_NET_OP_ERROR == state->send.state || GPUHIER_NET_OP_ERROR == state->recv.state) {
        return GPUHIER_NET_OP_ERROR == state->send.state ? state->send.status : state->recv.status;
    }
    if (gpuhier_net_op_is_pending(&state->send) || gpuhier_net_op_is_pending(&state->recv)) {
        return 0;
    }
    const gpuhier_transfer_t *t = &state->transfer;
    if (t->recv_from >= 0 && state->recv.bytes != gpuhier_range_length(t->recv) * call->elem_bytes) {
        return OMPI_ERR_BAD_PARAM; /* what a peer sends is checked before use */
    }
    if (GPUHIER_ACTION_REDUCE_LOCAL_FIRST == t->action || GPUHIER_ACTION_REDUCE_RECEIVED_FIRST == t->action) {
        int rc = reduce_launch(call, slice, state);
        state->phase = PIECE_REDUCE;
        return OMPI_SUCCESS != rc ? rc : 1;
    }
    ++state->step;
    state->phase = PIECE_IDLE;
    return 1;
}

/* One transition of one piece. Returns 1 for an event, 0 for none, < 0 for an error. */
static int piece_step(gpuhier_call_t *call, uint64_t slice, int piece, piece_state_t *state)
{
    switch (state->phase) {
    case PIECE_IDLE: {
        if (state->step == call->plan.nsteps) {
            state->phase = PIECE_DONE;
            return 1;
        }
        gpuhier_plan_transfer(&call->plan, slice, piece, state->step, &state->transfer);
        int rc = step_post(call, slice, piece, state);
        state->phase = PIECE_WIRE;
        return OMPI_SUCCESS != rc ? rc : 1;
    }
    case PIECE_WIRE:
        return wire_check(call, slice, state);
    case PIECE_REDUCE: {
        CUresult result = gpuhier_cu.cuEventQuery(state->reduced);
        if (CUDA_ERROR_NOT_READY == result) {
            return 0;
        }
        ++state->step;
        state->phase = PIECE_IDLE;
        int rc = gpuhier_cuda_error(result, "reduction of an exchange");
        return OMPI_SUCCESS != rc ? rc : 1;
    }
    case PIECE_DONE:
        break;
    }
    return 0;
}

int gpuhier_exchange_progress(gpuhier_call_t *call, uint64_t slice, bool *done_p)
{
    int events = 0, done = 0;
    for (int i = 0; i < call->plan.npieces; ++i) {
        int piece = call->plan.first_piece + i;
        piece_state_t *state = state_of(call, slice, piece);
        int rc;
        while (0 < (rc = piece_step(call, slice, piece, state))) {
            ++events;
        }
        if (rc < 0) {
            return rc;
        }
        done += PIECE_DONE == state->phase;
    }
    *done_p = done == call->plan.npieces;
    return events;
}

static int vote_post(gpuhier_call_t *call)
{
    gpuhier_team_t *team = call->team;
    int to, from;
    gpuhier_vote_peers(team->ngroups, team->group, call->vote_step, &to, &from);
    gpuhier_net_peer_t *receiver = team->peers[gpuhier_hierarchy_leader(&team->hierarchy, to)];
    gpuhier_net_peer_t *sender = team->peers[gpuhier_hierarchy_leader(&team->hierarchy, from)];
    const uint64_t name = tag(call, VOTE_SLICE, VOTE_PIECE, (uint64_t) call->vote_step);
    int rc = gpuhier_net_recv(gpuhier_process_net(), sender, 0, name, &call->vote_mask[1], sizeof(uint32_t), false, &call->vote_recv);
    return OMPI_SUCCESS != rc ? rc : gpuhier_net_send(receiver, 0, name, &call->vote_mask[0], sizeof(uint32_t), false, &call->vote_send);
}

int gpuhier_exchange_vote(gpuhier_call_t *call, bool *done_p)
{
    int events = 0;
    for (*done_p = false; !*done_p; ++events) {
        if (GPUHIER_NET_OP_IDLE == call->vote_recv.state) {
            if (call->vote_step == gpuhier_vote_steps(call->team->ngroups)) {
                *done_p = true;
                continue;
            }
            int rc = vote_post(call);
            if (OMPI_SUCCESS != rc) {
                return rc;
            }
        }
        if (GPUHIER_NET_OP_ERROR == call->vote_recv.state || GPUHIER_NET_OP_ERROR == call->vote_send.state) {
            return OMPI_SUCCESS != call->vote_recv.status ? call->vote_recv.status : call->vote_send.status;
        }
        if (gpuhier_net_op_is_pending(&call->vote_recv) || gpuhier_net_op_is_pending(&call->vote_send)) {
            break;
        }
        call->vote_mask[0] |= call->vote_mask[1];
        call->vote_recv.state = GPUHIER_NET_OP_IDLE;
        ++call->vote_step;
    }
    return events;
}
