/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the rule by which a group has levels, the order of its shards, and the circles; see the header. Called by
 * set-up (once per communicator), the engine, gpuhier_info and the unit tests. No Open MPI header.
 */
#include "plan/coll_gpuhier_levels.h"

#include <string.h>

#include "plan/coll_gpuhier_choice.h"

/* Lists a group's members socket after socket, which are numbered by their lowest rank, and in rank order within a
 * socket. Returns the number of sockets, or 0 where they differ in size. */
static int sockets_list(const gpuhier_hierarchy_t *h, int group, const gpuhier_record_t *records, int *list)
{
    const int size = gpuhier_hierarchy_group_size(h, group);
    bool listed[GPUHIER_GROUP_MAX] = {false};
    int sockets = 0, filled = 0, length = 0;

    for (int first = 0; first < size; ++first) {
        if (listed[first]) {
            continue;
        }
        const int package = records[gpuhier_hierarchy_member(h, group, first)].package;
        const int begin = filled;
        for (int i = first; i < size; ++i) {
            const int rank = gpuhier_hierarchy_member(h, group, i);
            if (records[rank].package == package) {
                list[filled++] = rank;
                listed[i] = true;
            }
        }
        length = 0 == sockets++ ? filled : length;
        if (filled - begin != length) {
            return 0;
        }
    }
    return sockets;
}

/* Is there reason to believe that no NVLink joins the sockets? */
static bool sockets_are_apart(const gpuhier_record_t *records, const int *list, int size, int on_socket)
{
    for (int i = 0; i < size; ++i) {
        const gpuhier_record_t *record = &records[list[i]];
        if (record->package < 0 || record->pcie_peers < size - on_socket) {
            return false;
        }
    }
    return true;
}

bool gpuhier_levels_find(const gpuhier_hierarchy_t *h, int group, const gpuhier_record_t *records,
                         gpuhier_parts_t *parts_p)
{
    const int size = gpuhier_hierarchy_group_size(h, group);
    int list[GPUHIER_GROUP_MAX];
    gpuhier_parts_t parts = {.levels = 1, .size = {size}};

    const int sockets = sockets_list(h, group, records, list);
    const int on_socket = sockets > 0 ? size / sockets : size;
    if (sockets > 1 && on_socket > 1 && sockets_are_apart(records, list, size, on_socket)) {
        parts.levels = 2;
        parts.size[0] = on_socket;
        parts.size[1] = sockets;
    }
    for (int i = 0; i < size; ++i) {
        parts.member[i] =
            1 == parts.levels ? gpuhier_hierarchy_member(h, group, i) : list[i % sockets * on_socket + i / sockets];
    }
    *parts_p = parts;
    return parts.levels > 1;
}

void gpuhier_levels_deal(gpuhier_hierarchy_t *h, const gpuhier_record_t *records)
{
    for (int group = 0; group < h->ngroups; ++group) {
        gpuhier_parts_t parts;
        if (gpuhier_levels_find(h, group, records, &parts)) {
            gpuhier_hierarchy_deal(h, group, parts.member);
        }
    }
}

/* The circle of a rank with the owners of `size` shards whose numbers are `stride` apart. */
static void circle_make(gpuhier_circle_t *circle, const gpuhier_hierarchy_t *h, int rank, int stride, int size)
{
    const int group = h->group_of[rank], shard = h->shard_of[rank];

    circle->size = size;
    circle->place = shard / stride % size;
    circle->shard = shard / stride;
    circle->shards = gpuhier_hierarchy_group_size(h, group) / stride;
    for (int i = 0; i < size; ++i) {
        const int owner = gpuhier_hierarchy_owner(h, group, shard + (i - circle->place) * stride);
        circle->member[i] = (uint8_t) h->index_of[owner];
    }
}

static void whole_make(gpuhier_circle_t *circle, const gpuhier_hierarchy_t *h, int rank)
{
    circle->size = circle->shards = gpuhier_hierarchy_group_size(h, h->group_of[rank]);
    circle->place = h->index_of[rank];
    circle->shard = h->shard_of[rank];
    for (int i = 0; i < circle->size; ++i) {
        circle->member[i] = (uint8_t) i;
    }
}

void gpuhier_levels_init(gpuhier_levels_t *levels_p, const gpuhier_hierarchy_t *h, const gpuhier_record_t *records,
                         int rank, uint64_t min_bytes)
{
    gpuhier_parts_t parts;

    memset(levels_p, 0, sizeof(*levels_p));
    whole_make(&levels_p->whole, h, rank);
    levels_p->min_bytes = min_bytes;
    if (0 == min_bytes || !gpuhier_levels_find(h, h->group_of[rank], records, &parts)) {
        return;
    }
    levels_p->count = parts.levels;
    for (int level = parts.levels - 1, stride = 1; level >= 0; stride *= parts.size[level--]) {
        circle_make(&levels_p->circle[level], h, rank, stride, parts.size[level]);
    }
}

uint64_t gpuhier_levels_slice_bytes(const gpuhier_levels_t *levels, uint64_t bytes, uint64_t slice_bytes)
{
    const uint64_t least = GPUHIER_LEVELS_SHARD_MIN * (uint64_t) levels->circle[levels->count - 2].shards;
    const uint64_t part = bytes / GPUHIER_SLICES_WANTED;
    const uint64_t slice = part > least ? part : least;

    return slice < slice_bytes ? slice : slice_bytes;
}
