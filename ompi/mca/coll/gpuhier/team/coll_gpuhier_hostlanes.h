/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Set-up of host memory that ranks of a node share, since they cannot map each other's GPU memory.
 */
#ifndef GPUHIER_HOSTLANES_H
#define GPUHIER_HOSTLANES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/coll_gpuhier_saved.h"
#include "team/coll_gpuhier_team.h"

/* What a rank makes. */
typedef struct gpuhier_hostlanes {
    bool mine;                  /* false: this rank has no such memory, and only votes */
    gpuhier_hostmem_t *hostmem; /* of the team */
    gpuhier_hostmem_size_t size;
    int index;                  /* of this rank's lane */
    uint64_t word;              /* a random one that the ranks of the memory share */
    const gpuhier_lane_t *lane; /* of GPU memory, without work */
    const char *topic;          /* of the help text for a rank whose own part fails */
} gpuhier_hostlanes_t;

/*
 * Makes the memory. Collective over the communicator. Returns the same outcome on all ranks; a rank whose own part
 * failed has said why, and no rank has such memory then. The context is current.
 */
int gpuhier_hostlanes_make(gpuhier_team_t *team, gpuhier_saved_t *saved, const gpuhier_hostlanes_t *lanes);

#endif /* GPUHIER_HOSTLANES_H */
