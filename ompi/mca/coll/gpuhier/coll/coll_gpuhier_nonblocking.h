/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_Iallreduce.
 */
#ifndef GPUHIER_NONBLOCKING_H
#define GPUHIER_NONBLOCKING_H

#include "base/coll_gpuhier_compat.h"

/*
 * Runs the call on the GPUs when calls of the same kind run there at this time; else the saved collective
 * serves it, with device buffers staged. Never asks other ranks, but notes that they are to be asked.
 */
int gpuhier_iallreduce(const void *sbuf, void *rbuf, gpuhier_count_t count, struct ompi_datatype_t *dtype,
                       struct ompi_op_t *op, struct ompi_communicator_t *comm, ompi_request_t **request_p,
                       mca_coll_base_module_t *base);

#endif /* GPUHIER_NONBLOCKING_H */
