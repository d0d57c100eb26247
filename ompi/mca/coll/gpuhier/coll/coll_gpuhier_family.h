/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The collectives. Some run on the GPUs, see coll_gpuhier_rows.h. Of the others, where Open MPI cannot take GPU
 * buffers, gpuhier copies them to host memory, calls the saved function, and copies the result back.
 */
#ifndef GPUHIER_FAMILY_H
#define GPUHIER_FAMILY_H

#include "base/coll_gpuhier_compat.h"

/* Offers the collectives that need it in this process, before the module is enabled: where there is no CUDA driver,
 * MPI_Allreduce and MPI_Barrier. */
void gpuhier_family_offer(mca_coll_base_module_t *module);

#endif /* GPUHIER_FAMILY_H */
