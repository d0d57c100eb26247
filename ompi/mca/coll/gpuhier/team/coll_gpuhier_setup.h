/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Set-up: how the members of a communicator make a team.
 */
#ifndef GPUHIER_SETUP_H
#define GPUHIER_SETUP_H

#include "base/coll_gpuhier_saved.h"
#include "team/coll_gpuhier_team.h"

/*
 * Sets up a team: collective over the communicator, through its saved
 * collectives. buffer: a device buffer of this call, which gives the context.
 * Every member returns the same outcome: OMPI_SUCCESS, or a code when any of
 * them failed (each has said why).
 */
int gpuhier_team_create(const gpuhier_saved_t *saved, struct ompi_communicator_t *comm, const gpuhier_buffer_t *buffer,
                        gpuhier_team_t **team_p);

#endif /* GPUHIER_SETUP_H */
