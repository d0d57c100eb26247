/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Holds what the engine has registered; see the header.
 */
#include "ompi_config.h"

#include "team/coll_gpuhier_hooks.h"

const gpuhier_team_engine_t *gpuhier_team_engine;
