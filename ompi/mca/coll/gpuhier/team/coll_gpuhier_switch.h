/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A team's memory for reductions in NVSwitches: slice buffers with multicast addresses, one set for each group.
 *
 *   | slice buffer 0, 1 .. S-1 |    in the copy of every member; input and output of a slice
 *
 * Element i of a buffer is reduced and written in all copies by its shard's owner only.
 */
#ifndef GPUHIER_SWITCH_H
#define GPUHIER_SWITCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/coll_gpuhier_saved.h"
#include "team/coll_gpuhier_team.h"

/* Should switches reduce a call of this kernel (coll_gpuhier_reduce.h) and length, if the team has the memory? Equal on
 * all ranks. */
bool gpuhier_switch_suits(const gpuhier_team_t *team, int kernel, uint64_t bytes);

/*
 * Makes the memory, if the team is one that may have it and has not tried. Collective: all ranks of the communicator
 * call it at the same place, and know that all do. Afterwards all have it, or none, unless
 * saved->failure is set.
 */
void gpuhier_switch_make(gpuhier_team_t *team, gpuhier_saved_t *saved);

/* Where a slice buffer begins, in bytes from the start of a copy. */
static inline uint64_t gpuhier_switch_place(const gpuhier_team_t *team, int buffer)
{
    return (uint64_t) buffer * team->switch_buffer_bytes;
}

#endif /* GPUHIER_SWITCH_H */
