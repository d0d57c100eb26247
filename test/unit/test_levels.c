/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The parts of a group on several sockets: which groups have them, which rank is where, that the shards of a part cover
 * each slice once, and what crosses the link between parts, counted rank by rank.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "plan/coll_gpuhier_levels.h"

#define PCIE8                                                   \
    {                                                           \
        {0, 7}, {0, 7}, {0, 7}, {0, 7}, {1, 7}, {1, 7}, {1, 7}, \
        {                                                       \
            1, 7                                                \
        }                                                       \
    }

static gpuhier_levels_t levels;

static bool parts_of(const gpuhier_level_rank_t *ranks, int size, int index)
{
    memset(&levels, 0xee, sizeof(levels));
    const bool any = gpuhier_levels_init(&levels, ranks, size, index, 1);
    assert_int_equal(any, 0 != levels.nparts);
    return any;
}

static void two_sockets(void **state)
{
    const gpuhier_level_rank_t ranks[] = PCIE8;

    (void) state;
    for (int i = 0; i < 8; ++i) {
        assert_true(parts_of(ranks, 8, i));
        assert_int_equal(levels.nparts, 2);
        assert_int_equal(levels.part_size, 4);
        assert_int_equal(levels.part, i / 4);
        assert_int_equal(levels.place, i % 4);
        assert_int_equal(gpuhier_levels_member(&levels, i / 4, i % 4), i);
    }
}

/* Ranks that take turns between the sockets, the second one first. */
static void in_turn(void **state)
{
    const gpuhier_level_rank_t ranks[] = {{1, 5}, {0, 5}, {1, 5}, {0, 5}, {1, 5}, {0, 5}};
    static const int expected[2][3] = {{0, 2, 4}, {1, 3, 5}};

    (void) state;
    for (int i = 0; i < 6; ++i) {
        assert_true(parts_of(ranks, 6, i));
        assert_int_equal(gpuhier_levels_member(&levels, levels.part, levels.place), i);
        for (int part = 0; part < 2; ++part) {
            for (int place = 0; place < 3; ++place) {
                assert_int_equal(gpuhier_levels_member(&levels, part, place), expected[part][place]);
            }
        }
    }
}

static void flat(void **state)
{
    const gpuhier_level_rank_t pcie8[] = PCIE8;
    const gpuhier_level_rank_t switched[] = {{0, 0}, {0, 0}, {1, 0}, {1, 0}};
    const gpuhier_level_rank_t one_socket[] = {{0, 3}, {0, 3}, {0, 3}, {0, 3}};
    const gpuhier_level_rank_t uneven[] = {{0, 4}, {0, 4}, {0, 4}, {1, 4}, {1, 4}};
    const gpuhier_level_rank_t one_each[] = {{0, 1}, {1, 1}};
    const gpuhier_level_rank_t unknown[] = {{-1, 3}, {-1, 3}, {1, 3}, {1, 3}};
    const gpuhier_level_rank_t one_has_links[] = {{0, 3}, {0, 3}, {1, 3}, {1, 1}};

    (void) state;
    assert_false(parts_of(switched, 4, 0));
    assert_false(parts_of(one_socket, 4, 0));
    assert_false(parts_of(uneven, 5, 0));
    assert_false(parts_of(one_each, 2, 0));
    assert_false(parts_of(unknown, 4, 2));
    assert_false(parts_of(one_has_links, 4, 0));
    assert_false(gpuhier_levels_init(&levels, pcie8, 8, 0, 0)); /* the user wants none */
    assert_false(gpuhier_levels_take(&levels, UINT64_MAX));
}

static void by_length(void **state)
{
    const gpuhier_level_rank_t ranks[] = PCIE8;

    (void) state;
    assert_true(gpuhier_levels_init(&levels, ranks, 8, 0, 1000));
    assert_false(gpuhier_levels_take(&levels, 999));
    assert_true(gpuhier_levels_take(&levels, 1000));
}

static bool all_map(void *arg, int rank, int other)
{
    (void) arg;
    return rank != other;
}

/* Every element of every slice lies in the shard of one place, and the link carries one message each way. */
static void shards(void **state)
{
    static const uint64_t counts[] = {1, 31, 32, 1000, 4096 * 3 + 7, 1000003};
    const gpuhier_level_rank_t ranks[] = PCIE8;
    const gpuhier_hier_rank_t nodes[8] = {{0}};
    const gpuhier_limits_t limits = {.slice_bytes = 65536, .slice_buffers = 3};
    gpuhier_hierarchy_t h;
    gpuhier_shape_t shape;

    (void) state;
    assert_int_equal(gpuhier_hierarchy_init(&h, 8, nodes, all_map, NULL, GPUHIER_GROUP_MAX), 0);
    assert_int_equal(gpuhier_shape_init(&shape, &h), 0);
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); ++c) {
        gpuhier_plan_t plan;
        assert_int_equal(gpuhier_plan_init(&plan, &shape, 0, counts[c], sizeof(float), &limits), 0);
        uint64_t read = 0;
        for (uint64_t slice = 0; slice < plan.nslices; ++slice) {
            uint64_t at = gpuhier_plan_slice(&plan, slice).begin;
            for (int place = 0; place < 4; ++place) {
                assert_true(parts_of(ranks, 8, place));
                const gpuhier_range_t shard = gpuhier_levels_shard(&levels, &plan, slice);
                assert_int_equal(shard.begin, at);
                at = shard.end;
                read += gpuhier_range_length(shard) * sizeof(float); /* from the partner on the other socket */
                assert_true(parts_of(ranks, 8, place + 4));
                const gpuhier_range_t partner = gpuhier_levels_shard(&levels, &plan, slice);
                assert_memory_equal(&partner, &shard, sizeof(shard));
            }
            assert_int_equal(at, gpuhier_plan_slice(&plan, slice).end);
        }
        assert_int_equal(read, counts[c] * sizeof(float));
    }
    gpuhier_shape_fini(&shape);
    gpuhier_hierarchy_fini(&h);
}

static void slices(void **state)
{
    const gpuhier_level_rank_t ranks[] = PCIE8;

    (void) state;
    assert_true(parts_of(ranks, 8, 0));
    assert_int_equal(gpuhier_levels_slice_bytes(&levels, 1 << 20, 4 << 20), 512 << 10);
    assert_int_equal(gpuhier_levels_slice_bytes(&levels, 16 << 20, 4 << 20), 2 << 20);
    assert_int_equal(gpuhier_levels_slice_bytes(&levels, 1 << 30, 4 << 20), 4 << 20);
    assert_int_equal(gpuhier_levels_slice_bytes(&levels, 1 << 30, 4096), 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_sockets), cmocka_unit_test(in_turn), cmocka_unit_test(flat),
        cmocka_unit_test(by_length),   cmocka_unit_test(shards),  cmocka_unit_test(slices),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
