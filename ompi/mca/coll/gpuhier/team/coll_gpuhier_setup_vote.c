/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the two collectives that the steps of set-up share.
 */
#include "ompi_config.h"

#include "team/coll_gpuhier_setup_internal.h"

bool gpuhier_setup_vote(const gpuhier_setup_t *setup, bool mine)
{
    int ok = mine, all = 0;
    int rc = setup->saved->allreduce(&ok, &all, 1, MPI_INT, MPI_MIN, setup->comm, setup->saved->allreduce_module);
    return OMPI_SUCCESS == rc && 0 != all;
}

int gpuhier_setup_gather(const gpuhier_setup_t *setup, const void *mine, void *all, size_t bytes)
{
    struct ompi_communicator_t *comm = setup->comm;
    return comm->c_coll->coll_allgather(mine, (gpuhier_count_t) bytes, MPI_BYTE, all, (gpuhier_count_t) bytes, MPI_BYTE,
                                        comm, comm->c_coll->coll_allgather_module);
}
