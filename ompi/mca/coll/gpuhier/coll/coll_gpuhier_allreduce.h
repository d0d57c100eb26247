/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The entries of MPI_Allreduce, and of MPI_Barrier.
 */
#ifndef GPUHIER_ALLREDUCE_H
#define GPUHIER_ALLREDUCE_H

#include "base/coll_gpuhier_compat.h"
#include "plan/coll_gpuhier_schedule.h"

extern const gpuhier_collective_t gpuhier_allreduce_row;

/*
 * Runs the call on the GPUs when all ranks can. Otherwise hands it to the saved collective, and stages device buffers
 * that the collective cannot take.
 */
int gpuhier_allreduce(const void *sbuf, void *rbuf, gpuhier_count_t count, struct ompi_datatype_t *dtype,
                      struct ompi_op_t *op, struct ompi_communicator_t *comm, mca_coll_base_module_t *base);

/*
 * Runs the call on the GPUs when calls of the same kind run there at this time; else the saved collective
 * serves it, with device buffers staged. Never asks other ranks, but notes that they are to be asked.
 */
int gpuhier_iallreduce(const void *sbuf, void *rbuf, gpuhier_count_t count, struct ompi_datatype_t *dtype,
                       struct ompi_op_t *op, struct ompi_communicator_t *comm, ompi_request_t **request_p,
                       mca_coll_base_module_t *base);

/*
 * Asks all ranks whether their buffers are device memory. If so, sets up a team for this request alone; else the saved
 * collective serves it, with device buffers staged.
 */
int gpuhier_allreduce_init(const void *sbuf, void *rbuf, gpuhier_count_t count, struct ompi_datatype_t *dtype,
                           struct ompi_op_t *op, struct ompi_communicator_t *comm, struct ompi_info_t *info,
                           ompi_request_t **request_p, mca_coll_base_module_t *base);

/* Runs the saved barrier, after a meeting; see gpuhier_path_meet(). */
int gpuhier_barrier(struct ompi_communicator_t *comm, mca_coll_base_module_t *base);

#endif /* GPUHIER_ALLREDUCE_H */
