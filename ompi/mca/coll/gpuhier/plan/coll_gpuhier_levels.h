/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The levels of a group whose GPUs share links. GPUs of one socket share the link to other sockets, and GPUs below one
 * PCI switch share the link above it. No MPI, no CUDA.
 *
 * At each level a rank works with a circle of ranks. Without levels for switches, the circle has the ranks of its
 * socket at level 0, and those at the same place of all sockets at level 1. With them, it has the ranks below its
 * switch at level 0, then those at the same place of all switches of its socket, and then of all sockets. A circle
 * reduces what lies on its ranks, each rank a part of it, so what is left for the next level is shorter by the size of
 * the circle. Six ranks on two sockets, two levels, circles of 3 and then of 2:
 *
 *     socket           first                 second
 *     rank             0     1     2         3     4     5
 *     after level 0    0/3   1/3   2/3       0/3   1/3   2/3     shard number i of 3 of the slice
 *     after level 1    0/6   2/6   4/6       1/6   3/6   5/6     shard number i of 6: place * sockets + socket
 *
 * Set-up deals the shards of a group in that order (gpuhier_hierarchy_deal()). So at every level a shard is one range,
 * and the last one is what the rank owns in the exchange between groups, which knows of no levels. The result goes back
 * by the same circles, the last level first.
 *
 *   several groups   RS at each level, the last one into the shard buffer; X; AG at each level, from the last one to 0
 *   one group        The last level needs no shards of its own. Each rank reduces, over that circle, its whole shard of
 *                    the level before, and pushes it to the circle of that level: one kernel for RS and AG of the last
 *                    level and AG of the one before.
 *
 * Operands are reduced in the order of the circle, at each level. All ranks of a circle of the last level reduce in the
 * same order, so where they reduce the same shard it has the same bits. For a message of B bytes and k sockets of m
 * ranks, (k - 1) B bytes enter a socket with one group, and 2 (k - 1)/k B with several. In a flat call it is 2 m
 * (k - 1)/k B. With w switches on each of several sockets, a switch receives 2 (w - 1)/w B from others of its socket,
 * and a w-th part of what enters its socket.
 */
#ifndef GPUHIER_LEVELS_H
#define GPUHIER_LEVELS_H

#include "plan/coll_gpuhier_schedule.h"
#include "topology/coll_gpuhier_topology.h"

#define GPUHIER_LEVELS_MAX 3

/* The least bytes of a shard of a slice. Each slice costs a launch or two for each level, but no message. */
#define GPUHIER_LEVELS_SHARD_MIN ((uint64_t) 128 << 10)

/* How a group is divided into circles. */
typedef struct gpuhier_parts {
    int sockets, switches, ranks;  /* of the group, of each socket, of each switch; 1 of what is no level */
    int levels;                    /* 1: the group is flat */
    int size[GPUHIER_LEVELS_MAX];  /* of the circles of each level; their product is the size of the group */
    int member[GPUHIER_GROUP_MAX]; /* communicator ranks, by the shard that they own */
} gpuhier_parts_t;

/*
 * Finds the parts of a group. Sockets are a level if there are at least two, all with the same number of ranks, two or
 * more. PCI switches are a level if all sockets have the same number of them, two or more, and all switches have the
 * same number of ranks, two or more. No NVLink may join GPUs of different circles of level 0. So GPUs that are joined
 * by NVLink switches get no levels, nor do GPUs of which nothing is known. records: [nranks]. Returns whether there are
 * levels.
 */
bool gpuhier_levels_find(const gpuhier_hierarchy_t *h, int group, const gpuhier_record_t *records,
                         gpuhier_parts_t *parts_p);

/* Writes the levels in words, "in two levels, 2 sockets of 4 ranks", into text, of `room` bytes. Returns text. */
const char *gpuhier_levels_text(const gpuhier_parts_t *parts, char *text, size_t room);

/* Deals the shards of all groups that have levels. */
void gpuhier_levels_deal(gpuhier_hierarchy_t *h, const gpuhier_record_t *records);

/* The members of its group with which a rank works at one level. */
typedef struct gpuhier_circle {
    int size;
    int place;                         /* of the rank among them */
    int shard, shards;                 /* what the rank owns of a slice after this level: shard number i of n */
    uint8_t member[GPUHIER_GROUP_MAX]; /* [size] their indices */
} gpuhier_circle_t;

/* The circles of a rank. Constant after init. */
typedef struct gpuhier_levels {
    int count;                                   /* 0: all calls of the group are flat */
    gpuhier_circle_t circle[GPUHIER_LEVELS_MAX]; /* [count] */
    gpuhier_circle_t whole;                      /* of a flat call: the group, in rank order */
    uint64_t min_bytes;                          /* shorter messages are flat */
} gpuhier_levels_t;

/* The circles of a rank, in a hierarchy whose shards are dealt. min_bytes: shorter messages are flat; 0: all are. */
void gpuhier_levels_init(gpuhier_levels_t *levels_p, const gpuhier_hierarchy_t *h, const gpuhier_record_t *records,
                         int rank, uint64_t min_bytes);

/* Is a message of so many bytes reduced in levels? */
static inline bool gpuhier_levels_take(const gpuhier_levels_t *levels, uint64_t bytes)
{
    return 0 != levels->count && bytes >= levels->min_bytes;
}

/*
 * Bytes of a slice in levels with one group. The rule is that of several groups, since the kernels of a slice follow
 * each other as stages do there. At most slice_bytes, which is what scratch holds.
 */
uint64_t gpuhier_levels_slice_bytes(const gpuhier_levels_t *levels, uint64_t bytes, uint64_t slice_bytes);

#endif /* GPUHIER_LEVELS_H */
