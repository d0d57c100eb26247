/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Records of all ranks -> groups, and the partition of a message into shards and pieces. No MPI, no CUDA.
 *
 * This folder, plan, owns what follows from numbers alone: groups and pieces (hierarchy), slices and the steps of an
 * exchange (schedule), the length of slices (choice), the levels of a group on sockets and PCI switches (levels), the
 * rails of a piece (rails), and a binomial tree (tree). It uses libc, and levels and rails read the topology's records.
 * Set-up, the engine, coll and gpuhier_info use it, and the tests run it without MPI. Functions depend on their
 * arguments only and take no lock. The caller owns what they fill.
 *
 * Words used here and in coll_gpuhier_schedule.h:
 *   rank    a rank of the communicator
 *   group   ranks of one node that can all map each other's GPU memory; groups
 *           are numbered by their lowest rank
 *   index   a rank's place in its group, 0 .. size-1, in rank order
 *   shard   the part of a range that one member of a group owns
 *   piece   a part of a range that has exactly one owner in every group
 *   unit    128 bytes' worth of elements: cut points are multiples of it
 */
#ifndef GPUHIER_HIERARCHY_H
#define GPUHIER_HIERARCHY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/coll_gpuhier_limits.h"

/* Elements [begin, end) of the message. */
typedef struct gpuhier_range {
    uint64_t begin;
    uint64_t end;
} gpuhier_range_t;

static inline uint64_t gpuhier_range_length(gpuhier_range_t range)
{
    return range.end - range.begin;
}

/* What lies of it before `end`. */
static inline gpuhier_range_t gpuhier_range_cap(gpuhier_range_t range, uint64_t end)
{
    range.end = range.end < end ? range.end : end;
    range.begin = range.begin < range.end ? range.begin : range.end;
    return range;
}

/*
 * Can the first rank map the memory of the other? Called only for different ranks of one node, in both orders; they may
 * join one group if both answers are true. The answers must be equal on all ranks of the communicator, or the ranks
 * disagree about the groups; so exchange the results of the trials first.
 */
typedef bool (*gpuhier_can_map_fn_t)(void *arg, int rank, int other);

/*
 * The groups of one communicator. Owned by the caller of init. Once the shards are dealt it is constant until fini, so
 * any thread reads it without a lock. O(ranks) memory.
 */
typedef struct gpuhier_hierarchy {
    int nranks;
    int ngroups;
    int *group_of; /* [nranks] a rank's group */
    int *index_of; /* [nranks] a rank's index in its group */
    int *members;  /* [nranks] ranks, group after group, rising within a group */
    int *first;    /* [ngroups + 1] group g is members[first[g]] .. members[first[g + 1] - 1] */
    int *shard_of; /* [nranks] the number of the shard that a rank owns in its group: its index, unless dealt otherwise
                    */
    int *owners;   /* [nranks] ranks, group after group, by the number of their shard within a group */
} gpuhier_hierarchy_t;

/*
 * Builds the groups. In rank order, each rank joins the lowest group of its node that is not full and whose members all
 * exchange mappings with it, or founds a new group. So every group is a clique. The result depends on the arguments
 * only. nodes: [nranks] the
 * lowest rank on the node of each rank. max_group: ranks, 1 .. GPUHIER_GROUP_MAX. Returns 0, -EINVAL (nranks < 1,
 * max_group out of range) or -ENOMEM; *h is set only on 0.
 */
int gpuhier_hierarchy_init(gpuhier_hierarchy_t *h, int nranks, const uint64_t *nodes, gpuhier_can_map_fn_t can_map,
                           void *arg, int max_group);

/* Frees what init made. Harmless on a zeroed or finished hierarchy. */
void gpuhier_hierarchy_fini(gpuhier_hierarchy_t *h);

/* Deals the shards of a group to its members in another order than theirs: owners[i] is the rank that owns shard i. */
void gpuhier_hierarchy_deal(gpuhier_hierarchy_t *h, int group, const int *owners);

static inline int gpuhier_hierarchy_group_size(const gpuhier_hierarchy_t *h, int group)
{
    return h->first[group + 1] - h->first[group];
}

/* The communicator rank of a group's member. */
static inline int gpuhier_hierarchy_member(const gpuhier_hierarchy_t *h, int group, int index)
{
    return h->members[h->first[group] + index];
}

/* The communicator rank of the member that owns a shard. */
static inline int gpuhier_hierarchy_owner(const gpuhier_hierarchy_t *h, int group, int shard)
{
    return h->owners[h->first[group] + shard];
}

/* The lowest rank of a group, which votes for the group. */
static inline int gpuhier_hierarchy_leader(const gpuhier_hierarchy_t *h, int group)
{
    return h->members[h->first[group]];
}

/* A place in a range: num/den of its length, in lowest terms. */
typedef struct gpuhier_fraction {
    uint16_t num;
    uint16_t den;
} gpuhier_fraction_t;

/*
 * The pieces: the common refinement of the partitions of all groups. A group of P ranks cuts a range at j/P for j = 0
 * .. P. A piece lies between neighbouring cuts of all groups together. Groups of 7 and 8 ranks have 14 pieces; equal
 * groups of P ranks have P pieces, which are the shards. The shape does not depend on the message. It is owned,
 * constant and shared like the hierarchy, which must outlive it.
 */
typedef struct gpuhier_shape {
    const gpuhier_hierarchy_t *hierarchy;
    int npieces;
    int max_group_size;        /* ranks of the largest group */
    int min_group_size;        /* ranks of the smallest group */
    gpuhier_fraction_t widest; /* width of the widest piece */
    gpuhier_fraction_t *cuts;  /* [npieces + 1] piece i is cuts[i] .. cuts[i + 1] of a range */
} gpuhier_shape_t;

/* Returns 0 or -ENOMEM; *shape is set only on 0. */
int gpuhier_shape_init(gpuhier_shape_t *shape, const gpuhier_hierarchy_t *h);

/* Frees what init made. Harmless on a zeroed or finished shape. */
void gpuhier_shape_fini(gpuhier_shape_t *shape);

/* The number of the shard, in a group of group_size ranks, that a piece lies in. */
static inline int gpuhier_shape_shard(const gpuhier_shape_t *shape, int piece, int group_size)
{
    return (int) shape->cuts[piece].num * group_size / shape->cuts[piece].den;
}

/* Communicator rank of the one owner of a piece in a group. */
static inline int gpuhier_shape_owner(const gpuhier_shape_t *shape, int piece, int group)
{
    const gpuhier_hierarchy_t *h = shape->hierarchy;
    return gpuhier_hierarchy_owner(h, group, gpuhier_shape_shard(shape, piece, gpuhier_hierarchy_group_size(h, group)));
}

/* The pieces that a rank owns, which are its shard: *begin_p .. *end_p - 1. */
void gpuhier_shape_pieces(const gpuhier_shape_t *shape, int rank, int *begin_p, int *end_p);

/* Elements in a unit: as many as fit into GPUHIER_UNIT_BYTES, at least one. */
static inline uint64_t gpuhier_unit_elems(size_t elem_bytes)
{
    return elem_bytes < GPUHIER_UNIT_BYTES ? GPUHIER_UNIT_BYTES / elem_bytes : 1;
}

/* Units in elems elements; the last one may be partly filled. */
static inline uint64_t gpuhier_unit_count(uint64_t elems, uint64_t unit)
{
    return elems / unit + (0 != elems % unit);
}

/*
 * The place num/den of elems elements, rounded down to whole units:
 *     cut = min(elems, unit * floor(ceil(elems / unit) * num / den))
 * So cut(0) = 0 and cut(1) = elems, the cut never falls as num/den rises, and equal fractions give equal cuts. Between
 * a/den and (a + 1)/den lie at most ceil(units / den) units. Nothing overflows up to 2^62 elements: units = q * den + r
 * is multiplied part by part, and r * num < 2^64 since both are below 2^32.
 */
static inline uint64_t gpuhier_cut(uint64_t elems, uint64_t unit, uint32_t num, uint32_t den)
{
    uint64_t units = gpuhier_unit_count(elems, unit);
    uint64_t place = unit * (units / den * num + units % den * num / den);
    return place < elems ? place : elems;
}

/*
 * Which nodes work through host memory: those with a rank that is alone in its group because it cannot map another
 * rank of the node. nodes: as above; is_host: [nranks] by the number of a node, set to
 * false before. Pure, and the same on all ranks. Returns whether there is any.
 */
bool gpuhier_hierarchy_host_nodes(const gpuhier_hierarchy_t *hierarchy, const uint64_t *nodes,
                                  gpuhier_can_map_fn_t can_map, void *arg, bool *is_host);

#endif /* GPUHIER_HIERARCHY_H */
