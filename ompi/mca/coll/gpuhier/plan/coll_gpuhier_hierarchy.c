/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the rule by which ranks form groups, and the list of pieces that follows from the sizes of the groups. Does not
 * own the search for each rank's node and mappings (topology and the team's trials), nor the work on a piece
 * (schedule).
 *
 * How it works: ranks are sorted by (node, rank), so each node is one run. Inside a run every rank is offered to the
 * groups of that run in the order in which they were founded. Then groups are numbered by their lowest rank, which is
 * their founder. The pieces are all fractions j/P of all sizes P that occur, sorted, without duplicates.
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
    int *founder; /* [nranks] lowest rank of a rank's group */
    int *next;    /* [nranks] next member of a rank's group, -1 at its end */
    /* Valid at the founder of a group. */
    int *last;  /* [nranks] last member */
    int *size;  /* [nranks] members */
    int *newer; /* [nranks] founder of the node's next group, -1 of its last one */
} builder_t;

/* Is the founder's group still a clique of at most max_group ranks with this rank in it? */
static bool builder_fits(const builder_t *b, int founder, int rank)
{
    if (b->size[founder] >= b->max_group) {
        return false;
    }
    for (int member = founder; - 1 != member; member = b->next[member]) {
        if (!b->can_map(b->arg, member, rank) || !b->can_map(b->arg, rank, member)) {
            return false;
        }
    }
    return true;
}

/* Puts a rank into the first group of its node that takes it, or founds a group with it. Returns the groups founded.
 * The lowest rank of a node founds its first group. */
static int builder_place(const builder_t *b, int rank)
{
    int founder = (int) b->nodes[rank], before = -1;
    b->next[rank] = b->newer[rank] = -1;
    while (-1 != founder && rank != founder && !builder_fits(b, founder, rank)) {
        before = founder;
        founder = b->newer[founder];
    }
    if (-1 != founder && rank != founder) {
        b->founder[rank] = founder;
        b->next[b->last[founder]] = rank;
        b->last[founder] = rank;
        ++b->size[founder];
        return 0;
    }
    if (-1 != before) {
        b->newer[before] = rank;
    }
    b->founder[rank] = b->last[rank] = rank;
    b->size[rank] = 1;
    return 1;
}

/* Numbers the groups by founder and lists their members. */
static void hierarchy_fill(gpuhier_hierarchy_t *h, const builder_t *b)
{
    int group = 0, filled = 0;
    for (int rank = 0; rank < h->nranks; ++rank) {
        if (b->founder[rank] != rank) {
            continue;
        }
        h->first[group] = filled;
        for (int member = rank; - 1 != member; member = b->next[member]) {
            h->group_of[member] = group;
            h->index_of[member] = h->shard_of[member] = filled - h->first[group];
            h->members[filled] = h->owners[filled] = member;
            ++filled;
        }
        ++group;
    }
    h->first[group] = filled;
}

int gpuhier_hierarchy_init(gpuhier_hierarchy_t *h, int nranks, const uint64_t *nodes, gpuhier_can_map_fn_t can_map,
                           void *arg, int max_group)
{
    const size_t n = (size_t) nranks;
    if (nranks < 1 || max_group < 1 || max_group > GPUHIER_GROUP_MAX) {
        return -EINVAL;
    }
    int *scratch = malloc(5 * n * sizeof(int));
    int *kept = malloc((6 * n + 1) * sizeof(int)); /* there are at most as many groups as ranks */
    if (NULL == scratch || NULL == kept) {
        free(scratch);
        free(kept);
        return -ENOMEM;
    }
    const builder_t builder = {.nodes = nodes,
                               .max_group = max_group,
                               .can_map = can_map,
                               .arg = arg,
                               .founder = scratch,
                               .next = scratch + n,
                               .last = scratch + 2 * n,
                               .size = scratch + 3 * n,
                               .newer = scratch + 4 * n};
    int ngroups = 0;
    for (int rank = 0; rank < nranks; ++rank) {
        ngroups += builder_place(&builder, rank);
    }
    h->nranks = nranks;
    h->ngroups = ngroups;
    h->group_of = kept; /* the start of the one allocation: fini frees it */
    h->index_of = kept + n;
    h->members = kept + 2 * n;
    h->shard_of = kept + 3 * n;
    h->owners = kept + 4 * n;
    h->first = kept + 5 * n;
    hierarchy_fill(h, &builder);
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

/* Is a/b before, at or after c/d? Negative, 0 or positive. */
static int fraction_compare(const void *left_arg, const void *right_arg)
{
    const gpuhier_fraction_t *left = left_arg, *right = right_arg;
    return (int) left->num * right->den - (int) right->num * left->den;
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

/* right - left; both in 0..1 with denominators of at most GPUHIER_GROUP_MAX. */
static gpuhier_fraction_t fraction_between(gpuhier_fraction_t left, gpuhier_fraction_t right)
{
    return fraction_reduced(right.num * left.den - left.num * right.den, left.den * right.den);
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
    int filled = 0, kept = 1;
    shape.cuts = malloc((size_t) shape_sizes(&shape, present) * sizeof(*shape.cuts));
    if (NULL == shape.cuts) {
        return -ENOMEM;
    }
    for (int size = 1; size <= GPUHIER_GROUP_MAX; ++size) {
        for (int j = 0; present[size] && j < size; ++j) {
            shape.cuts[filled++] = fraction_reduced(j, size);
        }
    }
    shape.cuts[filled++] = fraction_reduced(1, 1);
    qsort(shape.cuts, (size_t) filled, sizeof(*shape.cuts), fraction_compare);
    for (int i = 1; i < filled; ++i) {
        gpuhier_fraction_t width = fraction_between(shape.cuts[kept - 1], shape.cuts[i]);
        if (0 == width.num) {
            continue;
        }
        if (fraction_compare(&shape.widest, &width) < 0) {
            shape.widest = width;
        }
        shape.cuts[kept++] = shape.cuts[i];
    }
    shape.npieces = kept - 1;
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
