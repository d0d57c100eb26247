/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the messages between the groups' leaders in the small form: recursive doubling on the
 * whole message, from host memory, with the votes in front of the data. It takes the steps, and so the order of
 * operands, from the schedule (coll_gpuhier_schedule.h), so all groups get the same bits.
 *
 * The buffers belong to the team and not to a call's lane: a leader without a lane still takes part, to
 * say so; and UCX may keep the buffers beyond a call that fails.
 *
 * Called by the small form.
 */
#include "ompi_config.h"

#include <stdlib.h>
#include <string.h>

#include "base/coll_gpuhier_counters.h"
#include "base/coll_gpuhier_params.h"
#include "engine/coll_gpuhier_host_reduce.h"
#include "team/coll_gpuhier_process.h"
#include "team/coll_gpuhier_partners.h"
#include "engine/coll_gpuhier_small_exchange.h"
#include "net/coll_gpuhier_net.h"

/* On the wire, and in memory. */
typedef struct message {
    uint32_t mask; /* GPUHIER_MASK_* of the groups that it speaks for */
    uint32_t reserved[3];
    uint8_t data[];
} message_t;

_Static_assert(16 == offsetof(message_t, data), "data are aligned for every element");

/* One call at a time uses it. */
typedef struct gpuhier_small_exchange {
    message_t *mine;
    message_t *theirs;
    gpuhier_net_op_t send, recv;
    gpuhier_kept_t kept;
} small_exchange_t;

int gpuhier_small_exchange_init(gpuhier_team_t *team)
{
    const size_t bytes = sizeof(message_t) + gpuhier_params.small_bytes;
    if (1 == team->ngroups || 0 != team->index || 0 == gpuhier_params.small_bytes) {
        return OMPI_SUCCESS;
    }
    small_exchange_t *exchange = calloc(1, sizeof(*exchange));
    team->small_exchange = exchange;
    if (NULL == exchange) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    exchange->mine = calloc(1, bytes);
    exchange->theirs = calloc(1, bytes);
    return NULL == exchange->mine || NULL == exchange->theirs ? OMPI_ERR_OUT_OF_RESOURCE : OMPI_SUCCESS;
}

static bool give_back(gpuhier_kept_t *kept)
{
    small_exchange_t *exchange = (small_exchange_t *) (void *) ((char *) kept - offsetof(small_exchange_t, kept));
    if (gpuhier_net_pair_in_use(&exchange->send, &exchange->recv)) {
        return false;
    }
    free(exchange->mine);
    free(exchange->theirs);
    free(exchange);
    return true;
}

void gpuhier_small_exchange_leave(gpuhier_team_t *team)
{
    small_exchange_t *exchange = team->small_exchange;
    team->small_exchange = NULL;
    if (NULL == exchange) {
        return;
    }
    gpuhier_net_cancel(&exchange->recv);
    gpuhier_keep(&exchange->kept, give_back);
}

void *gpuhier_small_exchange_data(const gpuhier_team_t *team)
{
    return team->small_exchange->mine->data;
}

static size_t message_bytes(const gpuhier_call_t *call)
{
    return sizeof(message_t) + call->axis_bytes;
}

static int post(gpuhier_call_t *call, const gpuhier_step_t *step)
{
    const gpuhier_team_t *team = call->team;
    small_exchange_t *exchange = team->small_exchange;
    const uint64_t name = gpuhier_beside_tag(team->id, call->sequence, GPUHIER_TAG_SMALL, (uint64_t) call->small.step);
    int rc = OMPI_SUCCESS;
    exchange->send.state = exchange->recv.state = GPUHIER_NET_OP_DONE;
    exchange->mine->mask = call->mask;
    if (step->recv_from >= 0) {
        gpuhier_net_peer_t *from = team->peers[gpuhier_hierarchy_leader(&team->hierarchy, step->recv_from)];
        rc = gpuhier_net_recv(from, 0, name, exchange->theirs, message_bytes(call), false, &exchange->recv);
    }
    if (OMPI_SUCCESS == rc && step->send_to >= 0) {
        gpuhier_net_peer_t *to = team->peers[gpuhier_hierarchy_leader(&team->hierarchy, step->send_to)];
        rc = gpuhier_net_send(to, 0, name, exchange->mine, message_bytes(call), false, &exchange->send);
    }
    call->small.posted = OMPI_SUCCESS == rc;
    return rc;
}

/* Takes in what a step has brought. */
static int take(gpuhier_call_t *call, const gpuhier_step_t *step)
{
    message_t *mine = call->team->small_exchange->mine;
    const message_t *theirs = call->team->small_exchange->theirs;
    const uint32_t known = GPUHIER_MASK_HOST | GPUHIER_MASK_FAIL;
    if (call->team->small_exchange->recv.bytes != message_bytes(call) || 0 != (theirs->mask & ~known)) {
        return OMPI_ERR_BAD_PARAM; /* what a peer sends is checked before use */
    }
    call->mask |= theirs->mask;
    if (0 != (call->mask & GPUHIER_MASK_FAIL)) {
        return OMPI_SUCCESS;
    }
    if (GPUHIER_ACTION_COPY == step->action) {
        memcpy(mine->data, theirs->data, call->axis_bytes);
    } else {
        const bool local_first = GPUHIER_ACTION_REDUCE_LOCAL_FIRST == step->action;
        const void *from[] = {local_first ? mine->data : theirs->data, local_first ? theirs->data : mine->data};
        gpuhier_host_reduce(call->kernel, mine->data, from, 2, call->axis_bytes / call->elem_bytes);
    }
    return OMPI_SUCCESS;
}

int gpuhier_small_exchange_step(gpuhier_call_t *call, bool *done_p)
{
    const gpuhier_team_t *team = call->team;
    const int nsteps = gpuhier_schedule_steps(GPUHIER_ALGORITHM_RECURSIVE_DOUBLING, team->ngroups);
    int events = 0;
    for (; call->small.step < nsteps; ++call->small.step, ++events) {
        gpuhier_step_t step;
        gpuhier_schedule_step(GPUHIER_ALGORITHM_RECURSIVE_DOUBLING, team->ngroups, team->group, call->small.step,
                              &step);
        int rc = call->small.posted ? OMPI_SUCCESS : post(call, &step);
        if (OMPI_SUCCESS != rc) {
            return rc;
        }
        rc = gpuhier_net_pair_done(&team->small_exchange->send, &team->small_exchange->recv);
        if (rc <= 0) {
            return rc < 0 ? rc : events;
        }
        if (step.send_to >= 0) {
            gpuhier_count(&gpuhier_counters.net_bytes_sent[0], call->axis_bytes);
        }
        rc = step.recv_from >= 0 ? take(call, &step) : OMPI_SUCCESS;
        if (OMPI_SUCCESS != rc) {
            return rc;
        }
        call->small.posted = false;
    }
    *done_p = true;
    return events + 1;
}
