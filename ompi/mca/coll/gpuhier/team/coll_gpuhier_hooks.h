/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The functions of the engine that a team calls. The engine stands above this folder, so it registers them.
 */
#ifndef GPUHIER_HOOKS_H
#define GPUHIER_HOOKS_H

#include "team/coll_gpuhier_team.h"

typedef struct gpuhier_team_engine {
    /* Makes the engine's part of a team with several groups. The engine's lock is held. Returns an Open MPI code. */
    int (*make)(gpuhier_team_t *team);
    /* Releases that part; harmless when there is none. The lock is held. */
    void (*release)(gpuhier_team_t *team);
    /* Drives all pending calls and UCX while set-up waits. The lock is not held. Returns the number of events. */
    int (*drive)(bool thorough);
} gpuhier_team_engine_t;

/* Set before the first team is made. */
extern const gpuhier_team_engine_t *gpuhier_team_engine;

#endif /* GPUHIER_HOOKS_H */
