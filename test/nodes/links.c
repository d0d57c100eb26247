/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Partners of different groups that can map each other's memory exchange over links, and those of one node that cannot
 * exchange through a relay: right results, and so many bytes by links and over the network as the algorithm takes, by
 * the component's counters and by the emulator's.
 *
 *   links ALGORITHM GROUPS RANKS fabric|node|pairs|relay|relay_pairs|network
 *
 * for groups of so many ranks each; coll_gpuhier_algorithm is set. fabric: the groups are nodes of one NVLink domain.
 * node: they are on one node. pairs: each node has two of the four, and recursive doubling takes its first step between
 * those. relay, relay_pairs: the same two through host memory. network: no links, whatever there is. N groups, p =
 * 2^floor(log2 N), r = N - p; B bytes of a message:
 *
 *   recursive_doubling   (p log2 p + 2 r) B bytes
 *   ring                 2 (N - 1) B
 *   halving              (2 (p - 1) + 2 r) B
 */
#include "calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct layout {
    const char *algorithm, *by;
    int groups, ranks;
} layout_t;

static uint64_t times_of(const layout_t *layout)
{
    const uint64_t n = (uint64_t) layout->groups;
    uint64_t p = 1, rounds = 0;

    while (2 * p <= n) {
        p *= 2;
        ++rounds;
    }
    return 0 == strcmp(layout->algorithm, "ring")      ? 2 * (n - 1)
           : 0 == strcmp(layout->algorithm, "halving") ? 2 * (p - 1) + 2 * (n - p)
                                                       : p * rounds + 2 * (n - p);
}

/* One of the emulator's counters. */
static uint64_t counted(const char *name)
{
    unsigned long long value = 0;

    if (!buffer_emulator_count(name, &value)) {
        fprintf(stderr, "links: these GPUs are not emulated\n");
        exit(2);
    }
    return value;
}

static bool is_by(const layout_t *layout, const char *by)
{
    return 0 == strcmp(layout->by, by);
}

static bool is_by_relay(const layout_t *layout)
{
    return is_by(layout, "relay") || is_by(layout, "relay_pairs");
}

static bool is_by_pairs(const layout_t *layout)
{
    return is_by(layout, "pairs") || is_by(layout, "relay_pairs");
}

/* Bytes that this rank's copies and kernels have read, or written, in memory of GPUs of other groups. */
static uint64_t moved(const suite_t *suite, const layout_t *layout, bool written)
{
    const int on_node = is_by(layout, "node") || is_by(layout, "relay") ? layout->groups : is_by_pairs(layout) ? 2 : 1;
    const int gpus = on_node * layout->ranks, group = suite->rank / layout->ranks % on_node;
    char name[64];
    uint64_t sum = 0;

    for (int near = 0; near < gpus; ++near) {
        snprintf(name, sizeof(name), written ? "link.%d.fabric" : "link.fabric.%d", near);
        sum += counted(name);
        for (int far = 0; far < gpus; ++far) {
            if (near / layout->ranks == group && far / layout->ranks != group) {
                snprintf(name, sizeof(name), "link.%d.%d", written ? near : far, written ? far : near);
                sum += counted(name);
            }
        }
    }
    return sum;
}

static void one(suite_t *suite, const layout_t *layout, const call_t *call)
{
    pvars_t before, after;
    uint64_t linked[2] = {0, 0}, got[4];
    const uint64_t read = moved(suite, layout, false), written = moved(suite, layout, true);

    pvars_read(&before);
    const bool known = pvars_counter("coll_gpuhier_link_bytes", &linked[0]);
    suite_call(suite, call);
    pvars_read(&after);
    (void) pvars_counter("coll_gpuhier_link_bytes", &linked[1]);
    got[0] = linked[1] - linked[0];
    got[1] = pvars_net_bytes(&before, &after);
    got[2] = moved(suite, layout, false) - read;
    got[3] = moved(suite, layout, true) - written;
    MPI_Allreduce(MPI_IN_PLACE, got, 4, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    const uint64_t all = times_of(layout) * call->count * sizeof(double);
    const uint64_t links = is_by(layout, "network") ? 0 : is_by_pairs(layout) ? all / 2 : all;
    const uint64_t mapped = is_by_relay(layout) ? 0 : links;
    if (!known || got[0] != links || got[1] != all - links || got[2] != mapped || 0 != got[3]) {
        suite_fail(suite,
                   "%zu doubles by %s: %llu bytes over links and %llu over the network, expected %llu %s; the emulator "
                   "counts %llu read and %llu written",
                   call->count, layout->algorithm, (unsigned long long) got[0], (unsigned long long) got[1],
                   (unsigned long long) all, layout->by, (unsigned long long) got[2], (unsigned long long) got[3]);
    }
}

int main(int argc, char **argv)
{
    /* Too long for the host; whole units for every chunk of 2 to 4 groups of up to 4 ranks; one slice and several. */
    static const size_t counts[] = {16 * 3 * 4 * 4 * 8, 16 * 3 * 4 * 4 * 40, 16 * 3 * 4 * 4 * 400};
    suite_t suite;

    suite_begin(&suite, "links", &argc, &argv);
    if (argc < 5) {
        suite_fail(&suite, "links ALGORITHM GROUPS RANKS fabric|node|pairs|relay|relay_pairs|network");
        return suite_end(&suite);
    }
    const layout_t layout = {argv[1], argv[4], atoi(argv[2]), atoi(argv[3])};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); ++i) {
        call_t call = {.comm = MPI_COMM_NULL,
                       .type = value_type_find("double"),
                       .op = value_op_find("sum"),
                       .count = counts[i],
                       .path = PATH_ACCELERATED};
        suite_call(&suite, &call); /* sets up */
        for (int in_place = 0; in_place < 2; ++in_place) {
            call.in_place = 0 != in_place;
            one(&suite, &layout, &call);
        }
    }
    return suite_end(&suite);
}
