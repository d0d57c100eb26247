/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * How fast the net layer is between nodes: one-way latency, and the bandwidth of
 * all rails at once. MPI only starts the processes and exchanges addresses.
 *
 * Rank r of the first half talks to rank r of the second half; with
 * test/vcluster that is one rank of each of two nodes. With --ring, which any number from
 * three on can, each sends to the next rank and receives from the one before, both ways only.
 *
 *   net_perf [--devices A,B,..] [--mbit R] [--quick] [--ring]
 *
 * --mbit is the rate of one rail, for the percentage. Both ways at once, answers wait behind payload in the
 * queues of the wire.
 */
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/coll_gpuhier_net.h"

#define WINDOW 4
#define MESSAGE ((size_t) 2 << 20)
#define WAIT_SECONDS 300.0

typedef struct {
    const char *devices[GPUHIER_RAILS_MAX];
    int nrails;
    double mbit;
    int quick;
    int ring;
} settings_t;

typedef struct {
    int rank;
    int partner; /* whom I send to */
    int source;  /* whose messages I receive: the partner, except with --ring */
    int first;   /* I am in the first half */
    gpuhier_net_t *net;
    gpuhier_net_peer_t *peer;
    gpuhier_net_peer_t *source_peer;
} pair_t;

static void fail(const pair_t *pair, const char *what)
{
    fprintf(stderr, "rank %d: %s\n", pair->rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void wait_op(const pair_t *pair, const gpuhier_net_op_t *op)
{
    double start = MPI_Wtime();
    unsigned spins = 0;

    while (gpuhier_net_op_is_pending(op)) {
        gpuhier_net_progress(pair->net);
        if (0 == (++spins & 0xfffff) && MPI_Wtime() - start > WAIT_SECONDS) {
            fail(pair, "a message did not arrive in time");
        }
    }
    if (GPUHIER_NET_OP_DONE != op->state) {
        fail(pair, "a message ended with an error");
    }
}

/* Tells `to` my address, and makes a peer of `from`, who tells me theirs. */
static gpuhier_net_peer_t *peer_make(const pair_t *pair, int to, int from)
{
    gpuhier_net_peer_t *peer;
    int bytes;
    int theirs;
    size_t size;
    void *mine;
    void *blob;

    if (0 != gpuhier_net_address(pair->net, &mine, &size)) {
        fail(pair, "no address");
    }
    bytes = (int) size;
    MPI_Sendrecv(&bytes, 1, MPI_INT, to, 0, &theirs, 1, MPI_INT, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    blob = malloc((size_t) theirs);
    if (NULL == blob) {
        fail(pair, "out of memory");
    }
    MPI_Sendrecv(mine, bytes, MPI_BYTE, to, 1, blob, theirs, MPI_BYTE, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (0 != gpuhier_net_peer_create(pair->net, blob, (size_t) theirs, "the partner", &peer)) {
        fail(pair, "the partner's address is damaged");
    }
    free(mine);
    free(blob);
    return peer;
}

static void pair_open(pair_t *pair, const settings_t *settings)
{
    const char *why;

    if (0 != gpuhier_net_open(settings->devices, settings->nrails, UINT_MAX, GPUHIER_NET_AUTO, &pair->net, &why)) {
        fail(pair, why);
    }
    pair->peer = peer_make(pair, pair->source, pair->partner);
    pair->source_peer = pair->source == pair->partner ? pair->peer : peer_make(pair, pair->partner, pair->source);
}

/* Seconds for one message one way, by ping-pong. */
static double latency(const pair_t *pair, size_t bytes, int rounds)
{
    char *buf = calloc(1, bytes + 1);
    double start = 0.0;
    double end;
    int i;

    for (i = -rounds / 10; i < rounds; ++i) {
        gpuhier_net_op_t send = {0};
        gpuhier_net_op_t recv = {0};

        if (0 == i) {
            start = MPI_Wtime();
        }
        if (pair->first) {
            gpuhier_net_send(pair->peer, 0, 1, buf, bytes, false, &send);
            gpuhier_net_recv(pair->peer, 0, 2, buf, bytes, false, &recv);
            wait_op(pair, &recv);
        } else {
            gpuhier_net_recv(pair->peer, 0, 1, buf, bytes, false, &recv);
            wait_op(pair, &recv);
            gpuhier_net_send(pair->peer, 0, 2, buf, bytes, false, &send);
        }
        wait_op(pair, &send);
    }
    end = MPI_Wtime();
    free(buf);
    return (end - start) / rounds / 2;
}

/*
 * Payload bytes a second and rail while all rails are loaded with count messages
 * each, WINDOW at a time; both_ways or from the first half to the second only.
 */
static double bandwidth(const pair_t *pair, int count, int both_ways)
{
    static gpuhier_net_op_t ops[2][GPUHIER_RAILS_MAX][WINDOW];
    const int rails = gpuhier_net_rails(pair->net);
    char *out = malloc(MESSAGE);
    char *in = malloc(MESSAGE * (size_t) rails * WINDOW);
    double start;
    double seconds;
    int i;
    int rail;

    if (NULL == out || NULL == in) {
        fail(pair, "out of memory");
    }
    memset(out, pair->rank, MESSAGE);
    memset(in, 0, MESSAGE * (size_t) rails * WINDOW);
    memset(ops, 0, sizeof(ops));
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    for (i = 0; i < count + WINDOW; ++i) {
        for (rail = 0; rail < rails; ++rail) {
            int slot = i % WINDOW;
            char *into = in + MESSAGE * (size_t) (rail * WINDOW + slot);

            if (i >= WINDOW) {
                /* Sends and receives that were never started are idle, which is not pending. */
                if (both_ways || pair->first) {
                    wait_op(pair, &ops[0][rail][slot]);
                }
                if (both_ways || !pair->first) {
                    wait_op(pair, &ops[1][rail][slot]);
                }
            }
            if (i < count && (both_ways || !pair->first)) {
                gpuhier_net_recv(pair->source_peer, rail, (uint64_t) (10 + i), into, MESSAGE, false,
                                 &ops[1][rail][slot]);
            }
            if (i < count && (both_ways || pair->first)) {
                gpuhier_net_send(pair->peer, rail, (uint64_t) (10 + i), out, MESSAGE, false, &ops[0][rail][slot]);
            }
        }
    }
    seconds = MPI_Wtime() - start;
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    free(in);
    free(out);
    return (double) MESSAGE * count / seconds;
}

static void parse(int argc, char **argv, settings_t *settings)
{
    int i;

    for (i = 1; i < argc; ++i) {
        if (0 == strcmp(argv[i], "--quick")) {
            settings->quick = 1;
        } else if (0 == strcmp(argv[i], "--ring")) {
            settings->ring = 1;
        } else if (i + 1 < argc && 0 == strcmp(argv[i], "--mbit")) {
            settings->mbit = atof(argv[++i]);
        } else if (i + 1 < argc && 0 == strcmp(argv[i], "--devices")) {
            char *at = strtok(argv[++i], ",");

            for (; NULL != at && settings->nrails < GPUHIER_RAILS_MAX; at = strtok(NULL, ",")) {
                settings->devices[settings->nrails++] = at;
            }
        } else {
            fprintf(stderr, "net_perf: do not understand %s; the options are at the top of net_perf.c\n", argv[i]);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
    }
}

static void latencies(const pair_t *pair, const settings_t *settings)
{
    static const size_t sizes[] = {0, 8, 64, 1024, 8192, 8193, 65536, 1048576};
    size_t i;

    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i) {
        double us = latency(pair, sizes[i], sizes[i] > 8192 ? 50 : settings->quick ? 500 : 2000) * 1e6;

        MPI_Allreduce(MPI_IN_PLACE, &us, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (0 == pair->rank) {
            printf("latency %8zu bytes: %9.2f us one way\n", sizes[i], us);
        }
    }
}

int main(int argc, char **argv)
{
    settings_t settings = {0};
    pair_t pair = {0};
    int size;
    int mode;

    MPI_Init(&argc, &argv);
    parse(argc, argv, &settings);
    MPI_Comm_rank(MPI_COMM_WORLD, &pair.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (settings.ring ? size < 3 : 0 != size % 2) {
        fail(&pair, settings.ring ? "three ranks at least, please" : "an even number of ranks, please");
    }
    pair.first = pair.rank < size / 2;
    pair.partner = (pair.rank + (settings.ring ? 1 : size / 2)) % size;
    pair.source = settings.ring ? (pair.rank + size - 1) % size : pair.partner;
    pair_open(&pair, &settings);
    if (!settings.ring) {
        latencies(&pair, &settings);
    }
    for (mode = settings.ring; mode < 2; ++mode) {
        bandwidth(&pair, 2, mode);
        const double rate = bandwidth(&pair, settings.quick ? 8 : 60, mode) * 8e-6;
        const double fraction = (settings.mbit > 0.0) ? rate / settings.mbit : 0.0;
        if (0 == pair.rank) {
            printf("bandwidth %s: %.1f Mbit/s on each of %d rails, %.1f %% of the wire\n",
                   mode ? "both ways" : "one way  ", rate, gpuhier_net_rails(pair.net), 100.0 * fraction);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    gpuhier_net_close(pair.net);
    MPI_Finalize();
    return 0;
}
