/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the collectives that gpuhier calls for itself, and the rule that none follows one that has failed. Called by
 * path and by set-up.
 */
#include "ompi_config.h"

#include "base/coll_gpuhier_saved.h"

_Thread_local int gpuhier_inside_saved;

int gpuhier_saved_least(gpuhier_saved_t *saved, struct ompi_communicator_t *comm, const void *mine, void *all,
                        struct ompi_datatype_t *type)
{
    if (OMPI_SUCCESS == saved->failure) {
        ++gpuhier_inside_saved;
        saved->failure = saved->allreduce(mine, all, 1, type, MPI_MIN, comm, saved->allreduce_module);
        --gpuhier_inside_saved;
    }
    return saved->failure;
}

bool gpuhier_saved_vote(gpuhier_saved_t *saved, struct ompi_communicator_t *comm, bool mine)
{
    int ok = mine, all = 0;
    return OMPI_SUCCESS == gpuhier_saved_least(saved, comm, &ok, &all, MPI_INT) && 0 != all;
}

int gpuhier_saved_gather(gpuhier_saved_t *saved, struct ompi_communicator_t *comm, const void *mine, void *all,
                         size_t bytes)
{
    const gpuhier_count_t count = (gpuhier_count_t) bytes;
    if (OMPI_SUCCESS == saved->failure) {
        ++gpuhier_inside_saved;
        saved->failure = saved->allgather(mine, count, MPI_BYTE, all, count, MPI_BYTE, comm, saved->allgather_module);
        --gpuhier_inside_saved;
    }
    return saved->failure;
}
