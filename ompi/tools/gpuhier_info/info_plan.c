/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The verb plan explains one call: groups, pieces and owners, algorithm, pipeline, and how many
 * bytes go where, by the formulas of coll_gpuhier_schedule.h.
 *
 * All ranks of a node are taken for one group, as on machines whose GPUs can map
 * each other. Called by gpuhier_info.c.
 */
#include "ompi_config.h"

#include "info_plan.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "info_json.h"
#include "info_traffic.h"
#include "plan/coll_gpuhier_part.h"

/* Rows of a table that are printed before the rest is left out. */
#define ROWS_MAX 16

static bool same_node(void *arg, int rank, int other)
{
    (void) arg;
    (void) rank;
    (void) other;
    return true; /* asked only for ranks of one node */
}

static void print_bytes(double bytes)
{
    char text[32];

    printf("%s", info_bytes_text(bytes, text));
}

static void print_groups(const gpuhier_hierarchy_t *h)
{
    int g;

    printf("groups: %d\n", h->ngroups);
    for (g = 0; g < h->ngroups; ++g) {
        int size = gpuhier_hierarchy_group_size(h, g);

        if (g == ROWS_MAX) {
            printf("  ... %d more\n", h->ngroups - g);
            break;
        }
        printf("  group %d: ranks %d to %d\n", g, gpuhier_hierarchy_member(h, g, 0),
               gpuhier_hierarchy_member(h, g, size - 1));
    }
}

static void print_pieces(const gpuhier_shape_t *shape)
{
    const gpuhier_hierarchy_t *h = shape->hierarchy;
    int i;
    int g;

    printf("pieces of a slice: %d, each with one owner in every group\n", shape->npieces);
    for (i = 0; i < shape->npieces; ++i) {
        if (i == ROWS_MAX) {
            printf("  ... %d more\n", shape->npieces - i);
            break;
        }
        printf("  piece %d: %d/%d to %d/%d, ranks", i, shape->cuts[i].num, shape->cuts[i].den, shape->cuts[i + 1].num,
               shape->cuts[i + 1].den);
        for (g = 0; g < h->ngroups && g < ROWS_MAX; ++g) {
            printf(" %d", gpuhier_shape_owner(shape, i, g));
        }
        printf("%s\n", (h->ngroups > ROWS_MAX) ? " ..." : "");
    }
}

/* The longest slice, of all blocks. */
static double slice_bytes(const gpuhier_plan_t *plan, const gpuhier_collective_t *collective)
{
    return (double) plan->slice_elems_max * (double) plan->elem_bytes
           * (collective->has_blocks ? plan->shape->hierarchy->nranks : 1);
}

static void print_pipeline(const gpuhier_plan_t *plan, const gpuhier_collective_t *collective)
{
    static const char *const stages[] = {"RS", "X", "AG"};
    uint64_t ticks = info_ticks(plan);
    uint64_t tick;
    int stage;

    printf("slices: %llu of at most ", (unsigned long long) plan->nslices);
    print_bytes(slice_bytes(plan, collective));
    printf(", %d in flight\n", plan->slice_buffers);
    if (1 == plan->shape->hierarchy->ngroups) {
        printf("  one group: each slice is one fused kernel, and nothing goes over the network\n");
        return;
    }
    for (tick = 0; tick < ticks; ++tick) {
        if (ROWS_MAX == tick) {
            printf("  ... %llu more\n", (unsigned long long) (ticks - tick));
            break;
        }
        printf("  step %llu:", (unsigned long long) tick);
        for (stage = 0; stage < INFO_PHASE_COUNT; ++stage) {
            uint64_t slice = info_phase_slice(plan, tick, stage);

            if (INFO_NO_SLICE != slice) {
                printf(" %s(%llu)", stages[stage], (unsigned long long) slice);
            }
        }
        printf("\n");
    }
    printf("exchange of a piece: %s, %d step%s%s\n", gpuhier_part_name(plan), plan->nsteps,
           (1 == plan->nsteps) ? "" : "s", plan->by_host ? ", reduced by the host" : "");
}

gpuhier_facts_t info_facts(const info_options_t *options, const gpuhier_limits_t *limits, const gpuhier_hierarchy_t *h,
                           bool is_pcie)
{
    gpuhier_facts_t facts = {.is_all_to_all = true, .is_blocking = true, .small_bytes = options->mca.small_bytes};
    if (1 == h->ngroups) {
        facts.oneshot_bytes = gpuhier_choice_oneshot(h->nranks, options->mca.oneshot_bytes, limits->slice_bytes);
    }
    if (is_pcie && facts.oneshot_bytes > GPUHIER_ONESHOT_PCIE_BYTES) {
        facts.oneshot_bytes = GPUHIER_ONESHOT_PCIE_BYTES;
    }
    return facts;
}

/* What a message of any size would get on these ranks. */
static void print_choices(const gpuhier_shape_t *shape, const gpuhier_limits_t *limits, const gpuhier_facts_t *facts,
                          const gpuhier_collective_t *collective)
{
    gpuhier_choice_t rows[GPUHIER_CHOICES_MAX];
    const int nrows = gpuhier_choice_table(shape, limits, facts, collective, rows);
    char text[GPUHIER_CHOICE_TEXT_MAX];

    printf("by size%s%s:\n", collective->has_blocks ? " of all blocks" : "",
           facts->oneshot_bytes > 0 ? ", where NVLink joins the GPUs and none is shared" : "");
    for (int i = 0; i < nrows; ++i) {
        printf("  %s\n", gpuhier_choice_text(&rows[i], text, sizeof(text)));
    }
}

/* The bytes that pass through GPU memory are known of all-reduces alone. */
static bool has_memory(const info_options_t *options)
{
    return gpuhier_collective_is_all_to_all(options->collective);
}

/* Bytes of each kind of traffic. */
typedef struct {
    uint64_t most_sent; /* by one rank */
    double total_sent;
    uint64_t most_linked; /* read for one rank's reductions and written to it; of all-reduces */
} traffic_t;

int info_plan_fail(const info_options_t *options)
{
    return info_fail(INFO_BAD_USAGE, "such a call cannot be: a message has less than 8 EiB%s",
                     options->collective->has_blocks
                         ? ", and between nodes a slice (coll_gpuhier_slice_bytes) has 128 bytes of each rank's block"
                         : "");
}

int info_plan_make(gpuhier_plan_t *plan, const gpuhier_shape_t *shape, int rank, uint64_t count,
                   const info_options_t *options, const gpuhier_limits_t *limits)
{
    if (info_size(options, shape->hierarchy->nranks, count) >= 0x1p63) {
        return -1;
    }
    return gpuhier_choice_part(plan, shape, rank, count, options->elem_bytes, options->collective,
                               shape->hierarchy->group_of[0], limits);
}

static int count_traffic(const gpuhier_shape_t *shape, const gpuhier_limits_t *limits, const info_options_t *options,
                         traffic_t *traffic_p)
{
    const gpuhier_hierarchy_t *h = shape->hierarchy;
    traffic_t traffic = {0};

    for (int rank = 0; rank < h->nranks; ++rank) {
        gpuhier_plan_t plan;
        uint64_t linked = 0;

        if (0 != info_plan_make(&plan, shape, rank, options->count, options, limits)) {
            return INFO_FAILED;
        }
        const uint64_t sent = info_sent_bytes(&plan);
        traffic.total_sent += (double) sent;
        traffic.most_sent = (sent > traffic.most_sent) ? sent : traffic.most_sent;
        for (int other = 0; other < plan.group_size && has_memory(options); ++other) {
            linked += info_link_bytes(&plan, plan.index, other);
        }
        traffic.most_linked = (linked > traffic.most_linked) ? linked : traffic.most_linked;
    }
    *traffic_p = traffic;
    return INFO_OK;
}

static void print_traffic(const traffic_t *traffic, const info_options_t *options)
{
    printf("traffic of the call:\n  network: ");
    print_bytes(traffic->total_sent);
    printf(" in all, at most ");
    print_bytes((double) traffic->most_sent);
    printf(" sent by one rank\n");
    if (has_memory(options)) {
        printf("  GPU memory: at most ");
        print_bytes((double) traffic->most_linked);
        printf(" read for one rank's reductions and written to it, its own memory included\n");
    }
    if (options->rail_gbit > 0.0) {
        printf("  wire: at least %.1f us, one rail of %g Gbit/s for each rank\n",
               (double) traffic->most_sent * 8.0 / options->rail_gbit / 1000.0, options->rail_gbit);
    }
    if (options->memory_gbyte > 0.0 && has_memory(options)) {
        printf("  memory: at least %.1f us at %g Gbyte/s\n",
               (double) traffic->most_linked / options->memory_gbyte / 1000.0, options->memory_gbyte);
    }
}

static void print_json(const gpuhier_shape_t *shape, const gpuhier_plan_t *plan, const info_options_t *options,
                       const gpuhier_limits_t *limits, const traffic_t *traffic)
{
    const gpuhier_hierarchy_t *h = shape->hierarchy;
    gpuhier_facts_t facts = info_facts(options, limits, h, false);
    gpuhier_choice_t rows[GPUHIER_CHOICES_MAX];
    const int nrows = gpuhier_choice_table(shape, limits, &facts, options->collective, rows);

    gpuhier_choice_narrow(&facts, options->collective, h->nranks, 0);
    info_json_open(NULL, '{');
    info_json_text("collective", options->collective->name);
    info_json_int("bytes", (long long) info_size(options, h->nranks, plan->count));
    info_json_int("elements", (long long) plan->count);
    info_json_int("element_bytes", (long long) plan->elem_bytes);
    info_json_int("ranks", h->nranks);
    info_json_open("groups", '[');
    for (int g = 0; g < h->ngroups; ++g) {
        info_json_int(NULL, gpuhier_hierarchy_group_size(h, g));
    }
    info_json_close();
    info_json_int("pieces", shape->npieces);
    info_json_int("slices", (long long) plan->nslices);
    info_json_int("slice_bytes", (long long) slice_bytes(plan, options->collective));
    info_json_int("slices_in_flight", plan->slice_buffers);
    info_json_int("oneshot_bytes", (long long) facts.oneshot_bytes);
    if (facts.is_all_to_all) {
        info_json_int("two_shots_from_bytes", (long long) gpuhier_choice_two_shots_from(h->nranks));
    }
    info_json_text("exchange", h->ngroups > 1 ? gpuhier_part_name(plan) : NULL);
    info_json_int("exchange_steps", plan->nsteps);
    info_json_number("network_bytes", traffic->total_sent);
    info_json_int("network_bytes_of_a_rank", (long long) traffic->most_sent);
    if (has_memory(options)) {
        info_json_int("memory_bytes_of_a_rank", (long long) traffic->most_linked);
    }
    info_json_open("by_size", '[');
    for (int i = 0; i < nrows; ++i) {
        char text[GPUHIER_CHOICE_TEXT_MAX];
        info_json_open(NULL, '{');
        info_json_int("from_bytes", (long long) rows[i].min_bytes);
        info_json_bool("blocking", rows[i].is_blocking);
        info_json_text("path", gpuhier_choice_text(&rows[i], text, sizeof(text)));
        info_json_bool("on_host", GPUHIER_RULE_SHORT == rows[i].rule);
        info_json_bool("exchange_on_host", rows[i].by_host);
        info_json_text("exchange", rows[i].exchange);
        info_json_int("slices", (long long) rows[i].nslices);
        info_json_close();
    }
    info_json_close();
    info_json_close();
}

/* RDMA if no name is given, COUNT if there is none of that name. */
static gpuhier_wire_t wire_of(const char *name)
{
    int i = 0;

    while (NULL != name && i < GPUHIER_WIRE_COUNT && 0 != strcmp(name, gpuhier_wires[i].name)) {
        i++;
    }
    return (gpuhier_wire_t) i;
}

static int explain(const gpuhier_hierarchy_t *h, const info_options_t *options, const gpuhier_limits_t *limits)
{
    gpuhier_shape_t shape;
    gpuhier_plan_t plan;
    traffic_t traffic = {0};
    int rc;

    if (0 != gpuhier_shape_init(&shape, h)) {
        return info_fail(INFO_FAILED, "out of memory");
    }
    if (0 != info_plan_make(&plan, &shape, 0, options->count, options, limits)) {
        rc = info_plan_fail(options);
    } else {
        rc = count_traffic(&shape, limits, options, &traffic);
    }
    if (INFO_OK == rc && options->json) {
        print_json(&shape, &plan, options, limits, &traffic);
    } else if (INFO_OK == rc) {
        const bool has_blocks = options->collective->has_blocks;
        printf("%s: %s%llu elements of %llu bytes, ", options->collective->name, has_blocks ? "blocks of " : "",
               (unsigned long long) options->count, (unsigned long long) options->elem_bytes);
        print_bytes(info_size(options, h->nranks, options->count));
        printf("%s, on %d ranks\n", has_blocks ? " in all" : "", h->nranks);
        print_groups(h);
        print_pieces(&shape);
        print_pipeline(&plan, options->collective);
        const gpuhier_facts_t facts = info_facts(options, limits, h, false);
        print_choices(&shape, limits, &facts, options->collective);
        print_traffic(&traffic, options);
    }
    gpuhier_shape_fini(&shape);
    return rc;
}

gpuhier_limits_t info_limits(const info_options_t *options, gpuhier_wire_t wire, int ngroups)
{
    return (gpuhier_limits_t){.slice_bytes = options->mca.slice_bytes,
                              .slice_buffers = options->mca.slices_in_flight,
                              .algorithm = (gpuhier_algorithm_t) options->mca.algorithm,
                              .wire = wire,
                              .slice_bytes_max = options->mca.slice_bytes_max,
                              .host_shard_bytes =
                                  gpuhier_choice_host_shard((uint64_t) options->mca.host_shard_bytes, ngroups,
                                                            GPUHIER_WIRE_RDMA == wire && 2 != options->mca.net)};
}

int info_nodes_make(int nodes, const int *ranks, int nranks, gpuhier_hierarchy_t *h)
{
    int64_t total = 0;

    for (int node = 0; node < nodes; ++node) {
        total += ranks[1 == nranks ? 0 : node];
    }
    if (total > INFO_RANKS_MAX) {
        return info_fail(INFO_BAD_USAGE, "%lld ranks are too many: at most %d", (long long) total, INFO_RANKS_MAX);
    }
    uint64_t *all = malloc(sizeof(*all) * (size_t) total);
    int rc = INFO_FAILED;
    if (NULL != all) {
        int64_t at = 0;
        for (int node = 0; node < nodes; ++node) {
            const uint64_t first = (uint64_t) at;
            for (int i = 0; i < ranks[1 == nranks ? 0 : node]; ++i) {
                all[at++] = first;
            }
        }
        rc = 0 == gpuhier_hierarchy_init(h, (int) total, all, same_node, NULL, GPUHIER_GROUP_MAX) ? INFO_OK
                                                                                                  : INFO_FAILED;
    }
    free(all);
    return INFO_OK == rc ? rc : info_fail(rc, "out of memory");
}

int info_plan(const info_options_t *options)
{
    const gpuhier_wire_t wire = wire_of(options->wire);
    const int nodes = 0 != options->nodes ? options->nodes : options->nranks;
    gpuhier_hierarchy_t h;

    if (!options->has_count || 0 == options->nranks) {
        return info_fail(INFO_BAD_USAGE, "plan wants -n COUNT and --ranks; see gpuhier_info plan --help");
    }
    if (1 != options->nranks && nodes != options->nranks) {
        return info_fail(INFO_BAD_USAGE,
                         "--ranks names %d nodes, --nodes %d: --ranks has one number, or one for each "
                         "node",
                         options->nranks, nodes);
    }
    if (GPUHIER_WIRE_COUNT == wire) {
        return info_fail(INFO_BAD_USAGE, "--wire %s: rdma, tcp or nvlink is expected", options->wire);
    }
    int rc = info_nodes_make(nodes, options->ranks, options->nranks, &h);
    if (INFO_OK == rc) {
        const gpuhier_limits_t limits = info_limits(options, wire, h.ngroups);
        rc = explain(&h, options, &limits);
        gpuhier_hierarchy_fini(&h);
    }
    return rc;
}
