/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The levels of a group on several sockets and PCI switches: which groups have them, and which rank is where. Calls in
 * levels are executed on arrays, with random groups, counts and slices, rank by rank and in random order: results, the
 * order of operands, the shards that the exchange between groups gets, and what enters a socket and a switch.
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

/* Ranks of one node or more, in groups that are whole nodes unless max_group says otherwise. clique: NVLink joins the
 * GPUs of one number, but for 0; -1: not known. */
typedef struct facts {
    int node, package, clique, pci_switch;
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
    uint64_t nodes[GPUHIER_GROUP_MAX] = {0};

    memset(records, 0, sizeof(records));
    for (int rank = 0; rank < nranks; ++rank) {
        nodes[rank] = (uint64_t) facts[rank].node;
        records[rank].package = facts[rank].package;
        records[rank].pci_switch = facts[rank].pci_switch;
        records[rank].gpu_pci.bus = (uint8_t) rank;
        records[rank].nvlinks = facts[rank].clique < 0 ? GPUHIER_NVLINKS_UNKNOWN : 0;
        for (int other = 0; other < nranks && facts[rank].clique > 0; ++other) {
            if (other != rank && facts[other].clique == facts[rank].clique && facts[other].node == facts[rank].node) {
                const gpuhier_pci_id_t pci = {.bus = (uint8_t) other};
                records[rank].nvlink[records[rank].nvlinks++] = gpuhier_pci_place(&pci);
            }
        }
    }
    pure_nodes_number(nodes, nranks);
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

static const facts_t pcie8[] = {{0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0},
                                {0, 1, 0, 0}, {0, 1, 0, 0}, {0, 1, 0, 0}, {0, 1, 0, 0}};

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

/* Ranks alternate between the sockets and begin on the second one, so each owns the shard of its own number. The
 * sockets have the numbers of their lowest ranks, and dealing again changes nothing. */
static void in_turn(void **state)
{
    static const facts_t facts[] = {{0, 1, 0, 0}, {0, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 0, 0}};
    static const facts_t mixed[] = {{0, 1, 0, 0}, {0, 1, 0, 0}, {0, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}};
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
    static const facts_t switched[] = {{0, 0, 1, 0}, {0, 0, 1, 0}, {0, 1, 1, 0}, {0, 1, 1, 0}};
    static const facts_t one_socket[] = {{0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}};
    static const facts_t uneven[] = {{0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}, {0, 1, 0, 0}, {0, 1, 0, 0}};
    static const facts_t one_each[] = {{0, 0, 0, 0}, {0, 1, 0, 0}};
    static const facts_t unknown[] = {{0, -1, 0, 0}, {0, -1, 0, 0}, {0, 1, 0, 0}, {0, 1, 0, 0}};
    static const facts_t one_has_links[] = {{0, 0, 0, 0}, {0, 0, 1, 0}, {0, 1, 0, 0}, {0, 1, 1, 0}};
    static const facts_t one_is_blind[] = {{0, 0, 0, 0}, {0, 0, 0, 0}, {0, 1, 0, 0}, {0, 1, -1, 0}};

    (void) state;
    assert_false(has_levels(ARRAY(switched)));
    assert_false(has_levels(ARRAY(one_socket)));
    assert_false(has_levels(ARRAY(uneven)));
    assert_false(has_levels(ARRAY(one_each)));
    assert_false(has_levels(ARRAY(unknown)));
    assert_false(has_levels(ARRAY(one_has_links)));
    assert_false(has_levels(ARRAY(one_is_blind)));
    assert_true(has_levels(ARRAY(pcie8)));
}

/* The text of the levels of these ranks, or of none. */
static void expect_text(const facts_t *facts, int nranks, const char *expected)
{
    char text[128];

    assert_int_equal(has_levels(facts, nranks), NULL != expected);
    if (NULL != expected) {
        assert_string_equal(gpuhier_levels_text(&parts, text, sizeof(text)), expected);
    }
}

/* Switches are a level where all sockets have equal ones, of two ranks or more; on one socket, too. */
static void switches(void **state)
{
    static const facts_t three[] = {{0, 0, 0, 5}, {0, 0, 0, 5}, {0, 0, 0, 9}, {0, 0, 0, 9},
                                    {0, 1, 0, 1}, {0, 1, 0, 2}, {0, 1, 0, 1}, {0, 1, 0, 2}};
    static const int owners[] = {0, 4, 2, 5, 1, 6, 3, 7};
    static const facts_t bridged[] = {{0, 0, 1, 5}, {0, 0, 1, 5}, {0, 0, 2, 9}, {0, 0, 2, 9},
                                      {0, 1, 3, 1}, {0, 1, 3, 1}, {0, 1, 4, 2}, {0, 1, 4, 2}};
    static const facts_t cliques[] = {{0, 0, 1, 5}, {0, 0, 1, 5}, {0, 0, 1, 9}, {0, 0, 1, 9},
                                      {0, 1, 2, 1}, {0, 1, 2, 1}, {0, 1, 2, 2}, {0, 1, 2, 2}};
    static const facts_t uneven[] = {{0, 0, 0, 5}, {0, 0, 0, 9}, {0, 0, 0, 9}, {0, 0, 0, 5},
                                     {0, 1, 0, 1}, {0, 1, 0, 1}, {0, 1, 0, 1}, {0, 1, 0, 2}};
    static const facts_t unlike[] = {{0, 0, 0, 5}, {0, 0, 0, 9}, {0, 0, 0, 9}, {0, 0, 0, 5},
                                     {0, 1, 0, 1}, {0, 1, 0, 1}, {0, 1, 0, 1}, {0, 1, 0, 1}};
    static const facts_t alone[] = {{0, 0, 0, 1}, {0, 0, 0, 2}, {0, 1, 0, 3}, {0, 1, 0, 4}};
    static const facts_t unknown[] = {{0, 0, 0, -1}, {0, 0, 0, -1}, {0, 0, 0, -1}, {0, 0, 0, -1}};
    static const facts_t one_socket[] = {{0, 0, 0, 1}, {0, 0, 0, 2}, {0, 0, 0, 1}, {0, 0, 0, 2}};

    (void) state;
    expect_text(ARRAY(three), "in three levels, 2 sockets of 2 PCI switches of 2 ranks");
    assert_memory_equal(parts.member, owners, sizeof(owners));
    expect_text(ARRAY(bridged),
                "in three levels, 2 sockets of 2 PCI switches of 2 ranks"); /* NVLink within the pairs */
    expect_text(ARRAY(cliques), "in two levels, 2 sockets of 4 ranks");     /* NVLink within the sockets */
    expect_text(ARRAY(uneven), "in two levels, 2 sockets of 4 ranks");
    assert_int_equal(parts.member[2], 1); /* the ranks of a socket in their own order */
    expect_text(ARRAY(unlike), "in two levels, 2 sockets of 4 ranks");
    expect_text(ARRAY(alone), "in two levels, 2 sockets of 2 ranks");
    expect_text(ARRAY(unknown), NULL);
    expect_text(ARRAY(one_socket), "in two levels, 2 PCI switches of 2 ranks");
}

/* Each group by itself: one with levels, one on one socket, one whose ranks are uneven. */
static void several_groups(void **state)
{
    static const facts_t facts[] = {{0, 0, 0, 0}, {0, 0, 0, 0}, {1, 0, 0, 0}, {1, 0, 0, 0}, {0, 1, 0, 0},
                                    {0, 1, 0, 0}, {2, 0, 0, 0}, {2, 0, 0, 0}, {2, 1, 0, 0}};
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
    int levels, size[GPUHIER_LEVELS_MAX];
    bool several;                     /* groups: RS ends in the shard buffer */
    value_t *in, *out;                /* [ranks][count] */
    value_t *scratch;                 /* [ranks][count]: partial sums */
    value_t *shard;                   /* [count]: what X has, in several groups */
    uint64_t met[GPUHIER_LEVELS_MAX]; /* elements that came from a rank of the circle of a level */
    gpuhier_levels_t *levels_of;      /* [ranks], by index */
    gpuhier_plan_t *plans;            /* [ranks], by index */
} run_t;

static value_t combine(value_t left, value_t right)
{
    return (value_t){.sum = left.sum + right.sum,
                     .order = (left.order ^ left.order >> 29) * 0xbf58476d1ce4e5b9u + right.order * 3 + 1};
}

static gpuhier_range_t shard_of(const run_t *run, int index, int level, uint64_t slice)
{
    const gpuhier_circle_t *circle = &run->levels_of[index].circle[level];

    return gpuhier_plan_part(&run->plans[index], slice, circle->shard, circle->shards);
}

/* Reduces what the circle of a level has in `from`, for one element, in the order of the circle. */
static value_t circle_sum(run_t *run, int index, int level, const value_t *from, uint64_t e)
{
    const gpuhier_circle_t *circle = &run->levels_of[index].circle[level];
    value_t sum = {0};

    for (int i = 0; i < circle->size; ++i) {
        const value_t value = from[(uint64_t) circle->member[i] * run->count + e];
        sum = 0 == i ? value : combine(sum, value);
        run->met[level] += circle->member[i] != index;
    }
    return sum;
}

/* Stores into the outputs of the circle of a level. */
static void circle_store(run_t *run, int index, int level, uint64_t e, value_t value)
{
    const gpuhier_circle_t *circle = &run->levels_of[index].circle[level];

    for (int i = 0; i < circle->size; ++i) {
        run->out[(uint64_t) circle->member[i] * run->count + e] = value;
        run->met[level] += circle->member[i] != index;
    }
}

/* RS of a level: into scratch, into the shard buffer, or with one group, at the last one, into the outputs of the
 * circle before. */
static void reduce_run(run_t *run, int index, int level, uint64_t slice)
{
    const bool last = level + 1 == run->levels;
    const gpuhier_range_t shard = shard_of(run, index, last && !run->several ? level - 1 : level, slice);

    for (uint64_t e = shard.begin; e < shard.end; ++e) {
        const value_t sum = circle_sum(run, index, level, 0 == level ? run->in : run->scratch, e);
        if (last && run->several) {
            assert_true(0 == run->shard[e].sum); /* each element has one owner */
            run->shard[e] = sum;
        } else if (last) {
            circle_store(run, index, level - 1, e, sum);
        } else {
            run->scratch[(uint64_t) index * run->count + e] = sum;
        }
    }
}

/* AG of a level. */
static void gather_run(run_t *run, int index, int level, uint64_t slice)
{
    const gpuhier_range_t shard = shard_of(run, index, level, slice);

    for (uint64_t e = shard.begin; e < shard.end; ++e) {
        circle_store(run, index, level, e,
                     level + 1 == run->levels ? run->shard[e] : run->out[(uint64_t) index * run->count + e]);
    }
}

/* The sum over the owners of `count` shards from this one on, in the documented order: the ranks of a switch, the
 * switches of a socket, the sockets. */
static value_t expected(const run_t *run, int level, int shard, uint64_t e)
{
    value_t sum = {0};
    int stride = 1;

    if (level < 0) {
        return run->in[(uint64_t) h.index_of[gpuhier_hierarchy_owner(&h, 0, shard)] * run->count + e];
    }
    for (int i = level + 1; i < run->levels; ++i) {
        stride *= run->size[i];
    }
    for (int i = 0; i < run->size[level]; ++i) {
        const value_t value = expected(run, level - 1, shard + i * stride, e);
        sum = 0 == i ? value : combine(sum, value);
    }
    return sum;
}

static void run_slice(run_t *run, int ranks, uint64_t slice, pure_random_t *random)
{
    for (int stage = 0; stage < run->levels; ++stage) {
        const int begin = (int) pure_random_below(random, (uint64_t) ranks);
        for (int i = 0; i < ranks; ++i) {
            reduce_run(run, (begin + i) % ranks, stage, slice);
        }
    }
    for (int level = run->levels - (run->several ? 1 : 3); level >= 0; --level) {
        const int begin = (int) pure_random_below(random, (uint64_t) ranks);
        for (int i = 0; i < ranks; ++i) {
            gather_run(run, (begin + i) % ranks, level, slice);
        }
    }
    for (int index = 0; index < ranks; ++index) { /* the exchange knows of no levels */
        const gpuhier_plan_t *plan = &run->plans[index];
        const gpuhier_range_t shard =
            gpuhier_plan_part(plan, slice, plan->shape->hierarchy->shard_of[plan->rank], plan->group_size);
        const gpuhier_range_t last = shard_of(run, index, run->levels - 1, slice);
        assert_memory_equal(&shard, &last, sizeof(shard));
    }
}

/* What comes from the ranks of a circle: each element of a level's shards from all others of the circle, in RS and in
 * AG, by each of the `shards` that have the same; with one group the last level has the shards of the one before. */
static void check_bytes(const run_t *run, int ranks)
{
    uint64_t shards = 1;

    for (int level = 0; level < run->levels; ++level) {
        const uint64_t others = (uint64_t) run->size[level] - 1;
        const bool doubled = !run->several && level + 1 == run->levels;
        shards *= doubled ? 1 : (uint64_t) run->size[level];
        assert_int_equal(run->met[level], (doubled ? 1 : 2) * others * run->count * (uint64_t) ranks / shards);
    }
}

/* Deals ranks to sockets and switches at random, equally many to each. */
static void facts_draw(facts_t *facts, const gpuhier_parts_t *wanted, int ranks, pure_random_t *random)
{
    int left[16], runs = wanted->sockets * wanted->switches;

    for (int i = 0; i < runs; ++i) {
        left[i] = wanted->ranks;
    }
    for (int rank = 0; rank < ranks; ++rank) {
        int at = (int) pure_random_below(random, (uint64_t) runs);
        while (0 == left[at]) {
            at = (at + 1) % runs;
        }
        --left[at];
        facts[rank] = (facts_t){.package = 10 - at / wanted->switches, .pci_switch = 100 - at};
    }
}

static void run_random(uint64_t seed)
{
    pure_random_t random = {seed};
    const int kind = (int) pure_random_below(&random, 3); /* sockets, switches, or both */
    const gpuhier_parts_t wanted = {.sockets = 1 == kind ? 1 : 2 + (int) pure_random_below(&random, 3),
                                    .switches = 0 == kind ? 1 : 2 + (int) pure_random_below(&random, 2),
                                    .ranks = 2 + (int) pure_random_below(&random, 4)};
    const int ranks = wanted.sockets * wanted.switches * wanted.ranks;
    const gpuhier_limits_t limits = {.slice_bytes = 128 * (1 + pure_random_below(&random, 40)), .slice_buffers = 3};
    const size_t elem_bytes = (size_t) 1 << pure_random_below(&random, 9);
    facts_t facts[GPUHIER_GROUP_MAX];
    run_t run = {.count = pure_random_below(&random, 300), .several = 0 != pure_random_below(&random, 2)};

    facts_draw(facts, &wanted, ranks, &random);
    world_make(facts, ranks);
    assert_true(gpuhier_levels_find(&h, 0, records, &parts));
    assert_int_equal(parts.sockets, wanted.sockets);
    assert_int_equal(parts.switches, wanted.switches);
    assert_int_equal(parts.ranks, wanted.ranks);
    run.levels = parts.levels;
    memcpy(run.size, parts.size, sizeof(run.size));
    gpuhier_levels_deal(&h, records);
    run.levels_of = calloc((size_t) ranks, sizeof(*run.levels_of));
    run.plans = calloc((size_t) ranks, sizeof(*run.plans));
    const size_t elems = (size_t) (run.count + 1) * (size_t) ranks;
    run.in = calloc(elems, sizeof(value_t));
    run.out = calloc(elems, sizeof(value_t));
    run.scratch = calloc(elems, sizeof(value_t));
    run.shard = calloc(elems, sizeof(value_t));
    for (int index = 0; index < ranks; ++index) {
        const int rank = gpuhier_hierarchy_member(&h, 0, index);
        gpuhier_levels_init(&run.levels_of[index], &h, records, rank, 1);
        assert_int_equal(run.levels_of[index].count, run.levels);
        assert_int_equal(gpuhier_plan_init(&run.plans[index], &shape, rank, run.count, elem_bytes, &limits), 0);
        for (uint64_t e = 0; e < run.count; ++e) {
            const uint64_t hash = pure_mix(seed + e * 64 + (uint64_t) index) | 1;
            run.in[(uint64_t) index * run.count + e] = (value_t){hash, hash};
        }
    }
    for (uint64_t slice = 0; slice < run.plans[0].nslices; ++slice) {
        run_slice(&run, ranks, slice, &random);
    }
    for (uint64_t e = 0; e < run.count; ++e) {
        const value_t result = expected(&run, run.levels - 1, 0, e);
        for (int index = 0; index < ranks; ++index) {
            assert_memory_equal(&run.out[(uint64_t) index * run.count + e], &result, sizeof(result));
        }
    }
    check_bytes(&run, ranks);
    free(run.in);
    free(run.out);
    free(run.scratch);
    free(run.shard);
    free(run.levels_of);
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
        cmocka_unit_test(two_sockets), cmocka_unit_test(in_turn),        cmocka_unit_test(flat),
        cmocka_unit_test(switches),    cmocka_unit_test(several_groups), cmocka_unit_test(calls),
        cmocka_unit_test(slices),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
