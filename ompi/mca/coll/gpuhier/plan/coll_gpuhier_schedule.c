/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the slices of a message, the choice of the algorithm that sums the pieces between groups, each step of that
 * algorithm, and the exact traffic. Does not own buffers, messages or time: the engine runs the schedule.
 *
 * How it works: nothing is stored for a slice or step. The steps of an algorithm depend on (N, group) only, and each is
 * computed when it is needed; a plan adds the ranges. All ranges come from gpuhier_cut(), so the two ranks of a message
 * compute the same bytes.
 *
 * If N is not a power of two, groups are folded to p = 2^floor(log2 N) "seats". Before the rounds each odd
 * group among the first 2 (N - p) hands its piece to the even one below it; after them it gets the result. The rounds
 * run among the seats:
 *
 *     N = 6:  group  0 1 2 3 4 5        seat c sits in group 2c      for c < N - p,
 *             seat   0 - 1 - 2 3                       group c + N - p else
 *
 * Neighbours fold, so each seat stands for consecutive groups, and "lower seats first" means "lower groups first".
 *
 * Called by the engine (one plan per call), gpuhier_info and the unit tests. No Open MPI header; errors are negative
 * errno values.
 */
#include "plan/coll_gpuhier_schedule.h"

#include <errno.h>

const char *const gpuhier_algorithm_names[GPUHIER_ALGORITHM_COUNT] = {
    [GPUHIER_ALGORITHM_AUTO] = "auto",
    [GPUHIER_ALGORITHM_RECURSIVE_DOUBLING] = "recursive_doubling",
    [GPUHIER_ALGORITHM_RING] = "ring",
    [GPUHIER_ALGORITHM_HALVING] = "halving",
};

/*
 * The values for rdma come from simulation (docs/scaling.md) and, shard_bytes, from modelled time; those for tcp come
 * from measurement (docs/decisions.md). Those for nvlink are estimates. A step is two short messages and a copy. That
 * takes 12 us, in which the GPU of an NVL72 moves 8 MiB at 700 GB/s; a quarter counts, since four slices or more are
 * under way at once. A reduction takes 3 us. free_bytes: on tcp, messages above 64 KiB are a rendezvous, whose cost the
 * formula leaves out.
 */
const gpuhier_wire_row_t gpuhier_wires[GPUHIER_WIRE_COUNT] = {
    /*                     name    step_bytes last_bytes free_bytes shard_bytes */
    [GPUHIER_WIRE_RDMA] = {"rdma", 100 << 10, 62 << 10, 0, 1 << 20},
    [GPUHIER_WIRE_TCP] = {"tcp", 20 << 10, 0, 96 << 10, 128 << 10},
    [GPUHIER_WIRE_NVLINK] = {"nvlink", 2 << 20, 512 << 10, 0, 1 << 20},
};

/* The seats of N groups, as seen by one of them. */
typedef struct seating {
    int nseats; /* p, a power of two */
    int rounds; /* log2 p */
    int folded; /* r = N - p seats have two groups each */
    int seat;   /* -1: this group is the odd one of two, without a seat */
} seating_t;

static seating_t seating_of(int ngroups, int group)
{
    seating_t s = {.nseats = 1};

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

static int seat_group(const seating_t *s, int seat)
{
    return seat < s->folded ? 2 * seat : seat + s->folded;
}

/*
 * The first chunk that a seat still has after `rounds` rounds of halving. In round i the halves have p / 2^(i + 1)
 * chunks, and bit i of the seat selects the upper one.
 */
static int seat_first_chunk(const seating_t *s, int seat, int rounds)
{
    int first = 0;

    for (int i = 0; i < rounds; ++i) {
        first += (seat >> i & 1) * (s->nseats >> (i + 1));
    }
    return first;
}

/* Chunks of a piece, equal for all groups. */
static int chunks_of(gpuhier_algorithm_t algorithm, int ngroups)
{
    switch (algorithm) {
    case GPUHIER_ALGORITHM_RING:
        return ngroups;
    case GPUHIER_ALGORITHM_HALVING:
        return seating_of(ngroups, 0).nseats;
    default:
        return 1;
    }
}

int gpuhier_schedule_steps(gpuhier_algorithm_t algorithm, int ngroups)
{
    seating_t s = seating_of(ngroups, 0);
    int fold_steps = s.folded > 0 ? 2 : 0;

    switch (algorithm) {
    case GPUHIER_ALGORITHM_RING:
        return 2 * (ngroups - 1);
    case GPUHIER_ALGORITHM_HALVING:
        return 2 * s.rounds + fold_steps;
    default:
        return s.rounds + fold_steps;
    }
}

/* Bytes of a piece that follow each other on the longest way through an exchange. */
static uint64_t exchange_chain(gpuhier_algorithm_t algorithm, int ngroups, uint64_t bytes)
{
    const seating_t s = seating_of(ngroups, 0);
    const uint64_t n = (uint64_t) ngroups, seats = (uint64_t) s.nseats, folds = s.folded > 0 ? 2 * bytes : 0;

    switch (algorithm) {
    case GPUHIER_ALGORITHM_RING:
        return 2 * (n - 1) * bytes / n;
    case GPUHIER_ALGORITHM_HALVING:
        return 2 * (seats - 1) * bytes / seats + folds;
    default:
        return (uint64_t) s.rounds * bytes + folds;
    }
}

#define PIECE_BYTES_MAX ((uint64_t) 1 << 40) /* longer pieces cost the same here, so nothing overflows */

/* Is the last step of every owner a reduction of its whole piece? */
static bool is_last_left(gpuhier_algorithm_t algorithm, int ngroups)
{
    return ngroups > 1 && GPUHIER_ALGORITHM_RECURSIVE_DOUBLING == algorithm && 0 == seating_of(ngroups, 0).folded;
}

bool gpuhier_plan_by_host(const gpuhier_shape_t *shape, const gpuhier_limits_t *limits, uint64_t bytes)
{
    const int ngroups = shape->hierarchy->ngroups;
    const bool doubles = limits->algorithm <= GPUHIER_ALGORITHM_RECURSIVE_DOUBLING; /* AUTO does so with two groups */

    return GPUHIER_WIRE_NVLINK != limits->wire && ngroups > (doubles ? 2 : 1)
           && bytes <= limits->host_shard_bytes * (uint64_t) shape->min_group_size;
}

gpuhier_algorithm_t gpuhier_algorithm_pick(gpuhier_algorithm_t choice, gpuhier_wire_t wire, int ngroups,
                                           uint64_t piece_bytes, int slice_buffers, bool by_host)
{
    gpuhier_algorithm_t picked = GPUHIER_ALGORITHM_RECURSIVE_DOUBLING;
    const uint64_t bytes = piece_bytes < PIECE_BYTES_MAX ? piece_bytes : PIECE_BYTES_MAX;
    const uint64_t share = GPUHIER_WIRE_RDMA == wire && slice_buffers > 4 ? 2 : 1;
    const uint64_t step_bytes = gpuhier_wires[wire].step_bytes / share;
    uint64_t least = UINT64_MAX;

    if (GPUHIER_ALGORITHM_AUTO != choice) {
        return choice;
    }
    for (int i = GPUHIER_ALGORITHM_RECURSIVE_DOUBLING;
         i < GPUHIER_ALGORITHM_COUNT && !by_host && bytes >= gpuhier_wires[wire].free_bytes; ++i) {
        const gpuhier_algorithm_t algorithm = (gpuhier_algorithm_t) i;
        const uint64_t steps = (uint64_t) gpuhier_schedule_steps(algorithm, ngroups);
        const uint64_t saved = is_last_left(algorithm, ngroups) ? gpuhier_wires[wire].last_bytes / share : 0;
        const uint64_t cost = steps * step_bytes - saved + exchange_chain(algorithm, ngroups, bytes);
        if (cost < least) {
            least = cost;
            picked = algorithm;
        }
    }
    return picked;
}

static void step_send(gpuhier_step_t *step, int group, int begin, int end)
{
    step->send_to = group;
    step->send_begin = begin;
    step->send_end = end;
}

static void step_recv(gpuhier_step_t *step, int group, int begin, int end, gpuhier_action_t action)
{
    step->recv_from = group;
    step->recv_begin = begin;
    step->recv_end = end;
    step->action = action;
}

/*
 * Ring. In the first N - 1 steps chunk c starts at group c + 1, gets the contribution of each group that it passes, and
 * is complete at group c. In the next N - 1 steps the complete chunks go around.
 */
static void ring_step(int ngroups, int group, int step, gpuhier_step_t *step_p)
{
    int right = (group + 1) % ngroups;
    int left = (group + ngroups - 1) % ngroups;
    bool reducing = step < ngroups - 1;
    /* In the first all-gather step a group sends its own chunk, in the first reducing one the chunk before it. */
    int back = reducing ? step + 1 : step - (ngroups - 1);
    int send_chunk = (group + ngroups - back) % ngroups;
    int recv_chunk = (send_chunk + ngroups - 1) % ngroups;

    step_send(step_p, right, send_chunk, send_chunk + 1);
    step_recv(step_p, left, recv_chunk, recv_chunk + 1,
              reducing ? GPUHIER_ACTION_REDUCE_RECEIVED_FIRST : GPUHIER_ACTION_COPY);
}

/* Of two groups that share a seat the odd one gives its piece away before the rounds, and gets the result after. */
static void fold_step(const seating_t *s, int group, int nchunks, bool before, gpuhier_step_t *step_p)
{
    if (group >= 2 * s->folded) {
        return;
    }
    if (-1 == s->seat) {
        if (before) {
            step_send(step_p, group - 1, 0, nchunks);
        } else {
            step_recv(step_p, group - 1, 0, nchunks, GPUHIER_ACTION_COPY);
        }
    } else if (before) {
        step_recv(step_p, group + 1, 0, nchunks, GPUHIER_ACTION_REDUCE_LOCAL_FIRST);
    } else {
        step_send(step_p, group + 1, 0, nchunks);
    }
}

/* The lower seat is the left operand, so both partners of a round use the same order. */
static gpuhier_action_t round_action(int seat, int round)
{
    return 0 == (seat >> round & 1) ? GPUHIER_ACTION_REDUCE_LOCAL_FIRST : GPUHIER_ACTION_REDUCE_RECEIVED_FIRST;
}

/* Recursive doubling, round i: seats that differ in bit i exchange their whole pieces. */
static void doubling_round(const seating_t *s, int round, gpuhier_step_t *step_p)
{
    int partner = seat_group(s, s->seat ^ (1 << round));

    step_send(step_p, partner, 0, 1);
    step_recv(step_p, partner, 0, 1, round_action(s->seat, round));
}

/*
 * Halving. In round i of the first log2(p) rounds, seats that differ in bit i give each other the half that the other
 * keeps. Neighbours exchange first, where usually the farthest seats do, so the tree of operands is that of recursive
 * doubling. The second log2(p) rounds undo this in reverse order with finished chunks.
 */
static void halving_round(const seating_t *s, int round, gpuhier_step_t *step_p)
{
    bool reducing = round < s->rounds;
    int bit = reducing ? round : 2 * s->rounds - 1 - round;
    int partner = s->seat ^ (1 << bit);
    int width = s->nseats >> (bit + 1);
    int mine = seat_first_chunk(s, s->seat, bit + 1);
    int theirs = seat_first_chunk(s, partner, bit + 1);
    int group = seat_group(s, partner);

    if (reducing) {
        step_send(step_p, group, theirs, theirs + width);
        step_recv(step_p, group, mine, mine + width, round_action(s->seat, bit));
    } else {
        step_send(step_p, group, mine, mine + width);
        step_recv(step_p, group, theirs, theirs + width, GPUHIER_ACTION_COPY);
    }
}

void gpuhier_schedule_step(gpuhier_algorithm_t algorithm, int ngroups, int group, int step, gpuhier_step_t *step_p)
{
    seating_t s = seating_of(ngroups, group);
    int nsteps = gpuhier_schedule_steps(algorithm, ngroups);
    int round = s.folded > 0 ? step - 1 : step;

    *step_p = (gpuhier_step_t){.send_to = -1, .recv_from = -1, .action = GPUHIER_ACTION_NONE};
    if (GPUHIER_ALGORITHM_RING == algorithm) {
        ring_step(ngroups, group, step, step_p);
    } else if (s.folded > 0 && (0 == step || nsteps - 1 == step)) {
        fold_step(&s, group, chunks_of(algorithm, ngroups), 0 == step, step_p);
    } else if (-1 == s.seat) {
        return;
    } else if (GPUHIER_ALGORITHM_HALVING == algorithm) {
        halving_round(&s, round, step_p);
    } else {
        doubling_round(&s, round, step_p);
    }
}

/* The longest part of width num/den of elems elements, in elements: ceil(units * num / den) units. */
static uint64_t part_bound(uint64_t elems, uint64_t unit, uint64_t num, uint64_t den)
{
    uint64_t units = gpuhier_unit_count(elems, unit);
    uint64_t bound = unit * (units / den * num + (units % den * num + den - 1) / den);

    return bound < elems ? bound : elems;
}

/* The longest receive of a REDUCE step, for pieces of at most elems elements. */
static uint64_t reduce_bound(gpuhier_algorithm_t algorithm, int ngroups, uint64_t elems, uint64_t unit)
{
    if (1 == ngroups) {
        return 0;
    }
    if (GPUHIER_ALGORITHM_RING == algorithm) {
        return part_bound(elems, unit, 1, (uint64_t) ngroups);
    }
    if (GPUHIER_ALGORITHM_HALVING == algorithm && 0 == seating_of(ngroups, 0).folded) {
        return part_bound(elems, unit, 1, 2);
    }
    return elems;
}

int gpuhier_plan_init(gpuhier_plan_t *plan_p, const gpuhier_shape_t *shape, int rank, uint64_t count, size_t elem_bytes,
                      const gpuhier_limits_t *limits)
{
    const gpuhier_hierarchy_t *h = shape->hierarchy;
    gpuhier_plan_t plan = {.shape = shape, .rank = rank, .count = count, .elem_bytes = elem_bytes};
    uint64_t units;
    uint64_t limit_units;
    int end_piece;

    if (rank < 0 || rank >= h->nranks || 0 == elem_bytes || count > (uint64_t) INT64_MAX / elem_bytes
        || 0 == limits->slice_bytes || limits->slice_buffers < GPUHIER_SLICE_BUFFERS_MIN
        || limits->slice_buffers > GPUHIER_SLICE_BUFFERS_MAX || (unsigned) limits->algorithm >= GPUHIER_ALGORITHM_COUNT
        || (unsigned) limits->wire >= GPUHIER_WIRE_COUNT) {
        return -EINVAL;
    }
    plan.group = h->group_of[rank];
    plan.index = h->index_of[rank];
    plan.group_size = gpuhier_hierarchy_group_size(h, plan.group);
    plan.shard = h->shard_of[rank];
    gpuhier_shape_pieces(shape, rank, &plan.first_piece, &end_piece);
    plan.npieces = end_piece - plan.first_piece;
    plan.slice_buffers = limits->slice_buffers;

    /* As few slices as the limit allows, all of nearly the same length: a much shorter last slice would not overlap. */
    plan.unit = gpuhier_unit_elems(elem_bytes);
    units = gpuhier_unit_count(count, plan.unit);
    limit_units = limits->slice_bytes / (plan.unit * elem_bytes);
    plan.nslices = gpuhier_unit_count(units, 0 == limit_units ? 1 : limit_units);
    if (plan.nslices > 0) {
        plan.slice_units = units / plan.nslices;
        plan.wide_slices = units % plan.nslices;
        plan.slice_elems_max = gpuhier_range_length(gpuhier_plan_slice(&plan, 0));
    }

    plan.shard_elems_max = part_bound(plan.slice_elems_max, plan.unit, 1, (uint64_t) plan.group_size);
    plan.piece_elems_max = part_bound(plan.slice_elems_max, plan.unit, shape->widest.num, shape->widest.den);
    plan.by_host = gpuhier_plan_by_host(shape, limits, count * elem_bytes);
    plan.algorithm = gpuhier_algorithm_pick(limits->algorithm, limits->wire, h->ngroups,
                                            plan.piece_elems_max * elem_bytes, plan.slice_buffers, plan.by_host);
    plan.nsteps = gpuhier_schedule_steps(plan.algorithm, h->ngroups);
    plan.nchunks = chunks_of(plan.algorithm, h->ngroups);
    plan.recv_elems_max = reduce_bound(plan.algorithm, h->ngroups, plan.piece_elems_max, plan.unit);
    *plan_p = plan;
    return 0;
}

/* Where a slice begins; slice == nslices gives the end of the message. */
static uint64_t slice_begin(const gpuhier_plan_t *plan, uint64_t slice)
{
    uint64_t wide = slice < plan->wide_slices ? slice : plan->wide_slices;
    uint64_t begin = plan->unit * (slice * plan->slice_units + wide);

    return begin < plan->count ? begin : plan->count;
}

gpuhier_range_t gpuhier_plan_slice(const gpuhier_plan_t *plan, uint64_t slice)
{
    return (gpuhier_range_t){.begin = slice_begin(plan, slice), .end = slice_begin(plan, slice + 1)};
}

/* The part from `from` to `to` of a range. */
static gpuhier_range_t range_part(gpuhier_range_t range, uint64_t unit, gpuhier_fraction_t from, gpuhier_fraction_t to)
{
    uint64_t elems = gpuhier_range_length(range);

    return (gpuhier_range_t){.begin = range.begin + gpuhier_cut(elems, unit, from.num, from.den),
                             .end = range.begin + gpuhier_cut(elems, unit, to.num, to.den)};
}

/* Chunks [begin, end) of nchunks of a piece. */
static gpuhier_range_t range_chunks(gpuhier_range_t piece, uint64_t unit, int begin, int end, int nchunks)
{
    uint64_t elems = gpuhier_range_length(piece);

    return (gpuhier_range_t){.begin = piece.begin + gpuhier_cut(elems, unit, (uint32_t) begin, (uint32_t) nchunks),
                             .end = piece.begin + gpuhier_cut(elems, unit, (uint32_t) end, (uint32_t) nchunks)};
}

gpuhier_range_t gpuhier_plan_part(const gpuhier_plan_t *plan, uint64_t slice, int part, int parts)
{
    gpuhier_fraction_t from = {.num = (uint16_t) part, .den = (uint16_t) parts};
    gpuhier_fraction_t to = {.num = (uint16_t) (part + 1), .den = (uint16_t) parts};

    return range_part(gpuhier_plan_slice(plan, slice), plan->unit, from, to);
}

gpuhier_range_t gpuhier_plan_piece(const gpuhier_plan_t *plan, uint64_t slice, int piece)
{
    const gpuhier_fraction_t *cuts = plan->shape->cuts;

    return range_part(gpuhier_plan_slice(plan, slice), plan->unit, cuts[piece], cuts[piece + 1]);
}

void gpuhier_plan_transfer(const gpuhier_plan_t *plan, uint64_t slice, int piece, int step,
                           gpuhier_transfer_t *transfer_p)
{
    gpuhier_range_t whole = gpuhier_plan_piece(plan, slice, piece);
    gpuhier_transfer_t transfer = {.send_to = -1, .recv_from = -1, .action = GPUHIER_ACTION_NONE};
    gpuhier_step_t s;

    gpuhier_schedule_step(plan->algorithm, plan->shape->hierarchy->ngroups, plan->group, step, &s);
    if (-1 != s.send_to) {
        transfer.send = range_chunks(whole, plan->unit, s.send_begin, s.send_end, plan->nchunks);
        if (0 != gpuhier_range_length(transfer.send)) {
            transfer.send_to = gpuhier_shape_owner(plan->shape, piece, s.send_to);
        }
    }
    if (-1 != s.recv_from) {
        transfer.recv = range_chunks(whole, plan->unit, s.recv_begin, s.recv_end, plan->nchunks);
        if (0 != gpuhier_range_length(transfer.recv)) {
            transfer.recv_from = gpuhier_shape_owner(plan->shape, piece, s.recv_from);
            transfer.action = s.action;
        }
    }
    *transfer_p = transfer;
}

gpuhier_action_t gpuhier_plan_last_action(const gpuhier_plan_t *plan)
{
    const int ngroups = plan->shape->hierarchy->ngroups;
    gpuhier_step_t s;

    if (!is_last_left(plan->algorithm, ngroups)) {
        return GPUHIER_ACTION_NONE;
    }
    gpuhier_schedule_step(plan->algorithm, ngroups, plan->group, plan->nsteps - 1, &s);
    return s.action;
}

/* One slice of each length that occurs (wide, not wide, the last), and how often. Returns how many are listed. */
static int slice_lengths(const gpuhier_plan_t *plan, gpuhier_range_t *sample, uint64_t *times)
{
    int n = 0;

    if (0 == plan->nslices) {
        return 0;
    }
    if (plan->wide_slices > 0) {
        sample[n] = gpuhier_plan_slice(plan, 0);
        times[n++] = plan->wide_slices;
    }
    if (plan->nslices - 1 > plan->wide_slices) {
        sample[n] = gpuhier_plan_slice(plan, plan->wide_slices);
        times[n++] = plan->nslices - 1 - plan->wide_slices;
    }
    sample[n] = gpuhier_plan_slice(plan, plan->nslices - 1);
    times[n++] = 1;
    return n;
}

uint64_t gpuhier_plan_link_bytes(const gpuhier_plan_t *plan, int to_index, int from_index)
{
    gpuhier_range_t slices[3];
    uint64_t times[3];
    uint64_t elems = 0;
    int n = slice_lengths(plan, slices, times);
    uint32_t size = (uint32_t) plan->group_size;

    for (int i = 0; i < n; ++i) {
        uint64_t length = gpuhier_range_length(slices[i]);
        for (int side = 0; side < 2; ++side) {
            uint32_t index = (uint32_t) (0 == side ? to_index : from_index);
            uint64_t begin = gpuhier_cut(length, plan->unit, index, size);
            elems += times[i] * (gpuhier_cut(length, plan->unit, index + 1, size) - begin);
        }
    }
    return elems * plan->elem_bytes;
}

/* Sum of the lengths of what a seat sends in the rounds of halving. */
static uint64_t halving_sent(const seating_t *s, uint64_t elems, uint64_t unit)
{
    gpuhier_range_t piece = {.begin = 0, .end = elems};
    int final = seat_first_chunk(s, s->seat, s->rounds);
    /* The reducing rounds send all but the final chunk; each round back sends all chunks finished so far. */
    uint64_t sent = elems - gpuhier_range_length(range_chunks(piece, unit, final, final + 1, s->nseats));

    for (int bit = 0; bit < s->rounds; ++bit) {
        int first = seat_first_chunk(s, s->seat, bit + 1);
        int end = first + (s->nseats >> (bit + 1));
        sent += gpuhier_range_length(range_chunks(piece, unit, first, end, s->nseats));
    }
    return sent;
}

/*
 * Elements that the owner in `group` sends for one piece of elems elements.
 * Ideal (equal chunks, N a power of two): recursive doubling log2(N) n, ring and
 * halving 2 (N - 1)/N n (Thakur, Rabenseifner, Gropp: Optimization of collective
 * communication operations in MPICH, 2005, section 4.5). Exact, with c(i) the
 * length of chunk i, p = 2^floor(log2 N) and r = N - p:
 *     ring:                2 n - c(group) - c(group + 1 mod N)
 *     recursive doubling:  log2(p) n, plus n for the even of two groups that share a seat
 *     halving:             the halves it gives away, then the parts it has finished, plus the same
 *     folded-out group (odd, below 2 r): n
 */
static uint64_t elems_sent(gpuhier_algorithm_t algorithm, int ngroups, int group, uint64_t elems, uint64_t unit)
{
    gpuhier_range_t piece = {.begin = 0, .end = elems};
    seating_t s = seating_of(ngroups, group);
    uint64_t unfolded = group < 2 * s.folded ? elems : 0;

    if (GPUHIER_ALGORITHM_RING == algorithm) {
        int next = (group + 1) % ngroups;
        return 2 * elems - gpuhier_range_length(range_chunks(piece, unit, group, group + 1, ngroups))
               - gpuhier_range_length(range_chunks(piece, unit, next, next + 1, ngroups));
    }
    if (-1 == s.seat) {
        return elems;
    }
    if (GPUHIER_ALGORITHM_HALVING == algorithm) {
        return unfolded + halving_sent(&s, elems, unit);
    }
    return unfolded + (uint64_t) s.rounds * elems;
}

uint64_t gpuhier_plan_sent_bytes(const gpuhier_plan_t *plan)
{
    const gpuhier_fraction_t *cuts = plan->shape->cuts;
    gpuhier_range_t slices[3];
    uint64_t times[3];
    uint64_t elems = 0;
    int n = slice_lengths(plan, slices, times);

    for (int i = 0; i < n; ++i) {
        for (int piece = plan->first_piece; piece < plan->first_piece + plan->npieces; ++piece) {
            gpuhier_range_t part = range_part(slices[i], plan->unit, cuts[piece], cuts[piece + 1]);
            elems += times[i]
                     * elems_sent(plan->algorithm, plan->shape->hierarchy->ngroups, plan->group,
                                  gpuhier_range_length(part), plan->unit);
        }
    }
    return elems * plan->elem_bytes;
}

int gpuhier_schedule_vote_steps(int ngroups)
{
    int steps = 0;

    while (steps < 31 && (1LL << steps) < ngroups) {
        ++steps;
    }
    return steps;
}

void gpuhier_schedule_vote_peers(int ngroups, int group, int step, int *send_to_p, int *recv_from_p)
{
    int distance = (int) ((1LL << step) % ngroups);

    *send_to_p = (int) (((int64_t) group + distance) % ngroups);
    *recv_from_p = (int) (((int64_t) group + ngroups - distance) % ngroups);
}

static void partners_of(gpuhier_algorithm_t algorithm, int ngroups, int group, bool *partners)
{
    for (int i = 0; i < gpuhier_schedule_steps(algorithm, ngroups); ++i) {
        gpuhier_step_t step;
        gpuhier_schedule_step(algorithm, ngroups, group, i, &step);
        if (step.send_to >= 0) {
            partners[step.send_to] = true;
        }
        if (step.recv_from >= 0) {
            partners[step.recv_from] = true;
        }
    }
}

void gpuhier_schedule_partners(gpuhier_algorithm_t choice, int ngroups, int group, bool *partners)
{
    for (int i = GPUHIER_ALGORITHM_AUTO + 1; i < GPUHIER_ALGORITHM_COUNT; ++i) {
        if (GPUHIER_ALGORITHM_AUTO == choice || (gpuhier_algorithm_t) i == choice) {
            partners_of((gpuhier_algorithm_t) i, ngroups, group, partners);
        }
    }
}

void gpuhier_schedule_leader_partners(int ngroups, int group, bool *partners)
{
    partners_of(GPUHIER_ALGORITHM_RECURSIVE_DOUBLING, ngroups, group, partners);
    for (int step = 0; step < gpuhier_schedule_vote_steps(ngroups); ++step) {
        int to, from;
        gpuhier_schedule_vote_peers(ngroups, group, step, &to, &from);
        partners[to] = partners[from] = true;
    }
}
