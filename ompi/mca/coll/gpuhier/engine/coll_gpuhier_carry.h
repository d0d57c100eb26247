/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A kernel that carries the input of a short message to the host and the result back (gpu/kernels/gpuhier_carry.h), in
 * place of two copies. Each rank decides for itself, since the others see its area in the control block only.
 *
 *   - The kernel runs on the legacy default stream, behind the program's own work. So the call must begin at once, a
 *     thread must wait for it, and only one thread of the program may call MPI.
 *   - It waits for this rank's host only, and leaves when that takes too long. Then the host copies the result.
 *   - Ranks that share a GPU do without: there a kernel that waits keeps the others' work from running.
 */
#ifndef GPUHIER_CARRY_FORM_H
#define GPUHIER_CARRY_FORM_H

#include <stdbool.h>

struct gpuhier_call;

/* May a kernel carry this short call's input and result? Asked when the call is posted. */
bool gpuhier_carry_suits(const struct gpuhier_call *call);

/* Starts the kernel. The call has its lane. Returns an Open MPI code. */
int gpuhier_carry_launch(struct gpuhier_call *call);

/* Has the input come? 1 if so, 0 if not, < 0 for an error. */
int gpuhier_carry_input_came(const struct gpuhier_call *call);

/* Tells the kernel that the result is in the lane's page-locked memory, or that it must leave. */
void gpuhier_carry_answer(struct gpuhier_call *call);
void gpuhier_carry_stop(struct gpuhier_call *call);

/* The kernel's last word, GPUHIER_CARRY_COMPLETE or GPUHIER_CARRY_LEFT; 0: it has not come; < 0: an error. */
int gpuhier_carry_ended(const struct gpuhier_call *call);

/* Has a kernel been started that has not ended? */
bool gpuhier_carry_runs(const struct gpuhier_call *call);

#endif /* GPUHIER_CARRY_FORM_H */
