/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Groups: against the definition (cliques of one node, within the limit, in rank
 * order, none opened without need) and against a second, plain implementation,
 * for random graphs of mappings; arguments out of range; no memory left.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pure_world.h"

/* malloc of the objects in this program, by the linker's --wrap: the n-th call from now fails; negative: none. */
static int mallocs_left = -1;
void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    if (0 == mallocs_left) {
        return NULL;
    }
    mallocs_left -= mallocs_left > 0;
    return __real_malloc(bytes);
}

/* Which rank can map which: a matrix, for tests only. */
typedef struct graph {
    int nranks;
    const uint64_t *nodes;
    const bool *can_map; /* [nranks * nranks] */
    bool asked_badly;    /* about itself or about another node */
} graph_t;

static bool graph_can_map(void *arg, int rank, int other)
{
    graph_t *graph = arg;

    if (rank == other || graph->nodes[rank] != graph->nodes[other]) {
        graph->asked_badly = true;
    }
    return graph->can_map[rank * graph->nranks + other];
}

static bool both_map(const graph_t *graph, int rank, int other)
{
    return graph->can_map[rank * graph->nranks + other] && graph->can_map[other * graph->nranks + rank];
}

/* The rule again, as plainly as can be: rank after rank, group after group, member after member. */
static int reference_groups(const graph_t *graph, int max_group, int *group_of)
{
    int ngroups = 0;

    for (int rank = 0; rank < graph->nranks; ++rank) {
        int group;
        for (group = 0; group < ngroups; ++group) {
            int members = 0;
            bool fits = true;
            for (int other = 0; other < rank; ++other) {
                if (group_of[other] == group) {
                    ++members;
                    fits = fits && graph->nodes[other] == graph->nodes[rank] && both_map(graph, rank, other);
                }
            }
            if (fits && members < max_group) {
                break;
            }
        }
        group_of[rank] = group;
        ngroups += group == ngroups;
    }
    return ngroups;
}

/* What a hierarchy must be, whatever the rule. */
static void check_groups(const gpuhier_hierarchy_t *h, const graph_t *graph, int max_group)
{
    assert_int_equal(h->nranks, graph->nranks);
    assert_int_equal(h->first[0], 0);
    assert_int_equal(h->first[h->ngroups], h->nranks);
    for (int g = 0; g < h->ngroups; ++g) {
        int size = gpuhier_hierarchy_group_size(h, g);
        assert_in_range(size, 1, max_group);
        assert_int_equal(gpuhier_hierarchy_leader(h, g), gpuhier_hierarchy_member(h, g, 0));
        if (g > 0) {
            assert_true(gpuhier_hierarchy_leader(h, g - 1) < gpuhier_hierarchy_leader(h, g));
        }
        for (int i = 0; i < size; ++i) {
            int rank = gpuhier_hierarchy_member(h, g, i);
            assert_in_range(rank, 0, h->nranks - 1);
            assert_int_equal(h->group_of[rank], g);
            assert_int_equal(h->index_of[rank], i);
            for (int j = 0; j < i; ++j) {
                int other = gpuhier_hierarchy_member(h, g, j);
                assert_true(other < rank);
                assert_true(graph->nodes[rank] == graph->nodes[other]);
                assert_true(both_map(graph, rank, other));
            }
        }
    }
}

static void one_random_graph(uint64_t seed)
{
    pure_random_t random = {seed};
    int nranks = 1 + (int) pure_random_below(&random, 40);
    uint64_t nnodes = 1 + pure_random_below(&random, 6);
    uint64_t density = pure_random_below(&random, 101); /* percent of the pairs that can map */
    int max_group = 1 + (int) pure_random_below(&random, 10);
    bool one_sided = 0 == pure_random_below(&random, 3);
    uint64_t nodes[40];
    bool can_map[40 * 40] = {false};
    int expected[40];
    graph_t graph = {.nranks = nranks, .nodes = nodes, .can_map = can_map};
    gpuhier_hierarchy_t h;

    for (int i = 0; i < nranks; ++i) {
        nodes[i] = pure_random_below(&random, nnodes);
        for (int j = 0; j < i; ++j) {
            bool can = pure_random_below(&random, 100) < density;
            uint64_t side = one_sided ? pure_random_below(&random, 16) : 2; /* 0, 1: only one way */
            can_map[i * nranks + j] = can && 0 != side;
            can_map[j * nranks + i] = can && 1 != side;
        }
    }
    pure_nodes_number(nodes, nranks);
    assert_int_equal(gpuhier_hierarchy_init(&h, nranks, nodes, graph_can_map, &graph, max_group), 0);
    assert_false(graph.asked_badly);
    check_groups(&h, &graph, max_group);
    assert_int_equal(h.ngroups, reference_groups(&graph, max_group, expected));
    assert_memory_equal(h.group_of, expected, (size_t) nranks * sizeof(int));
    gpuhier_hierarchy_fini(&h);
}

static void test_random_graphs(void **state)
{
    uint64_t seed = pure_seed(1);
    int rounds = pure_full() ? 200000 : 20000;

    (void) state;
    for (int i = 0; i < rounds; ++i) {
        one_random_graph(pure_mix(seed + (uint64_t) i));
    }
}

/* Full nodes: the groups are the nodes, cut where the limit is. */
static void test_full_nodes(void **state)
{
    static const int sizes[] = {72, 3, 64, 65, 1};
    static const int groups[] = {64, 8, 3, 64, 64, 1, 1};

    (void) state;
    for (int placement = 0; placement < PURE_PLACEMENTS; ++placement) {
        pure_world_t world;
        int seen[GPUHIER_GROUP_MAX + 1] = {0};
        pure_world_init(&world, 5, sizes, (pure_placement_t) placement, 5, GPUHIER_GROUP_MAX);
        assert_int_equal(world.hierarchy.ngroups, 7);
        for (int g = 0; g < 7; ++g) {
            ++seen[gpuhier_hierarchy_group_size(&world.hierarchy, g)];
            --seen[groups[g]];
        }
        for (int size = 0; size <= GPUHIER_GROUP_MAX; ++size) {
            assert_int_equal(seen[size], 0);
        }
        pure_world_fini(&world);
    }
}

/* A big machine with one rank per node, and one whose ranks cannot map each other: both must be quick. */
static void test_many_ranks(void **state)
{
    enum { RANKS = 200000 };
    uint64_t *nodes = calloc(RANKS, sizeof(*nodes));
    gpuhier_hierarchy_t h;

    (void) state;
    assert_non_null(nodes);
    for (int i = 0; i < RANKS; ++i) {
        nodes[i] = (uint64_t) i;
    }
    assert_int_equal(gpuhier_hierarchy_init(&h, RANKS, nodes, pure_all_map, NULL, GPUHIER_GROUP_MAX), 0);
    assert_int_equal(h.ngroups, RANKS);
    gpuhier_hierarchy_fini(&h);
    for (int i = 0; i < RANKS; ++i) {
        nodes[i] = (uint64_t) i % 1000;
    }
    assert_int_equal(gpuhier_hierarchy_init(&h, RANKS, nodes, pure_all_map, NULL, GPUHIER_GROUP_MAX), 0);
    assert_int_equal(h.ngroups, 4000); /* 200 ranks a node: 64 + 64 + 64 + 8 */
    gpuhier_hierarchy_fini(&h);
    free(nodes);
}

static void test_bad_arguments(void **state)
{
    uint64_t nodes[2] = {0, 0};
    gpuhier_hierarchy_t h;
    gpuhier_hierarchy_t untouched;

    (void) state;
    memset(&h, 0x5a, sizeof(h));
    untouched = h;
    assert_int_equal(gpuhier_hierarchy_init(&h, 0, nodes, pure_all_map, NULL, 8), -EINVAL);
    assert_int_equal(gpuhier_hierarchy_init(&h, -1, nodes, pure_all_map, NULL, 8), -EINVAL);
    assert_int_equal(gpuhier_hierarchy_init(&h, 2, nodes, pure_all_map, NULL, 0), -EINVAL);
    assert_int_equal(gpuhier_hierarchy_init(&h, 2, nodes, pure_all_map, NULL, GPUHIER_GROUP_MAX + 1), -EINVAL);
    assert_memory_equal(&h, &untouched, sizeof(h));
}

/* Every allocation fails once: an error, nothing set, nothing leaked (the leak checker of a sanitized build looks). */
static void test_no_memory(void **state)
{
    uint64_t nodes[5] = {0, 1, 0, 1, 4};
    gpuhier_hierarchy_t h;
    gpuhier_shape_t shape;
    int failures = 0;

    (void) state;
    for (int n = 0;; ++n) {
        gpuhier_hierarchy_t untouched;
        int rc;
        memset(&h, 0x5a, sizeof(h));
        untouched = h;
        mallocs_left = n;
        rc = gpuhier_hierarchy_init(&h, 5, nodes, pure_all_map, NULL, 8);
        mallocs_left = -1;
        if (0 == rc) {
            break;
        }
        assert_int_equal(rc, -ENOMEM);
        assert_memory_equal(&h, &untouched, sizeof(h));
        ++failures;
    }
    assert_int_equal(failures, 2);
    mallocs_left = 0;
    assert_int_equal(gpuhier_shape_init(&shape, &h), -ENOMEM);
    mallocs_left = -1;
    gpuhier_hierarchy_fini(&h);
    gpuhier_hierarchy_fini(&h); /* harmless */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_graphs), cmocka_unit_test(test_full_nodes), cmocka_unit_test(test_many_ranks),
        cmocka_unit_test(test_bad_arguments), cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests_name("hierarchy", tests, NULL, NULL);
}
