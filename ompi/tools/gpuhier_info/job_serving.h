/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Who serves MPI_COMM_WORLD, and why gpuhier does not.
 */
#ifndef JOB_SERVING_H
#define JOB_SERVING_H

#include <stdbool.h>

#include "coll/coll_gpuhier_describe.h"

/*
 * Does gpuhier serve MPI_Allreduce of MPI_COMM_WORLD? Local. described: what the loaded component says; NULL: none is
 * loaded. served_p: the component of each collective. why_p: [room] why not, empty where gpuhier serves.
 */
bool job_serving(const gpuhier_description_t *described, gpuhier_served_t served_p[GPUHIER_SERVED_COUNT], char *why_p,
                 size_t room);

#endif /* JOB_SERVING_H */
