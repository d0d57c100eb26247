/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Which part of an all-reduce's exchange between groups another collective needs, and the seats of groups. No MPI, no
 * CUDA.
 *
 *   MPI_Reduce                  all that flows to the root's group
 *   MPI_Bcast                   the same backwards: a binomial tree, halves that are spread and gathered, or a chain
 *   MPI_Reduce_scatter_block    the first half: each chunk ends in one group
 *   MPI_Allgather               the second half: each chunk begins in one group
 *   MPI_Alltoall                none of it: in each step the groups at one distance give each other their chunks
 *
 * Where blocks have owners, a slice is a range of every block, and a piece has a chunk for each group: its part of the
 * blocks of that group, laid end to end. A group's ranks cut these as they cut a message, so a rank's shard of its own
 * group is its own block, and a chunk lies in the block of the one rank that owns its piece in its group. This holds in
 * groups of unequal size, too. Blocks of unequal length are cut as if all were as long as the longest one.
 *
 * In pairs each rank gives a block to each. The member of a group that owns a piece gathers its chunk for another
 * group: the parts that all members give to the one rank that owns the piece there. So the receiver takes no other
 * rank's data.
 */
#ifndef GPUHIER_PART_H
#define GPUHIER_PART_H

#include "plan/coll_gpuhier_schedule.h"

/*
 * Cuts a plan for the elements of one block down to what a collective needs, which is no all-reduce. The algorithm is
 * that of an all-reduce of as many bytes, but for blocks with owners, which recursive doubling would not tell apart:
 * they take halving in its place, which sums up in the same order. limits: those of the plan. root_group: of the root,
 * if the row has one.
 */
void gpuhier_part_cut(gpuhier_plan_t *plan, const gpuhier_collective_t *row, int root_group,
                      const gpuhier_limits_t *limits);

/* Bytes of a block that a slice may hold at most, if it may hold slice_bytes of all blocks. */
uint64_t gpuhier_part_slice_bytes(const gpuhier_shape_t *shape, uint64_t slice_bytes);

/* gpuhier_schedule_step() for the plan of such a collective. Where blocks have owners, chunks are numbers from
 * gpuhier_part_chunk(). */
void gpuhier_part_step(const gpuhier_plan_t *plan, int step, gpuhier_step_t *step_p);

/* How a plan's pieces are exchanged, in a word. */
const char *gpuhier_part_name(const gpuhier_plan_t *plan);

/* Where blocks have owners: the number of a group's chunk in a piece. */
int gpuhier_part_chunk(const gpuhier_plan_t *plan, int group);

/*
 * Seats: if N is not a power of two, groups are folded to p = 2^floor(log2 N) seats. Before the rounds each odd group
 * among the first 2 (N - p) hands its piece to the even one below it; after them it gets the result. The rounds run
 * among the seats:
 *
 *     N = 6:  group  0 1 2 3 4 5        seat c sits in group 2c      for c < N - p,
 *             seat   0 - 1 - 2 3                       group c + N - p else
 *
 * Neighbours fold, so each seat stands for consecutive groups, and "lower seats first" means "lower groups first".
 */

/* The seats of N groups, as seen by one of them. */
typedef struct gpuhier_seating {
    int nseats; /* p, a power of two */
    int rounds; /* log2 p */
    int folded; /* r = N - p seats have two groups each */
    int seat;   /* -1: this group is the odd one of two, without a seat */
} gpuhier_seating_t;

static inline gpuhier_seating_t gpuhier_seating_of(int ngroups, int group)
{
    gpuhier_seating_t s = {.nseats = 1};
    while (s.nseats <= ngroups / 2) {
        s.nseats *= 2;
        ++s.rounds;
    }
    s.folded = ngroups - s.nseats;
    if (group >= 2 * s.folded) {
        s.seat = group - s.folded;
    } else {
        s.seat = 0 == group % 2 ? group / 2 : -1;
    }
    return s;
}

static inline int gpuhier_seat_group(const gpuhier_seating_t *s, int seat)
{
    return seat < s->folded ? 2 * seat : seat + s->folded;
}

/*
 * The first chunk that a seat still has after `rounds` rounds of halving. In round i the halves have p / 2^(i + 1)
 * chunks, and bit i of the seat selects the upper one.
 */
static inline int gpuhier_seat_chunk(const gpuhier_seating_t *s, int seat, int rounds)
{
    int first = 0;
    for (int i = 0; i < rounds; ++i) {
        first += (seat >> i & 1) * (s->nseats >> (i + 1));
    }
    return first;
}

#endif /* GPUHIER_PART_H */
