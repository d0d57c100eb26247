/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_Barrier: a meeting if one is due (coll_gpuhier_path.h), then the saved barrier. A barrier waits for all ranks in
 * any case, so a program that calls only MPI_Iallreduce and MPI_Barrier is accelerated from here on.
 *
 * Called by Open MPI.
 */
#include "ompi_config.h"

#include "coll/coll_gpuhier_barrier.h"
#include "coll/coll_gpuhier_path.h"

int gpuhier_barrier(struct ompi_communicator_t *comm, mca_coll_base_module_t *base)
{
    gpuhier_module_t *module = gpuhier_module_of(base);
    if (0 == gpuhier_inside_saved && !gpuhier_path_meet(module, comm)) {
        return module->saved.failure;
    }
    ++gpuhier_inside_saved;
    int rc = module->saved.barrier(comm, module->saved.barrier_module);
    --gpuhier_inside_saved;
    return rc;
}
