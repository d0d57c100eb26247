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

#endif /* GPUHIER_SLICES_H */
