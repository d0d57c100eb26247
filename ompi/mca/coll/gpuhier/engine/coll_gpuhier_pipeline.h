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
 * Takes the steps that are possible now. *done_p: the result lies in every
 * member's receive buffer, and no member will touch this rank's buffers again.
 * Returns the number of events, or an Open MPI error code (< 0).
 */
int gpuhier_pipeline_step(gpuhier_call_t *call, bool *done_p);

/*
 * Comes to rest in a call that the ranks voted down, or that begins again: before the vote was known, the stages may
 * have reduced slices into scratch. *done_p: no member of this group still reads another's buffers. Returns as the step
 * does.
 */
int gpuhier_pipeline_quit(gpuhier_call_t *call, bool *done_p);

/* True only if a step can do nothing before a peer's word changes. */
bool gpuhier_pipeline_is_idle(const gpuhier_call_t *call);

/*
 * Stages IN and OUT of a rank via scratch: copy slices into scratch, and from there as far as `ready` slices have their
 * result there. Return as the step does.
 */
int gpuhier_pipeline_in(gpuhier_call_t *call);
int gpuhier_pipeline_out(gpuhier_call_t *call, uint64_t ready);

/* Claims the right to start work on the peers' buffers. Fails if a peer whose call failed has revoked it. */
int gpuhier_pipeline_claim(gpuhier_call_t *call);

#endif /* GPUHIER_PIPELINE_H */
