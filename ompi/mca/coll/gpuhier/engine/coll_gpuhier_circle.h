/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The kernels that only a call in levels has (plan/coll_gpuhier_levels.h). The stages are in coll_gpuhier_pipeline.c.
 */
#ifndef GPUHIER_CIRCLE_H
#define GPUHIER_CIRCLE_H

#include "engine/coll_gpuhier_call.h"

/*
 * Queue this rank's part of a slice on the stream of a level's AG. Return an Open MPI code.
 *   combine   With one group, at the last level but one: reduces the sums of the circle of the last level, and pushes
 *             the result into the outputs of this level's circle.
 *   pass      Pushes this rank's shard, which is complete in its own output, into those of the rest of the circle.
 */
int gpuhier_circle_combine(const gpuhier_call_t *call, int level, uint64_t slice);
int gpuhier_circle_pass(const gpuhier_call_t *call, int level, uint64_t slice);

#endif /* GPUHIER_CIRCLE_H */
