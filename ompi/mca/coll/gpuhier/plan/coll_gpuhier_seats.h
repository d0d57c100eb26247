/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Seats: if N is not a power of two, groups are folded to p = 2^floor(log2 N) seats. Before the rounds each odd group
 * among the first 2 (N - p) hands its piece to the even one below it; after them it gets the result. The rounds run
 * among the seats:
 *
 *     N = 6:  group  0 1 2 3 4 5        seat c sits in group 2c      for c < N - p,
 *             seat   0 - 1 - 2 3                       group c + N - p else
 *
 * Neighbours fold, so each seat stands for consecutive groups, and "lower seats first" means "lower groups first".
 *
 * Included by coll_gpuhier_schedule.c, coll_gpuhier_plan.c and coll_gpuhier_part.c only.
 */
#ifndef GPUHIER_SEATS_H
#define GPUHIER_SEATS_H

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

#endif /* GPUHIER_SEATS_H */
