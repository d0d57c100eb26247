/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The end of the process's life in MPI: when it comes, and whether it has come. finalize() in coll_gpuhier_component.c
 * says what happens then.
 */
#ifndef GPUHIER_END_H
#define GPUHIER_END_H

#include <stdbool.h>

/*
 * Begins anew. `end` is the function to call at the end. The component calls this each time it is opened, since its
 * variables outlive a closing where it is built into libmpi, or where the program keeps it loaded.
 */
void gpuhier_end_open(void (*end)(void));

/*
 * Makes sure that the function is called once, when MPI_Finalize or the end of the last session begins. The caller does
 * this before it makes anything that must be released. Any thread may call it. Returns an Open MPI code.
 */
int gpuhier_end_arm(void);

/* Is the process in MPI_Finalize? Sessions may outlive it. */
bool gpuhier_end_is_finalizing(void);

/*
 * Has the end begun? The program's own callbacks on MPI_COMM_SELF may then call collectives, before or after everything
 * is released, and the order differs between ranks. The saved collectives serve all of these calls. They also serve all
 * calls that sessions make after MPI_Finalize, since by then some ranks have released what gpuhier needs.
 */
bool gpuhier_end_has_come(void);

#endif /* GPUHIER_END_H */
