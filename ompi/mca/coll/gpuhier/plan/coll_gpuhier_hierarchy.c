/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the rule by which ranks form groups, and the list of pieces that follows from the sizes of the groups. Does not
 * own the search for each rank's node and mappings (topology and the team's trials), nor the work on a piece
 * (schedule).
 *
 * How it works: in rank order, each rank is offered to the groups of its node in the order in which they were founded.
 * So groups are numbered by their lowest rank, which is their founder. The cuts between pieces are all fractions j/P of
 * all sizes P that occur, each followed by the next greater one.
 *
 * Called by set-up (once per communicator), gpuhier_info and the unit tests. No Open MPI header; errors are negative
 * errno values.
 */
#include "plan/coll_gpuhier_hierarchy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* State while groups are formed. All arrays lie in one allocation. */
typedef struct builder {
    int max_group;
    const uint64_t *nodes;
    gpuhier_can_map_fn_t can_map;
    void *arg;
    int *before; /* [nranks] the member that joined a rank's group before it, -1 of the founder */
    /* [nranks] by the number of a group. */
    int *latest; /* the member that joined last */
    int *size;   /* members */
    int *newer;  /* the node's next group, -1 of its last one */
} builder_t;

/* Is the group still a clique of at most max_group ranks with this rank in it? */
static bool builder_fits(const builder_t *b, int group, int rank)
{
    bool fits = b->size[group] < b->max_group;
    for (int member = b->latest[group]; fits && -1 != member; member = b->before[member]) {
        fits = b->can_map(b->arg, member, rank) && b->can_map(b->arg, rank, member);
    }
    return fits;
}

/* Puts a rank into the first group of its node that takes it, or founds a group with it. */
static void builder_place(const builder_t *b, gpuhier_hierarchy_t *h, int rank)
{
    const int lowest = (int) b->nodes[rank]; /* it founded the first group of the node */
    int group = rank == lowest ? -1 : h->group_of[lowest], older = -1;
    while (-1 != group && !builder_fits(b, group, rank)) {
        older = group;
        group = b->newer[group];
    }
    if (-1 == group) {
        group = h->ngroups++;
        b->size[group] = 0;
        b->latest[group] = b->newer[group] = -1;
        if (-1 != older) {
            b->newer[older] = group;
        }
    }
    h->group_of[rank] = group;
    h->index_of[rank] = h->shard_of[rank] = b->size[group]++;
    b->before[rank] = b->latest[group];
    b->latest[group] = rank;
}

int gpuhier_hierarchy_init(gpuhier_hierarchy_t *h, int nranks, const uint64_t *nodes, gpuhier_can_map_fn_t can_map,
                           void *arg, int max_group)
{
    const size_t n = (size_t) nranks;
    if (nranks < 1 || max_group < 1 || max_group > GPUHIER_GROUP_MAX) {
        return -EINVAL;
    }
    int *scratch = malloc(4 * n * sizeof(int));
    int *kept = malloc((6 * n + 1) * sizeof(int)); /* there are at most as many groups as ranks */
    if (NULL == scratch || NULL == kept) {
        free(scratch);
        free(kept);
        return -ENOMEM;
    }
    const builder_t builder = {.max_group = max_group,
                               .nodes = nodes,
                               .can_map = can_map,
                               .arg = arg,
                               .before = scratch,
                               .latest = scratch + n,
                               .size = scratch + 2 * n,
                               .newer = scratch + 3 * n};
    *h = (gpuhier_hierarchy_t){.nranks = nranks,
                               .group_of = kept, /* the start of the one allocation: fini frees it */
                               .index_of = kept + n,
                               .members = kept + 2 * n,
                               .shard_of = kept + 3 * n,
                               .owners = kept + 4 * n,
                               .first = kept + 5 * n};
    for (int rank = 0; rank < nranks; ++rank) {
        builder_place(&builder, h, rank);
    }
    h->first[0] = 0;
    for (int group = 0; group < h->ngroups; ++group) {
        h->first[group + 1] = h->first[group] + builder.size[group];
    }
    for (int rank = 0; rank < nranks; ++rank) {
        const int place = h->first[h->group_of[rank]] + h->index_of[rank];
        h->members[place] = h->owners[place] = rank;
    }
    free(scratch);
    return 0;
}

void gpuhier_hierarchy_fini(gpuhier_hierarchy_t *h)
{
    free(h->group_of);
    memset(h, 0, sizeof(*h));
}

void gpuhier_hierarchy_deal(gpuhier_hierarchy_t *h, int group, const int *owners)
{
    for (int shard = 0; shard < gpuhier_hierarchy_group_size(h, group); ++shard) {
        h->owners[h->first[group] + shard] = owners[shard];
        h->shard_of[owners[shard]] = shard;
    }
}

static bool fraction_is_less(gpuhier_fraction_t left, gpuhier_fraction_t right)
{
    return (int) left.num * right.den < (int) right.num * left.den;
}

static gpuhier_fraction_t fraction_reduced(int num, int den)
{
    int a = den, b = num;
    while (0 != b) {
        const int rest = a % b;
        a = b;
        b = rest;
    }
    return (gpuhier_fraction_t){.num = (uint16_t) (num / a), .den = (uint16_t) (den / a)};
}

_Static_assert(GPUHIER_GROUP_MAX *GPUHIER_GROUP_MAX <= UINT16_MAX, "the width of a piece must fit into a fraction");

/* Sets present[P] for each group size P that occurs, 1 .. GPUHIER_GROUP_MAX. Returns how many fractions they give. */
static int shape_sizes(gpuhier_shape_t *shape, bool *present)
{
    const gpuhier_hierarchy_t *h = shape->hierarchy;
    int nfractions = 1; /* the closing 1/1 */
    shape->max_group_size = 0;
    shape->min_group_size = GPUHIER_GROUP_MAX;
    for (int g = 0; g < h->ngroups; ++g) {
        int size = gpuhier_hierarchy_group_size(h, g);
        if (!present[size]) {
            present[size] = true;
            nfractions += size;
        }
        shape->max_group_size = size > shape->max_group_size ? size : shape->max_group_size;
        shape->min_group_size = size < shape->min_group_size ? size : shape->min_group_size;
    }
    return nfractions;
}

int gpuhier_shape_init(gpuhier_shape_t *shape_p, const gpuhier_hierarchy_t *h)
{
    gpuhier_shape_t shape = {.hierarchy = h, .widest = {0, 1}};
    bool present[GPUHIER_GROUP_MAX + 1] = {false};
    shape.cuts = malloc((size_t) shape_sizes(&shape, present) * sizeof(*shape.cuts));
    if (NULL == shape.cuts) {
        return -ENOMEM;
    }
    gpuhier_fraction_t at = {0, 1};
    shape.cuts[0] = at;
    while (at.num < at.den) {
        gpuhier_fraction_t next = {1, 1};
        for (int size = 1; size <= GPUHIER_GROUP_MAX; ++size) {
            const gpuhier_fraction_t cut = fraction_reduced(at.num * size / at.den + 1, size);
            next = present[size] && fraction_is_less(cut, next) ? cut : next;
        }
        const gpuhier_fraction_t width = fraction_reduced(next.num * at.den - at.num * next.den, at.den * next.den);
        shape.widest = fraction_is_less(shape.widest, width) ? width : shape.widest;
        shape.cuts[++shape.npieces] = at = next;
    }
    *shape_p = shape;
    return 0;
}

void gpuhier_shape_fini(gpuhier_shape_t *shape)
{
    free(shape->cuts);
    memset(shape, 0, sizeof(*shape));
}

/* The first piece that begins at or after shard/group_size of a range; npieces for shard == group_size. */
static int first_piece(const gpuhier_shape_t *shape, int shard, int group_size)
{
    int low = 0, high = shape->npieces;
    /* Cuts before `low` lie before the place; cuts from `high` on do not. */
    while (low < high) {
        int middle = (low + high) / 2;
        if ((int) shape->cuts[middle].num * group_size < shard * (int) shape->cuts[middle].den) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

void gpuhier_shape_pieces(const gpuhier_shape_t *shape, int rank, int *begin_p, int *end_p)
{
    const gpuhier_hierarchy_t *h = shape->hierarchy;
    const int size = gpuhier_hierarchy_group_size(h, h->group_of[rank]);
    *begin_p = first_piece(shape, h->shard_of[rank], size);
    *end_p = first_piece(shape, h->shard_of[rank] + 1, size);
}

/* Is there a rank on this rank's node that it cannot work with? */
static bool is_apart(int rank, int nranks, const uint64_t *nodes, gpuhier_can_map_fn_t can_map, void *arg)
{
    for (int other = 0; other < nranks; ++other) {
        if (other != rank && nodes[other] == nodes[rank] && !(can_map(arg, rank, other) && can_map(arg, other, rank))) {
            return true;
        }
    }
    return false;
}

bool gpuhier_hierarchy_host_nodes(const gpuhier_hierarchy_t *hierarchy, const uint64_t *nodes,
                                  gpuhier_can_map_fn_t can_map, void *arg, bool *is_host)
{
    bool any = false;
    /* A node's number is its lowest rank, which founds the node's first group; a node of one group has no other. */
    for (int group = 0; group < hierarchy->ngroups; ++group) {
        const int rank = gpuhier_hierarchy_leader(hierarchy, group);
        if (1 == gpuhier_hierarchy_group_size(hierarchy, group) && !is_host[nodes[rank]]
            && is_apart(rank, hierarchy->nranks, nodes, can_map, arg)) {
            is_host[nodes[rank]] = any = true;
        }
    }
    return any;
}
