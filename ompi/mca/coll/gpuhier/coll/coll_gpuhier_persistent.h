/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_Allreduce_init.
 */
#ifndef GPUHIER_PERSISTENT_H
#define GPUHIER_PERSISTENT_H

#include "base/coll_gpuhier_compat.h"

/*
 * Asks all ranks whether their buffers are device memory. If so, sets up a team for this request alone; else the saved
 * collective serves it, with device buffers staged.
 */
int gpuhier_allreduce_init(const void *sbuf, void *rbuf, gpuhier_count_t count, struct ompi_datatype_t *dtype,
                           struct ompi_op_t *op, struct ompi_communicator_t *comm, struct ompi_info_t *info,
                           ompi_request_t **request_p, mca_coll_base_module_t *base);

#endif /* GPUHIER_PERSISTENT_H */
