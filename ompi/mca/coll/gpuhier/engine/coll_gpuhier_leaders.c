/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the messages between the groups' leaders.
 *
 * The vote of a call in slices: the leaders exchange masks by dissemination, one message to another group and one from
 * a third in each step (plan/coll_gpuhier_schedule.h). Each leader then publishes the outcome in its slot, where the
 * other members of its group read it.
 *
 * The exchange of a call in the small form: recursive doubling on the whole message, from host memory, with the votes
 * in front of the data. It takes the steps, and so the order of operands, from the schedule, so all groups get the same
 * bits.
 *
 * The messages belong to the team and not to a call's lane: a leader without a lane still takes part, to say so; and
 * UCX may keep them beyond a call that fails.
 *
 * Called by the engine and the small form.
 */
#include "ompi_config.h"

#include <stdlib.h>
#include <string.h>

#include "base/coll_gpuhier_counters.h"
#include "base/coll_gpuhier_kept.h"
#include "base/coll_gpuhier_params.h"
#include "engine/coll_gpuhier_host_reduce.h"
#include "engine/coll_gpuhier_exchange.h"
#include "net/coll_gpuhier_net.h"
#include "team/coll_gpuhier_partners.h"

/* On the wire, and in memory. */
typedef struct message {
    uint32_t mask; /* of the groups that it speaks for */
    uint32_t reserved[3];
    uint8_t data[]; /* of the small form */
} message_t;

_Static_assert(16 == offsetof(message_t, data), "data are aligned for every element");

/* One call at a time uses it. */
typedef struct gpuhier_leaders {
    message_t *mine, *theirs; /* of a step */
    bool posted;              /* the step's messages are */
    gpuhier_net_op_t send, recv;
    gpuhier_kept_t kept;
} gpuhier_leaders_t;

int gpuhier_leaders_init(gpuhier_team_t *team)
{
    const size_t bytes = sizeof(message_t) + gpuhier_params.small_bytes;
    if (1 == team->ngroups || 0 != team->index) {
        return OMPI_SUCCESS;
    }
    gpuhier_leaders_t *leaders = team->leaders = calloc(1, sizeof(*leaders));
    if (NULL == leaders) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    leaders->mine = calloc(1, bytes);
    leaders->theirs = calloc(1, bytes);
    return NULL == leaders->mine || NULL == leaders->theirs ? OMPI_ERR_OUT_OF_RESOURCE : OMPI_SUCCESS;
}

static bool give_back(gpuhier_kept_t *kept)
{
    gpuhier_leaders_t *leaders = (gpuhier_leaders_t *) (void *) ((char *) kept - offsetof(gpuhier_leaders_t, kept));
    if (gpuhier_net_pair_in_use(&leaders->send, &leaders->recv)) {
        return false;
    }
    free(leaders->mine);
    free(leaders->theirs);
    free(leaders);
    return true;
}

void gpuhier_leaders_leave(gpuhier_team_t *team)
{
    gpuhier_leaders_t *leaders = team->leaders;
    team->leaders = NULL;
    if (NULL != leaders) {
        gpuhier_net_cancel(&leaders->recv);
        gpuhier_keep(&leaders->kept, give_back);
    }
}

/* Posts the messages of a step, to and from the leaders of these groups (-1: none), unless they are posted, and looks
 * at them. bytes: of each. Returns 1 when both have ended, 0 while they have not, < 0 for an error. */
static int step_drive(const gpuhier_call_t *call, uint64_t name, int to, int from, uint32_t mask, size_t bytes)
{
    const gpuhier_team_t *team = call->team;
    gpuhier_leaders_t *leaders = team->leaders;
    int rc = OMPI_SUCCESS;
    if (!leaders->posted) {
        leaders->send.state = leaders->recv.state = GPUHIER_NET_OP_DONE;
        leaders->mine->mask = mask;
        if (from >= 0) {
            rc = gpuhier_net_recv(team->peers[gpuhier_hierarchy_leader(&team->hierarchy, from)], 0, name,
                                  leaders->theirs, bytes, false, &leaders->recv);
        }
        if (OMPI_SUCCESS == rc && to >= 0) {
            rc = gpuhier_net_send(team->peers[gpuhier_hierarchy_leader(&team->hierarchy, to)], 0, name, leaders->mine,
                                  bytes, false, &leaders->send);
        }
        leaders->posted = OMPI_SUCCESS == rc;
    }
    rc = OMPI_SUCCESS != rc ? rc : gpuhier_net_pair_done(&leaders->send, &leaders->recv);
    if (rc > 0) {
        leaders->posted = false;
        rc = from >= 0 && bytes != leaders->recv.bytes ? OMPI_ERR_BAD_PARAM : rc; /* what a peer sends is checked */
    }
    return rc;
}

/* Drives the leaders' vote: slices.vote_mask is OR-ed over all groups when *done_p. Returns events or an error. */
static int vote_drive(gpuhier_call_t *call, bool *done_p)
{
    const gpuhier_team_t *team = call->team;
    int events = 0;
    *done_p = false;
    for (; call->slices.vote_step < gpuhier_schedule_vote_steps(team->ngroups); ++call->slices.vote_step, ++events) {
        int to, from;
        gpuhier_schedule_vote_peers(team->ngroups, team->group, call->slices.vote_step, &to, &from);
        const uint64_t name =
            gpuhier_beside_tag(team->id, call->sequence, GPUHIER_TAG_VOTE, (uint64_t) call->slices.vote_step);
        const int rc = step_drive(call, name, to, from, call->slices.vote_mask, sizeof(message_t));
        if (rc <= 0) {
            return rc < 0 ? rc : events;
        }
        call->slices.vote_mask |= team->leaders->theirs->mask;
    }
    *done_p = true;
    return events + 1;
}

int gpuhier_leaders_vote(gpuhier_call_t *call)
{
    gpuhier_slot_t *leader = gpuhier_call_slot(call, 0);
    if (0 == call->team->index) {
        bool done;
        int events = vote_drive(call, &done);
        if (events < 0 || !done) {
            return events;
        }
        gpuhier_word_publish(&leader->vote, call->sequence, 1 + call->slices.vote_mask);
    } else if (!gpuhier_word_reached(&leader->vote, call->sequence, 1)) {
        return 0;
    }
    call->mask = (uint32_t) (gpuhier_word_read(&leader->vote) - gpuhier_word(call->sequence, 1));
    call->slices.mask_known = true;
    return 1;
}

void *gpuhier_leaders_data(const gpuhier_team_t *team)
{
    return team->leaders->mine->data;
}

/* Takes in what a step of the small form has brought. */
static int take(gpuhier_call_t *call, const gpuhier_step_t *step)
{
    message_t *mine = call->team->leaders->mine;
    const message_t *theirs = call->team->leaders->theirs;
    if (0 != (theirs->mask & ~(uint32_t) (GPUHIER_MASK_HOST | GPUHIER_MASK_FAIL))) {
        return OMPI_ERR_BAD_PARAM;
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

int gpuhier_leaders_exchange(gpuhier_call_t *call, bool *done_p)
{
    const gpuhier_team_t *team = call->team;
    const int nsteps = gpuhier_schedule_steps(GPUHIER_ALGORITHM_RECURSIVE_DOUBLING, team->ngroups);
    int events = 0;
    for (; call->small.step < nsteps; ++call->small.step, ++events) {
        gpuhier_step_t step;
        gpuhier_schedule_step(GPUHIER_ALGORITHM_RECURSIVE_DOUBLING, team->ngroups, team->group, call->small.step,
                              &step);
        const uint64_t name =
            gpuhier_beside_tag(team->id, call->sequence, GPUHIER_TAG_SMALL, (uint64_t) call->small.step);
        int rc = step_drive(call, name, step.send_to, step.recv_from, call->mask, sizeof(message_t) + call->axis_bytes);
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
    }
    *done_p = true;
    return events + 1;
}
