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

#include "ompi/runtime/mpiruntime.h"

/* For gpuhier_end_has_begun() only: all is released; Open MPI has come to this state, or all is released. */
extern _Atomic bool gpuhier_ended;
bool gpuhier_end_has_reached(int state);

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
 * Has the end begun? The program's own callbacks on MPI_COMM_SELF may then call collectives, while other ranks may not
 * have come to MPI_Finalize. Nothing begins on the GPUs any more, but a rank in a callback takes part in agreements and
 * probes.
 */
static inline bool gpuhier_end_has_begun(void)
{
    return (ompi_mpi_state >= OMPI_MPI_STATE_FINALIZE_STARTED || gpuhier_ended)
           && gpuhier_end_has_reached(OMPI_MPI_STATE_FINALIZE_STARTED);
}

/* Is everything released, or about to be? The saved collectives serve all calls, and nobody asks others. So they do in
 * sessions after MPI_Finalize, since by then some ranks have released what gpuhier needs. */
bool gpuhier_end_has_come(void);

#endif /* GPUHIER_END_H */
