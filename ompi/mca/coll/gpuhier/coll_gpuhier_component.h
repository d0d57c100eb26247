/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The component as Open MPI knows it.
 */
#ifndef GPUHIER_COMPONENT_H
#define GPUHIER_COMPONENT_H

#include "base/coll_gpuhier_compat.h"

typedef struct gpuhier_component {
    mca_coll_base_component_t super;
} gpuhier_component_t;

extern gpuhier_component_t mca_coll_gpuhier_component;

/* Makes the module of a new communicator; NULL when gpuhier does not serve it. */
mca_coll_base_module_t *gpuhier_comm_query(struct ompi_communicator_t *comm, int *priority);

#endif /* GPUHIER_COMPONENT_H */
