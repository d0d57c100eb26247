/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The exchange stage: a rank reduces the pieces of a slice that it owns with their owners in the other groups.
 */
#ifndef GPUHIER_EXCHANGE_H
#define GPUHIER_EXCHANGE_H

#include "engine/coll_gpuhier_call.h"

/* Makes the team's state for exchanges: piece states and events. The team's context is current. Returns an Open MPI
 * code. */
int gpuhier_exchange_init(gpuhier_team_t *team);
/*
 * Frees that state as soon as UCX lets go of the messages. lane: of a failed call, or NULL. The lane is kept until
 * then, and goes back to its device when the GPU has let go of it, too.
 */
void gpuhier_exchange_leave(gpuhier_team_t *team, gpuhier_lane_t *lane);

/* Begins the exchange of a slice, whose shard lies reduced in the lane's shard buffer. */
void gpuhier_exchange_begin(gpuhier_call_t *call, uint64_t slice);

/*
 * Drives the exchange of a slice. *done_p: the shard buffer holds the result of
 * all groups. Returns the number of events, or an Open MPI error code (< 0).
 */
int gpuhier_exchange_progress(gpuhier_call_t *call, uint64_t slice, bool *done_p);

/*
 * What the groups' leaders tell each other in a call: the vote of a call in slices, and in the small form whole
 * messages, votes included.
 */

/* Makes the leader's messages; nothing for other members and for one group. Returns an Open MPI code. leave: frees them
 * as soon as UCX has let go of both, since a call may have failed; harmless when there are none. */
int gpuhier_leaders_init(gpuhier_team_t *team);
void gpuhier_leaders_leave(gpuhier_team_t *team);

/*
 * Drives the vote. When it is complete, call->mask is the mask of all groups, and slices.mask_known is set. Returns the
 * number of events, or an Open MPI error code (< 0).
 */
int gpuhier_leaders_vote(gpuhier_call_t *call);

/* Where the leader puts its group's result, and finds that of all groups. */
void *gpuhier_leaders_data(const gpuhier_team_t *team);

/*
 * Goes on with the exchange of the leader's data and call->mask. Returns events or an error; *done_p is set when the
 * data are the result and the mask is the mask of all groups. With GPUHIER_MASK_FAIL in the mask the data mean nothing.
 */
int gpuhier_leaders_exchange(gpuhier_call_t *call, bool *done_p);

#endif /* GPUHIER_EXCHANGE_H */
