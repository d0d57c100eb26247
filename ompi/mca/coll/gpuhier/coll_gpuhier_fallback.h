/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The path of a call that does not run on the GPUs: the saved collective, and
 * host staging for device buffers that it cannot take.
 */
#ifndef GPUHIER_FALLBACK_H
#define GPUHIER_FALLBACK_H

#include "coll_gpuhier_module.h"

/*
 * Runs the saved allreduce. Any type, operation and count; sbuf or rbuf may be
 * device memory on any subset of ranks. On an Open MPI without CUDA support
 * device buffers are copied to host memory first and back afterwards; gaps of a
 * derived type in rbuf keep what they held.
 * Returns the collective's code, or that of a failed copy or allocation.
 */
int gpuhier_fallback_allreduce(const void *sbuf, void *rbuf, gpuhier_count_t count, struct ompi_datatype_t *dtype,
                               struct ompi_op_t *op, struct ompi_communicator_t *comm, gpuhier_module_t *module);

#endif /* GPUHIER_FALLBACK_H */
