/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The set-up of a team, once a communicator.
 */
#ifndef GPUHIER_SETUP_H
#define GPUHIER_SETUP_H

#include "team/coll_gpuhier_team.h"

/*
 * Fills a team of which comm, rank, nranks and limits are set: collective over
 * the communicator, through its saved collectives. buffer: a device buffer of
 * this call, which gives the context. Every member returns success or none; what
 * was made before a failure goes with the team.
 */
int gpuhier_setup_run(gpuhier_team_t *team, const gpuhier_saved_t *saved, const gpuhier_buffer_t *buffer);

/* The part in that of a member which has no team to fill: its vote, after which all give up. */
void gpuhier_setup_decline(const gpuhier_saved_t *saved, struct ompi_communicator_t *comm);

#endif /* GPUHIER_SETUP_H */
