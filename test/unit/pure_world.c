/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns: made-up communicators and seeded numbers for the tests of the pure layers.
 */
#include "pure_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t pure_mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

uint64_t pure_random_next(pure_random_t *random)
{
    random->state += 0x9e3779b97f4a7c15u;
    return pure_mix(random->state);
}

uint64_t pure_random_below(pure_random_t *random, uint64_t bound)
{
    return pure_random_next(random) % bound;
}

uint64_t pure_seed(uint64_t fallback)
{
    const char *text = getenv("GPUHIER_SEED");

    return NULL == text ? fallback : strtoull(text, NULL, 0);
}

bool pure_full(void)
{
    const char *text = getenv("GPUHIER_CHECK_FULL");

    return NULL != text && 0 == strcmp(text, "1");
}

bool pure_all_map(void *arg, int rank, int other)
{
    (void) arg;
    (void) rank;
    (void) other;
    return true;
}

void pure_nodes_number(uint64_t *nodes, int nranks)
{
    for (int rank = nranks - 1; rank >= 0; --rank) {
        int lowest = 0;
        while (nodes[lowest] != nodes[rank]) {
            ++lowest;
        }
        nodes[rank] = (uint64_t) lowest;
    }
}

/* Deals the ranks to the nodes. */
static void world_place(uint64_t *nodes, int nnodes, const int *ranks_per_node, pure_placement_t placement,
                        uint64_t seed)
{
    pure_random_t random = {seed};
    int nranks = 0;

    if (PURE_CYCLIC == placement) {
        for (int round = 0, dealt = 1; dealt > 0; ++round) {
            dealt = 0;
            for (int node = 0; node < nnodes; ++node) {
                if (round < ranks_per_node[node]) {
                    nodes[nranks++] = (uint64_t) node;
                    ++dealt;
                }
            }
        }
        return;
    }
    for (int node = 0; node < nnodes; ++node) {
        for (int i = 0; i < ranks_per_node[node]; ++i) {
            nodes[nranks++] = (uint64_t) node;
        }
    }
    for (int i = nranks - 1; PURE_SHUFFLED == placement && i > 0; --i) {
        int j = (int) pure_random_below(&random, (uint64_t) i + 1);
        uint64_t swapped = nodes[i];
        nodes[i] = nodes[j];
        nodes[j] = swapped;
    }
}

void pure_world_init(pure_world_t *world, int nnodes, const int *ranks_per_node, pure_placement_t placement,
                     uint64_t seed, int max_group)
{
    uint64_t *nodes;
    int nranks = 0;

    for (int node = 0; node < nnodes; ++node) {
        nranks += ranks_per_node[node];
    }
    nodes = calloc((size_t) nranks, sizeof(*nodes));
    if (NULL != nodes) {
        world_place(nodes, nnodes, ranks_per_node, placement, seed);
        pure_nodes_number(nodes, nranks);
    }
    if (NULL == nodes || 0 != gpuhier_hierarchy_init(&world->hierarchy, nranks, nodes, pure_all_map, NULL, max_group)
        || 0 != gpuhier_shape_init(&world->shape, &world->hierarchy)) {
        fprintf(stderr, "cannot make a world of %d ranks\n", nranks);
        exit(1);
    }
    free(nodes);
}

void pure_world_fini(pure_world_t *world)
{
    gpuhier_shape_fini(&world->shape);
    gpuhier_hierarchy_fini(&world->hierarchy);
}

void pure_each_shape(int max_nodes, int max_ranks, int ordered_nodes,
                     void (*visit)(void *arg, int nnodes, const int *ranks_per_node), void *arg)
{
    int sizes[16];

    for (int nnodes = 1; nnodes <= max_nodes; ++nnodes) {
        int i = 0;
        for (int node = 0; node < nnodes; ++node) {
            sizes[node] = 1;
        }
        while (i < nnodes) {
            visit(arg, nnodes, sizes);
            /* The next tuple: node 0 counts fastest, and where the order does not matter no node exceeds the one
             * before. */
            for (i = 0; i < nnodes; ++i) {
                int limit = nnodes <= ordered_nodes || i == 0 ? max_ranks : sizes[i - 1];
                if (sizes[i] < limit) {
                    ++sizes[i];
                    break;
                }
            }
            for (int node = 0; node < i && i < nnodes; ++node) {
                sizes[node] = nnodes <= ordered_nodes ? 1 : sizes[i];
            }
        }
    }
}
