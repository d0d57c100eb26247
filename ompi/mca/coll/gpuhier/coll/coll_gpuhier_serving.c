/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns what gpuhier says of the components that serve a communicator's collectives.
 *
 * Called by the component at the end of MPI_Init, since a component that stands above gpuhier leaves it no call that
 * could say so; by path when a communicator gets a team; and by describe.
 */
#include "ompi_config.h"

#include <stdio.h>
#include <string.h>

#include "base/coll_gpuhier_params.h"
#include "base/coll_gpuhier_report.h"
#include "coll/coll_gpuhier_module.h"
#include "coll/coll_gpuhier_serving.h"
#include "opal/util/output.h"

void gpuhier_serving_find(const struct ompi_communicator_t *comm, gpuhier_served_t served_p[GPUHIER_SERVED_COUNT])
{
    gpuhier_served_t *served = served_p, below;
    gpuhier_served_find(comm, served_p);
#define BELOW(name)                                                                          \
    if (gpuhier_served_by_gpuhier(served)) {                                                 \
        const gpuhier_module_t *own = gpuhier_module_of(comm->c_coll->coll_##name##_module); \
        gpuhier_served_one(comm, #name, own->saved.name##_module, &below);                   \
        memcpy(served->below, below.by, sizeof(below.by));                                   \
    }                                                                                        \
    ++served;
    GPUHIER_COLLECTIVES(BELOW)
#undef BELOW
}

void gpuhier_serving_tell(struct ompi_communicator_t *comm)
{
    gpuhier_served_t served[GPUHIER_SERVED_COUNT];
    char text[768], why[256];
    gpuhier_serving_find(comm, served);
    gpuhier_served_text(served, text, sizeof(text));
    if (!gpuhier_served_by_gpuhier(&served[0])) {
        const size_t at = strlen(text);
        snprintf(text + at, sizeof(text) - at, ". gpuhier does not serve MPI_Allreduce: %s",
                 gpuhier_served_why_not(&served[0], gpuhier_params.enable, gpuhier_params.priority, why, sizeof(why)));
    }
    if (MPI_COMM_WORLD == comm) {
        gpuhier_report_served(text);
    }
    if (gpuhier_params.print_info && 0 == ompi_comm_rank(comm)) {
        opal_output(0, "coll:gpuhier: communicator %s: %s", comm->c_name, text);
    }
}
