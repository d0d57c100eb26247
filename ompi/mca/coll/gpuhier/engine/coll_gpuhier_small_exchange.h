/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The small form between groups: their leaders exchange whole messages, votes included.
 */
#ifndef GPUHIER_SMALL_EXCHANGE_H
#define GPUHIER_SMALL_EXCHANGE_H

#include "engine/coll_gpuhier_call.h"

/* Makes the leader's buffers; nothing for others, for one group, and when the small form is off. Returns an Open MPI
 * code. */
int gpuhier_small_exchange_init(gpuhier_team_t *team);

/* Frees them as soon as UCX has let go of both: a call may have failed. */
void gpuhier_small_exchange_leave(gpuhier_team_t *team);

/* Where the leader puts its group's result, and finds that of all groups. */
void *gpuhier_small_exchange_data(const gpuhier_team_t *team);

/*
 * Goes on with the exchange of the leader's data and call->mask. Returns events or an error; *done_p is set when the
 * data are the result and the mask is the mask of all groups. With GPUHIER_MASK_FAIL in the mask the data mean nothing.
 */
int gpuhier_small_exchange_step(gpuhier_call_t *call, bool *done_p);

#endif /* GPUHIER_SMALL_EXCHANGE_H */
