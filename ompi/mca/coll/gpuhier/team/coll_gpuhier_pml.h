/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Open MPI's point-to-point layer (PML) as the carrier of a net, where UCX has no network between nodes, or has
 * TCP only and the PML has a fabric.
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

/*
 * Do Open MPI's own messages go over a fabric that UCX may not know, such as Slingshot or EFA by libfabric? Open MPI
 * chooses the PML cm by itself only where one of its transports has a fabric; TCP does not count there. False in a
 * program without MPI_COMM_WORLD, which has no such messages.
 */
bool gpuhier_pml_has_fabric(void);

#endif /* GPUHIER_PML_H */
