/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the forms in slices share. Included by these forms only.
 */
#ifndef GPUHIER_SLICES_H
#define GPUHIER_SLICES_H

#include "engine/coll_gpuhier_form.h"

/* Slices that kernels reduce. */
extern const gpuhier_slices_ops_t gpuhier_slices_kernels;

/* Zeroes the part of a form in slices. */
void gpuhier_slices_clear(gpuhier_call_t *call);

/* Takes a lane, with exchange buffers if there are several groups. Names it in the record, with the list of blocks that
 * peers need; NULL: they need neither. Returns the bit of this rank's vote if it has none. */
uint32_t gpuhier_slices_lane(gpuhier_call_t *call, gpuhier_arrival_t *arrival);

/* When all records are there: the longest block of pairs with lists, and how much of each block this rank takes. */
void gpuhier_slices_hear(gpuhier_call_t *call);

/* Makes the plan, with slices of at most so many bytes. A failure is the same on all ranks, since all know what it
 * depends on, and becomes a bit of the mask. */
void gpuhier_slices_plan(gpuhier_call_t *call, uint64_t slice_bytes);

/* The functions of gpuhier_form_t. */
void gpuhier_slices_prepare(gpuhier_call_t *call);
int gpuhier_slices_step(gpuhier_call_t *call, bool *done_p);
void gpuhier_slices_again(gpuhier_call_t *call);
bool gpuhier_slices_is_idle(const gpuhier_call_t *call);
bool gpuhier_slices_outcome_known(gpuhier_call_t *call);
void gpuhier_slices_report(const gpuhier_call_t *call);
void gpuhier_slices_note(const gpuhier_call_t *call);

/*
 * The stages that move the slices of a running call.
 */

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

#endif /* GPUHIER_SLICES_H */
