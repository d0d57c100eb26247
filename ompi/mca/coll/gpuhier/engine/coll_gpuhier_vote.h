/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The vote of a call in slices: all groups learn the mask of all groups.
 */
#ifndef GPUHIER_VOTE_H
#define GPUHIER_VOTE_H

#include "engine/coll_gpuhier_call.h"

/* Makes the leader's messages. Makes nothing for other members and for one group. Returns an Open MPI code. */
int gpuhier_vote_init(gpuhier_team_t *team);

/* Frees them as soon as UCX has let go of both. Harmless when there are none. */
void gpuhier_vote_leave(gpuhier_team_t *team);

/*
 * Drives the vote. When it is complete, call->mask is the mask of all groups, and slices.mask_known is set. Returns the
 * number of events, or an Open MPI error code (< 0).
 */
int gpuhier_vote_step(gpuhier_call_t *call);

#endif /* GPUHIER_VOTE_H */
