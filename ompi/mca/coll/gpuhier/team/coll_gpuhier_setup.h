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

/* A set-up that has its memory. Each rank has one before it says that it can take part. */
typedef struct gpuhier_setup gpuhier_setup_t;

/* Local. Returns NULL when memory ran out. */
gpuhier_setup_t *gpuhier_setup_prepare(struct ompi_communicator_t *comm);

/* Frees a set-up that does not take place; NULL is ignored. */
void gpuhier_setup_drop(gpuhier_setup_t *setup);

/*
 * Sets up a team, and frees the set-up: collective over the communicator, through its saved
 * collectives. buffer: a device buffer of this call, which gives the context.
 * Every member returns the same outcome: OMPI_SUCCESS, or a code when any of
 * them failed (each has said why). Outcomes differ only where saved->failure is set.
 */
int gpuhier_team_create(gpuhier_setup_t *setup, gpuhier_saved_t *saved, const gpuhier_buffer_t *buffer,
                        gpuhier_team_t **team_p);

#endif /* GPUHIER_SETUP_H */
