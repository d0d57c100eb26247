/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Explains one call: groups, pieces and owners, algorithm, pipeline, and how many
 * bytes go where, by the formulas of coll_gpuhier_schedule.h.
 *
 * All ranks of a node are taken for one group, as on machines whose GPUs can map
 * each other. Called by gpuhier_info.c.
 */
#include "gpuhier_info.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/coll_gpuhier_choice.h"

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
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;

    while (bytes >= 1024.0 && unit < 4) {
        bytes /= 1024.0;
        unit++;
    }
    printf("%.*f %s", (0 == unit) ? 0 : 1, bytes, units[unit]);
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

static void print_pipeline(const gpuhier_plan_t *plan)
{
    static const char *const stages[] = {"RS", "X", "AG"};
    uint64_t ticks = gpuhier_plan_ticks(plan);
    uint64_t tick;
    int stage;

    printf("slices: %llu of at most ", (unsigned long long) plan->nslices);
    print_bytes((double) plan->slice_elems_max * (double) plan->elem_bytes);
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
        for (stage = 0; stage < GPUHIER_PHASE_COUNT; ++stage) {
            uint64_t slice = gpuhier_plan_phase_slice(plan, tick, stage);

            if (GPUHIER_NO_SLICE != slice) {
                printf(" %s(%llu)", stages[stage], (unsigned long long) slice);
            }
        }
        printf("\n");
    }
    printf("exchange of a piece: %s, %d step%s\n", gpuhier_algorithm_names[plan->algorithm], plan->nsteps,
           (1 == plan->nsteps) ? "" : "s");
}

/* What a message of any size would get on these ranks. */
static void print_choices(const gpuhier_shape_t *shape, const gpuhier_limits_t *limits, uint64_t small_bytes)
{
    gpuhier_choice_t rows[GPUHIER_CHOICES_MAX];
    const int nrows = gpuhier_choice_table(shape, limits, small_bytes, rows);
    char text[128];
    int i;

    printf("by size:\n");
    for (i = 0; i < nrows; ++i) {
        printf("  %s\n", gpuhier_choice_text(&rows[i], shape->hierarchy->ngroups, text, sizeof(text)));
    }
}

/* Bytes of each kind of traffic, and, where rates are told, the time that they need at least. */
static int print_traffic(const gpuhier_shape_t *shape, const info_settings_t *settings, const gpuhier_limits_t *limits,
                         uint64_t count)
{
    const gpuhier_hierarchy_t *h = shape->hierarchy;
    uint64_t most_sent = 0;
    uint64_t total_sent = 0;
    uint64_t most_linked = 0;
    int rank;
    int other;

    for (rank = 0; rank < h->nranks; ++rank) {
        gpuhier_plan_t plan;
        uint64_t sent;
        uint64_t linked = 0;

        if (0 != gpuhier_choice_plan(&plan, shape, rank, count, settings->elem_bytes, limits)) {
            return 1;
        }
        sent = gpuhier_plan_sent_bytes(&plan);
        total_sent += sent;
        most_sent = (sent > most_sent) ? sent : most_sent;
        for (other = 0; other < plan.group_size; ++other) {
            linked += gpuhier_plan_link_bytes(&plan, plan.index, other);
        }
        most_linked = (linked > most_linked) ? linked : most_linked;
    }
    printf("traffic of the call:\n  network: ");
    print_bytes((double) total_sent);
    printf(" in all, at most ");
    print_bytes((double) most_sent);
    printf(" sent by one rank\n  GPU memory: at most ");
    print_bytes((double) most_linked);
    printf(" read for one rank's reductions and written to it, its own memory included\n");
    if (settings->rail_gbit > 0.0) {
        printf("  wire: at least %.1f us, one rail of %g Gbit/s for each rank\n",
               (double) most_sent * 8.0 / settings->rail_gbit / 1000.0, settings->rail_gbit);
    }
    if (settings->memory_gbyte > 0.0) {
        printf("  memory: at least %.1f us at %g Gbyte/s\n", (double) most_linked / settings->memory_gbyte / 1000.0,
               settings->memory_gbyte);
    }
    return 0;
}

/* AUTO if no name is given, COUNT if there is none of that name. */
static gpuhier_algorithm_t algorithm_of(const char *name)
{
    int i = 0;

    while (NULL != name && i < GPUHIER_ALGORITHM_COUNT && 0 != strcmp(name, gpuhier_algorithm_names[i])) {
        i++;
    }
    return (gpuhier_algorithm_t) i;
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

static int explain(const gpuhier_hierarchy_t *h, const info_settings_t *settings, const gpuhier_limits_t *limits)
{
    const uint64_t count = settings->bytes / settings->elem_bytes;
    gpuhier_shape_t shape;
    gpuhier_plan_t plan;
    int rc = 0;

    if (0 != gpuhier_shape_init(&shape, h)) {
        fprintf(stderr, "gpuhier_info: out of memory\n");
        return 1;
    }
    if (0 != gpuhier_choice_plan(&plan, &shape, 0, count, settings->elem_bytes, limits)) {
        fprintf(stderr, "gpuhier_info: such a call cannot be: 2 to 4 slices in flight, less than 8 EiB\n");
        rc = 1;
    } else {
        printf("%llu elements of %llu bytes, ", (unsigned long long) count, (unsigned long long) settings->elem_bytes);
        print_bytes((double) count * (double) settings->elem_bytes);
        printf(", on %d ranks\n", h->nranks);
        print_groups(h);
        print_pieces(&shape);
        print_pipeline(&plan);
        print_choices(&shape, limits, settings->small_bytes);
        rc = print_traffic(&shape, settings, limits, count);
    }
    gpuhier_shape_fini(&shape);
    return rc;
}

int info_schedule(const info_settings_t *settings)
{
    const gpuhier_limits_t limits = {
        settings->slice_bytes, settings->slices_in_flight, algorithm_of(settings->algorithm), wire_of(settings->wire),
        (0 == settings->slice_bytes_max) ? (uint64_t) 16 << 20 : settings->slice_bytes_max};
    gpuhier_hier_rank_t *ranks;
    gpuhier_hierarchy_t h;
    int nranks = 0;
    int node;
    int i;
    int rc;

    if (GPUHIER_ALGORITHM_COUNT == limits.algorithm) {
        fprintf(stderr, "gpuhier_info: there is no algorithm %s; there are:", settings->algorithm);
        for (i = 0; i < GPUHIER_ALGORITHM_COUNT; ++i) {
            fprintf(stderr, " %s", gpuhier_algorithm_names[i]);
        }
        fprintf(stderr, "\n");
        return 1;
    }
    if (GPUHIER_WIRE_COUNT == limits.wire) {
        fprintf(stderr, "gpuhier_info: a wire is rdma or tcp, not %s\n", settings->wire);
        return 1;
    }
    for (node = 0; node < settings->nodes; ++node) {
        nranks += settings->ranks[node];
    }
    ranks = malloc(sizeof(*ranks) * (size_t) nranks);
    if (NULL == ranks) {
        fprintf(stderr, "gpuhier_info: out of memory\n");
        return 1;
    }
    for (node = 0, nranks = 0; node < settings->nodes; ++node) {
        for (i = 0; i < settings->ranks[node]; ++i) {
            ranks[nranks++].node = (uint64_t) node;
        }
    }
    rc = gpuhier_hierarchy_init(&h, nranks, ranks, same_node, NULL, GPUHIER_GROUP_MAX);
    free(ranks);
    if (0 != rc) {
        fprintf(stderr, "gpuhier_info: out of memory\n");
        return 1;
    }
    rc = explain(&h, settings, &limits);
    gpuhier_hierarchy_fini(&h);
    return rc;
}
