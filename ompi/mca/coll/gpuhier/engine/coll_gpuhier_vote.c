/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the vote of a call in slices. The groups' leaders exchange masks by dissemination, one message to another group
 * and one from a third in each step (plan/coll_gpuhier_schedule.h). Each leader then publishes the outcome in its slot,
 * where the other members of its group read it.
 *
 * In the small form the vote travels with the data (coll_gpuhier_small_exchange.c).
 *
 * The messages belong to the team and not to the call: UCX may keep them beyond a call that fails.
 *
 * Called by the engine.
 */
#include "ompi_config.h"

#include <stdlib.h>

#include "base/coll_gpuhier_kept.h"
#include "engine/coll_gpuhier_vote.h"
#include "net/coll_gpuhier_net.h"
#include "team/coll_gpuhier_process.h"
#include "team/coll_gpuhier_partners.h"

/* One call at a time uses it. */
typedef struct gpuhier_vote {
    uint32_t mine, theirs; /* the masks of a step */
    gpuhier_net_op_t send, recv;
    gpuhier_kept_t kept;
} gpuhier_vote_t;

int gpuhier_vote_init(gpuhier_team_t *team)
{
    if (1 == team->ngroups || 0 != team->index) {
        return OMPI_SUCCESS;
    }
    team->vote = calloc(1, sizeof(*team->vote));
    return NULL == team->vote ? OMPI_ERR_OUT_OF_RESOURCE : OMPI_SUCCESS;
}

static bool give_back(gpuhier_kept_t *kept)
{
    gpuhier_vote_t *vote = (gpuhier_vote_t *) (void *) ((char *) kept - offsetof(gpuhier_vote_t, kept));
    if (gpuhier_net_pair_in_use(&vote->send, &vote->recv)) {
        return false;
    }
    free(vote);
    return true;
}

void gpuhier_vote_leave(gpuhier_team_t *team)
{
    gpuhier_vote_t *vote = team->vote;
    team->vote = NULL;
    if (NULL == vote) {
        return;
    }
    gpuhier_net_cancel(&vote->recv);
    gpuhier_keep(&vote->kept, give_back);
}

static int post(const gpuhier_call_t *call)
{
    const gpuhier_team_t *team = call->team;
    int to, from;
    gpuhier_schedule_vote_peers(team->ngroups, team->group, call->slices.vote_step, &to, &from);
    gpuhier_net_peer_t *receiver = team->peers[gpuhier_hierarchy_leader(&team->hierarchy, to)];
    gpuhier_net_peer_t *sender = team->peers[gpuhier_hierarchy_leader(&team->hierarchy, from)];
    gpuhier_vote_t *vote = team->vote;
    const uint64_t name =
        gpuhier_beside_tag(team->id, call->sequence, GPUHIER_TAG_VOTE, (uint64_t) call->slices.vote_step);
    vote->mine = call->slices.vote_mask;
    const size_t bytes = sizeof(vote->mine);
    int rc = gpuhier_net_recv(sender, 0, name, &vote->theirs, bytes, false, &vote->recv);
    return OMPI_SUCCESS != rc ? rc : gpuhier_net_send(receiver, 0, name, &vote->mine, bytes, false, &vote->send);
}

/* Drives the leaders' vote: call->slices.vote_mask is OR-ed over all groups when *done_p. Returns events or an error.
 */
static int leaders_step(gpuhier_call_t *call, bool *done_p)
{
    gpuhier_vote_t *vote = call->team->vote;
    int events = 0;
    for (*done_p = false; !*done_p; ++events) {
        if (GPUHIER_NET_OP_IDLE == vote->recv.state) {
            if (call->slices.vote_step == gpuhier_schedule_vote_steps(call->team->ngroups)) {
                *done_p = true;
                continue;
            }
            int rc = post(call);
            if (OMPI_SUCCESS != rc) {
                return rc;
            }
        }
        int rc = gpuhier_net_pair_done(&vote->send, &vote->recv);
        if (rc <= 0) {
            return rc < 0 ? rc : events;
        }
        call->slices.vote_mask |= vote->theirs;
        vote->recv.state = GPUHIER_NET_OP_IDLE;
        ++call->slices.vote_step;
    }
    return events;
}

int gpuhier_vote_step(gpuhier_call_t *call)
{
    gpuhier_slot_t *leader = gpuhier_slot_of(call->team, 0, call->sequence);
    if (0 == call->team->index) {
        bool done;
        int events = leaders_step(call, &done);
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
