/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_Barrier, where the ranks of a communicator may ask each other about their nonblocking calls.
 */
#ifndef GPUHIER_BARRIER_H
#define GPUHIER_BARRIER_H

#include "ompi/mca/coll/coll.h"

/* Runs the saved barrier, after a meeting; see gpuhier_path_meet(). */
int gpuhier_barrier(struct ompi_communicator_t *comm, mca_coll_base_module_t *base);

#endif /* GPUHIER_BARRIER_H */
