/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The order of a call behind the program's own work: what the program had queued on its GPUs before the call.
 */
#ifndef GPUHIER_ORDER_H
#define GPUHIER_ORDER_H

#include "engine/coll_gpuhier_call.h"

/*
 * For a form's prepare(), which sets call->order; it is FAILED before.
 *   reaches    the context is there, and this GPU can copy the buffers
 *   can        it reaches them, and work can be queued on the default stream; if not, the order is FAILED
 *   has_ended  all that the program had queued has ended; false if that is not certain
 *   may_copy   the call begins at once, and its GPU memory is of the team's GPU: it may copy its input on the default
 *              stream
 */
bool gpuhier_order_reaches(const gpuhier_call_t *call);
bool gpuhier_order_can(const gpuhier_call_t *call);
bool gpuhier_order_has_ended(const gpuhier_call_t *call);
bool gpuhier_order_may_copy(const gpuhier_call_t *call);

/*
 * Marks all that the call must not overtake: call->input and call->elsewhere. Returns the new call->order, MARKED or
 * FAILED.
 */
gpuhier_order_t gpuhier_order_mark(gpuhier_call_t *call);

/* Makes call->input alone: an event behind all that the program, and gpuhier, have queued on the legacy default stream.
 * Returns an Open MPI code; gpuhier_order_forget() is due in any case. */
int gpuhier_order_mark_input(gpuhier_call_t *call);

/*
 * Puts the lane's stream for copies behind the marks, those on other GPUs included. Copies out wait as well, since they
 * follow the copies in of all ranks. Returns an Open MPI code.
 */
int gpuhier_order_queue(gpuhier_call_t *call);

/*
 * Asks the driver up to `queries` times whether the work that is marked has ended, and notes it in call->input_done.
 * Returns 1, 0 or an error.
 */
int gpuhier_order_reached(gpuhier_call_t *call, int queries);

/* For a failed call: hands its lane the event behind a copy of the input on the default stream, until which the lane
 * stays in use. */
void gpuhier_order_leave(gpuhier_call_t *call);

/* Lets go of the marks. Harmless when there are none. */
void gpuhier_order_forget(gpuhier_call_t *call);

#endif /* GPUHIER_ORDER_H */
