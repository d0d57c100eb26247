/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Arithmetic without arrays: cuts, pieces, slices, shards and chunks of messages
 * of up to 2^62 elements, against 128-bit arithmetic and brute force.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "info_traffic.h"
#include "plan/coll_gpuhier_choice.h"
#include "plan/coll_gpuhier_schedule.h"
#include "pure_world.h"

__extension__ typedef unsigned __int128 wide_t;

static uint64_t wide_cut(uint64_t elems, uint64_t unit, uint64_t num, uint64_t den)
{
    wide_t units = ((wide_t) elems + unit - 1) / unit;
    wide_t place = units * num / den * unit;

    return place < elems ? (uint64_t) place : elems;
}

/* A number of random length: as many small ones as huge ones. */
static uint64_t random_count(pure_random_t *random, uint64_t max)
{
    uint64_t x = pure_random_next(random) >> pure_random_below(random, 64);

    return x > max ? max - pure_random_below(random, 1000) : x;
}

static void test_cut(void **state)
{
    pure_random_t random = {pure_seed(2)};

    (void) state;
    for (int i = 0; i < 1000000; ++i) {
        uint64_t elems = random_count(&random, 1ULL << 62);
        uint64_t unit = 1 + pure_random_below(&random, 128);
        uint32_t den = 1 + (uint32_t) pure_random_below(&random, 0 == i % 2 ? 64 : 100000);
        uint32_t num = (uint32_t) pure_random_below(&random, (uint64_t) den + 1);
        uint64_t cut = gpuhier_cut(elems, unit, num, den);
        assert_true(cut == wide_cut(elems, unit, num, den));
        assert_int_equal(gpuhier_cut(elems, unit, 0, den), 0);
        assert_true(gpuhier_cut(elems, unit, den, den) == elems);
        assert_true(cut == elems || 0 == cut % unit);
    }
}

static void test_units(void **state)
{
    (void) state;
    for (size_t bytes = 1; bytes <= 300; ++bytes) {
        uint64_t unit = gpuhier_unit_elems(bytes);
        assert_true(unit >= 1);
        assert_true(1 == unit || unit * bytes <= GPUHIER_UNIT_BYTES);
        assert_true((unit + 1) * bytes > GPUHIER_UNIT_BYTES);
    }
}

/*
 * On a message of as many units as the product of the group sizes every cut is
 * exact: piece and owner of each unit follow from the definition of a shard.
 */
static void check_pieces(const gpuhier_shape_t *shape, uint64_t units)
{
    const gpuhier_hierarchy_t *h = shape->hierarchy;
    int piece = -1;
    uint64_t widest = 0;
    uint64_t began = 0;

    for (uint64_t at = 0; at < units; ++at) {
        bool cut_here = false;
        for (int g = 0; g < h->ngroups; ++g) {
            cut_here = cut_here || 0 == at * (uint64_t) gpuhier_hierarchy_group_size(h, g) % units;
        }
        if (cut_here) {
            ++piece;
            began = at;
            assert_true(gpuhier_cut(units, 1, shape->cuts[piece].num, shape->cuts[piece].den) == at);
        }
        widest = at + 1 - began > widest ? at + 1 - began : widest;
        for (int g = 0; g < h->ngroups; ++g) {
            int size = gpuhier_hierarchy_group_size(h, g);
            int index = (int) (at * (uint64_t) size / units);
            assert_int_equal(gpuhier_shape_shard(shape, piece, size), index);
            assert_int_equal(gpuhier_shape_owner(shape, piece, g), gpuhier_hierarchy_member(h, g, index));
            int begin, end;
            gpuhier_shape_pieces(shape, gpuhier_hierarchy_member(h, g, index), &begin, &end);
            assert_true(begin <= piece && piece < end);
        }
    }
    assert_int_equal(piece + 1, shape->npieces);
    assert_int_equal(widest * shape->widest.den, units * shape->widest.num);
}

static void visit_pieces(void *arg, int nnodes, const int *ranks_per_node)
{
    pure_world_t world;
    int *shapes_p = arg;

    pure_world_init(&world, nnodes, ranks_per_node, PURE_CYCLIC, 0, GPUHIER_GROUP_MAX);
    check_pieces(&world.shape, 840); /* divisible by 1 .. 8 */
    pure_world_fini(&world);
    ++*shapes_p;
}

static void test_pieces(void **state)
{
    static const int seven_eight[] = {7, 8};
    static const int large[][2] = {{64, 63}, {61, 59}, {64, 32}, {64, 64}};
    static const int large_pieces[] = {126, 119, 64, 64};
    static const uint64_t large_units[] = {64 * 63, 61 * 59, 64, 64};
    int shapes = 0;
    pure_world_t world;

    (void) state;
    pure_each_shape(4, 8, 3, visit_pieces, &shapes);
    assert_int_equal(shapes, 8 + 64 + 512 + 330);
    pure_world_init(&world, 2, seven_eight, PURE_BLOCK, 0, GPUHIER_GROUP_MAX);
    assert_int_equal(world.shape.npieces, 14);
    pure_world_fini(&world);
    for (int i = 0; i < 4; ++i) {
        pure_world_init(&world, 2, large[i], PURE_BLOCK, 0, GPUHIER_GROUP_MAX);
        assert_int_equal(world.shape.npieces, large_pieces[i]);
        check_pieces(&world.shape, large_units[i]);
        pure_world_fini(&world);
    }
}

/* All sizes at once: the most pieces that can be. As many fractions as the Farey sequence of that order has. */
static void test_most_pieces(void **state)
{
    int sizes[GPUHIER_GROUP_MAX];
    int farey = 1;
    pure_world_t world;

    (void) state;
    for (int size = 1; size <= GPUHIER_GROUP_MAX; ++size) {
        sizes[size - 1] = size;
        for (int j = 0; j < size; ++j) {
            int a = size;
            int b = j;
            while (0 != b) {
                int rest = a % b;
                a = b;
                b = rest;
            }
            farey += 1 == a; /* j/size in lowest terms is new at this size */
        }
    }
    pure_world_init(&world, GPUHIER_GROUP_MAX, sizes, PURE_SHUFFLED, 3, GPUHIER_GROUP_MAX);
    assert_int_equal(world.shape.npieces, farey - 1);
    assert_int_equal(world.shape.widest.den, GPUHIER_GROUP_MAX); /* 0 .. 1/64 */
    assert_int_equal(world.shape.widest.num, 1);
    for (int i = 0; i < world.shape.npieces; ++i) {
        const gpuhier_fraction_t *cuts = world.shape.cuts;
        assert_int_equal(cuts[i + 1].num * cuts[i].den - cuts[i].num * cuts[i + 1].den, 1); /* neighbours of Farey */
    }
    pure_world_fini(&world);
}

/* What must hold of one slice. */
static void check_slice(const gpuhier_plan_t *plan, const gpuhier_limits_t *limits, uint64_t slice)
{
    gpuhier_range_t range = gpuhier_plan_slice(plan, slice);
    uint64_t elems = gpuhier_range_length(range);
    uint64_t at = range.begin;

    assert_true(range.begin < range.end);
    assert_int_equal(range.begin % plan->unit, 0);
    assert_true(elems <= plan->slice_elems_max);
    assert_true(elems * plan->elem_bytes <= limits->slice_bytes || elems <= plan->unit);
    for (int i = 0; i < plan->group_size; ++i) {
        gpuhier_range_t shard = gpuhier_plan_part(plan, slice, i, plan->group_size);
        assert_true(shard.begin == at);
        assert_true(shard.begin <= shard.end);
        assert_true(gpuhier_range_length(shard) <= plan->shard_elems_max);
        assert_true(shard.begin
                    == range.begin + wide_cut(elems, plan->unit, (uint64_t) i, (uint64_t) plan->group_size));
        at = shard.end;
    }
    assert_true(at == range.end);
    at = range.begin;
    for (int i = 0; i < plan->shape->npieces; ++i) {
        gpuhier_range_t piece = gpuhier_plan_piece(plan, slice, i);
        assert_true(piece.begin == at);
        assert_true(piece.begin <= piece.end);
        assert_true(gpuhier_range_length(piece) <= plan->piece_elems_max);
        at = piece.end;
    }
    assert_true(at == range.end);
}

/* My pieces are my shard, my chunks are my piece. */
static void check_steps(const gpuhier_plan_t *plan, uint64_t slice)
{
    gpuhier_range_t shard = gpuhier_plan_part(plan, slice, plan->index, plan->group_size);
    uint64_t at = shard.begin;

    for (int piece = plan->first_piece; piece < plan->first_piece + plan->npieces; ++piece) {
        gpuhier_range_t range = gpuhier_plan_piece(plan, slice, piece);
        assert_true(range.begin == at);
        at = range.end;
        for (int step = 0; step < plan->nsteps; ++step) {
            gpuhier_transfer_t t;
            gpuhier_plan_transfer(plan, slice, piece, step, &t);
            if (-1 != t.send_to) {
                assert_true(range.begin <= t.send.begin && t.send.begin < t.send.end && t.send.end <= range.end);
            }
            if (-1 != t.recv_from) {
                assert_true(range.begin <= t.recv.begin && t.recv.begin < t.recv.end && t.recv.end <= range.end);
            }
        }
    }
    assert_true(at == shard.end);
}

static void check_plan(const gpuhier_plan_t *plan, const gpuhier_limits_t *limits, pure_random_t *random)
{
    uint64_t n = plan->nslices;
    uint64_t samples[] = {
        0, 1, n / 2, plan->wide_slices, plan->wide_slices + 1, n - 1, 0 == n ? 0 : pure_random_next(random) % n};

    assert_int_equal(0 == n, 0 == plan->count);
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); ++i) {
        if (samples[i] < n) {
            check_slice(plan, limits, samples[i]);
            check_steps(plan, samples[i]);
            assert_true(0 == samples[i]
                        || gpuhier_plan_slice(plan, samples[i] - 1).end == gpuhier_plan_slice(plan, samples[i]).begin);
        }
    }
    if (n > 0) {
        assert_int_equal(gpuhier_plan_slice(plan, 0).begin, 0);
        assert_true(gpuhier_plan_slice(plan, n - 1).end == plan->count);
    }
    if (plan->elem_bytes <= GPUHIER_UNIT_BYTES) {
        assert_true(plan->shard_elems_max * plan->elem_bytes
                    <= limits->slice_bytes / (uint64_t) plan->group_size + GPUHIER_UNIT_BYTES);
    }
}

static void test_huge_counts(void **state)
{
    static const size_t elem_bytes[] = {1, 1, 2, 4, 8, 12, 16, 32, 128, 200};
    uint64_t seed = pure_seed(3);
    pure_random_t random = {seed};

    (void) state;
    for (int i = 0; i < 60000; ++i) {
        int sizes[6];
        int nnodes = 1 + (int) pure_random_below(&random, 6);
        pure_world_t world;
        gpuhier_plan_t plan;
        gpuhier_limits_t limits = {.slice_bytes = 1 + random_count(&random, 1ULL << 40),
                                   .slice_buffers = 2 + (int) pure_random_below(&random, 3),
                                   .algorithm =
                                       (gpuhier_algorithm_t) pure_random_below(&random, GPUHIER_ALGORITHM_COUNT)};
        size_t bytes = elem_bytes[pure_random_below(&random, sizeof(elem_bytes) / sizeof(elem_bytes[0]))];
        uint64_t count = random_count(&random, (1ULL << 62) / bytes);
        for (int node = 0; node < nnodes; ++node) {
            sizes[node] = 1 + (int) pure_random_below(&random, 8);
        }
        pure_world_init(&world, nnodes, sizes, PURE_SHUFFLED, (uint64_t) i, GPUHIER_GROUP_MAX);
        int rank = (int) pure_random_below(&random, (uint64_t) world.hierarchy.nranks);
        assert_int_equal(gpuhier_plan_init(&plan, &world.shape, rank, count, bytes, &limits), 0);
        assert_int_equal(plan.rank, gpuhier_hierarchy_member(&world.hierarchy, plan.group, plan.index));
        check_plan(&plan, &limits, &random);
        pure_world_fini(&world);
    }
}

/* The formulas, on messages that no array could hold: slices of every length added up one by one. */
static void test_formulas_add_up(void **state)
{
    static const int sizes[] = {3, 5, 2};
    pure_random_t random = {pure_seed(4)};
    pure_world_t world;

    (void) state;
    pure_world_init(&world, 3, sizes, PURE_BLOCK, 0, GPUHIER_GROUP_MAX);
    for (int i = 0; i < 3000; ++i) {
        uint64_t count = pure_random_below(&random, 1ULL << 50);
        gpuhier_limits_t limits = {.slice_bytes = 1 + 8 * count / (1 + pure_random_below(&random, 40)),
                                   .slice_buffers = 2,
                                   .algorithm = (gpuhier_algorithm_t) (1 + i % 3)};
        gpuhier_plan_t plan;
        uint64_t sent = 0;
        uint64_t link = 0;
        int rank = (int) pure_random_below(&random, 10);
        assert_int_equal(gpuhier_plan_init(&plan, &world.shape, rank, count, 8, &limits), 0);
        int peer = (plan.index + 1) % plan.group_size;
        for (uint64_t slice = 0; slice < plan.nslices; ++slice) {
            link += gpuhier_range_length(gpuhier_plan_part(&plan, slice, plan.index, plan.group_size));
            link += gpuhier_range_length(gpuhier_plan_part(&plan, slice, peer, plan.group_size));
            for (int piece = plan.first_piece; piece < plan.first_piece + plan.npieces; ++piece) {
                for (int step = 0; step < plan.nsteps; ++step) {
                    gpuhier_transfer_t t;
                    gpuhier_plan_transfer(&plan, slice, piece, step, &t);
                    sent += -1 == t.send_to ? 0 : gpuhier_range_length(t.send);
                }
            }
        }
        assert_true(8 * sent == info_sent_bytes(&plan));
        assert_true(8 * link == info_link_bytes(&plan, plan.index, peer));
        assert_true(8 * link == info_link_bytes(&plan, peer, plan.index));
    }
    pure_world_fini(&world);
}

static void test_bad_plans(void **state)
{
    static const int sizes[] = {2, 2};
    static const gpuhier_limits_t good = {.slice_bytes = 1 << 20, .slice_buffers = 3};
    gpuhier_limits_t bad[5] = {good, good, good, good, good};
    gpuhier_plan_t plan;
    gpuhier_plan_t untouched;
    pure_world_t world;

    (void) state;
    memset(&plan, 0x5a, sizeof(plan));
    untouched = plan;
    bad[0].slice_bytes = 0;
    bad[1].slice_buffers = 1;
    bad[2].slice_buffers = 9;
    bad[3].algorithm = GPUHIER_ALGORITHM_COUNT;
    bad[4].algorithm = (gpuhier_algorithm_t) -1;
    pure_world_init(&world, 2, sizes, PURE_BLOCK, 0, GPUHIER_GROUP_MAX);
    for (int i = 0; i < 5; ++i) {
        assert_int_equal(gpuhier_plan_init(&plan, &world.shape, 0, 1, 8, &bad[i]), -EINVAL);
    }
    assert_int_equal(gpuhier_plan_init(&plan, &world.shape, -1, 1, 8, &good), -EINVAL);
    assert_int_equal(gpuhier_plan_init(&plan, &world.shape, 4, 1, 8, &good), -EINVAL);
    assert_int_equal(gpuhier_plan_init(&plan, &world.shape, 0, 1, 0, &good), -EINVAL);
    assert_int_equal(gpuhier_plan_init(&plan, &world.shape, 0, 1ULL << 60, 8, &good), -EINVAL);
    assert_int_equal(gpuhier_plan_init(&plan, &world.shape, 0, UINT64_MAX, 1, &good), -EINVAL);
    assert_memory_equal(&plan, &untouched, sizeof(plan));
    pure_world_fini(&world);
}

/* The algorithm that "auto" chooses on each wire: where the simulation and the measurements say so. */
static void test_algorithm_choice(void **state)
{
    static const struct {
        gpuhier_wire_t wire;
        int ngroups;
        uint64_t kbytes;
        gpuhier_algorithm_t algorithm;
        bool by_host;
        int slice_buffers;
    } known[] = {
        {GPUHIER_WIRE_RDMA, 4, 512, GPUHIER_ALGORITHM_RECURSIVE_DOUBLING, false, 4},
        {GPUHIER_WIRE_RDMA, 4, 640, GPUHIER_ALGORITHM_HALVING, false, 4},
        {GPUHIER_WIRE_RDMA, 8, 256, GPUHIER_ALGORITHM_RECURSIVE_DOUBLING, false, 4},
        {GPUHIER_WIRE_RDMA, 8, 512, GPUHIER_ALGORITHM_HALVING, false, 4},
        {GPUHIER_WIRE_RDMA, 16, 128, GPUHIER_ALGORITHM_RECURSIVE_DOUBLING, false, 4},
        {GPUHIER_WIRE_RDMA, 16, 256, GPUHIER_ALGORITHM_HALVING, false, 4},
        {GPUHIER_WIRE_RDMA, 64, 128, GPUHIER_ALGORITHM_RECURSIVE_DOUBLING, false, 4},
        {GPUHIER_WIRE_RDMA, 64, 192, GPUHIER_ALGORITHM_HALVING, false, 4},
        {GPUHIER_WIRE_RDMA, 6, 256, GPUHIER_ALGORITHM_RECURSIVE_DOUBLING, false, 4},
        {GPUHIER_WIRE_RDMA, 6, 512, GPUHIER_ALGORITHM_RING, false, 4},
        {GPUHIER_WIRE_RDMA, 48, 128, GPUHIER_ALGORITHM_RECURSIVE_DOUBLING, false, 4},
        {GPUHIER_WIRE_RDMA, 48, 256, GPUHIER_ALGORITHM_HALVING, false, 4},
        {GPUHIER_WIRE_TCP, 3, 95, GPUHIER_ALGORITHM_RECURSIVE_DOUBLING, false, 4},
        {GPUHIER_WIRE_TCP, 3, 96, GPUHIER_ALGORITHM_RING, false, 4},
        {GPUHIER_WIRE_TCP, 4, 95, GPUHIER_ALGORITHM_RECURSIVE_DOUBLING, false, 4},
        {GPUHIER_WIRE_TCP, 4, 96, GPUHIER_ALGORITHM_HALVING, false, 4},
        {GPUHIER_WIRE_TCP, 8, 96, GPUHIER_ALGORITHM_HALVING, false, 4},
        {GPUHIER_WIRE_RDMA, 6, 512, GPUHIER_ALGORITHM_RECURSIVE_DOUBLING, true, 4},
        {GPUHIER_WIRE_RDMA, 64, 192, GPUHIER_ALGORITHM_RECURSIVE_DOUBLING, true, 4},
        {GPUHIER_WIRE_TCP, 8, 96, GPUHIER_ALGORITHM_RECURSIVE_DOUBLING, true, 4},
        {GPUHIER_WIRE_RDMA, 12, 512, GPUHIER_ALGORITHM_HALVING, false, 4},
        {GPUHIER_WIRE_RDMA, 12, 512, GPUHIER_ALGORITHM_RING, false, 8},
        {GPUHIER_WIRE_RDMA, 24, 512, GPUHIER_ALGORITHM_HALVING, false, 8},
        {GPUHIER_WIRE_RDMA, 24, 1024, GPUHIER_ALGORITHM_HALVING, false, 4},
        {GPUHIER_WIRE_RDMA, 24, 1024, GPUHIER_ALGORITHM_RING, false, 8},
        {GPUHIER_WIRE_RDMA, 48, 1024, GPUHIER_ALGORITHM_HALVING, false, 8},
    };

    (void) state;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); ++i) {
        assert_int_equal(gpuhier_algorithm_pick(GPUHIER_ALGORITHM_AUTO, known[i].wire, known[i].ngroups,
                                                known[i].kbytes << 10, known[i].slice_buffers, known[i].by_host),
                         known[i].algorithm);
    }
}

/* For every number of groups: the fewest steps for short pieces, the fewest bytes for long ones, no way back between
 * them; a choice is kept. */
static void test_algorithm_ends(void **state)
{
    (void) state;
    for (int i = 0; i < 600; ++i) {
        const int n = 1 + i / 2;
        const gpuhier_wire_t wire = 0 == i % 2 ? GPUHIER_WIRE_RDMA : GPUHIER_WIRE_TCP;
        const bool power = 0 == (n & (n - 1));
        int steps = 0;
        for (uint64_t bytes = 1; 0 != bytes; bytes *= 2) {
            gpuhier_algorithm_t picked = gpuhier_algorithm_pick(GPUHIER_ALGORITHM_AUTO, wire, n, bytes, 4, false);
            assert_true(gpuhier_schedule_steps(picked, n) >= steps);
            steps = gpuhier_schedule_steps(picked, n);
            assert_false(power && GPUHIER_ALGORITHM_RING == picked);
            if (n <= 2 || bytes <= 4096) {
                assert_int_equal(picked, GPUHIER_ALGORITHM_RECURSIVE_DOUBLING);
            } else if (bytes >= 1ULL << 32) {
                assert_int_equal(picked, power ? GPUHIER_ALGORITHM_HALVING : GPUHIER_ALGORITHM_RING);
            }
            for (int by_host = 0; by_host < 2; ++by_host) {
                picked = gpuhier_algorithm_pick(GPUHIER_ALGORITHM_RING, wire, n, bytes, 4, by_host);
                assert_int_equal(picked, GPUHIER_ALGORITHM_RING);
            }
        }
    }
}

/* The host reduces up to so many bytes for each rank of the smallest group, on all ranks or on none, and not where the
 * exchange has no reduction that AG does not make. */
static void test_by_host(void **state)
{
    static const struct {
        int nnodes, ranks[4];
        gpuhier_algorithm_t algorithm;
        uint64_t host_shard_bytes, most; /* 0: none */
    } known[] = {
        {1, {4}, GPUHIER_ALGORITHM_AUTO, 65536, 0},
        {2, {4, 4}, GPUHIER_ALGORITHM_AUTO, 65536, 0},
        {2, {4, 4}, GPUHIER_ALGORITHM_RECURSIVE_DOUBLING, 65536, 0},
        {2, {4, 4}, GPUHIER_ALGORITHM_RING, 65536, 4 * 65536},
        {2, {1, 4}, GPUHIER_ALGORITHM_HALVING, 65536, 65536},
        {3, {4, 4, 4}, GPUHIER_ALGORITHM_AUTO, 65536, 4 * 65536},
        {4, {4, 2, 3, 4}, GPUHIER_ALGORITHM_AUTO, 1000, 2000},
        {4, {4, 2, 3, 4}, GPUHIER_ALGORITHM_AUTO, 0, 0},
    };

    (void) state;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); ++i) {
        const gpuhier_limits_t limits = {.slice_bytes = 4 << 20,
                                         .slice_buffers = 3,
                                         .algorithm = known[i].algorithm,
                                         .host_shard_bytes = known[i].host_shard_bytes};
        pure_world_t world;
        pure_world_init(&world, known[i].nnodes, known[i].ranks, PURE_BLOCK, 0, GPUHIER_GROUP_MAX);
        for (int rank = 0; rank < world.hierarchy.nranks; ++rank) {
            gpuhier_plan_t plan;
            for (uint64_t bytes = known[i].most; bytes <= known[i].most + 8; bytes += 8) {
                const bool by_host = 0 != bytes && bytes <= known[i].most;
                assert_int_equal(gpuhier_plan_init(&plan, &world.shape, rank, bytes / 8, 8, &limits), 0);
                assert_int_equal(plan.by_host && 0 != bytes, by_host);
                assert_int_equal(gpuhier_plan_by_host(&world.shape, &limits, bytes) && 0 != bytes, by_host);
            }
        }
        pure_world_fini(&world);
    }
    assert_int_equal(gpuhier_choice_host_shard(65536, 128, false), 65536);
    assert_int_equal(gpuhier_choice_host_shard(65536, 5, true), 32768);
    assert_int_equal(gpuhier_choice_host_shard(65536, 4, true), 16384);
}

/* The formula of slices: within its bounds, and longer than slice_bytes only for a message that
 * eight slices of that length do not hold. A message is long if it is longer than the buffers of short slices. */
static void test_slice_lengths(void **state)
{
    const uint64_t short_bytes = 4 << 20;

    (void) state;
    for (int n = 1; n <= 40; n += n < 5 ? 1 : 5) {
        for (int ranks = 1; ranks <= 8; ranks += 7) {
            int ranks_per_node[40];
            pure_world_t world;
            for (int i = 0; i < n; ++i) {
                ranks_per_node[i] = 0 == i ? ranks : 1;
            }
            pure_world_init(&world, n, ranks_per_node, PURE_BLOCK, 0, GPUHIER_GROUP_MAX);
            for (uint64_t max = 0; max <= 64 << 20; max = 0 == max ? 1 << 20 : 4 * max) {
                const gpuhier_limits_t limits = {
                    .slice_bytes = short_bytes, .slice_buffers = 3, .slice_bytes_max = max};
                const uint64_t longest = gpuhier_choice_longest(&world.shape, &limits);
                assert_in_range(longest, short_bytes, n > 1 && max > short_bytes ? max : short_bytes);
                assert_true(8 != ranks || n < 2 || max > 16 << 20
                            || longest == (max > short_bytes ? max : short_bytes));
                for (uint64_t bytes = 1; bytes <= 1ULL << 40; bytes *= 2) {
                    gpuhier_plan_t plan;
                    const bool is_long = longest > short_bytes && bytes > 3 * short_bytes;
                    assert_int_equal(gpuhier_choice_plan(&plan, &world.shape, 0, bytes, 1, &limits), 0);
                    /* An eighth of the message, but no less than the wire's shard_bytes for each rank of the largest
                     * group, or slice_bytes; and no more than the longest. With one group: the longest. */
                    const uint64_t worth = gpuhier_wires[limits.wire].shard_bytes * (uint64_t) ranks;
                    const uint64_t least = worth < short_bytes ? worth : short_bytes;
                    const uint64_t wanted = bytes / 8 > least ? bytes / 8 : least;
                    const uint64_t slice = n > 1 && wanted < longest ? wanted : longest;
                    const uint64_t units = (bytes + 127) / 128;
                    assert_int_equal(plan.nslices, (units + slice / 128 - 1) / (slice / 128));
                    assert_true(bytes > 8 * short_bytes || slice <= short_bytes);
                    assert_true(bytes < 8 * longest || slice == longest);
                    assert_true(is_long == gpuhier_choice_is_long(&world.shape, bytes, &limits));
                    assert_int_equal(plan.slice_buffers, is_long ? 6 : 3);
                }
            }
            pure_world_fini(&world);
        }
    }
}

/* One-shot kernels: every message that they reduce has room in the mailbox in its form, with parts of whole 32 units.
 */
static void test_shots(void **state)
{
    const uint64_t mailbox = 2 << 20, slice = 4 << 20;

    (void) state;
    assert_int_equal(gpuhier_choice_oneshot(1, 1 << 20, slice), 0);
    assert_int_equal(gpuhier_choice_oneshot(8, 1 << 20, slice), 512 << 10);
    assert_int_equal(gpuhier_choice_oneshot(8, 1000, slice), 992);
    assert_int_equal(gpuhier_choice_oneshot(8, 1 << 20, 2000), 2000);
    assert_int_equal(gpuhier_choice_two_shots_from(8), 64 << 10);
    assert_int_equal(gpuhier_choice_switch_from(1, 8, -1), 32 << 20);
    assert_int_equal(gpuhier_choice_switch_from(2, 8, -1), 256 << 20);
    assert_int_equal(gpuhier_choice_switch_from(2, 5, -1), 0);
    assert_int_equal(gpuhier_choice_switch_from(3, 8, -1), 0);
    assert_int_equal(gpuhier_choice_switch_from(2, 8, 4096), 4096);
    assert_int_equal(gpuhier_choice_switch_from(1, 5, -1), 0);
    assert_int_equal(gpuhier_choice_switch_from(1, 8, 0), 0);
    assert_int_equal(gpuhier_choice_switch_from(1, 2, 4096), 4096);
    assert_int_equal(gpuhier_choice_switch_from(1, 1, 4096), 0);
    assert_int_equal(gpuhier_choice_two_shots_from(4), (256 << 10) + 1);
    for (uint64_t ranks = 2; ranks <= 64; ++ranks) {
        const uint64_t longest = gpuhier_choice_oneshot((int) ranks, 1 << 20, slice);
        const uint64_t from = gpuhier_choice_two_shots_from((int) ranks);
        assert_in_range(longest, 480 << 10, 512 << 10);
        assert_true(2 != ranks || from > longest); /* the second shot would send as many bytes again */
        for (uint64_t units = 1; 16 * units <= longest; ++units) {
            const bool two = 16 * units >= from;
            const uint64_t places = (two ? (units + ranks - 1) / ranks : units) + 31;
            assert_in_range(ranks * (places - places % 32) * 16 * 2 * (two ? 2 : 1), 1, mailbox);
            assert_true((16 * units >= from) == (16 * units - 15 >= from) || ranks > 4);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_units),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_most_pieces),
        cmocka_unit_test(test_huge_counts),
        cmocka_unit_test(test_formulas_add_up),
        cmocka_unit_test(test_bad_plans),
        cmocka_unit_test(test_algorithm_choice),
        cmocka_unit_test(test_algorithm_ends),
        cmocka_unit_test(test_by_host),
        cmocka_unit_test(test_slice_lengths),
        cmocka_unit_test(test_shots),
    };

    return cmocka_run_group_tests_name("ranges", tests, NULL, NULL);
}
