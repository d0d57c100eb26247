/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The levels of a group on several sockets: which groups have them, and which rank is where. Calls in levels are
 * executed on arrays, with random groups, counts and slices, rank by rank and in random order: results, the order of
 * operands, the shards that the exchange between groups gets, and what enters a socket.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "plan/coll_gpuhier_levels.h"
#include "pure_world.h"

/* Ranks of one node or more, in groups that are whole nodes unless max_group says otherwise. */
typedef struct facts {
    int node, package, pcie_peers;
} facts_t;

static gpuhier_record_t records[GPUHIER_GROUP_MAX];
static gpuhier_hierarchy_t h;
static gpuhier_shape_t shape;
static gpuhier_parts_t parts;

static bool all_map(void *arg, int rank, int other)
{
    (void) arg;
    return rank != other;
}

static void world_make(const facts_t *facts, int nranks)
{
    gpuhier_hier_rank_t nodes[GPUHIER_GROUP_MAX] = {{0}};

    memset(records, 0, sizeof(records));
    for (int rank = 0; rank < nranks; ++rank) {
        nodes[rank].node = (uint64_t) facts[rank].node;
        records[rank].package = facts[rank].package;
        records[rank].pcie_peers = (uint8_t) facts[rank].pcie_peers;
    }
    assert_int_equal(gpuhier_hierarchy_init(&h, nranks, nodes, all_map, NULL, GPUHIER_GROUP_MAX), 0);
    assert_int_equal(gpuhier_shape_init(&shape, &h), 0);
}

static void world_free(void)
{
    gpuhier_shape_fini(&shape);
    gpuhier_hierarchy_fini(&h);
}

/* Are there levels in the only group of these ranks? */
static bool has_levels(const facts_t *facts, int nranks)
{
    gpuhier_levels_t levels;

    world_make(facts, nranks);
    memset(&parts, 0xee, sizeof(parts));
    const bool any = gpuhier_levels_find(&h, 0, records, &parts);
    assert_int_equal(any, parts.levels > 1);
    gpuhier_levels_deal(&h, records);
    gpuhier_levels_init(&levels, &h, records, 0, 1);
    assert_int_equal(any, 0 != levels.count);
    assert_int_equal(any, gpuhier_levels_take(&levels, 1));
    assert_int_equal(levels.whole.size, nranks);
    world_free();
    return any;
}

#define ARRAY(facts) (facts), (int) (sizeof(facts) / sizeof((facts)[0]))

static const facts_t pcie8[] = {{0, 0, 7}, {0, 0, 7}, {0, 0, 7}, {0, 0, 7}, {0, 1, 7}, {0, 1, 7}, {0, 1, 7}, {0, 1, 7}};

static void two_sockets(void **state)
{
    gpuhier_levels_t levels;

    (void) state;
    world_make(ARRAY(pcie8));
    gpuhier_levels_deal(&h, records);
    for (int rank = 0; rank < 8; ++rank) {
        assert_int_equal(h.index_of[rank], rank);
        assert_int_equal(h.shard_of[rank], rank % 4 * 2 + rank / 4);
        assert_int_equal(gpuhier_hierarchy_owner(&h, 0, h.shard_of[rank]), rank);
        gpuhier_levels_init(&levels, &h, records, rank, 1000);
        assert_int_equal(levels.count, 2);
        assert_int_equal(levels.circle[0].size, 4);
        assert_int_equal(levels.circle[0].place, rank % 4);
        assert_int_equal(levels.circle[1].size, 2);
        assert_int_equal(levels.circle[1].place, rank / 4);
        assert_int_equal(levels.whole.size, 8);
        assert_int_equal(levels.whole.place, rank);
        assert_int_equal(levels.whole.shard, h.shard_of[rank]);
        for (int i = 0; i < 8; ++i) {
            assert_int_equal(levels.whole.member[i], i);
        }
        for (int i = 0; i < 4; ++i) {
            assert_int_equal(levels.circle[0].member[i], rank / 4 * 4 + i);
        }
        for (int i = 0; i < 2; ++i) {
            assert_int_equal(levels.circle[1].member[i], i * 4 + rank % 4);
        }
        assert_false(gpuhier_levels_take(&levels, 999));
        assert_true(gpuhier_levels_take(&levels, 1000));
    }
    gpuhier_levels_init(&levels, &h, records, 0, 0); /* the user wants none */
    assert_false(gpuhier_levels_take(&levels, UINT64_MAX));
    world_free();
}

/* Ranks that take turns between the sockets, the second one first: they own the shards of their numbers. The sockets
 * have the numbers of their lowest ranks, and dealing again changes nothing. */
static void in_turn(void **state)
{
    static const facts_t facts[] = {{0, 1, 5}, {0, 0, 5}, {0, 1, 5}, {0, 0, 5}, {0, 1, 5}, {0, 0, 5}};
    static const facts_t mixed[] = {{0, 1, 5}, {0, 1, 5}, {0, 0, 5}, {0, 1, 5}, {0, 0, 5}, {0, 0, 5}};
    static const int order[] = {0, 2, 1, 4, 3, 5};

    (void) state;
    assert_true(has_levels(ARRAY(facts)));
    for (int i = 0; i < 6; ++i) {
        assert_int_equal(parts.member[i], i);
    }
    world_make(ARRAY(mixed));
    for (int again = 0; again < 2; ++again) {
        gpuhier_levels_deal(&h, records);
        for (int i = 0; i < 6; ++i) {
            assert_int_equal(gpuhier_hierarchy_owner(&h, 0, i), order[i]);
            assert_int_equal(gpuhier_hierarchy_member(&h, 0, i), i);
        }
    }
    world_free();
}

static void flat(void **state)
{
    static const facts_t switched[] = {{0, 0, 0}, {0, 0, 0}, {0, 1, 0}, {0, 1, 0}};
    static const facts_t one_socket[] = {{0, 0, 3}, {0, 0, 3}, {0, 0, 3}, {0, 0, 3}};
    static const facts_t uneven[] = {{0, 0, 4}, {0, 0, 4}, {0, 0, 4}, {0, 1, 4}, {0, 1, 4}};
    static const facts_t one_each[] = {{0, 0, 1}, {0, 1, 1}};
    static const facts_t unknown[] = {{0, -1, 3}, {0, -1, 3}, {0, 1, 3}, {0, 1, 3}};
    static const facts_t one_has_links[] = {{0, 0, 3}, {0, 0, 3}, {0, 1, 3}, {0, 1, 1}};

    (void) state;
    assert_false(has_levels(ARRAY(switched)));
    assert_false(has_levels(ARRAY(one_socket)));
    assert_false(has_levels(ARRAY(uneven)));
    assert_false(has_levels(ARRAY(one_each)));
    assert_false(has_levels(ARRAY(unknown)));
    assert_false(has_levels(ARRAY(one_has_links)));
    assert_true(has_levels(ARRAY(pcie8)));
}

/* Each group by itself: one with levels, one on one socket, one whose ranks are uneven. */
static void several_groups(void **state)
{
    static const facts_t facts[] = {{0, 0, 3}, {0, 0, 3}, {1, 0, 3}, {1, 0, 3}, {0, 1, 3},
                                    {0, 1, 3}, {2, 0, 2}, {2, 0, 2}, {2, 1, 2}};
    static const int members[] = {0, 1, 4, 5, 2, 3, 6, 7, 8}, owners[] = {0, 4, 1, 5, 2, 3, 6, 7, 8};
    gpuhier_levels_t levels;

    (void) state;
    world_make(ARRAY(facts));
    gpuhier_levels_deal(&h, records);
    assert_memory_equal(h.members, members, sizeof(members));
    assert_memory_equal(h.owners, owners, sizeof(owners));
    for (int rank = 0; rank < h.nranks; ++rank) {
        gpuhier_levels_init(&levels, &h, records, rank, 1);
        assert_int_equal(levels.count, 0 == h.group_of[rank] ? 2 : 0);
        assert_int_equal(levels.whole.place, h.index_of[rank]);
    }
    world_free();
}

/* -- calls on arrays ------------------------------------------------------------------- */

/* A sum, and what tells the order of its operands: combining neither commutes nor associates. */
typedef struct value {
    uint64_t sum, order;
} value_t;

typedef struct run {
    uint64_t count;
    int sockets, on_socket;
    bool several;             /* groups: RS ends in the shard buffer */
    value_t *in, *out;        /* [ranks][count] */
    value_t *scratch;         /* [ranks][count]: partial sums */
    value_t *shard;           /* [count]: what X has, in several groups */
    uint64_t entered;         /* elements that came from another socket */
    gpuhier_levels_t *levels; /* [ranks], by index */
    gpuhier_plan_t *plans;    /* [ranks], by index */
} run_t;

static value_t combine(value_t left, value_t right)
{
    return (value_t){.sum = left.sum + right.sum,
                     .order = (left.order ^ left.order >> 29) * 0xbf58476d1ce4e5b9u + right.order * 3 + 1};
}

static int socket_of(const run_t *run, int index)
{
    return run->levels[index].circle[1].place;
}

static void read_count(run_t *run, int to, int from, uint64_t elems)
{
    run->entered += socket_of(run, to) != socket_of(run, from) ? elems : 0;
}

static gpuhier_range_t shard_of(const run_t *run, int index, int level, uint64_t slice)
{
    const gpuhier_circle_t *circle = &run->levels[index].circle[level];

    return gpuhier_plan_part(&run->plans[index], slice, circle->shard, circle->shards);
}

/* Reduces what the circle of a level has in `from`, for one element, in the order of the circle. */
static value_t circle_sum(run_t *run, int index, int level, const value_t *from, uint64_t e)
{
    const gpuhier_circle_t *circle = &run->levels[index].circle[level];
    value_t sum = {0};

    for (int i = 0; i < circle->size; ++i) {
        const int other = circle->member[i];
        const value_t value = from[(uint64_t) other * run->count + e];
        sum = 0 == i ? value : combine(sum, value);
        read_count(run, index, other, 1);
    }
    return sum;
}

/* Stores into the outputs of the circle of a level. */
static void circle_store(run_t *run, int index, int level, uint64_t e, value_t value)
{
    const gpuhier_circle_t *circle = &run->levels[index].circle[level];

    for (int i = 0; i < circle->size; ++i) {
        const int other = circle->member[i];
        run->out[(uint64_t) other * run->count + e] = value;
        read_count(run, other, index, 1);
    }
}

/* One stage of one rank on one slice; what a real call keeps in scratch and in the shard buffer. */
static void stage_run(run_t *run, int index, int stage, uint64_t slice)
{
    const uint64_t mine = (uint64_t) index * run->count;
    const gpuhier_range_t first = shard_of(run, index, 0, slice), last = shard_of(run, index, 1, slice);

    for (uint64_t e = first.begin; 0 == stage && e < first.end; ++e) {
        run->scratch[mine + e] = circle_sum(run, index, 0, run->in, e);
    }
    if (1 == stage && run->several) {
        for (uint64_t e = last.begin; e < last.end; ++e) {
            assert_true(0 == run->shard[e].sum); /* each element has one owner */
            run->shard[e] = circle_sum(run, index, 1, run->scratch, e);
        }
    } else if (1 == stage) {
        for (uint64_t e = first.begin; e < first.end; ++e) {
            circle_store(run, index, 0, e, circle_sum(run, index, 1, run->scratch, e));
        }
    }
    for (uint64_t e = last.begin; 2 == stage && e < last.end; ++e) {
        circle_store(run, index, 1, e, run->shard[e]);
    }
    for (uint64_t e = first.begin; 3 == stage && e < first.end; ++e) {
        circle_store(run, index, 0, e, run->out[mine + e]);
    }
}

/* The documented order: each socket in rank order, and then the sockets. */
static value_t expected(const run_t *run, uint64_t e)
{
    value_t all = {0};

    for (int socket = 0; socket < run->sockets; ++socket) {
        value_t sum = {0};
        for (int place = 0; place < run->on_socket; ++place) {
            const int index = h.index_of[gpuhier_hierarchy_owner(&h, 0, place * run->sockets + socket)];
            const value_t value = run->in[(uint64_t) index * run->count + e];
            sum = 0 == place ? value : combine(sum, value);
        }
        all = 0 == socket ? sum : combine(all, sum);
    }
    return all;
}

static void run_slices(run_t *run, pure_random_t *random)
{
    const int ranks = run->sockets * run->on_socket;

    for (uint64_t slice = 0; slice < run->plans[0].nslices; ++slice) {
        for (int stage = 0; stage < (run->several ? 4 : 2); ++stage) {
            const int begin = (int) pure_random_below(random, (uint64_t) ranks);
            for (int i = 0; i < ranks; ++i) {
                stage_run(run, (begin + i) % ranks, stage, slice);
            }
        }
        for (int index = 0; index < ranks; ++index) { /* the exchange knows of no levels */
            const gpuhier_range_t shard = gpuhier_plan_shard(&run->plans[index], slice, run->plans[index].shard);
            const gpuhier_range_t last = shard_of(run, index, 1, slice);
            assert_memory_equal(&shard, &last, sizeof(shard));
        }
    }
}

static void run_random(uint64_t seed)
{
    pure_random_t random = {seed};
    const int sockets = 2 + (int) pure_random_below(&random, 3), on_socket = 2 + (int) pure_random_below(&random, 5);
    const int ranks = sockets * on_socket;
    const gpuhier_limits_t limits = {.slice_bytes = 128 * (1 + pure_random_below(&random, 40)), .slice_buffers = 3};
    const size_t elem_bytes = (size_t) 1 << pure_random_below(&random, 9);
    facts_t facts[GPUHIER_GROUP_MAX];
    run_t run = {.count = pure_random_below(&random, 500), .sockets = sockets, .on_socket = on_socket};

    for (int rank = 0, left[4] = {on_socket, on_socket, on_socket, on_socket}; rank < ranks; ++rank) {
        int socket = (int) pure_random_below(&random, (uint64_t) sockets);
        while (0 == left[socket]) {
            socket = (socket + 1) % sockets;
        }
        --left[socket];
        facts[rank] = (facts_t){.package = 10 - socket, .pcie_peers = ranks - 1};
    }
    world_make(facts, ranks);
    gpuhier_levels_deal(&h, records);
    run.several = 0 != pure_random_below(&random, 2);
    run.levels = calloc((size_t) ranks, sizeof(*run.levels));
    run.plans = calloc((size_t) ranks, sizeof(*run.plans));
    const size_t elems = (size_t) (run.count + 1) * (size_t) ranks;
    run.in = calloc(elems, sizeof(value_t));
    run.out = calloc(elems, sizeof(value_t));
    run.scratch = calloc(elems, sizeof(value_t));
    run.shard = calloc(elems, sizeof(value_t));
    for (int index = 0; index < ranks; ++index) {
        const int rank = gpuhier_hierarchy_member(&h, 0, index);
        gpuhier_levels_init(&run.levels[index], &h, records, rank, 1);
        assert_int_equal(run.levels[index].count, 2);
        assert_int_equal(gpuhier_plan_init(&run.plans[index], &shape, rank, run.count, elem_bytes, &limits), 0);
        for (uint64_t e = 0; e < run.count; ++e) {
            const uint64_t hash = pure_mix(seed + e * 64 + (uint64_t) index) | 1;
            run.in[(uint64_t) index * run.count + e] = (value_t){hash, hash};
        }
    }
    run_slices(&run, &random);
    for (uint64_t e = 0; e < run.count; ++e) {
        const value_t wanted = expected(&run, e);
        for (int index = 0; index < ranks; ++index) {
            assert_memory_equal(&run.out[(uint64_t) index * run.count + e], &wanted, sizeof(wanted));
        }
    }
    /* Into each of k sockets (k - 1) B with one group, 2 (k - 1)/k B with several. */
    const uint64_t k = (uint64_t) sockets;
    assert_int_equal(run.entered, run.several ? 2 * (k - 1) * run.count : k * (k - 1) * run.count);
    free(run.in);
    free(run.out);
    free(run.scratch);
    free(run.shard);
    free(run.levels);
    free(run.plans);
    world_free();
}

static void calls(void **state)
{
    const uint64_t seed = pure_seed(300);

    (void) state;
    for (int i = 0; i < 500; ++i) {
        run_random(seed + (uint64_t) i);
    }
}

static void slices(void **state)
{
    gpuhier_levels_t levels;

    (void) state;
    world_make(ARRAY(pcie8));
    gpuhier_levels_deal(&h, records);
    gpuhier_levels_init(&levels, &h, records, 0, 1);
    assert_int_equal(gpuhier_levels_slice_bytes(&levels, 1 << 20, 4 << 20), 512 << 10);
    assert_int_equal(gpuhier_levels_slice_bytes(&levels, 16 << 20, 4 << 20), 2 << 20);
    assert_int_equal(gpuhier_levels_slice_bytes(&levels, 1 << 30, 4 << 20), 4 << 20);
    assert_int_equal(gpuhier_levels_slice_bytes(&levels, 1 << 30, 4096), 4096);
    world_free();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_sockets),    cmocka_unit_test(in_turn), cmocka_unit_test(flat),
        cmocka_unit_test(several_groups), cmocka_unit_test(calls),   cmocka_unit_test(slices),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
