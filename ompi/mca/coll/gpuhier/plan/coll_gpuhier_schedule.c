/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the rows of the collectives, the choice of the algorithm that sums the pieces between groups, and each step of
 * that algorithm. The plan of a call, with its ranges, is in coll_gpuhier_plan.c.
 *
 * How it works: the steps of an algorithm depend on (N, group) only, and each is computed when it is needed; a plan
 * adds the ranges.
 *
 * Called by the plan, set-up and the unit tests. No Open MPI header.
 */
#include "plan/coll_gpuhier_schedule.h"

#include "plan/coll_gpuhier_part.h"

const gpuhier_collective_t gpuhier_collectives[GPUHIER_COLLECTIVES] = {
    [GPUHIER_ALLREDUCE] = {"MPI_Allreduce", GPUHIER_RANKS_ALL, GPUHIER_RANKS_ALL, false, false},
    [GPUHIER_REDUCE] = {"MPI_Reduce", GPUHIER_RANKS_ALL, GPUHIER_RANKS_ROOT, false, false},
    [GPUHIER_REDUCE_SCATTER] = {"MPI_Reduce_scatter", GPUHIER_RANKS_ALL, GPUHIER_RANKS_OWNER, true, true},
    [GPUHIER_REDUCE_SCATTER_BLOCK] = {"MPI_Reduce_scatter_block", GPUHIER_RANKS_ALL, GPUHIER_RANKS_OWNER, true, false},
    [GPUHIER_BCAST] = {"MPI_Bcast", GPUHIER_RANKS_ROOT, GPUHIER_RANKS_ALL, false, false},
    [GPUHIER_ALLGATHER] = {"MPI_Allgather", GPUHIER_RANKS_OWNER, GPUHIER_RANKS_ALL, true, false},
    [GPUHIER_ALLGATHERV] = {"MPI_Allgatherv", GPUHIER_RANKS_OWNER, GPUHIER_RANKS_ALL, true, true},
    [GPUHIER_ALLTOALL] = {"MPI_Alltoall", GPUHIER_RANKS_PAIR, GPUHIER_RANKS_PAIR, true, false},
    [GPUHIER_ALLTOALLV] = {"MPI_Alltoallv", GPUHIER_RANKS_PAIR, GPUHIER_RANKS_PAIR, true, true},
};

const char *const gpuhier_algorithm_names[GPUHIER_ALGORITHM_COUNT] = {
    [GPUHIER_ALGORITHM_AUTO] = "auto",
    [GPUHIER_ALGORITHM_RECURSIVE_DOUBLING] = "recursive_doubling",
    [GPUHIER_ALGORITHM_RING] = "ring",
    [GPUHIER_ALGORITHM_HALVING] = "halving",
};

/*
 * The values for rdma come from simulation (docs/model.md) and, shard_bytes, from modelled time; those for tcp come
 * from measurement (docs/decisions.md). Those for nvlink and a relay are estimates. A step is two short messages and a
 * copy. That takes 12 us, in which the GPU of an NVL72 moves 8 MiB at 700 GB/s; a quarter counts, since four slices or
 * more are under way at once. A reduction takes 3 us. free_bytes: on tcp, messages above 64 KiB are a rendezvous, whose
 * cost the formula leaves out.
 */
const gpuhier_wire_row_t gpuhier_wires[GPUHIER_WIRE_COUNT] = {
    /*                     name, copied, step_bytes, last_bytes, free_bytes, shard_bytes */
    [GPUHIER_WIRE_RDMA] = {"rdma", NULL, 100 << 10, 62 << 10, 0, 1 << 20},
    [GPUHIER_WIRE_TCP] = {"tcp", NULL, 20 << 10, 0, 96 << 10, 128 << 10},
    [GPUHIER_WIRE_NVLINK] = {"nvlink", "GPU memory that partners map, over links", 2 << 20, 512 << 10, 0, 1 << 20},
    [GPUHIER_WIRE_RELAY] = {"relay", "host memory that they share", 2 << 20, 512 << 10, 0, 1 << 20},
};

int gpuhier_schedule_chunks(gpuhier_algorithm_t algorithm, int ngroups)
{
    switch (algorithm) {
    case GPUHIER_ALGORITHM_RING:
        return ngroups;
    case GPUHIER_ALGORITHM_HALVING:
        return gpuhier_seating_of(ngroups, 0).nseats;
    default:
        return 1;
    }
}

int gpuhier_schedule_steps(gpuhier_algorithm_t algorithm, int ngroups)
{
    const gpuhier_seating_t s = gpuhier_seating_of(ngroups, 0);
    const int fold_steps = s.folded > 0 ? 2 : 0;
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
    const gpuhier_seating_t s = gpuhier_seating_of(ngroups, 0);
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

bool gpuhier_schedule_last_is_left(gpuhier_algorithm_t algorithm, int ngroups)
{
    return ngroups > 1 && GPUHIER_ALGORITHM_RECURSIVE_DOUBLING == algorithm
           && 0 == gpuhier_seating_of(ngroups, 0).folded;
}

bool gpuhier_plan_by_host(const gpuhier_shape_t *shape, const gpuhier_limits_t *limits, uint64_t bytes)
{
    const int ngroups = shape->hierarchy->ngroups;
    const bool doubles = limits->algorithm <= GPUHIER_ALGORITHM_RECURSIVE_DOUBLING; /* AUTO does so with two groups */
    return NULL == gpuhier_wires[limits->wire].copied && ngroups > (doubles ? 2 : 1)
           && bytes <= limits->host_shard_bytes * (uint64_t) shape->min_group_size;
}

gpuhier_algorithm_t gpuhier_algorithm_pick(gpuhier_algorithm_t choice, gpuhier_wire_t wire, int ngroups,
                                           uint64_t piece_bytes, int slice_buffers, bool by_host)
{
    const uint64_t bytes = piece_bytes < PIECE_BYTES_MAX ? piece_bytes : PIECE_BYTES_MAX;
    const uint64_t share = GPUHIER_WIRE_RDMA == wire && slice_buffers > 4 ? 2 : 1;
    const uint64_t step_bytes = gpuhier_wires[wire].step_bytes / share;
    gpuhier_algorithm_t picked = GPUHIER_ALGORITHM_RECURSIVE_DOUBLING;
    uint64_t least = UINT64_MAX;
    if (GPUHIER_ALGORITHM_AUTO != choice) {
        return choice;
    }
    for (int i = GPUHIER_ALGORITHM_RECURSIVE_DOUBLING;
         i < GPUHIER_ALGORITHM_COUNT && !by_host && bytes >= gpuhier_wires[wire].free_bytes; ++i) {
        const gpuhier_algorithm_t algorithm = (gpuhier_algorithm_t) i;
        const uint64_t steps = (uint64_t) gpuhier_schedule_steps(algorithm, ngroups);
        const uint64_t saved =
            gpuhier_schedule_last_is_left(algorithm, ngroups) ? gpuhier_wires[wire].last_bytes / share : 0;
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
    const bool reducing = step < ngroups - 1;
    /* In the first all-gather step a group sends its own chunk, in the first reducing one the chunk before it. */
    const int back = reducing ? step + 1 : step - (ngroups - 1);
    const int send_chunk = (group + ngroups - back) % ngroups;
    const int recv_chunk = (send_chunk + ngroups - 1) % ngroups;
    step_send(step_p, (group + 1) % ngroups, send_chunk, send_chunk + 1);
    step_recv(step_p, (group + ngroups - 1) % ngroups, recv_chunk, recv_chunk + 1,
              reducing ? GPUHIER_ACTION_REDUCE_RECEIVED_FIRST : GPUHIER_ACTION_COPY);
}

/* Of two groups that share a seat the odd one gives its piece away before the rounds, and gets the result after. */
static void fold_step(const gpuhier_seating_t *s, int group, int nchunks, bool before, gpuhier_step_t *step_p)
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

/*
 * Halving. In round i of the first log2(p) rounds, seats that differ in bit i give each other the half that the other
 * keeps. Neighbours exchange first, where usually the farthest seats do, so the tree of operands is that of recursive
 * doubling. The second log2(p) rounds undo this in reverse order with finished chunks.
 */
static void halving_round(const gpuhier_seating_t *s, int round, gpuhier_step_t *step_p)
{
    const bool reducing = round < s->rounds;
    const int bit = reducing ? round : 2 * s->rounds - 1 - round, partner = s->seat ^ (1 << bit);
    const int width = s->nseats >> (bit + 1), group = gpuhier_seat_group(s, partner);
    const int mine = gpuhier_seat_chunk(s, s->seat, bit + 1), theirs = gpuhier_seat_chunk(s, partner, bit + 1);
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
    const gpuhier_seating_t s = gpuhier_seating_of(ngroups, group);
    const int round = s.folded > 0 ? step - 1 : step;
    *step_p = (gpuhier_step_t){.send_to = -1, .recv_from = -1, .action = GPUHIER_ACTION_NONE};
    if (GPUHIER_ALGORITHM_RING == algorithm) {
        ring_step(ngroups, group, step, step_p);
    } else if (s.folded > 0 && (0 == step || gpuhier_schedule_steps(algorithm, ngroups) - 1 == step)) {
        fold_step(&s, group, gpuhier_schedule_chunks(algorithm, ngroups), 0 == step, step_p);
    } else if (-1 == s.seat) {
        return;
    } else if (GPUHIER_ALGORITHM_HALVING == algorithm) {
        halving_round(&s, round, step_p);
    } else {
        /* Recursive doubling, round i: seats that differ in bit i exchange their whole pieces. */
        const int partner = gpuhier_seat_group(&s, s.seat ^ (1 << round));
        step_send(step_p, partner, 0, 1);
        step_recv(step_p, partner, 0, 1, round_action(s.seat, round));
    }
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
    const int distance = (int) ((1LL << step) % ngroups);
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
