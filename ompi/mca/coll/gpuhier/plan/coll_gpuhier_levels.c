/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the rule by which a group has levels, the order of its shards, and the circles; see the header. Called by
 * set-up (once per communicator), the engine, gpuhier_info and the unit tests. No Open MPI header.
 */
#include "plan/coll_gpuhier_levels.h"

#include <stdio.h>
#include <string.h>

#include "plan/coll_gpuhier_choice.h"

static int key_of(const gpuhier_record_t *record, bool by_switch)
{
    return by_switch ? record->pci_switch : record->package;
}

/* Puts ranks of one socket, or of one switch, side by side in a list, in the order of the first of each. Returns the
 * number of sockets or switches, or 0 where they differ in size or are not known. */
static int runs_make(int *list, int count, const gpuhier_record_t *records, bool by_switch)
{
    int sorted[GPUHIER_GROUP_MAX];
    bool taken[GPUHIER_GROUP_MAX] = {false};
    int runs = 0, filled = 0, length = 0;
    for (int first = 0; first < count; ++first) {
        if (taken[first]) {
            continue;
        }
        const int key = key_of(&records[list[first]], by_switch), begin = filled;
        for (int i = first; i < count; ++i) {
            if (key == key_of(&records[list[i]], by_switch)) {
                sorted[filled++] = list[i];
                taken[i] = true;
            }
        }
        length = 0 == runs++ ? filled : length;
        if (key < 0 || filled - begin != length) {
            return 0;
        }
    }
    memcpy(list, sorted, (size_t) count * sizeof(*list));
    return runs;
}

/* The same for the switches of each socket. Returns the number of switches on a socket, or 1 where they are no level:
 * the ranks of a socket share one switch, each rank has its own, or the sockets differ. Then the list is not to be
 * used. */
static int switches_make(int *list, int count, int on_socket, const gpuhier_record_t *records)
{
    int switches = 0;
    for (int begin = 0; begin < count; begin += on_socket) {
        const int found = runs_make(list + begin, on_socket, records, true);
        if (found < 2 || found == on_socket || (begin > 0 && found != switches)) {
            return 1;
        }
        switches = found;
    }
    return switches;
}

/* Does no NVLink join GPUs of different circles? A circle is `size` ranks side by side in the list. */
static bool are_apart(const gpuhier_record_t *records, const int *list, int count, int size)
{
    bool any = false;
    for (int i = 0; i < count; ++i) {
        for (int j = 0; j < i / size * size; ++j) {
            any = any || gpuhier_record_linked(&records[list[i]], &records[list[j]]);
        }
    }
    return !any;
}

bool gpuhier_levels_find(const gpuhier_hierarchy_t *h, int group, const gpuhier_record_t *records,
                         gpuhier_parts_t *parts_p)
{
    const int size = gpuhier_hierarchy_group_size(h, group);
    int by_socket[GPUHIER_GROUP_MAX], by_switch[GPUHIER_GROUP_MAX];
    const int *list = by_socket;
    gpuhier_parts_t parts = {.sockets = 1, .switches = 1, .ranks = size};
    for (int i = 0; i < size; ++i) {
        parts.member[i] = by_socket[i] = gpuhier_hierarchy_member(h, group, i);
    }
    const int sockets = runs_make(by_socket, size, records, false), on_socket = sockets > 0 ? size / sockets : 0;
    memcpy(by_switch, by_socket, sizeof(by_switch));
    const int switches = on_socket > 1 ? switches_make(by_switch, size, on_socket, records) : 1;
    if (switches > 1 && are_apart(records, by_switch, size, on_socket / switches)) {
        list = by_switch;
        parts = (gpuhier_parts_t){.sockets = sockets, .switches = switches, .ranks = on_socket / switches};
    } else if (sockets > 1 && on_socket > 1 && are_apart(records, by_socket, size, on_socket)) {
        parts = (gpuhier_parts_t){.sockets = sockets, .switches = 1, .ranks = on_socket};
    }
    parts.size[parts.levels++] = parts.ranks;
    if (parts.switches > 1) {
        parts.size[parts.levels++] = parts.switches;
    }
    if (parts.sockets > 1) {
        parts.size[parts.levels++] = parts.sockets;
    }
    for (int i = 0; i < size && parts.levels > 1; ++i) {
        const int socket = i % parts.sockets, at_switch = i / parts.sockets % parts.switches;
        const int place = i / parts.sockets / parts.switches;
        parts.member[i] = list[(socket * parts.switches + at_switch) * parts.ranks + place];
    }
    *parts_p = parts;
    return parts.levels > 1;
}

const char *gpuhier_levels_text(const gpuhier_parts_t *parts, char *text, size_t room)
{
    char sockets[32] = "", switches[32] = "";
    if (parts->sockets > 1) {
        snprintf(sockets, sizeof(sockets), "%d sockets of ", parts->sockets);
    }
    if (parts->switches > 1) {
        snprintf(switches, sizeof(switches), "%d PCI switches of ", parts->switches);
    }
    snprintf(text, room, "in %s levels, %s%s%d ranks", parts->levels > 2 ? "three" : "two", sockets, switches,
             parts->ranks);
    return text;
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
