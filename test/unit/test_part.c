/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The exchange between groups of the collectives other than all-reduce, in arrays of the host: each rank's
 * shard buffer, and messages that are copied from one to another, step by step. An element is a number that tells which
 * ranks have given to it, and how often. Equal and unequal groups, every algorithm, a root in every group, blocks of
 * equal and of unequal length. Both ends of
 * a message must agree about it, each range must lie in the shard buffer, and whoever takes must have it all.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "plan/coll_gpuhier_choice.h"
#include "plan/coll_gpuhier_part.h"

#define RANKS_MAX 20
#define SLICE_BYTES 65536
#define ELEM 8

/* Of MPI_Alltoallv each rank knows its own blocks only. */
static const int rows[] = {GPUHIER_REDUCE,    GPUHIER_BCAST,          GPUHIER_REDUCE_SCATTER_BLOCK,
                           GPUHIER_ALLGATHER, GPUHIER_REDUCE_SCATTER, GPUHIER_ALLGATHERV,
                           GPUHIER_ALLTOALL};

static const int layouts[][RANKS_MAX] = {
    {1, 1},
    {2, 2},
    {1, 3},
    {4, 4},
    {1, 1, 1},
    {2, 1, 2},
    {3, 4, 2},
    {1, 1, 1, 1},
    {2, 3, 4},
    {1, 1, 1, 1, 1},
    {2, 2, 2, 2, 2},
    {1, 2, 3, 4},
    {3, 3, 2},
    {1, 1, 1, 1, 1, 1},
    {1, 2, 1, 2, 1, 2, 1},
    {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
};

typedef struct world {
    gpuhier_hierarchy_t h;
    gpuhier_shape_t shape;
    gpuhier_limits_t limits;
    const gpuhier_collective_t *row;
    int root_group;
    gpuhier_plan_t plan[RANKS_MAX];
    gpuhier_block_t list[RANKS_MAX];
    uint64_t *shard[RANKS_MAX], *recv[RANKS_MAX]; /* SLICE_BYTES each, as numbers; 0: nothing was put there */
} world_t;

static bool is_of_pairs(const world_t *w)
{
    return GPUHIER_RANKS_PAIR == w->row->from;
}

/* What a rank gives to an element of a block. */
static uint64_t given(int rank, int block, uint64_t element)
{
    uint64_t x = (element * 1000 + (uint64_t) block) * RANKS_MAX + (uint64_t) rank + 1;
    x = (x ^ x >> 31) * UINT64_C(0x9e3779b97f4a7c15);
    return (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
}

/* The sum of what the ranks of a group give, or of all: group -1. */
static uint64_t sum_of(const world_t *w, int group, int block, uint64_t element)
{
    uint64_t sum = 0;
    for (int rank = 0; rank < w->h.nranks; ++rank) {
        sum += -1 == group || group == w->h.group_of[rank] ? given(rank, block, element) : 0;
    }
    return sum;
}

/* Elements of a shard buffer. Chunks of one block must fit into a relay's buffer, too, which has room for a shard of
 * the smallest group that shares its node. In {3, 3, 2} that is a group of three, if the last group is alone on its
 * node. */
static uint64_t buffer_elems(const world_t *w)
{
    const uint64_t bytes = w->row->has_blocks && !is_of_pairs(w)
                               ? SLICE_BYTES / (uint64_t) w->shape.max_group_size + 4 * GPUHIER_UNIT_BYTES
                               : SLICE_BYTES;
    return bytes / ELEM;
}

static uint64_t *place(const world_t *w, int rank, uint64_t slice, gpuhier_range_t range)
{
    const gpuhier_plan_t *plan = &w->plan[rank];
    const uint64_t at = range.begin - gpuhier_plan_piece(plan, slice, plan->first_piece).begin;
    assert_true(at + gpuhier_range_length(range) <= buffer_elems(w));
    return w->shard[rank] + at;
}

/* An element of a slice as it lies in a shard buffer. */
typedef void element_fn_t(const world_t *w, int rank, int group, int block, uint64_t element, uint64_t *at);

/* Pairs: the element of a slice that one rank gives to another. */
static uint64_t given_to(int giver, int taker, uint64_t element)
{
    return given(giver, taker, element);
}

/* Pairs: puts what the group of a rank gives into its shard buffer, or checks what it takes. */
static void pairs_walk(const world_t *w, int rank, uint64_t slice, bool puts)
{
    const gpuhier_plan_t *plan = &w->plan[rank];
    const int mine = w->h.group_of[rank];
    for (int piece = plan->first_piece; piece < plan->first_piece + plan->npieces; ++piece) {
        for (int group = 0; group < w->h.ngroups; ++group) {
            const int giving = puts ? mine : group, taker = puts ? gpuhier_shape_owner(&w->shape, piece, group) : rank;
            const gpuhier_range_t part = gpuhier_plan_block(plan, slice, piece, w->h.group_of[taker]);
            const gpuhier_range_t chunk = gpuhier_plan_pairs(plan, slice, piece, group, puts);
            uint64_t *at = place(w, rank, slice, chunk);
            at = puts || group == mine ? at : w->recv[rank] + (at - w->shard[rank]);
            assert_int_equal(gpuhier_range_length(chunk),
                             gpuhier_range_length(part) * (uint64_t) gpuhier_hierarchy_group_size(&w->h, giving));
            for (int k = 0; k < gpuhier_hierarchy_group_size(&w->h, giving); ++k) {
                const int giver = gpuhier_hierarchy_member(&w->h, giving, k);
                for (uint64_t i = part.begin; i < part.end; ++i, ++at) {
                    assert_true(puts ? 0 == *at : given_to(giver, rank, i) == *at);
                    *at = puts ? given_to(giver, taker, i) : *at;
                }
            }
        }
    }
}

/* Calls fn for all elements in the shard buffer of a rank: group is that of the chunk where blocks have owners. */
static void elements_walk(const world_t *w, int rank, uint64_t slice, element_fn_t *fn)
{
    const gpuhier_plan_t *plan = &w->plan[rank];
    for (int piece = plan->first_piece; piece < plan->first_piece + plan->npieces; ++piece) {
        if (!w->row->has_blocks) {
            const gpuhier_range_t range = gpuhier_plan_piece(plan, slice, piece);
            for (uint64_t i = range.begin; i < range.end; ++i) {
                fn(w, rank, -1, 0, i, place(w, rank, slice, range) + i - range.begin);
            }
            continue;
        }
        for (int group = 0; group < w->h.ngroups; ++group) {
            const int chunk = gpuhier_part_chunk(plan, group);
            const gpuhier_range_t part = gpuhier_plan_block(plan, slice, piece, group);
            const gpuhier_range_t in_buffer = gpuhier_plan_chunks(plan, slice, piece, chunk, chunk + 1);
            assert_true(gpuhier_range_length(part) == gpuhier_range_length(in_buffer));
            for (uint64_t i = part.begin; i < part.end; ++i) {
                fn(w, rank, group, gpuhier_shape_owner(&w->shape, piece, group), i,
                   place(w, rank, slice, in_buffer) + i - part.begin);
            }
        }
    }
}

static void put(const world_t *w, int rank, int group, int block, uint64_t element, uint64_t *at)
{
    const int mine = w->h.group_of[rank];
    if (GPUHIER_RANKS_ALL == w->row->from) {
        *at = sum_of(w, mine, block, element);
    } else if (mine == (w->row->has_blocks ? group : w->root_group)) {
        *at = given(0, block, element);
    }
}

static void check(const world_t *w, int rank, int group, int block, uint64_t element, uint64_t *at)
{
    const int mine = w->h.group_of[rank];
    const bool takes = GPUHIER_RANKS_ALL == w->row->to || mine == (w->row->has_blocks ? group : w->root_group);
    if (takes) {
        assert_true(*at
                    == (GPUHIER_RANKS_ALL == w->row->from ? sum_of(w, -1, block, element) : given(0, block, element)));
    }
}

/* A step of a piece: what the senders have is copied before anybody takes. */
static void piece_step(world_t *w, uint64_t slice, int piece, int step, uint64_t *sent)
{
    static uint64_t wire[RANKS_MAX][SLICE_BYTES / ELEM];
    gpuhier_transfer_t t[RANKS_MAX];
    for (int group = 0; group < w->h.ngroups; ++group) {
        const int rank = gpuhier_shape_owner(&w->shape, piece, group);
        gpuhier_plan_transfer(&w->plan[rank], slice, piece, step, &t[rank]);
        if (t[rank].send_to >= 0) {
            const uint64_t length = gpuhier_range_length(t[rank].send);
            memcpy(wire[rank], place(w, rank, slice, t[rank].send), length * ELEM);
            sent[rank] += length;
        }
    }
    for (int group = 0; group < w->h.ngroups; ++group) {
        const int rank = gpuhier_shape_owner(&w->shape, piece, group), from = t[rank].recv_from;
        const int to = t[rank].send_to;
        assert_true(to < 0 || t[to].recv_from == rank);
        if (from < 0) {
            assert_int_equal(t[rank].action, GPUHIER_ACTION_NONE);
            continue;
        }
        assert_int_equal(t[from].send_to, rank);
        const uint64_t length = gpuhier_range_length(t[rank].recv);
        assert_true(length == gpuhier_range_length(t[from].send));
        uint64_t *at = place(w, rank, slice, t[rank].recv);
        const bool reduces = GPUHIER_ACTION_COPY != t[rank].action && GPUHIER_ACTION_KEEP != t[rank].action;
        assert_true(reduces ? GPUHIER_RANKS_ALL == w->row->from
                            : is_of_pairs(w) == (GPUHIER_ACTION_KEEP == t[rank].action));
        at = is_of_pairs(w) ? w->recv[rank] + (at - w->shard[rank]) : at;
        for (uint64_t i = 0; i < length; ++i) {
            at[i] = reduces ? at[i] + wire[from][i] : wire[from][i];
        }
    }
}

static void slice_run(world_t *w, uint64_t slice, uint64_t *sent)
{
    for (int rank = 0; rank < w->h.nranks; ++rank) {
        memset(w->shard[rank], 0, SLICE_BYTES);
        memset(w->recv[rank], 0, SLICE_BYTES);
        is_of_pairs(w) ? pairs_walk(w, rank, slice, true) : elements_walk(w, rank, slice, put);
    }
    for (int step = 0; step < w->plan[0].nsteps; ++step) {
        for (int piece = 0; piece < w->shape.npieces; ++piece) {
            piece_step(w, slice, piece, step, sent);
        }
    }
    for (int rank = 0; rank < w->h.nranks; ++rank) {
        is_of_pairs(w) ? pairs_walk(w, rank, slice, false) : elements_walk(w, rank, slice, check);
    }
}

/* The parts of the blocks are all of them, once each. */
static void parts_check(const world_t *w, uint64_t count)
{
    const gpuhier_plan_t *plan = &w->plan[0];
    uint64_t elements[RANKS_MAX] = {0};
    for (uint64_t slice = 0; slice < plan->nslices; ++slice) {
        for (int piece = 0; piece < w->shape.npieces; ++piece) {
            for (int group = 0; group < w->h.ngroups; ++group) {
                const gpuhier_range_t part = gpuhier_plan_block(plan, slice, piece, group);
                elements[gpuhier_shape_owner(&w->shape, piece, group)] += gpuhier_range_length(part);
            }
        }
    }
    for (int rank = 0; rank < w->h.nranks && w->row->has_blocks; ++rank) {
        assert_int_equal(elements[rank], w->row->has_lists ? w->list[rank].length : count);
    }
}

/* The longest block is in another group in each layout; some are empty. */
static void list_make(world_t *w, uint64_t count)
{
    for (int rank = 0; rank < w->h.nranks; ++rank) {
        w->list[rank].length =
            rank == (int) (count % (uint64_t) w->h.nranks) ? count : count * (uint64_t) (rank % 3) / 4;
    }
}

static void call_run(world_t *w, uint64_t count)
{
    uint64_t sent[RANKS_MAX] = {0};
    list_make(w, count);
    for (int rank = 0; rank < w->h.nranks; ++rank) {
        assert_int_equal(
            0, gpuhier_choice_part(&w->plan[rank], &w->shape, rank, count, ELEM, w->row, w->root_group, &w->limits));
        assert_int_equal(w->plan[rank].nsteps, w->plan[0].nsteps);
        w->plan[rank].list = w->row->has_lists ? w->list : NULL;
        assert_true(w->plan[rank].slice_elems_max * (w->row->has_blocks ? (uint64_t) w->h.nranks : 1) * ELEM
                    <= SLICE_BYTES);
    }
    for (uint64_t slice = 0; slice < w->plan[0].nslices; ++slice) {
        slice_run(w, slice, sent);
    }
    parts_check(w, count);
    /* In equal groups, among a power of two of them, no ring or halving sends a block twice over one rail. */
    const int n = w->h.ngroups;
    if (w->row->has_blocks && !is_of_pairs(w) && w->shape.max_group_size == w->shape.min_group_size
        && 0 == (n & (n - 1))) {
        for (int rank = 0; rank < w->h.nranks; ++rank) {
            const uint64_t padding = 128 / ELEM * (uint64_t) n * w->plan[rank].nslices;
            assert_true(sent[rank] <= (uint64_t) (n - 1) * count + padding);
        }
    }
}

static bool one_node(void *arg, int rank, int other)
{
    (void) arg;
    (void) rank;
    (void) other;
    return true;
}

static void layout_make(world_t *w, const int *sizes)
{
    uint64_t nodes[RANKS_MAX];
    int n = 0;
    for (int group = 0; sizes[group] > 0; ++group) {
        const uint64_t first = (uint64_t) n;
        for (int i = 0; i < sizes[group]; ++i) {
            nodes[n++] = first;
        }
    }
    assert_int_equal(0, gpuhier_hierarchy_init(&w->h, n, nodes, one_node, NULL, 8));
    for (int group = 0; group < w->h.ngroups; ++group) { /* shards in another order than that of the members */
        const int size = gpuhier_hierarchy_group_size(&w->h, group);
        int owners[RANKS_MAX];
        for (int i = 0; i < size; ++i) {
            owners[i] = gpuhier_hierarchy_member(&w->h, group, (i + group) % size);
        }
        gpuhier_hierarchy_deal(&w->h, group, owners);
    }
    assert_int_equal(0, gpuhier_shape_init(&w->shape, &w->h));
}

static void test_parts(void **state)
{
    static const uint64_t counts[] = {1, 17, 700, 9000};
    static const gpuhier_algorithm_t algorithms[] = {GPUHIER_ALGORITHM_AUTO, GPUHIER_ALGORITHM_RECURSIVE_DOUBLING,
                                                     GPUHIER_ALGORITHM_RING, GPUHIER_ALGORITHM_HALVING};
    static world_t w;
    (void) state;
    for (int rank = 0; rank < RANKS_MAX; ++rank) {
        w.shard[rank] = malloc(SLICE_BYTES);
        w.recv[rank] = malloc(SLICE_BYTES);
        assert_non_null(w.shard[rank]);
        assert_non_null(w.recv[rank]);
    }
    for (size_t l = 0; l < sizeof(layouts) / sizeof(layouts[0]); ++l) {
        layout_make(&w, layouts[l]);
        for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]) * 4 * 4; ++r) {
            w.row = &gpuhier_collectives[rows[r / 16]];
            w.limits = (gpuhier_limits_t){.slice_bytes = SLICE_BYTES,
                                          .slice_buffers = 2,
                                          .algorithm = algorithms[r / 4 % 4],
                                          .wire = GPUHIER_WIRE_TCP};
            for (w.root_group = 0; w.root_group < (w.row->has_blocks ? 1 : w.h.ngroups); ++w.root_group) {
                call_run(&w, counts[r % 4]);
            }
        }
        gpuhier_shape_fini(&w.shape);
        gpuhier_hierarchy_fini(&w.h);
    }
    for (int rank = 0; rank < RANKS_MAX; ++rank) {
        free(w.shard[rank]);
        free(w.recv[rank]);
    }
}

/* A slice that cannot hold a unit of each rank's block is refused, on all ranks. */
static void test_no_room(void **state)
{
    static const int sizes[RANKS_MAX] = {2, 2};
    static world_t w;
    (void) state;
    layout_make(&w, sizes);
    w.limits =
        (gpuhier_limits_t){.slice_bytes = 4 * GPUHIER_UNIT_BYTES - 1, .slice_buffers = 2, .wire = GPUHIER_WIRE_TCP};
    assert_int_not_equal(0, gpuhier_choice_part(&w.plan[0], &w.shape, 0, 100, ELEM,
                                                &gpuhier_collectives[GPUHIER_ALLGATHER], 0, &w.limits));
    w.limits.slice_bytes = 4 * GPUHIER_UNIT_BYTES;
    assert_int_equal(0, gpuhier_choice_part(&w.plan[0], &w.shape, 0, 100, ELEM, &gpuhier_collectives[GPUHIER_ALLGATHER],
                                            0, &w.limits));
    gpuhier_shape_fini(&w.shape);
    gpuhier_hierarchy_fini(&w.h);
}

/* In one group a slice always has a unit of each rank's block. With the shortest slices all of them fit into a slice
 * buffer (gpuhier_slice_buffer_bytes()). */
static void test_shortest(void **state)
{
    static const int sizes[] = {2, 36, 37, 40, GPUHIER_GROUP_MAX};
    static const uint64_t nodes[GPUHIER_GROUP_MAX];
    const gpuhier_limits_t limits = {.slice_bytes = GPUHIER_SLICE_BYTES_MIN, .slice_buffers = 2};
    (void) state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i) {
        gpuhier_hierarchy_t h;
        gpuhier_shape_t shape;
        assert_int_equal(0, gpuhier_hierarchy_init(&h, sizes[i], nodes, one_node, NULL, GPUHIER_GROUP_MAX));
        assert_int_equal(1, h.ngroups);
        assert_int_equal(0, gpuhier_shape_init(&shape, &h));
        for (int collective = 0; collective < GPUHIER_COLLECTIVES; ++collective) {
            const gpuhier_collective_t *row = &gpuhier_collectives[collective];
            const uint64_t blocks = row->has_blocks ? (uint64_t) sizes[i] : 1;
            gpuhier_plan_t plan;
            assert_int_equal(0, gpuhier_choice_part(&plan, &shape, 0, 1000, ELEM, row, 0, &limits));
            assert_true(blocks * plan.slice_elems_max * ELEM <= limits.slice_bytes + 4 * GPUHIER_UNIT_BYTES);
        }
        gpuhier_shape_fini(&shape);
        gpuhier_hierarchy_fini(&h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_parts), cmocka_unit_test(test_no_room),
                                       cmocka_unit_test(test_shortest)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
