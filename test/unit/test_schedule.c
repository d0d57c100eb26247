/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * All shapes of up to 5 nodes x 8 ranks: every rank's program is executed on
 * arrays (pure_sim) with every algorithm, several counts and slice sizes. In
 * every order of the nodes up to 3 nodes, beyond that once per choice of sizes
 * (all orders in the full check).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "pure_sim.h"

#define PARTNER_GROUPS 140

/* What the visits of one test add up to, and what they take turns with. */
typedef struct tour {
    int shapes;
    uint64_t runs;
    uint64_t seed;
    bool mostly_light; /* one count for shapes of 5 nodes that differ from another one in the order of nodes only */
    bool used[GPUHIER_ALGORITHM_COUNT];
} tour_t;

static void run_one(tour_t *tour, const pure_world_t *world, uint64_t count, size_t elem_bytes, gpuhier_limits_t limits)
{
    pure_sim_counts_t counts;
    pure_sim_t sim = {.world = world, .count = count, .elem_bytes = elem_bytes, .limits = limits, .seed = ++tour->seed};
    const char *problem = pure_sim_run(&sim, &counts);

    if (NULL != problem) {
        const gpuhier_hierarchy_t *h = &world->hierarchy;
        print_error("groups of");
        for (int g = 0; g < h->ngroups; ++g) {
            print_error(" %d", gpuhier_hierarchy_group_size(h, g));
        }
        print_error(", %llu elements of %zu bytes, slices of %llu bytes, %s: %s\n", (unsigned long long) count,
                    elem_bytes, (unsigned long long) limits.slice_bytes, gpuhier_algorithm_names[limits.algorithm],
                    problem);
        fail();
    }
    tour->used[counts.algorithm] = true;
    ++tour->runs;
}

/*
 * Elements as long as a unit make every cut visible in short arrays; with elements
 * of 64 KiB the automatic choice reaches all its rows; short elements test whole units.
 */
static void visit_shape(void *arg, int nnodes, const int *ranks_per_node)
{
    static const uint64_t counts[] = {97, 0, 1, 2, 7, 211};
    size_t ncounts = sizeof(counts) / sizeof(counts[0]);
    tour_t *tour = arg;
    pure_world_t world;

    for (int node = 1; tour->mostly_light && 5 == nnodes && node < nnodes; ++node) {
        if (ranks_per_node[node] > ranks_per_node[node - 1]) {
            ncounts = 1;
        }
    }

    pure_world_init(&world, nnodes, ranks_per_node, (pure_placement_t) (tour->shapes % PURE_PLACEMENTS),
                    (uint64_t) tour->shapes, GPUHIER_GROUP_MAX);
    assert_int_equal(world.hierarchy.ngroups, nnodes);
    for (int a = GPUHIER_ALGORITHM_AUTO; a < GPUHIER_ALGORITHM_COUNT; ++a) {
        gpuhier_limits_t limits = {.algorithm = (gpuhier_algorithm_t) a, .slice_buffers = 2 + tour->shapes % 3};
        for (size_t i = 0; i < ncounts; ++i) {
            size_t elem_bytes = GPUHIER_ALGORITHM_AUTO == a ? 65536 : 128;
            limits.slice_bytes = 1 << 30;
            run_one(tour, &world, counts[i], elem_bytes, limits);
            if (counts[i] > 13) {
                limits.slice_bytes = 13 * elem_bytes;
                run_one(tour, &world, counts[i], elem_bytes, limits);
            }
        }
        if (ncounts > 1) {
            limits.slice_bytes = 1 + tour->seed % 4000;
            run_one(tour, &world, 503, 16, limits);
            run_one(tour, &world, 331, 12, limits);
        }
    }
    pure_world_fini(&world);
    ++tour->shapes;
}

static void test_all_shapes(void **state)
{
    tour_t tour = {.mostly_light = pure_full()};
    int ordered = pure_full() ? 5 : 3;

    (void) state;
    pure_each_shape(5, 8, ordered, visit_shape, &tour);
    /* 8 + 64 + 512 ordered ones; 330 and 792 choices of 4 and 5 sizes from 8, or 8^4 and 8^5 orders. */
    assert_int_equal(tour.shapes, pure_full() ? 37448 : 1706);
    for (int a = GPUHIER_ALGORITHM_RECURSIVE_DOUBLING; a < GPUHIER_ALGORITHM_COUNT; ++a) {
        assert_true(tour.used[a]);
    }
    print_message("%d shapes, %llu calls\n", tour.shapes, (unsigned long long) tour.runs);
}

/* One rank per group and up to 70 groups: the exchange alone, across many powers of two. */
static void test_many_groups(void **state)
{
    int ranks_per_node[70];
    tour_t tour = {.seed = 1000000};

    (void) state;
    for (int n = 1; n <= 70; ++n) {
        pure_world_t world;
        ranks_per_node[n - 1] = 1;
        pure_world_init(&world, n, ranks_per_node, PURE_BLOCK, 0, GPUHIER_GROUP_MAX);
        for (int a = GPUHIER_ALGORITHM_RECURSIVE_DOUBLING; a < GPUHIER_ALGORITHM_COUNT; ++a) {
            gpuhier_limits_t limits = {
                .algorithm = (gpuhier_algorithm_t) a, .slice_buffers = 3, .slice_bytes = 1 << 20};
            run_one(&tour, &world, 3, 128, limits);
            run_one(&tour, &world, 199, 128, limits);
            run_one(&tour, &world, 1201, 8, limits);
        }
        pure_world_fini(&world);
    }
}

/* Common sizes of MPI types, and lengths around units, shards and slices. */
static void test_types_and_lengths(void **state)
{
    static const size_t elem_bytes[] = {1, 2, 4, 6, 8, 12, 16, 20, 24, 32, 127, 128, 129, 200};
    static const int ranks_per_node[] = {3, 2, 4};
    pure_world_t world;
    tour_t tour = {.seed = 2000000};

    (void) state;
    pure_world_init(&world, 3, ranks_per_node, PURE_CYCLIC, 0, GPUHIER_GROUP_MAX);
    for (size_t i = 0; i < sizeof(elem_bytes) / sizeof(elem_bytes[0]); ++i) {
        uint64_t unit = gpuhier_unit_elems(elem_bytes[i]);
        for (int a = GPUHIER_ALGORITHM_AUTO; a < GPUHIER_ALGORITHM_COUNT; ++a) {
            gpuhier_limits_t limits = {.algorithm = (gpuhier_algorithm_t) a, .slice_buffers = 2, .slice_bytes = 1024};
            for (int64_t around = -1; around <= 1; ++around) {
                run_one(&tour, &world, (uint64_t) ((int64_t) unit + around), elem_bytes[i], limits);
                run_one(&tour, &world, (uint64_t) ((int64_t) (8 * unit) + around), elem_bytes[i], limits);
                run_one(&tour, &world, (uint64_t) ((int64_t) (9 * unit) + around), elem_bytes[i], limits);
                run_one(&tour, &world, (uint64_t) ((int64_t) (36 * unit) + around), elem_bytes[i], limits);
            }
        }
    }
    pure_world_fini(&world);
}

static uint64_t net_elems(int ngroups, uint64_t count, gpuhier_algorithm_t algorithm, uint64_t *messages_p)
{
    int ranks_per_node[64];
    pure_world_t world;
    pure_sim_counts_t counts;

    for (int g = 0; g < ngroups; ++g) {
        ranks_per_node[g] = 1;
    }
    pure_world_init(&world, ngroups, ranks_per_node, PURE_BLOCK, 0, GPUHIER_GROUP_MAX);
    pure_sim_t sim = {.world = &world,
                      .count = count,
                      .elem_bytes = 128,
                      .limits = {.slice_bytes = 1 << 30, .slice_buffers = 2, .algorithm = algorithm}};
    assert_null(pure_sim_run(&sim, &counts));
    pure_world_fini(&world);
    *messages_p = counts.messages;
    return counts.net_elems;
}

/* The counts that the literature gives, for lengths that divide evenly. */
static void test_ideal_traffic(void **state)
{
    (void) state;
    for (uint64_t n = 2; n <= 64; ++n) {
        uint64_t count = 4 * n;
        uint64_t messages;
        uint64_t rounds = 0;
        assert_int_equal(net_elems((int) n, count, GPUHIER_ALGORITHM_RING, &messages), 2 * (n - 1) * count);
        assert_int_equal(messages, 2 * (n - 1) * n);
        if (0 != (n & (n - 1))) {
            continue;
        }
        while ((1ULL << rounds) < n) {
            ++rounds;
        }
        assert_int_equal(net_elems((int) n, count, GPUHIER_ALGORITHM_HALVING, &messages), 2 * (n - 1) * count);
        assert_int_equal(messages, 2 * rounds * n);
        assert_int_equal(net_elems((int) n, count, GPUHIER_ALGORITHM_RECURSIVE_DOUBLING, &messages),
                         rounds * n * count);
        assert_int_equal(messages, rounds * n);
    }
}

/* In a group of P ranks 2 P B bytes go through the GPUs' memory: the least possible without a reducing switch. */
static void test_gpu_traffic(void **state)
{
    static const int ranks_per_node[] = {7, 8};
    pure_world_t world;
    pure_sim_counts_t counts;

    (void) state;
    pure_world_init(&world, 2, ranks_per_node, PURE_BLOCK, 0, GPUHIER_GROUP_MAX);
    pure_sim_t sim = {.world = &world,
                      .count = 997,
                      .elem_bytes = 8,
                      .limits = {.slice_bytes = 2048, .slice_buffers = 3, .algorithm = GPUHIER_ALGORITHM_AUTO}};
    assert_null(pure_sim_run(&sim, &counts));
    assert_int_equal(counts.gpu_elems, 2 * (7 + 8) * 997);
    pure_world_fini(&world);
}

/* Counts what is set, and asks that the others have set this group as well. */
static int count_partners(bool partners[PARTNER_GROUPS][PARTNER_GROUPS], int ngroups, int group)
{
    int count = 0;
    for (int other = 0; other < ngroups; ++other) {
        assert_int_equal(partners[group][other], partners[other][group]);
        count += partners[group][other];
    }
    assert_false(partners[group][group]);
    return count;
}

/* Every message of every algorithm is one between partners, and partners are few. */
static void test_partners(void **state)
{
    static bool owners[PARTNER_GROUPS][PARTNER_GROUPS], leaders[PARTNER_GROUPS][PARTNER_GROUPS];

    (void) state;
    for (int n = 2; n <= PARTNER_GROUPS; ++n) {
        int log2 = 0;
        while (2 << log2 <= n) {
            ++log2;
        }
        memset(owners, 0, sizeof(owners));
        memset(leaders, 0, sizeof(leaders));
        for (int group = 0; group < n; ++group) {
            gpuhier_schedule_partners(GPUHIER_ALGORITHM_AUTO, n, group, owners[group]);
            gpuhier_schedule_leader_partners(n, group, leaders[group]);
        }
        for (int group = 0; group < n; ++group) {
            assert_true(count_partners(owners, n, group) <= 2 * log2 + 3);
            assert_true(count_partners(leaders, n, group) <= 3 * log2 + 3);
            for (int choice = GPUHIER_ALGORITHM_RECURSIVE_DOUBLING; choice < GPUHIER_ALGORITHM_COUNT; ++choice) {
                bool forced[PARTNER_GROUPS] = {false};
                gpuhier_schedule_partners((gpuhier_algorithm_t) choice, n, group, forced);
                for (int i = 0; i < gpuhier_schedule_steps((gpuhier_algorithm_t) choice, n); ++i) {
                    gpuhier_step_t step;
                    gpuhier_schedule_step((gpuhier_algorithm_t) choice, n, group, i, &step);
                    assert_true(step.send_to < 0 || (owners[group][step.send_to] && forced[step.send_to]));
                    assert_true(step.recv_from < 0 || (owners[group][step.recv_from] && forced[step.recv_from]));
                    if (GPUHIER_ALGORITHM_RECURSIVE_DOUBLING == choice) {
                        assert_true(step.send_to < 0 || leaders[group][step.send_to]);
                        assert_true(step.recv_from < 0 || leaders[group][step.recv_from]);
                    }
                }
            }
            for (int step = 0; step < gpuhier_schedule_vote_steps(n); ++step) {
                int to, from;
                gpuhier_schedule_vote_peers(n, group, step, &to, &from);
                assert_true(leaders[group][to] && leaders[group][from]);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_shapes),        cmocka_unit_test(test_many_groups),
        cmocka_unit_test(test_types_and_lengths), cmocka_unit_test(test_ideal_traffic),
        cmocka_unit_test(test_gpu_traffic),       cmocka_unit_test(test_partners),
    };

    return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
