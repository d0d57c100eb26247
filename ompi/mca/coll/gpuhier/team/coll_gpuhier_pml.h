/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Open MPI's point-to-point layer (PML) as the carrier of a net, where UCX has no network between nodes.
 */
#ifndef GPUHIER_PML_H
#define GPUHIER_PML_H

#include "net/coll_gpuhier_net.h"

/*
 * Opens a net whose messages travel on MPI_COMM_WORLD, because that lives as long as the net and no late message can
 * reach another communicator. Returns OMPI_ERR_NOT_SUPPORTED in a program without MPI_COMM_WORLD. *error_p becomes one
 * line that says what is wrong, or "".
 */
int gpuhier_pml_net_open(gpuhier_net_t **net_p, const char **error_p);

#endif /* GPUHIER_PML_H */
