/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_Allreduce.
 */
#ifndef GPUHIER_ALLREDUCE_H
#define GPUHIER_ALLREDUCE_H

#include "base/coll_gpuhier_compat.h"
#include "plan/coll_gpuhier_collective.h"

extern const gpuhier_collective_t gpuhier_allreduce_row;

/*
 * Runs the call on the GPUs when all ranks can. Otherwise hands it to the saved collective, and stages device buffers
 * that the collective cannot take.
 */
int gpuhier_allreduce(const void *sbuf, void *rbuf, gpuhier_count_t count, struct ompi_datatype_t *dtype,
                      struct ompi_op_t *op, struct ompi_communicator_t *comm, mca_coll_base_module_t *base);

#endif /* GPUHIER_ALLREDUCE_H */
