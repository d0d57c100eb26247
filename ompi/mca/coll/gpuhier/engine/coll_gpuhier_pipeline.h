/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The stages that move the slices of a running call.
 */
#ifndef GPUHIER_PIPELINE_H
#define GPUHIER_PIPELINE_H

#include "engine/coll_gpuhier_call.h"

/*
 * Moves what can move now. *done_p: the result lies in every member's receive
 * buffer and nobody will touch mine again. Returns the number of events, or an
 * Open MPI error code (< 0).
 */
int gpuhier_pipeline_step(gpuhier_call_t *call, bool *done_p);

/*
 * Comes to rest in a call of several groups that was voted down: slices may have been
 * reduced, into scratch only, before the vote was known. *done_p: no member of my group reads
 * another's buffers any more. Returns as the step does.
 */
int gpuhier_pipeline_quit(gpuhier_call_t *call, bool *done_p);

/*
 * Of a call that has failed here, and whose other members have come to rest: does the whole result lie in every
 * member's receive buffer or scratch? Without that nobody has ended the call well; the same on all members.
 */
bool gpuhier_pipeline_gathered(const gpuhier_call_t *call);

#endif /* GPUHIER_PIPELINE_H */
