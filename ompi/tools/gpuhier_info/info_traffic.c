/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What a call must move, exactly: predictions, against which tests hold what calls do move. Needs libc only.
 */
#include "info_traffic.h"

#include "plan/coll_gpuhier_part.h"

static gpuhier_range_t range_part(gpuhier_range_t range, uint64_t unit, gpuhier_fraction_t from, gpuhier_fraction_t to)
{
    const uint64_t elems = gpuhier_range_length(range);
    return (gpuhier_range_t){.begin = range.begin + gpuhier_cut(elems, unit, from.num, from.den),
                             .end = range.begin + gpuhier_cut(elems, unit, to.num, to.den)};
}

/* Chunks [begin, end) of nchunks of a piece. */
static gpuhier_range_t range_chunks(gpuhier_range_t piece, uint64_t unit, int begin, int end, int nchunks)
{
    const uint64_t elems = gpuhier_range_length(piece);
    return (gpuhier_range_t){.begin = piece.begin + gpuhier_cut(elems, unit, (uint32_t) begin, (uint32_t) nchunks),
                             .end = piece.begin + gpuhier_cut(elems, unit, (uint32_t) end, (uint32_t) nchunks)};
}

/* A slice of each length that occurs (wide, not wide, the last), and how often. Returns how many are listed. */
static int slice_lengths(const gpuhier_plan_t *plan, uint64_t *sample, uint64_t *times)
{
    int n = 0;

    if (0 == plan->nslices) {
        return 0;
    }
    if (plan->wide_slices > 0) {
        sample[n] = 0;
        times[n++] = plan->wide_slices;
    }
    if (plan->nslices - 1 > plan->wide_slices) {
        sample[n] = plan->wide_slices;
        times[n++] = plan->nslices - 1 - plan->wide_slices;
    }
    sample[n] = plan->nslices - 1;
    times[n++] = 1;
    return n;
}

uint64_t info_link_bytes(const gpuhier_plan_t *plan, int to_index, int from_index)
{
    uint64_t slices[3], times[3];
    uint64_t elems = 0;
    int n = slice_lengths(plan, slices, times);
    uint32_t size = (uint32_t) plan->group_size;

    for (int i = 0; i < n; ++i) {
        uint64_t length = gpuhier_range_length(gpuhier_plan_slice(plan, slices[i]));
        for (int side = 0; side < 2; ++side) {
            uint32_t index = (uint32_t) (0 == side ? to_index : from_index);
            uint64_t begin = gpuhier_cut(length, plan->unit, index, size);
            elems += times[i] * (gpuhier_cut(length, plan->unit, index + 1, size) - begin);
        }
    }
    return elems * plan->elem_bytes;
}

/* Sum of the lengths of what a seat sends in the rounds of halving. */
static uint64_t halving_sent(const gpuhier_seating_t *s, uint64_t elems, uint64_t unit)
{
    gpuhier_range_t piece = {.begin = 0, .end = elems};
    int final = gpuhier_seat_chunk(s, s->seat, s->rounds);
    /* The reducing rounds send all but the final chunk; each round back sends all chunks finished so far. */
    uint64_t sent = elems - gpuhier_range_length(range_chunks(piece, unit, final, final + 1, s->nseats));

    for (int bit = 0; bit < s->rounds; ++bit) {
        int first = gpuhier_seat_chunk(s, s->seat, bit + 1);
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
    gpuhier_seating_t s = gpuhier_seating_of(ngroups, group);
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

/* Elements that the plan's rank sends of one of its pieces in a slice. */
static uint64_t piece_sent(const gpuhier_plan_t *plan, uint64_t slice, int piece)
{
    const gpuhier_fraction_t *cuts = plan->shape->cuts;
    uint64_t elems = 0;

    if (NULL == plan->row) {
        gpuhier_range_t part = range_part(gpuhier_plan_slice(plan, slice), plan->unit, cuts[piece], cuts[piece + 1]);
        return elems_sent(plan->algorithm, plan->shape->hierarchy->ngroups, plan->group, gpuhier_range_length(part),
                          plan->unit);
    }
    for (int step = 0; step < plan->nsteps; ++step) {
        gpuhier_transfer_t transfer;
        gpuhier_plan_transfer(plan, slice, piece, step, &transfer);
        elems += -1 == transfer.send_to ? 0 : gpuhier_range_length(transfer.send);
    }
    return elems;
}

uint64_t info_sent_bytes(const gpuhier_plan_t *plan)
{
    uint64_t slices[3], times[3];
    uint64_t elems = 0;
    int n = slice_lengths(plan, slices, times);

    for (int i = 0; i < n; ++i) {
        for (int piece = plan->first_piece; piece < plan->first_piece + plan->npieces; ++piece) {
            elems += times[i] * piece_sent(plan, slices[i], piece);
        }
    }
    return elems * plan->elem_bytes;
}
