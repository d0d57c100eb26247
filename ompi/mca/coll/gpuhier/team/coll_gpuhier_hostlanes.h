/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Set-up of scratch in host memory, for nodes whose ranks cannot map each other's GPU memory.
 */
#ifndef GPUHIER_HOSTLANES_H
#define GPUHIER_HOSTLANES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/coll_gpuhier_saved.h"
#include "team/coll_gpuhier_team.h"

/*
 * Makes the scratch of this rank's group if `mine`; the other ranks vote with it. Collective over the communicator,
 * whose groups are known. word: a random one that the group's members share. Returns the same outcome on all ranks; a
 * rank whose own part failed has said why. The context is current.
 */
int gpuhier_hostlanes_make(gpuhier_team_t *team, const gpuhier_saved_t *saved, bool mine, uint64_t word);

#endif /* GPUHIER_HOSTLANES_H */
