/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Seeded random shapes of up to 64 nodes x 72 ranks, executed on arrays like the
 * small ones (pure_sim). A failure names the seed: GPUHIER_SEED repeats it as the first round.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "pure_sim.h"

static void run_seed(uint64_t seed, int max_nodes, int max_ranks, uint64_t max_count)
{
    pure_random_t random = {seed};
    int sizes[64];
    int nnodes = 1 + (int) pure_random_below(&random, (uint64_t) max_nodes);
    int usual = 1 + (int) pure_random_below(&random, (uint64_t) max_ranks);
    uint64_t uneven = pure_random_below(&random, 3); /* none, one in eight, or all nodes differ from the usual size */
    size_t elem_bytes = 0 == pure_random_below(&random, 4) ? 16 : 128ULL << pure_random_below(&random, 12);
    pure_world_t world;

    for (int i = 0; i < nnodes; ++i) {
        bool differs = 2 == uneven || (1 == uneven && 0 == pure_random_below(&random, 8));
        sizes[i] = differs ? 1 + (int) pure_random_below(&random, (uint64_t) max_ranks) : usual;
    }
    pure_world_init(&world, nnodes, sizes, (pure_placement_t) pure_random_below(&random, PURE_PLACEMENTS), seed,
                    1 + (int) pure_random_below(&random, GPUHIER_GROUP_MAX));
    pure_sim_t sim = {
        .world = &world,
        .count = pure_random_below(&random, max_count),
        .elem_bytes = elem_bytes,
        .seed = seed,
        .limits = {.slice_bytes = elem_bytes * (1 + pure_random_below(&random, max_count)),
                   .slice_buffers = 2 + (int) pure_random_below(&random, 3),
                   .algorithm = (gpuhier_algorithm_t) pure_random_below(&random, GPUHIER_ALGORITHM_COUNT)}};
    /* Few slices: what differs from slice to slice is tested on small shapes. */
    if (sim.limits.slice_bytes < elem_bytes * sim.count / 4) {
        sim.limits.slice_bytes = elem_bytes * (sim.count / 4 + 1);
    }
    const char *problem = pure_sim_run(&sim, NULL);
    if (NULL != problem) {
        print_error("GPUHIER_SEED=%llu: %d nodes, %d groups, %d ranks, %llu elements of %zu bytes, %s: %s\n",
                    (unsigned long long) seed, nnodes, world.hierarchy.ngroups, world.hierarchy.nranks,
                    (unsigned long long) sim.count, elem_bytes, gpuhier_algorithm_names[sim.limits.algorithm], problem);
        fail();
    }
    pure_world_fini(&world);
}

static void test_medium(void **state)
{
    uint64_t seed = pure_seed(100);

    (void) state;
    for (int i = 0; i < (pure_full() ? 20000 : 1000); ++i) {
        run_seed(seed + (uint64_t) i, 12, 16, 400);
    }
}

static void test_large(void **state)
{
    uint64_t seed = pure_seed(200);

    (void) state;
    for (int i = 0; i < (pure_full() ? 600 : 30); ++i) {
        run_seed(seed + (uint64_t) i, 64, 72, 200);
    }
}

/* The largest of all, in which every owner has many pieces and every node two groups. */
static void test_largest(void **state)
{
    int sizes[64];
    pure_world_t world;

    (void) state;
    for (int i = 0; i < 64; ++i) {
        sizes[i] = i < 60 ? 72 : 9 + i;
    }
    pure_world_init(&world, 64, sizes, PURE_CYCLIC, 0, GPUHIER_GROUP_MAX);
    for (int a = GPUHIER_ALGORITHM_RECURSIVE_DOUBLING; a < GPUHIER_ALGORITHM_COUNT; ++a) {
        pure_sim_t sim = {.world = &world,
                          .count = 157,
                          .elem_bytes = 128,
                          .seed = 1,
                          .limits = {.slice_bytes = 1 << 20, .slice_buffers = 3, .algorithm = (gpuhier_algorithm_t) a}};
        const char *problem = pure_sim_run(&sim, NULL);
        if (NULL != problem) {
            fail_msg("%s: %s", gpuhier_algorithm_names[a], problem);
        }
    }
    pure_world_fini(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_medium),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_largest),
    };

    return cmocka_run_group_tests_name("schedule_random", tests, NULL, NULL);
}
