/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_Iallreduce and MPI_Allreduce_init.
 */
#ifndef GPUHIER_NONBLOCKING_H
#define GPUHIER_NONBLOCKING_H

#include "coll/coll_gpuhier_module.h"

/*
 * MPI_Iallreduce. Runs on the GPUs when blocking calls of the same kind do at this
 * time; else the saved collective serves it, with device buffers staged. Never asks other ranks.
 */
int gpuhier_iallreduce(const void *sbuf, void *rbuf, gpuhier_count_t count, struct ompi_datatype_t *dtype,
                       struct ompi_op_t *op, struct ompi_communicator_t *comm, ompi_request_t **request_p,
                       mca_coll_base_module_t *base);

/*
 * MPI_Allreduce_init. Asks all ranks whether their buffers are device memory, and if so
 * sets up a team for this request alone; else the saved collective serves it.
 */
int gpuhier_allreduce_init(const void *sbuf, void *rbuf, gpuhier_count_t count, struct ompi_datatype_t *dtype,
                           struct ompi_op_t *op, struct ompi_communicator_t *comm, struct ompi_info_t *info,
                           ompi_request_t **request_p, mca_coll_base_module_t *base);

#endif /* GPUHIER_NONBLOCKING_H */
