/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The parts of a group whose GPUs are on several sockets, joined by one slow link. No MPI, no CUDA.
 *
 * A call in levels takes two kernels for each slice, where a flat call takes one. With k parts of m ranks:
 *
 *   1. The rank at place j of its part reduces shard j of m of the slice, over the inputs of its own part, in rank
 *      order. The partial sum stays in its scratch.
 *   2. It reduces the partial sums of the k ranks at place j, in the order of the parts, and writes the result to the
 *      outputs of its own part.
 *
 * All ranks at a place reduce the same operands in the same order, so they get the same bits. For a message of B bytes,
 * (k - 1) B bytes enter each part. In a flat call (k - 1)/k * 2 B m bytes do.
 */
#ifndef GPUHIER_LEVELS_H
#define GPUHIER_LEVELS_H

#include "plan/coll_gpuhier_schedule.h"

/* A shard of a slice has at least this many bytes: a slice takes two launches and no message. */
#define GPUHIER_LEVELS_SHARD_MIN ((uint64_t) 128 << 10)

/* What the parts follow from: the facts about one member of a group. All ranks know them of all members. */
typedef struct gpuhier_level_rank {
    int package;    /* the socket of its GPU; negative: not known */
    int pcie_peers; /* other GPUs of its process that it reaches, but not over NVLink */
} gpuhier_level_rank_t;

/* The parts of a rank's group. Constant after init. Zeroed, it means that there are none. */
typedef struct gpuhier_levels {
    int nparts; /* 0: the group is flat */
    int part_size;
    int part, place;                   /* of the rank: its part, and its place there in rank order */
    uint8_t member[GPUHIER_GROUP_MAX]; /* index in the group, part after part; parts are numbered by lowest index */
    uint64_t min_bytes;                /* shorter messages are flat, too */
} gpuhier_levels_t;

/*
 * Finds the parts of a group of `size` ranks, for the one with this index: one for each package. There are none unless
 * there are at least two packages with the same number of ranks, at least two each, and unless each rank knows of as
 * many GPUs without NVLink as there are ranks in other parts. So GPUs that are joined by NVLink switches get no parts,
 * nor do GPUs of which nothing is known. min_bytes: shorter messages are flat; 0: all messages are. Returns whether
 * there are parts; if not, *levels_p is zeroed.
 */
bool gpuhier_levels_init(gpuhier_levels_t *levels_p, const gpuhier_level_rank_t *ranks, int size, int index,
                         uint64_t min_bytes);

/* Is a message of so many bytes reduced in levels? */
static inline bool gpuhier_levels_take(const gpuhier_levels_t *levels, uint64_t bytes)
{
    return 0 != levels->nparts && bytes >= levels->min_bytes;
}

/* Index in the group of the rank at a place of a part. */
static inline int gpuhier_levels_member(const gpuhier_levels_t *levels, int part, int place)
{
    return levels->member[part * levels->part_size + place];
}

/* Elements of a slice that the rank at its place reduces. */
gpuhier_range_t gpuhier_levels_shard(const gpuhier_levels_t *levels, const gpuhier_plan_t *plan, uint64_t slice);

/*
 * Bytes of a slice: by the rule between groups, since two kernels follow each other on a slice as two stages do there.
 * At most slice_bytes, which is what scratch holds.
 */
uint64_t gpuhier_levels_slice_bytes(const gpuhier_levels_t *levels, uint64_t bytes, uint64_t slice_bytes);

#endif /* GPUHIER_LEVELS_H */
