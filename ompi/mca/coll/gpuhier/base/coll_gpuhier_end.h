/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The end of the process's life in MPI: when it comes, and whether it has come. What is to happen then is
 * registered by coll_gpuhier_finalize.c.
 */
#ifndef GPUHIER_END_H
#define GPUHIER_END_H

#include <stdbool.h>

/*
 * Begins anew, with the function that is to be called at the end. For each opening of the component, which may not be
 * the first: its memory stays where it is built into libmpi, or kept by a program.
 */
void gpuhier_end_open(void (*end)(void));

/*
 * Has the function called, once, when MPI_Finalize or the end of the last session begins. To be called before there
 * is anything to release. Returns an Open MPI code.
 */
int gpuhier_end_arm(void);

/* Is the process in MPI_Finalize? A session may come after it. */
bool gpuhier_end_is_finalizing(void);

/*
 * Has the end begun? A program's callbacks on MPI_COMM_SELF may make calls, before or after everything is released, in
 * another order on each rank. The saved collectives serve them all.
 */
bool gpuhier_end_has_come(void);

#endif /* GPUHIER_END_H */
