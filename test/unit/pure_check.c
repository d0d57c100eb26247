/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns: the references that the result of a simulated run is compared with. They
 * are computed from the contributions directly, by the formulas in coll_gpuhier_schedule.h.
 */
#include "info_traffic.h"
#include "pure_run.h"

#include <string.h>

static value_t group_value(const run_t *run, int group, uint64_t elem)
{
    value_t sum = pure_contribution(run, gpuhier_hierarchy_member(run->h, group, 0), elem);

    for (int i = 1; i < gpuhier_hierarchy_group_size(run->h, group); ++i) {
        sum = pure_combine(sum, pure_contribution(run, gpuhier_hierarchy_member(run->h, group, i), elem));
    }
    return sum;
}

/* T(c, w) of the header: w leaves from c on. */
static value_t tree_value(const run_t *run, int leaf, int width, int folded, uint64_t elem)
{
    if (width > 1) {
        value_t low = tree_value(run, leaf, width / 2, folded, elem);
        return pure_combine(low, tree_value(run, leaf + width / 2, width / 2, folded, elem));
    }
    if (leaf < folded) {
        value_t even = group_value(run, 2 * leaf, elem);
        return pure_combine(even, group_value(run, 2 * leaf + 1, elem));
    }
    return group_value(run, leaf + folded, elem);
}

/* The chunk, of one per group, that an element of a piece lies in. */
static int ring_chunk(const run_t *run, gpuhier_range_t piece, uint64_t elem)
{
    uint64_t unit = run->plans[0].unit;
    unsigned __int128 units = (gpuhier_range_length(piece) + unit - 1) / unit;
    unsigned __int128 at = (elem - piece.begin) / unit;
    int chunk = 0;

    while (at >= units * (unsigned) (chunk + 1) / (unsigned) run->ngroups) {
        ++chunk;
    }
    return chunk;
}

static value_t ring_value(const run_t *run, int chunk, uint64_t elem)
{
    value_t sum = group_value(run, (chunk + 1) % run->ngroups, elem);

    for (int i = 2; i <= run->ngroups; ++i) {
        sum = pure_combine(sum, group_value(run, (chunk + i) % run->ngroups, elem));
    }
    return sum;
}

static bool check_result(run_t *run, uint64_t elem, const value_t *expected)
{
    const value_t *result = &run->results[elem];
    uint64_t sum = 0;

    for (int rank = 0; rank < run->nranks; ++rank) {
        sum += pure_contribution(run, rank, elem).sum;
    }
    if (result->n != (uint64_t) run->nranks || result->sum != sum) {
        return pure_run_fail(run, "element %llu does not hold every contribution exactly once",
                             (unsigned long long) elem);
    }
    if (0 != memcmp(result, expected, sizeof(*result))) {
        return pure_run_fail(run, "element %llu: the operands are not in the documented order",
                             (unsigned long long) elem);
    }
    for (int group = 0; group < run->ngroups; ++group) {
        if (1 != run->delivered[(size_t) group * run->sim->count + elem]) {
            return pure_run_fail(run, "element %llu was written %d times in group %d", (unsigned long long) elem,
                                 run->delivered[(size_t) group * run->sim->count + elem], group);
        }
    }
    return true;
}

bool pure_check_results(run_t *run)
{
    const gpuhier_plan_t *plan = &run->plans[0];
    uint64_t checked = 0;
    int leaves = 1;

    while (2 * leaves <= run->ngroups) {
        leaves *= 2;
    }
    for (uint64_t slice = 0; slice < plan->nslices; ++slice) {
        for (int i = 0; i < run->sim->world->shape.npieces; ++i) {
            gpuhier_range_t piece = gpuhier_plan_piece(plan, slice, i);
            if (piece.begin != checked || piece.end < piece.begin) {
                return pure_run_fail(run, "slice %llu piece %d does not begin where the one before ends",
                                     (unsigned long long) slice, i);
            }
            for (; checked < piece.end; ++checked) {
                value_t expected = GPUHIER_ALGORITHM_RING == plan->algorithm
                                       ? ring_value(run, ring_chunk(run, piece, checked), checked)
                                       : tree_value(run, 0, leaves, run->ngroups - leaves, checked);
                if (!check_result(run, checked, &expected)) {
                    return false;
                }
            }
        }
    }
    return checked == run->sim->count || pure_run_fail(run, "the slices end before the message does");
}

bool pure_check_traffic(run_t *run, pure_sim_counts_t *counts)
{
    size_t row = (size_t) run->sim->world->shape.max_group_size;

    for (int rank = 0; rank < run->nranks; ++rank) {
        const gpuhier_plan_t *plan = &run->plans[rank];
        if (info_sent_bytes(plan) != run->sent[rank] * run->sim->elem_bytes) {
            return pure_run_fail(run, "rank %d sent %llu elements, by the formula %llu bytes", rank,
                                 (unsigned long long) run->sent[rank], (unsigned long long) info_sent_bytes(plan));
        }
        counts->net_elems += run->sent[rank];
        for (int from = 0; from < plan->group_size; ++from) {
            uint64_t moved = run->links[(size_t) rank * row + (size_t) from];
            counts->gpu_elems += moved;
            if (from != plan->index && info_link_bytes(plan, plan->index, from) != moved * run->sim->elem_bytes) {
                return pure_run_fail(run, "rank %d: %llu elements came from member %d, by the formula %llu bytes", rank,
                                     (unsigned long long) moved, from,
                                     (unsigned long long) info_link_bytes(plan, plan->index, from));
            }
        }
    }
    return true;
}
