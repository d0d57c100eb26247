/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What a plan's call moves, and when its stages work. Pure: needs libc only. Used by gpuhier_info, and by tests and the
 * simulation, which hold it against what calls do.
 */
#ifndef INFO_TRAFFIC_H
#define INFO_TRAFFIC_H

#include "plan/coll_gpuhier_schedule.h"

/* The stages, in the order of the table at the top of coll_gpuhier_schedule.h. */
typedef enum info_phase {
    INFO_PHASE_REDUCE_SCATTER = 0,
    INFO_PHASE_EXCHANGE,
    INFO_PHASE_ALL_GATHER,
    INFO_PHASE_COUNT
} info_phase_t;

#define INFO_NO_SLICE UINT64_MAX

/* The number of ticks of that table. */
static inline uint64_t info_ticks(const gpuhier_plan_t *plan)
{
    return 0 == plan->nslices ? 0 : plan->nslices + INFO_PHASE_COUNT - 1;
}

/* The slice that is in a phase at a tick, or INFO_NO_SLICE. */
static inline uint64_t info_phase_slice(const gpuhier_plan_t *plan, uint64_t tick, info_phase_t phase)
{
    return tick < (uint64_t) phase || tick - phase >= plan->nslices ? INFO_NO_SLICE : tick - phase;
}

/*
 * Bytes of payload that cross the link from member from_index's GPU memory to
 * member to_index's GPU (to != from) of the plan's group in one flat call, where
 * shards are dealt in the order of the members:
 *     sum over slices of (|shard of to| + |shard of from|) * elem_bytes
 * In RS `to` reads its shard from every peer, in AG `from` writes its shard to every peer. The sum over all `from` and
 * `to`, own memory included, is 2 P B for P ranks and B bytes.
 */
uint64_t info_link_bytes(const gpuhier_plan_t *plan, int to_index, int from_index);

/* Bytes of payload that the plan's rank sends to other groups in one call of any collective: all its pieces, all
 * slices. */
uint64_t info_sent_bytes(const gpuhier_plan_t *plan);

#endif /* INFO_TRAFFIC_H */
