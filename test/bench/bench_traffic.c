/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The bytes that one call moves, counted by others than the component, against formulas that
 * are written down here once more and share no code with it.
 *
 *   links  (counters of the emulated driver) Within a node of P ranks on GPUs of their own, the owner of a
 *          shard reads it from every peer and writes the result to every peer, so memory of GPU j
 *          gives |shard of i| + |shard of j| bytes to GPU i, over all ranks' kernels and copies.
 *   one    (the same, of one-shot kernels) Each rank sends its whole message to each peer, or, where the message
 *          is too long for a mailbox, a shard of units there and its own shard of the result. A unit is 16 bytes
 *          of elements, and travels with flags of the same size.
 *   rails  (the component's counters of payload bytes) Between N nodes every piece of the message
 *          is exchanged: 2 (N - 1) B bytes over all ranks, or (p log2 p + 2 r) B by recursive doubling with
 *          p the largest power of two up to N, r = N - p. With two nodes every rank sends its
 *          own shard once.
 *   short  messages of at most coll_gpuhier_small_bytes are reduced by the hosts: nothing crosses a link, and one
 *          rank of each node exchanges them by recursive doubling.
 *   wires  (the kernel's counters of the node's interfaces) From 1 MiB on, no less than the node's payload
 *          and at most 8 % more.
 *
 * Shards: the message is cut into units of 128 bytes, slices of at most the bytes of slice_limit() and as equal
 * as units permit, each slice into P shards at whole units. All ranks of a node are taken to form one group, as
 * they do when all its GPUs can map each other.
 */
#include "bench.h"

#include <dirent.h>
#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define UNIT_BYTES 128
#define ONESHOT_UNIT 16
#define ONESHOT_MAILBOX ((size_t) 1 << 20) /* bytes of data, of all ranks */
#define WIRE_FROM_BYTES ((size_t) 1 << 20)
#define WIRE_EXCESS 0.08
#define MAX_GPUS 64

struct bench_traffic {
    const bench_place_t *place;
    int rails; /* of a node */
    int (*counter)(const char *name, unsigned long long *value_p);
    void (*reset)(void);
    uint64_t slice_bytes, slice_bytes_max;
    uint64_t step_bytes, shard_bytes; /* of the wire; see slice_limit() */
    bool has_slice_bytes;
    uint64_t small_bytes; /* 0: unknown, or no message is short */
    pvars_t before;
    uint64_t wire_before;
};

/* Bytes that this node's interfaces rail0, rail1, ... have sent; 0 without any. */
static uint64_t wire_bytes(void)
{
    uint64_t sum = 0;
    DIR *dir = opendir("/sys/class/net");
    struct dirent *entry;

    while (NULL != dir && NULL != (entry = readdir(dir))) {
        char path[512];
        unsigned long long value = 0;
        if (0 != strncmp(entry->d_name, "rail", 4)) {
            continue;
        }
        snprintf(path, sizeof(path), "/sys/class/net/%s/statistics/tx_bytes", entry->d_name);
        FILE *file = fopen(path, "r");
        if (NULL != file) {
            if (1 == fscanf(file, "%llu", &value)) {
                sum += value;
            }
            fclose(file);
        }
    }
    if (NULL != dir) {
        closedir(dir);
    }
    return sum;
}

/* The component's rule where no devices are named: an active RDMA port on every node, and RDMA devices that can be
 * opened. */
static bool all_have_rdma(const bench_place_t *place)
{
    glob_t ports;
    int mine = 0, all = 0;

    if (0 == access("/dev/infiniband", X_OK) && 0 == glob("/sys/class/infiniband/*/ports/*/state", 0, NULL, &ports)) {
        for (size_t i = 0; i < ports.gl_pathc; ++i) {
            char state[32] = "";
            FILE *file = fopen(ports.gl_pathv[i], "r");
            mine |= NULL != file && NULL != fgets(state, sizeof(state), file) && NULL != strstr(state, "ACTIVE");
            if (NULL != file) {
                fclose(file);
            }
        }
        globfree(&ports);
    }
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, place->control);
    return 0 != all;
}

bench_traffic_t *bench_traffic_create(const bench_place_t *place, const bench_options_t *options)
{
    bench_traffic_t *t = calloc(1, sizeof(*t));
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

    if (NULL == t) {
        fprintf(stderr, "gpuhier_bench: no memory\n");
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    t->place = place;
    t->rails = options->rails < PVARS_MAX_RAILS ? options->rails : PVARS_MAX_RAILS;
    if (NULL != driver) {
        *(void **) &t->counter = dlsym(driver, "cudasim_counter");
        *(void **) &t->reset = dlsym(driver, "cudasim_counters_reset");
    }
    t->has_slice_bytes = pvars_number("coll_gpuhier_slice_bytes", &t->slice_bytes)
                         && pvars_number("coll_gpuhier_slice_bytes_max", &t->slice_bytes_max);
    const bool rdma = all_have_rdma(place);
    t->step_bytes = rdma ? 102400 : 20480;
    t->shard_bytes = rdma ? 1048576 : 131072;
    if (!pvars_number("coll_gpuhier_small_bytes", &t->small_bytes)) {
        t->small_bytes = 0;
    }
    return t;
}

void bench_traffic_destroy(bench_traffic_t *t)
{
    free(t);
}

void bench_traffic_begin(bench_traffic_t *t)
{
    MPI_Barrier(t->place->control);
    if (NULL != t->reset) {
        t->reset();
    }
    pvars_read(&t->before);
    MPI_Barrier(t->place->on_node);
    t->wire_before = wire_bytes();
    MPI_Barrier(t->place->control);
}

static bool is_short(const bench_traffic_t *t, const bench_row_t *row)
{
    return row->bytes <= t->small_bytes;
}

/* -- formulas --------------------------------------------------------------------------- */

static uint64_t units_of(uint64_t elements, uint64_t unit)
{
    return (elements + unit - 1) / unit;
}

/*
 * On one node a message is one slice; between nodes an eighth of it, but no less than the wire's shard_bytes for each
 * rank, and no more than slice_bytes, or what 21 steps of the wire for each doubling of the nodes take for each rank,
 * up to slice_bytes_max, if that is more.
 */
static uint64_t slice_limit(const bench_traffic_t *t, const bench_row_t *row)
{
    uint64_t most_ranks = 1;

    for (int node = 0; node < t->place->nnodes && node < 64; ++node) {
        uint64_t ranks = (uint64_t) t->place->group_ranks[node];
        most_ranks = ranks > most_ranks ? ranks : most_ranks;
    }
    if (1 == t->place->nnodes) {
        return UINT64_MAX;
    }
    uint64_t doublings = 0;
    while ((1LL << doublings) < t->place->nnodes) {
        ++doublings;
    }
    uint64_t longest = 21 * t->step_bytes * doublings * most_ranks;
    longest = longest < t->slice_bytes_max ? longest : t->slice_bytes_max;
    longest = longest > t->slice_bytes ? longest : t->slice_bytes;
    uint64_t least = t->shard_bytes * most_ranks < t->slice_bytes ? t->shard_bytes * most_ranks : t->slice_bytes;
    uint64_t slice = row->bytes / 8 > least ? row->bytes / 8 : least;
    return slice < longest ? slice : longest;
}

/* Elements of the shard of `index` of P ranks, over all slices. */
static uint64_t shard_elements(const bench_traffic_t *t, const bench_row_t *row, int index, int nranks)
{
    uint64_t unit = row->type->extent < UNIT_BYTES ? UNIT_BYTES / row->type->extent : 1;
    uint64_t units = units_of(row->count, unit);
    uint64_t limit = slice_limit(t, row) / (unit * row->type->extent);
    uint64_t nslices = units_of(units, 0 == limit ? 1 : limit);
    uint64_t done_units = 0, sum = 0;

    for (uint64_t s = 0; s < nslices; ++s) {
        uint64_t slice_units = units / nslices + (s < units % nslices ? 1 : 0);
        uint64_t begin = done_units * unit;
        uint64_t end = begin + slice_units * unit < row->count ? begin + slice_units * unit : row->count;
        uint64_t from = begin + slice_units * (uint64_t) index / (uint64_t) nranks * unit;
        uint64_t to = begin + slice_units * (uint64_t) (index + 1) / (uint64_t) nranks * unit;
        from = from < end ? from : end;
        to = to < end ? to : end;
        sum += to - from;
        done_units += slice_units;
    }
    return sum;
}

/* What a one-shot call sends over a link, both ways of use together. */
static uint64_t oneshot_bytes(const bench_row_t *row, uint64_t from, uint64_t to, uint64_t nranks)
{
    uint64_t units = units_of(row->count, ONESHOT_UNIT / row->type->extent), room = ONESHOT_MAILBOX / nranks;
    bool fits = nranks > 4 ? row->bytes < room / 2 : row->bytes <= room / ONESHOT_UNIT * ONESHOT_UNIT;

    if (!fits) {
        units = 2 * (units / nranks) + (from < units % nranks) + (to < units % nranks);
    }
    return units * 2 * ONESHOT_UNIT;
}

/* What the memory of GPU `from` gives to GPU `to`. */
static uint64_t link_bytes(const bench_traffic_t *t, const bench_row_t *row, bool is_oneshot, int from, int to)
{
    const int nranks = t->place->local_size;

    if (is_oneshot) {
        return oneshot_bytes(row, (uint64_t) from, (uint64_t) to, (uint64_t) nranks);
    }
    if (is_short(t, row)) {
        return 0;
    }
    return (shard_elements(t, row, from, nranks) + shard_elements(t, row, to, nranks)) * row->type->extent;
}

/* -- links ------------------------------------------------------------------------------ */

/* Appends to row->traffic. */
static void say(bench_row_t *row, const char *format, const char *what, uint64_t got, uint64_t want)
{
    size_t used = strlen(row->traffic);
    snprintf(row->traffic + used, sizeof(row->traffic) - used, format, what, (unsigned long long) got,
             (unsigned long long) want);
}

static void check_links(const bench_traffic_t *t, bench_row_t *row, bool is_oneshot)
{
    const bench_place_t *p = t->place;
    uint64_t sum[2] = {0, 0}; /* got, want: over all links of all nodes */
    int wrong = 0;

    if (NULL == t->counter || p->shared_gpu || !t->has_slice_bytes || p->ngpus > MAX_GPUS) {
        say(row, "links %s", "not counted", 0, 0);
        return;
    }
    for (int from = 0; from < p->local_size; ++from) {
        for (int to = 0; to < p->local_size; ++to) {
            char name[64];
            unsigned long long mine = 0, all = 0;
            if (from == to) {
                continue;
            }
            snprintf(name, sizeof(name), "link.%d.%d", from, to);
            if (0 != t->counter(name, &mine)) {
                mine = 0;
            }
            MPI_Allreduce(&mine, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, p->on_node);
            uint64_t want = link_bytes(t, row, is_oneshot, from, to);
            wrong |= want != all;
            if (0 == p->local_rank) {
                sum[0] += all;
                sum[1] += want;
            }
        }
    }
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_MAX, p->control);
    MPI_Allreduce(MPI_IN_PLACE, sum, 2, MPI_UINT64_T, MPI_SUM, p->control);
    if (0 != wrong) {
        row->traffic_is_right = false;
        say(row, "%s carried %llu bytes, want %llu", "LINKS", sum[0], sum[1]);
    } else {
        say(row, "%s carried %llu bytes as computed", "links", sum[0], 0);
    }
}

/* -- rails and wires -------------------------------------------------------------------- */

static void check_rails(const bench_traffic_t *t, bench_row_t *row, uint64_t sent)
{
    const bench_place_t *p = t->place;
    uint64_t n = (uint64_t) p->nnodes, seats = 1, rounds = 0, total = 0;
    int wrong = 0;

    while (2 * seats <= n) {
        seats *= 2;
        ++rounds;
    }
    uint64_t scattered = 2 * (n - 1) * row->bytes;
    uint64_t doubled = (seats * rounds + 2 * (n - seats)) * row->bytes;
    MPI_Allreduce(&sent, &total, 1, MPI_UINT64_T, MPI_SUM, p->control);
    wrong = total != doubled && (total != scattered || is_short(t, row));
    if (is_short(t, row)) {
        wrong |= 0 != p->local_rank && 0 != sent;
    } else if (2 == n && t->has_slice_bytes) {
        wrong |= sent != shard_elements(t, row, p->local_rank, p->local_size) * row->type->extent;
    }
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_MAX, p->control);
    if (0 != wrong) {
        row->traffic_is_right = false;
        say(row, "; %s carried %llu bytes, want %llu", "RAILS", total, scattered);
    } else {
        say(row, "; %s %llu", "rails", total, 0);
    }
}

/* The worst node's: least by most of its rails. */
static void balance_rails(const bench_traffic_t *t, bench_row_t *row, const pvars_t *after)
{
    uint64_t sent[PVARS_MAX_RAILS], least = UINT64_MAX, most = 0;

    for (int rail = 0; rail < PVARS_MAX_RAILS; ++rail) {
        sent[rail] = after->net_bytes_sent[rail] - t->before.net_bytes_sent[rail];
    }
    MPI_Allreduce(MPI_IN_PLACE, sent, PVARS_MAX_RAILS, MPI_UINT64_T, MPI_SUM, t->place->on_node);
    for (int rail = 0; rail < t->rails; ++rail) {
        least = sent[rail] < least ? sent[rail] : least;
        most = sent[rail] > most ? sent[rail] : most;
    }
    row->rail_balance = most > 0 ? (double) least / (double) most : 0.0;
    MPI_Allreduce(MPI_IN_PLACE, &row->rail_balance, 1, MPI_DOUBLE, MPI_MIN, t->place->control);
}

static void check_wires(const bench_traffic_t *t, bench_row_t *row, uint64_t sent, uint64_t wire)
{
    const bench_place_t *p = t->place;
    uint64_t payload = 0, all[2];
    int wrong, counted = 0 != wire;

    MPI_Allreduce(MPI_IN_PLACE, &counted, 1, MPI_INT, MPI_MIN, p->control);
    if (!counted || row->bytes < WIRE_FROM_BYTES) {
        return;
    }
    MPI_Allreduce(&sent, &payload, 1, MPI_UINT64_T, MPI_SUM, p->on_node);
    wrong = wire < payload || (double) wire > (double) payload * (1.0 + WIRE_EXCESS);
    all[0] = 0 == p->local_rank ? wire : 0;
    all[1] = 0 == p->local_rank ? payload : 0;
    MPI_Allreduce(MPI_IN_PLACE, all, 2, MPI_UINT64_T, MPI_SUM, p->control);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_MAX, p->control);
    row->traffic_is_right = row->traffic_is_right && 0 == wrong;
    say(row, "; %s %llu", 0 == wrong ? "wires" : "WIRES", all[0], 0);
}

void bench_traffic_end(bench_traffic_t *t, bench_row_t *row)
{
    const bench_place_t *p = t->place;
    pvars_t after;

    /* Everything of this call has left when all ranks are here. */
    MPI_Barrier(p->control);
    uint64_t wire = wire_bytes() - t->wire_before;
    pvars_read(&after);
    row->traffic[0] = 0;
    row->traffic_is_right = true;
    /* First, while the driver has counted nothing else. */
    check_links(t, row, after.oneshot > t->before.oneshot);
    if (p->nnodes > 1) {
        uint64_t sent = pvars_net_bytes(&t->before, &after);
        check_rails(t, row, sent);
        check_wires(t, row, sent, wire);
        balance_rails(t, row, &after);
    }
}
