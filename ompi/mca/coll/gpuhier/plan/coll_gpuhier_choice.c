/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the length of slices and the table of choices; see the header. The table of wires is in coll_gpuhier_schedule.c.
 * Called by the engine (one plan per call), by set-up with print_info, and by gpuhier_info.
 */
#include "plan/coll_gpuhier_choice.h"

#include <errno.h>
#include <stdio.h>

#include "plan/coll_gpuhier_part.h"

uint64_t gpuhier_choice_oneshot(int ranks, uint64_t oneshot_bytes, uint64_t slice_bytes)
{
    if (ranks < 2) {
        return 0;
    }
    const uint64_t units_of_all = GPUHIER_MAILBOX_UNIT * (uint64_t) ranks; /* one of each shard */
    const uint64_t room = GPUHIER_MAILBOX_BYTES / (2 * GPUHIER_MAILBOX_WIRE) / units_of_all * units_of_all;
    const uint64_t least = oneshot_bytes < slice_bytes ? oneshot_bytes : slice_bytes;
    return (room < least ? room : least) / GPUHIER_CHOICE_ONESHOT_UNIT * GPUHIER_CHOICE_ONESHOT_UNIT;
}

uint64_t gpuhier_choice_two_shots_from(int ranks)
{
    const uint64_t room = GPUHIER_MAILBOX_BYTES / GPUHIER_MAILBOX_WIRE / (uint64_t) ranks;
    return ranks > 4 ? room / 2 : room / GPUHIER_MAILBOX_UNIT * GPUHIER_MAILBOX_UNIT + 1;
}

uint64_t gpuhier_choice_switch_from(int groups, int ranks, int given)
{
    if (given >= 0 || groups > 2 || ranks < GPUHIER_SWITCH_RANKS) {
        return given > 0 && ranks > 1 ? (uint64_t) given : 0;
    }
    return 1 == groups ? GPUHIER_SWITCH_BYTES : GPUHIER_SWITCH_BYTES_BETWEEN;
}

uint64_t gpuhier_choice_switch_slice(const gpuhier_shape_t *shape, const gpuhier_limits_t *limits)
{
    return 1 == shape->hierarchy->ngroups ? limits->slice_bytes / 2 * 3 : gpuhier_choice_longest(shape, limits);
}

uint64_t gpuhier_choice_longest(const gpuhier_shape_t *shape, const gpuhier_limits_t *limits)
{
    if (1 == shape->hierarchy->ngroups) {
        return limits->slice_bytes;
    }
    const uint64_t doublings = (uint64_t) gpuhier_schedule_vote_steps(shape->hierarchy->ngroups);
    const uint64_t hiding =
        GPUHIER_SLICE_STEPS * gpuhier_wires[limits->wire].step_bytes * doublings * (uint64_t) shape->max_group_size;
    const uint64_t slice = hiding < limits->slice_bytes_max ? hiding : limits->slice_bytes_max;
    return slice > limits->slice_bytes ? slice : limits->slice_bytes;
}

bool gpuhier_choice_has_long(const gpuhier_shape_t *shape, const gpuhier_limits_t *limits)
{
    return gpuhier_choice_longest(shape, limits) > limits->slice_bytes;
}

bool gpuhier_choice_is_long(const gpuhier_shape_t *shape, uint64_t bytes, const gpuhier_limits_t *limits)
{
    return gpuhier_choice_has_long(shape, limits) && bytes > (uint64_t) limits->slice_buffers * limits->slice_bytes;
}

int gpuhier_choice_buffers(const gpuhier_limits_t *limits, bool is_long)
{
    return is_long ? 2 * limits->slice_buffers : limits->slice_buffers;
}

/*
 * Bytes of a slice for a message of `bytes`, equal on all ranks. With one group: the longest. With several, and P ranks
 * in the largest group:
 *     min(longest, max(bytes / GPUHIER_SLICES_WANTED, min(slice_bytes, shard_bytes of the wire * P)))
 * It exceeds slice_bytes only where bytes / GPUHIER_SLICES_WANTED does, and such messages are long.
 */
static uint64_t slice_bytes_of(const gpuhier_shape_t *shape, uint64_t bytes, const gpuhier_limits_t *limits)
{
    const uint64_t longest = gpuhier_choice_longest(shape, limits);
    if (1 == shape->hierarchy->ngroups) {
        return longest;
    }
    const uint64_t worth = gpuhier_wires[limits->wire].shard_bytes * (uint64_t) shape->max_group_size;
    const uint64_t least = worth < limits->slice_bytes ? worth : limits->slice_bytes;
    const uint64_t part = bytes / GPUHIER_SLICES_WANTED;
    const uint64_t slice = part > least ? part : least;
    return slice < longest ? slice : longest;
}

uint64_t gpuhier_choice_host_shard(uint64_t host_shard_bytes, int ngroups, bool on_device)
{
    return !on_device ? host_shard_bytes : host_shard_bytes / (ngroups > 4 ? 2 : 4);
}

int gpuhier_choice_plan(gpuhier_plan_t *plan_p, const gpuhier_shape_t *shape, int rank, uint64_t count,
                        size_t elem_bytes, const gpuhier_limits_t *limits)
{
    gpuhier_limits_t chosen = *limits;
    chosen.slice_bytes = slice_bytes_of(shape, count * elem_bytes, limits);
    chosen.slice_buffers = gpuhier_choice_buffers(limits, gpuhier_choice_is_long(shape, count * elem_bytes, limits));
    return gpuhier_plan_init(plan_p, shape, rank, count, elem_bytes, &chosen);
}

void gpuhier_choice_narrow(gpuhier_facts_t *facts, const gpuhier_collective_t *row, int nranks, uint64_t longest)
{
    const uint64_t most = facts->oneshot_bytes, n = (uint64_t) nranks;
    facts->is_all_to_all = gpuhier_collective_is_all_to_all(row);
    if (GPUHIER_RANKS_PAIR == row->from) {
        facts->oneshot_bytes = most * n;
        facts->small_bytes = row->has_lists ? 0 : facts->small_bytes;
        facts->mapped_bytes = row->has_lists ? 0 : facts->mapped_bytes;
    } else if (!facts->is_all_to_all) {
        facts->oneshot_bytes = row->has_lists && longest > most / n ? 0 : row->has_blocks ? most : most / n;
    }
}

int gpuhier_choice_part(gpuhier_plan_t *plan_p, const gpuhier_shape_t *shape, int rank, uint64_t count,
                        size_t elem_bytes, const gpuhier_collective_t *row, int root_group,
                        const gpuhier_limits_t *limits)
{
    gpuhier_limits_t chosen = *limits;
    int rc;
    if (gpuhier_collective_is_all_to_all(row) || 1 == shape->hierarchy->ngroups) {
        chosen.slice_bytes = gpuhier_choice_block_slice(shape, row, limits);
        return gpuhier_choice_plan(plan_p, shape, rank, count, elem_bytes, &chosen);
    }
    if (row->has_blocks) {
        const uint64_t bytes = count * elem_bytes * (uint64_t) shape->hierarchy->nranks;
        chosen.slice_bytes_max = 0; /* long lanes are for messages of one block */
        chosen.slice_bytes = gpuhier_part_slice_bytes(shape, slice_bytes_of(shape, bytes, &chosen));
        rc = chosen.slice_bytes < gpuhier_unit_elems(elem_bytes) * elem_bytes
                 ? -EINVAL
                 : gpuhier_plan_init(plan_p, shape, rank, count, elem_bytes, &chosen);
    } else {
        rc = gpuhier_choice_plan(plan_p, shape, rank, count, elem_bytes, limits);
    }
    if (0 == rc) {
        gpuhier_part_cut(plan_p, row, root_group, limits);
    }
    return rc;
}

/* The next length of the table: a power of two, or the first one beyond a length at which the form changes. axes: bytes
 * of all ranks for each byte of the message. */
static uint64_t length_after(uint64_t bytes, const gpuhier_facts_t *facts, uint64_t two_shots, uint64_t axes)
{
    const uint64_t firsts[] = {facts->mapped_bytes / axes + 1, facts->oneshot_bytes / axes + 1,
                               facts->small_bytes / axes + 1, two_shots, facts->switch_bytes};
    uint64_t next = sizeof(double);
    while (next <= bytes) {
        next *= 2;
    }
    for (size_t i = 0; i < sizeof(firsts) / sizeof(firsts[0]); ++i) {
        const uint64_t first = (firsts[i] + sizeof(double) - 1) / sizeof(double) * sizeof(double);
        next = first > bytes && first < next ? first : next;
    }
    return next;
}

/* Fills one row, but for what depends on the row before. bytes: of the message. Returns 0, or -EINVAL. */
static int row_fill(const gpuhier_shape_t *shape, const gpuhier_limits_t *limits, const gpuhier_facts_t *facts,
                    const gpuhier_collective_t *collective, uint64_t bytes, uint64_t two_shots, gpuhier_choice_t *row)
{
    const uint64_t bounds[] = {
        [GPUHIER_RULE_MAPPED] = facts->mapped_bytes,   [GPUHIER_RULE_WAITING] = facts->oneshot_bytes,
        [GPUHIER_RULE_SHORT] = facts->small_bytes,     [GPUHIER_RULE_ROW] = 0,
        [GPUHIER_RULE_SWITCHES] = facts->switch_bytes, [GPUHIER_RULE_REST] = 0};
    const uint64_t blocks = collective->has_blocks ? (uint64_t) shape->hierarchy->nranks : 1;
    const uint64_t count = bytes / sizeof(double) / blocks;
    gpuhier_limits_t longest = *limits;
    gpuhier_plan_t plan;
    *row = (gpuhier_choice_t){.collective = collective, .min_bytes = bytes, .is_blocking = facts->is_blocking};
    row->rule = gpuhier_choice_rule(facts);
    row->limit = bounds[row->rule] / (GPUHIER_RANKS_PAIR == collective->from ? (uint64_t) shape->hierarchy->nranks : 1);
    if (GPUHIER_RULE_WAITING == row->rule) {
        row->nsteps = facts->is_all_to_all && bytes >= two_shots ? 2 : 1;
    }
    if (row->rule < GPUHIER_RULE_ROW) {
        return 0;
    }
    if (0 != gpuhier_choice_part(&plan, shape, 0, count > 0 ? count : 1, sizeof(double), collective, 0, limits)) {
        return -EINVAL;
    }
    row->exchange = 1 == shape->hierarchy->ngroups ? NULL : gpuhier_part_name(&plan);
    row->nsteps = plan.nsteps;
    row->by_host = plan.by_host;
    row->nslices = plan.nslices;
    longest.slice_bytes_max = blocks > 1 ? 0 : limits->slice_bytes_max;
    row->more_slices =
        plan.nslices > 1 && slice_bytes_of(shape, bytes, &longest) == gpuhier_choice_longest(shape, &longest);
    return 0;
}

int gpuhier_choice_table(const gpuhier_shape_t *shape, const gpuhier_limits_t *limits, const gpuhier_facts_t *facts,
                         const gpuhier_collective_t *collective, gpuhier_choice_t rows[GPUHIER_CHOICES_MAX])
{
    const int nranks = shape->hierarchy->nranks;
    const uint64_t two_shots = 0 == facts->oneshot_bytes ? 0 : gpuhier_choice_two_shots_from(nranks);
    const uint64_t axes = GPUHIER_RANKS_PAIR == collective->from ? (uint64_t) nranks : 1;
    gpuhier_facts_t f = *facts;
    int n = 0;
    gpuhier_choice_narrow(&f, collective, nranks, 0); /* equal blocks */
    for (int pass = 0; pass < 2; ++pass) {
        const int begin = n;
        const uint64_t end = 0 == pass ? (uint64_t) 1 << 40 : f.oneshot_bytes / axes;
        f.is_blocking = 0 == pass;
        for (uint64_t bytes = sizeof(double); bytes <= end; bytes = length_after(bytes, &f, two_shots, axes)) {
            gpuhier_choice_t next, *row = n > begin ? &rows[n - 1] : NULL;
            f.bytes = bytes * axes;
            if (0 != row_fill(shape, limits, &f, collective, bytes, two_shots, &next)) {
                return 0;
            }
            if (NULL != row && row->rule == next.rule && row->exchange == next.exchange && row->by_host == next.by_host
                && (row->nsteps == next.nsteps || next.nslices > 0)
                && (row->nslices == next.nslices || row->more_slices)) {
                continue;
            }
            if (GPUHIER_CHOICES_MAX == n) {
                return n; /* cannot happen: there are 38 powers of two, and few of them have rows of their own */
            }
            next.is_first = NULL != row && row->rule < GPUHIER_RULE_ROW && next.rule >= GPUHIER_RULE_ROW;
            rows[n++] = next;
        }
    }
    return n;
}

static const char *bytes_text(uint64_t bytes, char *text, size_t room)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    while (bytes >= 1024 && 0 == bytes % 1024 && unit < 4) {
        bytes /= 1024;
        ++unit;
    }
    snprintf(text, room, "%llu %s", (unsigned long long) bytes, units[unit]);
    return text;
}

const char *gpuhier_choice_text(const gpuhier_choice_t *row, char *text, size_t room)
{
    char size[32], limit[32], exchange[64] = "one kernel, or through scratch ";
    const char *const nonblocking = row->is_blocking ? "" : "nonblocking, ";
    bytes_text(row->min_bytes, size, sizeof(size));
    bytes_text(row->limit, limit, sizeof(limit));
    if (row->rule < GPUHIER_RULE_ROW) {
        static const char *const forms[] = {
            [GPUHIER_RULE_MAPPED] = " by the host, which reads and writes GPU memory (gdr_bytes:",
            [GPUHIER_RULE_WAITING] = "one kernel that waits for those of the peers (blocking,",
            [GPUHIER_RULE_SHORT] = " by the host (small_bytes:"};
        snprintf(text, room, "%sfrom %s: %s%s%s up to %s)", nonblocking, size,
                 GPUHIER_RULE_WAITING == row->rule            ? ""
                 : GPUHIER_RANKS_ALL == row->collective->from ? "reduced"
                                                              : "moved",
                 forms[row->rule], 2 == row->nsteps ? " in two shots," : "", limit);
        return text;
    }
    if (NULL != row->exchange) {
        snprintf(exchange, sizeof(exchange), "%s in %d step%s%s, ", row->exchange, row->nsteps,
                 1 == row->nsteps ? "" : "s", row->by_host ? " by the host" : "");
    }
    const int used =
        snprintf(text, room, "%sfrom %s: %s%llu slice%s%s", nonblocking, size, exchange,
                 (unsigned long long) row->nslices, 1 == row->nslices ? "" : "s", row->more_slices ? " or more" : "");
    if (GPUHIER_RULE_SWITCHES == row->rule) {
        snprintf(text + used, room - (size_t) used, ", in NVSwitches where they can (from %s)", limit);
    } else if (row->is_first) {
        snprintf(text + used, room - (size_t) used, " (too long for the others)");
    }
    return text;
}
