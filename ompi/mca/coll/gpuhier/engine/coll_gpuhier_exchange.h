/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The exchange stage: a slice's pieces that this rank owns, summed with their
 * owners in the other groups; and the vote between the groups' leaders.
 */
#ifndef GPUHIER_EXCHANGE_H
#define GPUHIER_EXCHANGE_H

#include "engine/coll_gpuhier_engine.h"

/* Makes the team's state for exchanges: piece states and events. The team's context is current. Returns an Open MPI code. */
int gpuhier_exchange_init(gpuhier_team_t *team);
/* Ends it, in peace: what UCX has not let go of, as the words of a set-up that failed, is kept until then. */
void gpuhier_exchange_fini(gpuhier_team_t *team);

/*
 * Of a team that is torn: the state and a failed call's lane (NULL if it has none) are kept until UCX and the GPU have
 * let go of them. Until all partners have said that they have given up, too, for two minutes at most, their messages
 * are received and thrown away: they need their memory back.
 */
void gpuhier_exchange_leave(gpuhier_team_t *team, gpuhier_lane_t *lane);

/*
 * Exchanges a word with each partner, since UCX connects with the first message and
 * that takes both sides: over a connection that stands, the notice of a rank that
 * gives up later leaves at once, also when its partner is not in the call yet. All
 * members call it. Waits HELLO_SECONDS for each rail at most; returns an Open MPI code.
 */
int gpuhier_exchange_connect(gpuhier_team_t *team);

/* OMPI_ERR_UNREACH when a partner in another group is not reached any more, OMPI_ERROR when one has given up, else OMPI_SUCCESS. */
int gpuhier_exchange_check(const gpuhier_team_t *team);

/* Tells the partners in other groups, once, that this rank has given up; does not wait for them. */
void gpuhier_exchange_give_up(gpuhier_team_t *team);

/* Are words that say so still on their way out? */
bool gpuhier_exchange_is_giving_up(const gpuhier_team_t *team);

/* Begins the exchange of a slice, whose shard lies reduced in the lane's shard buffer. */
void gpuhier_exchange_begin(gpuhier_call_t *call, uint64_t slice);

/*
 * Drives the exchange of a slice. *done_p: the shard buffer holds the result of
 * all groups. Returns the number of events, or an Open MPI error code (< 0).
 */
int gpuhier_exchange_progress(gpuhier_call_t *call, uint64_t slice, bool *done_p);

/* Drives the leaders' vote: call->vote_mask in, OR-ed over all groups when *done_p. Same returns. */
int gpuhier_exchange_vote(gpuhier_call_t *call, bool *done_p);

/* The name of the message of a step of the small form; see coll_gpuhier_tags.h. */
uint64_t gpuhier_exchange_small_tag(const gpuhier_call_t *call, int step);

#endif /* GPUHIER_EXCHANGE_H */
