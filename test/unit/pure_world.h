/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the tests of the pure layers share: seeded numbers, and communicators
 * made up from the number of ranks on each node.
 */
#ifndef PURE_WORLD_H
#define PURE_WORLD_H

#include "plan/coll_gpuhier_hierarchy.h"

/* A seeded sequence (splitmix64): the same numbers on every machine. */
typedef struct pure_random {
    uint64_t state;
} pure_random_t;

/* One step of mixing: a hash of x. */
uint64_t pure_mix(uint64_t x);
uint64_t pure_random_next(pure_random_t *random);
/* Evenly from 0 .. bound - 1; bound > 0. */
uint64_t pure_random_below(pure_random_t *random, uint64_t bound);

/* GPUHIER_SEED if it is set, else fallback: a failing random test names the seed that repeats it. */
uint64_t pure_seed(uint64_t fallback);
/* The whole matrix instead of the quick one (GPUHIER_CHECK_FULL=1). */
bool pure_full(void);

/* How ranks are dealt to the nodes. */
typedef enum pure_placement {
    PURE_BLOCK,  /* node by node */
    PURE_CYCLIC, /* round robin over the nodes that still have room */
    PURE_SHUFFLED,
    PURE_PLACEMENTS
} pure_placement_t;

/* A communicator whose nodes' ranks can all map each other. Owner: the test; the shape points into it: never move it.
 */
typedef struct pure_world {
    gpuhier_hierarchy_t hierarchy;
    gpuhier_shape_t shape;
} pure_world_t;

/* ranks_per_node: each >= 1. seed: for PURE_SHUFFLED. Ends the program when it fails: then there is nothing to test. */
void pure_world_init(pure_world_t *world, int nnodes, const int *ranks_per_node, pure_placement_t placement,
                     uint64_t seed, int max_group);
void pure_world_fini(pure_world_t *world);

bool pure_all_map(void *arg, int rank, int other);

/* Makes the number of each node that of its lowest rank, whatever it was before. */
void pure_nodes_number(uint64_t *nodes, int nranks);

/*
 * Calls visit for every tuple of 1 .. max_nodes nodes of 1 .. max_ranks ranks:
 * every order up to ordered_nodes nodes, beyond that only falling sizes.
 */
void pure_each_shape(int max_nodes, int max_ranks, int ordered_nodes,
                     void (*visit)(void *arg, int nnodes, const int *ranks_per_node), void *arg);

#endif /* PURE_WORLD_H */
