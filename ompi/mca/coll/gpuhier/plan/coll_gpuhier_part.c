/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the steps between groups of the collectives other than all-reduce. Each step is one of an all-reduce, of which
 * the messages stay that carry something to a group that takes it. So partners, rails and the order of operands are
 * those of the all-reduce. A seat is on the root's side of a round if the bits that later rounds look at, or earlier
 * ones have looked at, are those of the root's seat: x below is the difference of the two numbers.
 *
 * Called by coll_gpuhier_plan.c, the choice of a plan, and the engine. No Open MPI header.
 */
#include "plan/coll_gpuhier_part.h"

static int groups_of(const gpuhier_plan_t *plan)
{
    return plan->shape->hierarchy->ngroups;
}

static bool is_rooted(const gpuhier_plan_t *plan)
{
    return !plan->row->has_blocks;
}

static bool reduces(const gpuhier_plan_t *plan)
{
    return GPUHIER_RANKS_ALL == plan->row->from;
}

static bool is_of_pairs(const gpuhier_collective_t *row)
{
    return GPUHIER_RANKS_PAIR == row->from;
}

/* The most pieces of a rank. */
static int pieces_most(const gpuhier_shape_t *shape)
{
    int most = 1;
    for (int rank = 0; rank < shape->hierarchy->nranks && shape->max_group_size != shape->min_group_size; ++rank) {
        int begin, end;
        gpuhier_shape_pieces(shape, rank, &begin, &end);
        most = end - begin > most ? end - begin : most;
    }
    return most;
}

uint64_t gpuhier_part_slice_bytes(const gpuhier_shape_t *shape, uint64_t slice_bytes)
{
    /* A rank's chunks must fit into its share of a slice in the largest group: the buffer of a relay is no shorter.
     * Those of pairs are as many times as long, and must fit into its shard buffer, which is as long as a slice. */
    return slice_bytes / (uint64_t) (shape->hierarchy->ngroups * pieces_most(shape) * shape->max_group_size);
}

void gpuhier_part_cut(gpuhier_plan_t *plan, const gpuhier_collective_t *row, int root_group,
                      const gpuhier_limits_t *limits)
{
    const int ngroups = groups_of(plan);
    const gpuhier_seating_t s = gpuhier_seating_of(ngroups, plan->group);
    plan->row = row;
    plan->root_group = root_group;
    if (!row->has_blocks) {
        plan->nsteps = GPUHIER_ALGORITHM_RING == plan->algorithm && !reduces(plan) ? ngroups - 1 : plan->nsteps;
        return;
    }
    plan->by_host = false;
    plan->stride = gpuhier_unit_count(plan->slice_elems_max, plan->unit) * plan->unit;
    if (is_of_pairs(row)) {
        plan->stride *= (uint64_t) plan->shape->max_group_size;
        plan->algorithm = GPUHIER_ALGORITHM_RING; /* its numbers of chunks are those of groups */
        plan->nsteps = ngroups - 1;
        return;
    }
    plan->algorithm =
        gpuhier_algorithm_pick(limits->algorithm, limits->wire, ngroups,
                               (uint64_t) ngroups * plan->stride * plan->elem_bytes, plan->slice_buffers, false);
    if (GPUHIER_ALGORITHM_RING == plan->algorithm) {
        plan->nsteps = ngroups - 1;
    } else {
        plan->algorithm = GPUHIER_ALGORITHM_HALVING;
        plan->nsteps = s.rounds + (s.folded > 0 ? 2 : 0);
    }
}

const char *gpuhier_part_name(const gpuhier_plan_t *plan)
{
    const bool is_ring = GPUHIER_ALGORITHM_RING == plan->algorithm;
    return NULL != plan->row && is_of_pairs(plan->row) ? "pairwise"
           : NULL != plan->row && is_ring && is_rooted(plan) && !reduces(plan)
               ? "chain"
               : gpuhier_algorithm_names[plan->algorithm];
}

/* -- one block, and a root ------------------------------------------------------------------ */

/* The seat of a group, or of the even group below it. */
static int seat_for(int ngroups, int group)
{
    const int seat = gpuhier_seating_of(ngroups, group).seat;
    return seat >= 0 ? seat : group / 2;
}

/* A chain from the root's group on, whole pieces. */
static void chain_step(const gpuhier_plan_t *plan, int step, gpuhier_step_t *s)
{
    const int n = groups_of(plan), distance = (plan->group - plan->root_group + n) % n;
    const bool sends = distance == step, receives = distance == step + 1;
    *s = (gpuhier_step_t){.send_to = sends ? (plan->group + 1) % n : -1,
                          .send_end = plan->nchunks,
                          .recv_from = receives ? (plan->group + n - 1) % n : -1,
                          .recv_end = plan->nchunks,
                          .action = receives ? GPUHIER_ACTION_COPY : GPUHIER_ACTION_NONE};
}

/* The second half of a ring: a chunk goes on until it is at the root's group. */
static void ring_keep(const gpuhier_plan_t *plan, int step, bool *sends_p, bool *receives_p)
{
    const int n = groups_of(plan), way = step - (n - 1); /* steps that a chunk has gone before this one */
    if (way >= 0) {
        *sends_p = (plan->root_group - plan->group + way + n) % n > way;
        *receives_p = (plan->root_group - plan->group + 1 + way + n) % n > way;
    }
}

/* A fold, before the rounds or after them. Only the odd group's own need is at stake. */
static void fold_keep(const gpuhier_plan_t *plan, bool before, bool *sends_p, bool *receives_p)
{
    const int odd = plan->group | 1;
    const bool is_root = odd == plan->root_group;
    const bool keeps = reduces(plan) ? before || is_root : before == is_root;
    *sends_p = *receives_p = keeps;
}

/* A round of doubling or halving. back: one that gathers halves, in which later rounds look at lower bits. */
static void round_keep(const gpuhier_plan_t *plan, int x, int bit, bool back, bool *sends_p, bool *receives_p)
{
    const bool is_halving = GPUHIER_ALGORITHM_HALVING == plan->algorithm;
    if (!reduces(plan)) {
        if (!back) { /* what the root has spreads: after this round to the seats that differ in bits up to this one */
            *sends_p = 0 == x >> bit;
            *receives_p = 1 == x >> bit;
        }
    } else if (!is_halving || back) {
        const bool is_in = is_halving ? 0 == x >> (bit + 1) : 0 == (x & ((1 << bit) - 1));
        *sends_p = is_in && 0 != (x >> bit & 1);
        *receives_p = is_in && 0 == (x >> bit & 1);
    }
}

static void rooted_step(const gpuhier_plan_t *plan, int step, gpuhier_step_t *s)
{
    const int n = groups_of(plan);
    const gpuhier_seating_t seats = gpuhier_seating_of(n, plan->group);
    const int x = seat_for(n, plan->group) ^ seat_for(n, plan->root_group);
    const int round = seats.folded > 0 ? step - 1 : step;
    bool sends = true, receives = true;
    gpuhier_schedule_step(plan->algorithm, n, plan->group, step, s);
    if (GPUHIER_ALGORITHM_RING == plan->algorithm) {
        ring_keep(plan, step, &sends, &receives);
    } else if (seats.folded > 0 && (0 == step || plan->nsteps - 1 == step)) {
        fold_keep(plan, 0 == step, &sends, &receives);
    } else {
        const bool back = round >= seats.rounds;
        round_keep(plan, x, back ? 2 * seats.rounds - 1 - round : round, back, &sends, &receives);
    }
    s->send_to = sends ? s->send_to : -1;
    s->recv_from = receives ? s->recv_from : -1;
    s->action = -1 == s->recv_from ? GPUHIER_ACTION_NONE : reduces(plan) ? s->action : GPUHIER_ACTION_COPY;
}

/* -- blocks with owners --------------------------------------------------------------------- */

/* Groups whose seats have chunks before this one: their number is that of the first chunk of groups there. */
static int chunk_of_seat_chunk(const gpuhier_seating_t *s, int seat_chunk)
{
    int before = seat_chunk;
    for (int seat = 0; seat < s->folded; ++seat) {
        before += gpuhier_seat_chunk(s, seat, s->rounds) < seat_chunk ? 1 : 0;
    }
    return before;
}

int gpuhier_part_chunk(const gpuhier_plan_t *plan, int group)
{
    const gpuhier_seating_t s = gpuhier_seating_of(groups_of(plan), group);
    if (GPUHIER_ALGORITHM_RING == plan->algorithm) {
        return group;
    }
    const int seat_chunk = gpuhier_seat_chunk(&s, s.seat >= 0 ? s.seat : group / 2, s.rounds);
    return chunk_of_seat_chunk(&s, seat_chunk) + (s.seat >= 0 ? 0 : 1);
}

/* Halving with chunks of groups. What the odd group of a seat hands over and gets is all chunks, or its own one. */
static void halving_step(const gpuhier_plan_t *plan, int step, gpuhier_step_t *s)
{
    const int n = groups_of(plan);
    const gpuhier_seating_t seats = gpuhier_seating_of(n, plan->group);
    const int fold = seats.folded > 0 ? 1 : 0;
    const bool is_first = fold > 0 && 0 == step, is_last = fold > 0 && plan->nsteps - 1 == step;
    const bool shifts = reduces(plan) ? is_last : !is_first; /* past the rounds of the other half */
    gpuhier_schedule_step(GPUHIER_ALGORITHM_HALVING, n, plan->group, shifts ? step + seats.rounds : step, s);
    if (is_first || is_last) {
        const bool whole = is_first == reduces(plan);
        const int odd = gpuhier_part_chunk(plan, plan->group | 1);
        s->send_begin = s->recv_begin = whole ? 0 : odd;
        s->send_end = s->recv_end = whole ? n : odd + 1;
        s->action = -1 == s->recv_from ? GPUHIER_ACTION_NONE : reduces(plan) ? s->action : GPUHIER_ACTION_COPY;
    } else {
        s->send_begin = chunk_of_seat_chunk(&seats, s->send_begin);
        s->send_end = chunk_of_seat_chunk(&seats, s->send_end);
        s->recv_begin = chunk_of_seat_chunk(&seats, s->recv_begin);
        s->recv_end = chunk_of_seat_chunk(&seats, s->recv_end);
    }
}

/* -- pairs ---------------------------------------------------------------------------------- */

/* Each step brings what the groups at one distance have for each other. */
static void shift_step(const gpuhier_plan_t *plan, int step, gpuhier_step_t *s)
{
    const int n = groups_of(plan);
    *s = (gpuhier_step_t){.send_to = (plan->group + step + 1) % n,
                          .recv_from = (plan->group + n - step - 1) % n,
                          .action = GPUHIER_ACTION_KEEP};
}

void gpuhier_part_step(const gpuhier_plan_t *plan, int step, gpuhier_step_t *step_p)
{
    if (is_of_pairs(plan->row)) {
        shift_step(plan, step, step_p);
    } else if (is_rooted(plan) && (reduces(plan) || GPUHIER_ALGORITHM_RING != plan->algorithm)) {
        rooted_step(plan, step, step_p);
    } else if (is_rooted(plan)) {
        chain_step(plan, step, step_p);
    } else if (GPUHIER_ALGORITHM_RING != plan->algorithm) {
        halving_step(plan, step, step_p);
    } else {
        gpuhier_schedule_step(GPUHIER_ALGORITHM_RING, groups_of(plan), plan->group,
                              reduces(plan) ? step : step + groups_of(plan) - 1, step_p);
    }
}
