/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What a collective does, by its definition in the MPI standard: see family.c.
 */
#include "family.h"

/* The number at place p of an element. */
static int32_t number_of(uint32_t salt, int from, int to, size_t k, int p)
{
    return (int32_t) ((salt * 131 + (uint32_t) (from + 1) * 10007 + (uint32_t) (to + 1) * 769 + (uint32_t) k * 17
                       + (uint32_t) p * 5)
                      % 1000003);
}

static int32_t value(const shape_t *shape, const block_t *block, int k, int p)
{
    int32_t sum = 0;
    if (ALL != block->from) {
        return number_of(shape->salt, block->from, block->to, block->skip + (size_t) k, p);
    }
    for (int from = block->first; from <= block->last; ++from) {
        sum += number_of(shape->salt, from, ALL, block->skip + (size_t) k, p);
    }
    return sum;
}

void family_paint(const shape_t *shape, int32_t *image, const block_t *block)
{
    for (int k = 0; k < block->count; ++k) {
        for (int p = 0; p < shape->ints; ++p) {
            image[(block->at + k) * shape->step + 2 * p] = value(shape, block, k, p);
        }
    }
}

static int count_between(const shape_t *shape, int a, int b)
{
    return 0 == (a + b) % 4 ? 0 : shape->count + (a + b + 3) % 3;
}

/* Lays n blocks out: one behind the other; or, in lists, backwards and with an element between. */
static void lay_out(side_t *side, int n, bool listed)
{
    int at = 0;
    for (int i = 0; i < n; ++i) {
        const int b = listed ? n - 1 - i : i;
        side->disps[b] = side->blocks[b].at = at;
        side->counts[b] = side->blocks[b].count;
        at += side->blocks[b].count + (listed ? 1 : 0);
    }
    side->nblocks = side->nlisted = n;
    side->elements = at;
}

static bool is_listed(coll_t coll)
{
    return ALLGATHERV == coll || ALLTOALLV == coll || ALLTOALLW == coll || GATHERV == coll || SCATTERV == coll
           || NEIGHBOR_ALLGATHERV == coll || NEIGHBOR_ALLTOALLV == coll || NEIGHBOR_ALLTOALLW == coll;
}

bool family_is_rooted(coll_t coll)
{
    return BCAST == coll || GATHER == coll || GATHERV == coll || REDUCE == coll || SCATTER == coll || SCATTERV == coll;
}

bool family_reduces(coll_t coll)
{
    return ALLREDUCE == coll || EXSCAN == coll || REDUCE == coll || REDUCE_SCATTER == coll
           || REDUCE_SCATTER_BLOCK == coll || SCAN == coll;
}

/* The sides of one-to-all, all-to-one and all-to-all collectives that move data. */
static void plan_moves(const shape_t *shape, const place_t *at, bool is_root, bool is_other, int root, side_t *send,
                       side_t *recv)
{
    const coll_t coll = shape->coll;
    const bool v = is_listed(coll), to_all = ALLTOALL == coll || ALLTOALLV == coll || ALLTOALLW == coll;
    const bool gathers = GATHER == coll || GATHERV == coll, scatters = SCATTER == coll || SCATTERV == coll;
    int nsend = 0, nrecv = 0;
    for (int i = 0; i < at->peers; ++i) {
        const int peer = at->first_peer + i;
        if (to_all || (scatters && is_root)) {
            send->blocks[nsend++] = (block_t){
                .from = at->number, .to = peer, .count = v ? count_between(shape, at->number, peer) : shape->count};
        }
        if (to_all || (gathers && is_root) || ALLGATHER == coll || ALLGATHERV == coll) {
            recv->blocks[nrecv++] = (block_t){.from = peer,
                                              .to = to_all ? at->number : ALL,
                                              .count = !v       ? shape->count
                                                       : to_all ? count_between(shape, at->number, peer)
                                                                : count_between(shape, peer, 1)};
        }
    }
    if ((gathers && is_other) || ALLGATHER == coll || ALLGATHERV == coll || (BCAST == coll && is_root)) {
        send->blocks[nsend++] =
            (block_t){.from = at->number, .to = ALL, .count = v ? count_between(shape, at->number, 1) : shape->count};
    }
    if ((scatters && is_other) || (BCAST == coll && is_other && !is_root)) {
        recv->blocks[nrecv++] = (block_t){.from = root,
                                          .to = scatters ? at->number : ALL,
                                          .count = v ? count_between(shape, root, at->number) : shape->count};
    }
    lay_out(send, nsend, v && nsend > 1);
    lay_out(recv, nrecv, v && nrecv > 1);
}

/* The totals of the groups of an inter-communicator must be equal. */
int family_share(const shape_t *shape, const place_t *at, int i)
{
    return REDUCE_SCATTER == shape->coll && !at->inter ? count_between(shape, i, 1)
           : at->inter                                 ? shape->count * at->peers
                                                       : shape->count;
}

static void plan_reduction(const shape_t *shape, const place_t *at, bool is_root, bool is_other, side_t *send,
                           side_t *recv)
{
    const coll_t coll = shape->coll;
    int all = shape->count, before = 0, mine = shape->count;
    if (REDUCE_SCATTER == coll || REDUCE_SCATTER_BLOCK == coll) {
        all = 0;
        for (int i = 0; i < at->size; ++i) {
            before = i == at->rank ? all : before;
            recv->counts[i] = family_share(shape, at, i);
            all += recv->counts[i];
        }
        mine = recv->counts[at->rank];
        recv->nlisted = at->size;
    }
    const int last = SCAN == coll ? at->number : EXSCAN == coll ? at->number - 1 : at->first_peer + at->peers - 1;
    send->blocks[0] = (block_t){.from = at->number, .to = ALL, .count = all};
    send->nblocks = is_other ? 1 : 0;
    send->elements = all;
    recv->blocks[0] =
        (block_t){.from = ALL, .first = at->first_peer, .last = last, .skip = (size_t) before, .count = mine};
    recv->nblocks = is_root && last >= at->first_peer ? 1 : 0;
    recv->elements = shape->in_place ? all : mine;
}

static void plan_near(const shape_t *shape, const place_t *at, side_t *send, side_t *recv)
{
    const coll_t coll = shape->coll;
    const bool v = is_listed(coll),
               each = NEIGHBOR_ALLTOALL == coll || NEIGHBOR_ALLTOALLV == coll || NEIGHBOR_ALLTOALLW == coll;
    for (int i = 0; i < at->nin; ++i) {
        recv->blocks[i] = (block_t){.from = at->in[i],
                                    .to = each ? at->rank : ALL,
                                    .count = !v     ? shape->count
                                             : each ? count_between(shape, at->in[i], at->rank)
                                                    : count_between(shape, at->in[i], 1)};
    }
    for (int i = 0; i < (each ? at->nout : 1); ++i) {
        const int to = each ? at->out[i] : ALL;
        send->blocks[i] = (block_t){
            .from = at->rank, .to = to, .count = v ? count_between(shape, at->rank, each ? to : 1) : shape->count};
    }
    lay_out(send, each ? at->nout : 1, v && each);
    lay_out(recv, at->nin, v);
}

part_t family_part(const shape_t *shape, const place_t *at)
{
    const bool rooted = family_is_rooted(shape->coll), here = !at->in_second && at->rank == shape->root;
    if (!at->inter || !rooted) {
        return (part_t){!rooted || at->rank == shape->root, true, shape->root};
    }
    return (part_t){here, at->in_second, at->in_second ? shape->root : here ? MPI_ROOT : MPI_PROC_NULL};
}

void family_plan(const shape_t *shape, const place_t *at, side_t *send, side_t *recv)
{
    const part_t part = family_part(shape, at);
    if (shape->coll >= COLLS) {
        plan_near(shape, at, send, recv);
    } else if (family_reduces(shape->coll)) {
        plan_reduction(shape, at, part.is_root, part.is_other, send, recv);
    } else {
        plan_moves(shape, at, part.is_root, part.is_other, at->first_peer + shape->root, send, recv);
    }
}
