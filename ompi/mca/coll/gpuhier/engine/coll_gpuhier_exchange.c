/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the exchange between groups: for each piece a walk through the steps that the schedule gives. It neither chooses
 * steps (schedule) nor moves bytes (net, link). Called by the pipeline; set-up and the engine make its state and end
 * it.
 *
 *            post              received             reduced, sent
 *   IDLE -> send, recv -> WIRE ----------> REDUCE ----------------> next step
 *                           |    COPY, NONE, nothing received           ^
 *                           +-------------------------------------------+ sent and received
 *
 * A reduction that would overwrite what its step sends also waits for that send. A kernel reduces, or the host does
 * (gpuhier_plan_by_host()): in parts, so that UCX is driven in between and no thread keeps the lock for long. Where
 * gpuhier_plan_last_action() says so, AG makes the reduction of the last step, and the piece is done without it.
 */
#include "ompi_config.h"

#include <stdlib.h>
#include <string.h>

#include "base/coll_gpuhier_counters.h"
#include "engine/coll_gpuhier_exchange.h"
#include "engine/coll_gpuhier_host_reduce.h"
#include "engine/coll_gpuhier_link.h"
#include "engine/coll_gpuhier_place.h"
#include "net/coll_gpuhier_net.h"
#include "team/coll_gpuhier_partners.h"
#include "team/coll_gpuhier_process.h"

typedef enum piece_phase { PIECE_IDLE, PIECE_WIRE, PIECE_REDUCE, PIECE_DONE } piece_phase_t;

typedef struct piece_state {
    piece_phase_t phase;
    int step;
    gpuhier_transfer_t transfer;
    gpuhier_net_op_t send[GPUHIER_RAILS_MAX], recv[GPUHIER_RAILS_MAX]; /* by stripe */
    gpuhier_link_t link;                                               /* in place of them, for partners with links */
    CUevent reduced;                                                   /* by a kernel */
    uint64_t host_reduced;                                             /* elements, by the host */
} piece_state_t;

typedef struct gpuhier_exchange {
    int npieces;
    piece_state_t *pieces;             /* [slices in flight][pieces of this rank] */
    struct gpuhier_partners *partners; /* a share of the team's */
    /* When a call has failed, or the team is gone: */
    gpuhier_kept_t kept;
    gpuhier_device_t *device;
    gpuhier_lane_t *lane;    /* the failed call's, until its messages have ended; or NULL */
    gpuhier_hostmem_t relay; /* the team's, or zeroed */
    int slice_buffers;
} gpuhier_exchange_t;

static piece_state_t *state_of(const gpuhier_call_t *call, uint64_t slice, int piece)
{
    gpuhier_exchange_t *exchange = call->team->exchange;
    int buffer = gpuhier_plan_buffer(&call->slices.plan, slice);
    return &exchange->pieces[buffer * exchange->npieces + piece - call->slices.plan.first_piece];
}

int gpuhier_exchange_init(gpuhier_team_t *team)
{
    gpuhier_exchange_t *exchange = team->exchange = calloc(1, sizeof(*exchange));
    if (NULL == exchange) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    exchange->device = team->device;
    exchange->partners = gpuhier_partners_share(team);
    /* Allows for long messages even if the wire has none: set-up may still find links, which have them. */
    exchange->slice_buffers =
        gpuhier_choice_buffers(&team->limits, team->limits.slice_bytes_max > team->limits.slice_bytes);
    int first, end;
    gpuhier_shape_pieces(&team->shape, team->rank, &first, &end);
    exchange->npieces = end - first;
    size_t states = (size_t) exchange->npieces * (size_t) exchange->slice_buffers;
    exchange->pieces = calloc(states, sizeof(piece_state_t));
    int rc = NULL == exchange->pieces ? OMPI_ERR_OUT_OF_RESOURCE : OMPI_SUCCESS;
    exchange->npieces = OMPI_SUCCESS == rc ? exchange->npieces : 0;
    for (size_t i = 0; i < states && OMPI_SUCCESS == rc; ++i) {
        rc = GPUHIER_CU(cuEventCreate, &exchange->pieces[i].reduced, CU_EVENT_DISABLE_TIMING);
        rc = OMPI_SUCCESS != rc ? rc : gpuhier_link_init(&exchange->pieces[i].link);
    }
    if (OMPI_SUCCESS != rc) {
        gpuhier_exchange_leave(team, NULL);
    }
    return rc;
}

/* A thread of the program may be capturing a graph. The queries would spoil it outside of gpuhier_cuda_enter(). */
static bool pieces_in_use(const gpuhier_exchange_t *exchange)
{
    const bool asks = gpuhier_device_check(exchange->device);
    gpuhier_cuda_scope_t scope;
    bool in_use = false;
    if (asks && OMPI_SUCCESS != gpuhier_cuda_enter(exchange->device->context, &scope)) {
        return true;
    }
    for (int i = 0; i < exchange->npieces * exchange->slice_buffers; ++i) {
        piece_state_t *state = &exchange->pieces[i];
        in_use = gpuhier_link_in_use(&state->link, exchange->partners, NULL != exchange->device->context) || in_use;
        for (int k = 0; k < GPUHIER_RAILS_MAX; ++k) {
            in_use = in_use || gpuhier_net_pair_in_use(&state->send[k], &state->recv[k]);
        }
    }
    if (asks) {
        gpuhier_cuda_leave(&scope);
    }
    return in_use;
}

static bool give_back(gpuhier_kept_t *kept)
{
    gpuhier_exchange_t *exchange = (gpuhier_exchange_t *) (void *) ((char *) kept - offsetof(gpuhier_exchange_t, kept));
    if (pieces_in_use(exchange)) {
        return false;
    }
    if (NULL != exchange->lane) {
        gpuhier_lane_keep(exchange->lane);
        exchange->lane = NULL;
    }
    if (NULL != exchange->relay.memory) {
        if (exchange->device->lanes_used > 0) {
            return false; /* the driver may wait for the GPU, where another call's kernel may wait for this host */
        }
        gpuhier_hostmem_close(&exchange->relay,
                              gpuhier_device_check(exchange->device) ? exchange->device->context : NULL);
    }
    for (int i = 0; i < exchange->npieces * exchange->slice_buffers; ++i) {
        if (NULL != exchange->pieces[i].reduced && NULL != exchange->device->context) {
            (void) gpuhier_cu.cuEventDestroy(exchange->pieces[i].reduced); /* an event needs no context to be current */
        }
        gpuhier_link_fini(&exchange->pieces[i].link, NULL != exchange->device->context);
    }
    gpuhier_partners_unshare(exchange->partners);
    free(exchange->pieces);
    free(exchange);
    return true;
}

void gpuhier_exchange_leave(gpuhier_team_t *team, gpuhier_lane_t *lane)
{
    gpuhier_exchange_t *exchange = team->exchange;
    if (NULL == exchange) {
        if (NULL != lane) {
            gpuhier_lane_keep(lane);
        }
        return;
    }
    /* Cancels the receives that no message has arrived for. A receive that is being filled goes on. */
    for (int i = 0; i < exchange->npieces * exchange->slice_buffers; ++i) {
        for (int k = 0; k < GPUHIER_RAILS_MAX; ++k) {
            gpuhier_net_cancel(&exchange->pieces[i].recv[k]);
        }
        gpuhier_net_cancel(&exchange->pieces[i].link.heard);
    }
    exchange->lane = lane;
    exchange->relay = team->relay;
    memset(&team->relay, 0, sizeof(team->relay));
    team->exchange = NULL;
    gpuhier_keep(&exchange->kept, give_back);
}

void gpuhier_exchange_begin(gpuhier_call_t *call, uint64_t slice)
{
    for (int i = 0; i < call->slices.plan.npieces; ++i) {
        piece_state_t *state = state_of(call, slice, call->slices.plan.first_piece + i);
        state->phase = PIECE_IDLE;
        state->step = 0;
    }
}

/* Place of an element range in an exchange buffer, which holds this rank's shard of the slice. */
static char *place(const gpuhier_call_t *call, uint64_t slice, void *const buffers[], gpuhier_range_t range)
{
    const gpuhier_plan_t *plan = &call->slices.plan;
    return (char *) buffers[gpuhier_plan_buffer(plan, slice)]
           + (range.begin - gpuhier_plan_piece(plan, slice, plan->first_piece).begin) * call->elem_bytes;
}

/* Posts the stripes of one side of a step between ranks without a link. Both sides cut a message of `bytes` alike.
 * Counts the payload, by rail: votes and notices are none. */
static int stripes_post(gpuhier_call_t *call, int piece, uint64_t name, int rank, bool sending, char *at, size_t bytes,
                        gpuhier_net_op_t ops[])
{
    const gpuhier_team_t *team = call->team;
    const gpuhier_piece_rails_t *rails = &team->rails[piece];
    const bool on_device = gpuhier_lane_exchange_on_device(&call->lane->exchange);
    const int stripes = gpuhier_stripes(rails, bytes), nrails = gpuhier_net_rails(gpuhier_process_net(team->way));
    int rc = OMPI_SUCCESS;
    gpuhier_count(&gpuhier_counters.net_steps_sent, sending);
    for (int i = 0; i < stripes && OMPI_SUCCESS == rc; ++i) {
        size_t begin = gpuhier_stripe_begin(bytes, stripes, i),
               length = gpuhier_stripe_begin(bytes, stripes, i + 1) - begin;
        rc = sending
                 ? gpuhier_net_send(team->peers[rank], rails->rail[i], name, at + begin, length, on_device, &ops[i])
                 : gpuhier_net_recv(team->peers[rank], rails->rail[i], name, at + begin, length, on_device, &ops[i]);
        gpuhier_count(&gpuhier_counters.net_bytes_sent[rails->rail[i] % nrails], sending ? length : 0);
    }
    return rc;
}

static int step_post(gpuhier_call_t *call, uint64_t slice, int piece, piece_state_t *state)
{
    gpuhier_lane_t *lane = call->lane;
    const gpuhier_transfer_t *t = &state->transfer;
    const uint64_t name =
        gpuhier_slice_tag(call->team->id, call->sequence, slice, (uint64_t) piece, (uint64_t) state->step);
    int rc = OMPI_SUCCESS;
    for (int i = 0; i < GPUHIER_RAILS_MAX; ++i) {
        state->send[i].state = state->recv[i].state = GPUHIER_NET_OP_DONE;
        state->recv[i].bytes = 0;
    }
    gpuhier_link_clear(&state->link);
    const int rail = call->team->rails[piece].rail[0]; /* of the words of a link */
    if (t->recv_from >= 0) {
        void *const *into = GPUHIER_ACTION_COPY == t->action ? lane->exchange.now->shard : lane->exchange.now->recv;
        char *at = place(call, slice, into, t->recv);
        const size_t bytes = gpuhier_range_length(t->recv) * call->elem_bytes;
        rc = gpuhier_link_is_used(call->team, t->recv_from)
                 ? gpuhier_link_take(call, &state->link, t->recv_from, rail, name, at, bytes)
                 : stripes_post(call, piece, name, t->recv_from, false, at, bytes, state->recv);
    }
    if (OMPI_SUCCESS == rc && t->send_to >= 0) {
        char *at = place(call, slice, lane->exchange.now->shard, t->send);
        const int buffer = gpuhier_plan_buffer(&call->slices.plan, slice);
        const size_t offset = (size_t) (at - (char *) lane->exchange.now->shard[buffer]);
        const size_t bytes = gpuhier_range_length(t->send) * call->elem_bytes;
        rc = gpuhier_link_is_used(call->team, t->send_to)
                 ? gpuhier_link_give(call, &state->link, t->send_to, rail, name, buffer, offset, bytes)
                 : stripes_post(call, piece, name, t->send_to, true, at, bytes, state->send);
    }
    return rc;
}

/* Launches the kernel that computes shard = first op second on the received range. */
static int reduce_launch(gpuhier_call_t *call, uint64_t slice, piece_state_t *state)
{
    gpuhier_lane_t *lane = call->lane;
    const gpuhier_transfer_t *t = &state->transfer;
    const bool local_first = GPUHIER_ACTION_REDUCE_LOCAL_FIRST == t->action;
    const uint64_t shard = (uint64_t) (uintptr_t) place(call, slice, lane->exchange.now->shard, t->recv);
    const uint64_t received = (uint64_t) (uintptr_t) place(call, slice, lane->exchange.now->recv, t->recv);
    gpuhier_kernel_args_t args;
    args.src[0] = local_first ? shard : received;
    args.src[1] = local_first ? received : shard;
    args.dst[0] = shard;
    args.nsrc = 2;
    args.ndst = 1;
    args.count = gpuhier_range_length(t->recv);
    int rc = gpuhier_reduce_launch(&lane->device->reduce, call->kernel, &args, lane->stream[GPUHIER_STAGE_EXCHANGE]);
    return OMPI_SUCCESS != rc ? rc : GPUHIER_CU(cuEventRecord, state->reduced, lane->stream[GPUHIER_STAGE_EXCHANGE]);
}

/* Does the host reduce on this rank? Where the driver refuses the host memory for that, kernels make the same steps. */
static bool by_host(const gpuhier_call_t *call)
{
    return call->slices.plan.by_host && !gpuhier_lane_exchange_on_device(&call->lane->exchange);
}

/* What the host reduces in one look, in bytes: about a microsecond of its time. */
#define HOST_PART_BYTES ((uint64_t) 8 << 10)

/* Reduces the next part of the received range on the host: shard = first op second. Returns whether the whole range is
 * done. */
static bool host_reduce(const gpuhier_call_t *call, uint64_t slice, piece_state_t *state)
{
    const gpuhier_transfer_t *t = &state->transfer;
    const bool local_first = GPUHIER_ACTION_REDUCE_LOCAL_FIRST == t->action;
    const uint64_t most = HOST_PART_BYTES / call->elem_bytes;
    gpuhier_range_t part = {.begin = t->recv.begin + state->host_reduced, .end = t->recv.end};
    if (gpuhier_range_length(part) > most) {
        part.end = part.begin + most;
    }
    void *shard = place(call, slice, call->lane->exchange.now->shard, part);
    void *received = place(call, slice, call->lane->exchange.now->recv, part);
    const void *const from[] = {local_first ? shard : received, local_first ? received : shard};
    gpuhier_host_reduce(call->kernel, shard, from, 2, (size_t) gpuhier_range_length(part));
    state->host_reduced += gpuhier_range_length(part);
    return part.end == t->recv.end;
}

/* How far the messages of a step have come. */
enum { WIRE_PENDING, WIRE_RECEIVED, WIRE_DONE };

/* Looks at all stripes and copies of a step. Returns one of the above, or < 0 for an error. */
static int wire_look(const gpuhier_call_t *call, const piece_state_t *state)
{
    uint64_t received = 0;
    bool all_received = true, all_sent = true;
    const int linked = gpuhier_link_done(&state->link);
    if (linked <= 0) {
        return linked < 0 ? linked : WIRE_PENDING;
    }
    for (int i = 0; i < GPUHIER_RAILS_MAX; ++i) {
        int rc = gpuhier_net_pair_done(&state->send[i], &state->recv[i]);
        if (rc < 0) {
            return rc;
        }
        all_received = all_received && !gpuhier_net_op_is_pending(&state->recv[i]);
        all_sent = all_sent && !gpuhier_net_op_is_pending(&state->send[i]);
        received += state->recv[i].bytes;
    }
    if (!all_received) {
        return WIRE_PENDING;
    }
    const gpuhier_transfer_t *t = &state->transfer;
    if (t->recv_from >= 0 && !gpuhier_link_is_used(call->team, t->recv_from)
        && received != gpuhier_range_length(t->recv) * call->elem_bytes) {
        return OMPI_ERR_BAD_PARAM; /* what a peer sends is checked before use */
    }
    return all_sent ? WIRE_DONE : WIRE_RECEIVED;
}

/* Makes what a NIC wrote visible to kernels, and to partners that take pieces over links. */
static int received_flush(const gpuhier_call_t *call)
{
    const gpuhier_lane_t *lane = call->lane;
    const bool for_peers = NULL != call->team->linked && !call->team->has_relay;
    const gpuhier_flush_t flush = for_peers ? lane->device->flush_for_peers : lane->device->flush;
    if (!gpuhier_lane_exchange_on_device(&lane->exchange) || GPUHIER_FLUSH_NONE == flush) {
        return OMPI_SUCCESS;
    }
    return GPUHIER_CU(cuFlushGPUDirectRDMAWrites, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                      for_peers ? CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES
                                : CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
}

static int step_end(piece_state_t *state)
{
    ++state->step;
    state->phase = PIECE_IDLE;
    return 1;
}

/* The phase REDUCE. Returns 1 for an event, 0 for none, < 0 for an error. */
static int reduce_check(gpuhier_call_t *call, uint64_t slice, piece_state_t *state)
{
    int events = 0;
    if (!by_host(call)) {
        CUresult result = gpuhier_cu.cuEventQuery(state->reduced);
        if (CUDA_SUCCESS != result) {
            return CUDA_ERROR_NOT_READY == result ? 0 : gpuhier_cuda_error(result, "reduction of an exchange");
        }
    } else if (state->host_reduced < gpuhier_range_length(state->transfer.recv)) {
        events = 1;
        if (!host_reduce(call, slice, state)) {
            return events;
        }
    }
    const int wire = wire_look(call, state);
    return WIRE_DONE == wire ? step_end(state) : wire < 0 ? wire : events;
}

static int wire_check(gpuhier_call_t *call, uint64_t slice, piece_state_t *state)
{
    const gpuhier_plan_t *plan = &call->slices.plan;
    const gpuhier_transfer_t *t = &state->transfer;
    const bool is_left = plan->nsteps == state->step + 1 && GPUHIER_ACTION_NONE != gpuhier_plan_last_action(plan);
    const bool reduces =
        !is_left
        && (GPUHIER_ACTION_REDUCE_LOCAL_FIRST == t->action || GPUHIER_ACTION_REDUCE_RECEIVED_FIRST == t->action);
    /* Must the reduction wait until the step's message has left, since it changes what is sent? */
    const bool changes_sent = t->send_to >= 0 && t->recv.begin < t->send.end && t->send.begin < t->recv.end;
    const int events = gpuhier_link_step(call, &state->link);
    const int wire = events < 0 ? events : wire_look(call, state);
    if (WIRE_DONE != wire && !(WIRE_RECEIVED == wire && reduces && !changes_sent)) {
        return wire < 0 ? wire : events > 0;
    }
    const bool by_nic = t->recv_from >= 0 && !gpuhier_link_is_used(call->team, t->recv_from);
    int rc = by_nic ? received_flush(call) : OMPI_SUCCESS;
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    if (!reduces) {
        return step_end(state);
    }
    state->phase = PIECE_REDUCE;
    if (by_host(call)) {
        state->host_reduced = 0;
        return reduce_check(call, slice, state);
    }
    rc = reduce_launch(call, slice, state);
    return OMPI_SUCCESS != rc ? rc : 1;
}

/* Pairs with lists: how long the chunks of a step are, which a plan does not know. */
static void chunks_measure(const gpuhier_call_t *call, uint64_t slice, int piece, gpuhier_transfer_t *t)
{
    const int *group_of = call->team->hierarchy.group_of;
    if (t->send_to >= 0) {
        t->send.end = t->send.begin + gpuhier_call_pairs(call, true, slice, piece, group_of[t->send_to]);
        t->send_to = t->send.end > t->send.begin ? t->send_to : -1;
    }
    if (t->recv_from >= 0) {
        t->recv.end = t->recv.begin + gpuhier_call_pairs(call, false, slice, piece, group_of[t->recv_from]);
        t->recv_from = t->recv.end > t->recv.begin ? t->recv_from : -1;
    }
}

/* One transition of one piece. Returns 1 for an event, 0 for none, < 0 for an error. */
static int piece_step(gpuhier_call_t *call, uint64_t slice, int piece, piece_state_t *state)
{
    switch (state->phase) {
    case PIECE_IDLE: {
        if (state->step == call->slices.plan.nsteps) {
            state->phase = PIECE_DONE;
            return 1;
        }
        gpuhier_plan_transfer(&call->slices.plan, slice, piece, state->step, &state->transfer);
        if (NULL != call->heard) {
            chunks_measure(call, slice, piece, &state->transfer);
        }
        int rc = step_post(call, slice, piece, state);
        state->phase = PIECE_WIRE;
        return OMPI_SUCCESS != rc ? rc : 1;
    }
    case PIECE_WIRE:
        return wire_check(call, slice, state);
    case PIECE_REDUCE:
        return reduce_check(call, slice, state);
    case PIECE_DONE:
        break;
    }
    return 0;
}

int gpuhier_exchange_progress(gpuhier_call_t *call, uint64_t slice, bool *done_p)
{
    int events = 0, done = 0;
    for (int i = 0; i < call->slices.plan.npieces; ++i) {
        int piece = call->slices.plan.first_piece + i;
        piece_state_t *state = state_of(call, slice, piece);
        int rc;
        while (0 < (rc = piece_step(call, slice, piece, state))) {
            ++events;
            if (PIECE_REDUCE == state->phase) {
                break; /* UCX, and threads that wait for the lock, are next */
            }
        }
        if (rc < 0) {
            return rc;
        }
        done += PIECE_DONE == state->phase;
    }
    *done_p = done == call->slices.plan.npieces;
    return events;
}
