/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Golden files: groups and schedules of a few shapes, written out for people, as
 * test/golden/NAME.txt. A change of the schedule shows up as a difference to be
 * looked at. GPUHIER_GOLDEN_UPDATE=1 writes the files anew.
 */
#define _POSIX_C_SOURCE 200809L

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "info_traffic.h"
#include "plan/coll_gpuhier_choice.h"
#include "pure_world.h"

typedef struct schedule_case {
    const char *name;
    int nnodes;
    int ranks_per_node[8];
    pure_placement_t placement;
    uint64_t count;
    size_t elem_bytes;
    gpuhier_limits_t limits;
} schedule_case_t;

static const schedule_case_t cases[] = {
    /* clang-format off */
    {"schedule-4+4", 2, {4, 4}, PURE_BLOCK, 1000, 8,
     {.slice_bytes = 4096, .slice_buffers = 3, .algorithm = GPUHIER_ALGORITHM_AUTO}},
    {"schedule-7+8", 2, {7, 8}, PURE_BLOCK, 4999, 4,
     {.slice_bytes = 1 << 20, .slice_buffers = 2, .algorithm = GPUHIER_ALGORITHM_AUTO}},
    {"schedule-3+1+2-cyclic-ring", 3, {3, 1, 2}, PURE_CYCLIC, 300, 8,
     {.slice_bytes = 1024, .slice_buffers = 2, .algorithm = GPUHIER_ALGORITHM_RING}},
    {"schedule-6x1-doubling", 6, {1, 1, 1, 1, 1, 1}, PURE_BLOCK, 64, 8,
     {.slice_bytes = 4096, .slice_buffers = 2, .algorithm = GPUHIER_ALGORITHM_RECURSIVE_DOUBLING}},
    {"schedule-6x1-halving", 6, {1, 1, 1, 1, 1, 1}, PURE_BLOCK, 100, 8,
     {.slice_bytes = 4096, .slice_buffers = 2, .algorithm = GPUHIER_ALGORITHM_HALVING}},
    {"schedule-8x1-auto-large", 8, {1, 1, 1, 1, 1, 1, 1, 1}, PURE_BLOCK, 1 << 20, 8,
     {.slice_bytes = 1 << 20, .slice_buffers = 4, .algorithm = GPUHIER_ALGORITHM_AUTO}},
    {"schedule-1x4", 1, {4}, PURE_BLOCK, 77, 16,
     {.slice_bytes = 512, .slice_buffers = 3, .algorithm = GPUHIER_ALGORITHM_AUTO}},
    /* clang-format on */
};

static void print_groups(FILE *out, const gpuhier_hierarchy_t *h)
{
    for (int g = 0; g < h->ngroups; ++g) {
        fprintf(out, "group %d: ranks", g);
        for (int i = 0; i < gpuhier_hierarchy_group_size(h, g); ++i) {
            fprintf(out, " %d", gpuhier_hierarchy_member(h, g, i));
        }
        fprintf(out, "\n");
    }
}

static void print_pieces(FILE *out, const gpuhier_shape_t *shape)
{
    for (int i = 0; i < shape->npieces; ++i) {
        fprintf(out, "piece %d: %d/%d .. %d/%d, owners", i, shape->cuts[i].num, shape->cuts[i].den,
                shape->cuts[i + 1].num, shape->cuts[i + 1].den);
        for (int g = 0; g < shape->hierarchy->ngroups; ++g) {
            fprintf(out, " %d", gpuhier_shape_owner(shape, i, g));
        }
        fprintf(out, "\n");
    }
}

static void print_range(FILE *out, gpuhier_range_t range)
{
    fprintf(out, "%llu..%llu", (unsigned long long) range.begin, (unsigned long long) range.end);
}

static void print_slices(FILE *out, const gpuhier_plan_t *plans, int nranks)
{
    for (uint64_t slice = 0; slice < plans[0].nslices; ++slice) {
        fprintf(out, "slice %llu: ", (unsigned long long) slice);
        print_range(out, gpuhier_plan_slice(&plans[0], slice));
        fprintf(out, ", shards of ranks");
        for (int rank = 0; rank < nranks; ++rank) {
            fprintf(out, "%s %d ", 0 == rank ? "" : ",", rank);
            print_range(out, gpuhier_plan_part(&plans[rank], slice, plans[rank].index, plans[rank].group_size));
        }
        fprintf(out, "\n");
    }
}

static void print_table(FILE *out, const gpuhier_plan_t *plan)
{
    static const char *const names[INFO_PHASE_COUNT] = {"RS", "X", "AG"};

    for (uint64_t tick = 0; tick < info_ticks(plan); ++tick) {
        fprintf(out, "tick %llu:", (unsigned long long) tick);
        for (int stage = 0; stage < INFO_PHASE_COUNT; ++stage) {
            uint64_t slice = info_phase_slice(plan, tick, (info_phase_t) stage);
            if (INFO_NO_SLICE != slice) {
                fprintf(out, " %s(%llu, buffer %d)", names[stage], (unsigned long long) slice,
                        gpuhier_plan_buffer(plan, slice));
            }
        }
        fprintf(out, "\n");
    }
}

static void print_transfers(FILE *out, const gpuhier_plan_t *plan, uint64_t slice)
{
    static const char *const actions[] = {"", "copied", "reduced as shard op received", "reduced as received op shard"};

    for (int piece = plan->first_piece; piece < plan->first_piece + plan->npieces; ++piece) {
        for (int step = 0; step < plan->nsteps; ++step) {
            gpuhier_transfer_t t;
            gpuhier_plan_transfer(plan, slice, piece, step, &t);
            fprintf(out, "rank %d slice %llu piece %d step %d:", plan->rank, (unsigned long long) slice, piece, step);
            if (-1 != t.send_to) {
                fprintf(out, " send ");
                print_range(out, t.send);
                fprintf(out, " to %d", t.send_to);
            }
            if (-1 != t.recv_from) {
                fprintf(out, " receive ");
                print_range(out, t.recv);
                fprintf(out, " from %d, %s", t.recv_from, actions[t.action]);
            }
            fprintf(out, "%s\n", -1 == t.send_to && -1 == t.recv_from ? " nothing" : "");
        }
    }
}

static void print_schedule(FILE *out, const schedule_case_t *c)
{
    pure_world_t world;
    gpuhier_plan_t *plans;
    int nranks;

    pure_world_init(&world, c->nnodes, c->ranks_per_node, c->placement, 0, GPUHIER_GROUP_MAX);
    nranks = world.hierarchy.nranks;
    plans = calloc((size_t) nranks, sizeof(*plans));
    assert_non_null(plans);
    for (int rank = 0; rank < nranks; ++rank) {
        assert_int_equal(gpuhier_plan_init(&plans[rank], &world.shape, rank, c->count, c->elem_bytes, &c->limits), 0);
    }
    fprintf(out, "%llu elements of %zu bytes, slices of at most %llu bytes\n", (unsigned long long) c->count,
            c->elem_bytes, (unsigned long long) c->limits.slice_bytes);
    print_groups(out, &world.hierarchy);
    print_pieces(out, &world.shape);
    print_slices(out, plans, nranks);
    print_table(out, &plans[0]);
    fprintf(out, "exchange: %s, %d steps, %d chunks\n", gpuhier_algorithm_names[plans[0].algorithm], plans[0].nsteps,
            plans[0].nchunks);
    for (int rank = 0; rank < nranks; ++rank) {
        print_transfers(out, &plans[rank], 0);
        fprintf(out, "rank %d sends %llu bytes in all\n", rank, (unsigned long long) info_sent_bytes(&plans[rank]));
    }
    free(plans);
    pure_world_fini(&world);
}

/* One node of two islands of four GPUs; rank 6 can map no other rank, and 1 -> 3 fails while 3 -> 1 works. */
static bool islands_can_map(void *arg, int rank, int other)
{
    (void) arg;
    return rank / 4 == other / 4 && 6 != rank && 6 != other && !(1 == rank && 3 == other);
}

static void print_islands(FILE *out)
{
    uint64_t nodes[8] = {0};
    gpuhier_hierarchy_t h;
    gpuhier_shape_t shape;

    assert_int_equal(gpuhier_hierarchy_init(&h, 8, nodes, islands_can_map, NULL, GPUHIER_GROUP_MAX), 0);
    assert_int_equal(gpuhier_shape_init(&shape, &h), 0);
    print_groups(out, &h);
    print_pieces(out, &shape);
    gpuhier_shape_fini(&shape);
    gpuhier_hierarchy_fini(&h);
}

static void golden_path(char *path, size_t room, const char *name)
{
    const char *src = getenv("GPUHIER_SRC");

    snprintf(path, room, "%s/test/golden/%s.txt", NULL == src ? GPUHIER_TOP_SRCDIR : src, name);
}

/* Returns the golden text, or NULL if there is none. The caller frees it. */
static char *golden_read(const char *path)
{
    FILE *in = fopen(path, "r");
    char *text = NULL;
    size_t room = 0;

    if (NULL == in) {
        return NULL;
    }
    if (-1 == getdelim(&text, &room, '\0', in)) {
        free(text);
        text = NULL;
    }
    fclose(in);
    return text;
}

static void compare(const char *name, const char *text)
{
    const char *update = getenv("GPUHIER_GOLDEN_UPDATE");
    char path[4096];
    char *golden;

    golden_path(path, sizeof(path), name);
    if (NULL != update && 0 == strcmp(update, "1")) {
        FILE *out = fopen(path, "w");
        assert_non_null(out);
        fputs(text, out);
        assert_int_equal(fclose(out), 0);
        return;
    }
    golden = golden_read(path);
    if (NULL == golden) {
        fail_msg("cannot read %s: set GPUHIER_SRC to the top of the sources, or GPUHIER_GOLDEN_UPDATE=1 to write it",
                 path);
    }
    if (0 != strcmp(golden, text)) {
        size_t same = 0;
        size_t line = 0; /* start of the first line that differs */
        while (golden[same] == text[same]) {
            line = '\n' == golden[same] ? same + 1 : line;
            ++same;
        }
        print_error("%s:\n  golden: %.*s\n  now:    %.*s\nif that is meant, run with GPUHIER_GOLDEN_UPDATE=1\n", path,
                    (int) strcspn(golden + line, "\n"), golden + line, (int) strcspn(text + line, "\n"), text + line);
        free(golden);
        fail();
    }
    free(golden);
}

static void test_schedules(void **state)
{
    (void) state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        char *text = NULL;
        size_t bytes = 0;
        FILE *out = open_memstream(&text, &bytes);
        assert_non_null(out);
        print_schedule(out, &cases[i]);
        assert_int_equal(fclose(out), 0);
        compare(cases[i].name, text);
        free(text);
    }
}

static void test_groups(void **state)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);

    (void) state;
    assert_non_null(out);
    print_islands(out);
    assert_int_equal(fclose(out), 0);
    compare("groups-islands", text);
    free(text);
}

/* Form, algorithm and slices by size, as print_info and gpuhier_info say them. number: of the shape, half of which
 * leave nothing to the host. */
static void print_choices(FILE *out, const int *ranks_per_node, int nnodes, size_t number, gpuhier_wire_t wire,
                          const gpuhier_collective_t *collective)
{
    const gpuhier_limits_t limits = {.slice_bytes = 4 << 20,
                                     .slice_buffers = 3,
                                     .wire = wire,
                                     .slice_bytes_max = 8 << 20,
                                     .host_shard_bytes =
                                         gpuhier_choice_host_shard(64 << 10, nnodes, GPUHIER_WIRE_RDMA == wire)};
    const bool is_one = 1 == nnodes;
    const gpuhier_facts_t facts = {.small_bytes = 0 == number % 2 ? 8192 : 0,
                                   .mapped_bytes = is_one ? 512 : 0,
                                   .oneshot_bytes = is_one ? 256 << 10 : 0,
                                   .switch_bytes = is_one ? GPUHIER_SWITCH_BYTES : 0};
    gpuhier_choice_t rows[GPUHIER_CHOICES_MAX];
    pure_world_t world;

    pure_world_init(&world, nnodes, ranks_per_node, PURE_BLOCK, 0, GPUHIER_GROUP_MAX);
    fprintf(out, "%s, ranks of groups:", gpuhier_wires[limits.wire].name);
    for (int g = 0; g < nnodes; ++g) {
        fprintf(out, " %d", ranks_per_node[g]);
    }
    fprintf(out, "\n");
    const int nrows = gpuhier_choice_table(&world.shape, &limits, &facts, collective, rows);
    assert_true(nrows > 0);
    for (int r = 0; r < nrows; ++r) {
        char line[GPUHIER_CHOICE_TEXT_MAX];
        fprintf(out, "  %s\n", gpuhier_choice_text(&rows[r], line, sizeof(line)));
    }
    pure_world_fini(&world);
}

static const struct {
    int nnodes, ranks_per_node[16];
} shapes[] = {{1, {4}},          {2, {1, 1}},       {2, {4, 4}},
              {2, {3, 4}},       {3, {1, 1, 1}},    {3, {4, 4, 4}},
              {4, {1, 1, 1, 1}}, {4, {4, 4, 4, 4}}, {16, {8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8}}};
static const size_t nshapes = sizeof(shapes) / sizeof(shapes[0]);

static void test_choices(void **state)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);

    (void) state;
    assert_non_null(out);
    for (size_t k = 0; k < GPUHIER_WIRE_RELAY * nshapes; ++k) { /* a relay has the constants of nvlink */
        const size_t i = k % nshapes;
        if (k < nshapes || shapes[i].nnodes > 1) {
            print_choices(out, shapes[i].ranks_per_node, shapes[i].nnodes, i, (gpuhier_wire_t) (k / nshapes),
                          &gpuhier_collectives[GPUHIER_ALLREDUCE]);
        }
    }
    assert_int_equal(fclose(out), 0);
    compare("choices", text);
    free(text);
}

/* The same of the other collectives, on one group, two, and three of one rank each. */
static void test_collectives(void **state)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);

    (void) state;
    assert_non_null(out);
    for (int c = 0; c < GPUHIER_COLLECTIVES; ++c) {
        for (size_t i = 0; i <= 4 && GPUHIER_ALLREDUCE != c; i += 2) {
            fprintf(out, "%s, ", gpuhier_collectives[c].name);
            print_choices(out, shapes[i].ranks_per_node, shapes[i].nnodes, i, GPUHIER_WIRE_RDMA,
                          &gpuhier_collectives[c]);
        }
    }
    assert_int_equal(fclose(out), 0);
    compare("collectives", text);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schedules),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_collectives),
    };

    return cmocka_run_group_tests_name("golden", tests, NULL, NULL);
}
