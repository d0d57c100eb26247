/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the rule by which a group falls into parts, and the shards of a call in levels; see the header. Called by set-up
 * (once per communicator), the engine, gpuhier_info and the unit tests. No Open MPI header.
 */
#include "plan/coll_gpuhier_levels.h"

#include <string.h>

#include "plan/coll_gpuhier_choice.h"

/* Lists the members part after part. Returns the number of parts, or 0 where they differ in size. */
static int parts_list(const gpuhier_level_rank_t *ranks, int size, gpuhier_levels_t *levels)
{
    bool listed[GPUHIER_GROUP_MAX] = {false};
    int nparts = 0;
    int filled = 0;

    for (int first = 0; first < size; ++first) {
        if (listed[first]) {
            continue;
        }
        const int begin = filled;
        for (int i = first; i < size; ++i) {
            if (ranks[i].package == ranks[first].package) {
                levels->member[filled++] = (uint8_t) i;
                listed[i] = true;
            }
        }
        if (0 == nparts) {
            levels->part_size = filled;
        }
        if (filled - begin != levels->part_size) {
            return 0;
        }
        ++nparts;
    }
    return nparts;
}

/* Is there reason to believe that no NVLink joins the parts? */
static bool parts_are_apart(const gpuhier_level_rank_t *ranks, int size, const gpuhier_levels_t *levels)
{
    for (int i = 0; i < size; ++i) {
        if (ranks[i].package < 0 || ranks[i].pcie_peers < size - levels->part_size) {
            return false;
        }
    }
    return true;
}

bool gpuhier_levels_init(gpuhier_levels_t *levels_p, const gpuhier_level_rank_t *ranks, int size, int index,
                         uint64_t min_bytes)
{
    gpuhier_levels_t levels = {.min_bytes = min_bytes};

    memset(levels_p, 0, sizeof(*levels_p));
    levels.nparts = parts_list(ranks, size, &levels);
    if (0 == min_bytes || levels.nparts < 2 || levels.part_size < 2 || !parts_are_apart(ranks, size, &levels)) {
        return false;
    }
    for (int i = 0; i < size; ++i) {
        if (index == levels.member[i]) {
            levels.part = i / levels.part_size;
            levels.place = i % levels.part_size;
        }
    }
    *levels_p = levels;
    return true;
}

gpuhier_range_t gpuhier_levels_shard(const gpuhier_levels_t *levels, const gpuhier_plan_t *plan, uint64_t slice)
{
    const gpuhier_range_t range = gpuhier_plan_slice(plan, slice);
    const uint64_t elems = gpuhier_range_length(range);
    const uint32_t place = (uint32_t) levels->place;
    const uint32_t shards = (uint32_t) levels->part_size;

    return (gpuhier_range_t){.begin = range.begin + gpuhier_cut(elems, plan->unit, place, shards),
                             .end = range.begin + gpuhier_cut(elems, plan->unit, place + 1, shards)};
}

uint64_t gpuhier_levels_slice_bytes(const gpuhier_levels_t *levels, uint64_t bytes, uint64_t slice_bytes)
{
    const uint64_t least = GPUHIER_LEVELS_SHARD_MIN * (uint64_t) levels->part_size;
    const uint64_t part = bytes / GPUHIER_SLICES_WANTED;
    const uint64_t slice = part > least ? part : least;

    return slice < slice_bytes ? slice : slice_bytes;
}
