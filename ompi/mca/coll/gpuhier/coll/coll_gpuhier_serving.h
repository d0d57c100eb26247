/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Which component serves a communicator's collectives, and which one serves the calls that gpuhier leaves.
 */
#ifndef GPUHIER_SERVING_H
#define GPUHIER_SERVING_H

#include "base/coll_gpuhier_served.h"

/* Local. */
void gpuhier_serving_find(const struct ompi_communicator_t *comm, gpuhier_served_t served_p[GPUHIER_SERVED_COUNT]);

/* Tells the report about MPI_COMM_WORLD, and with print_info prints a line about any communicator on its rank 0. */
void gpuhier_serving_tell(struct ompi_communicator_t *comm);

#endif /* GPUHIER_SERVING_H */
