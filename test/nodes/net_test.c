/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The net layer when no process dies: every payload arrives whole, once, at the
 * receive with its tag; nothing large is ever unexpected;
 * bad input is refused. Runs without MPI, without a GPU, on one machine.
 *
 * Each case is a function that all members of a team run (net_team.h).
 */
#include "net_team.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ompi_config.h"

#include "ompi/constants.h"

#define MIB ((size_t) 1 << 20)
#define GUARD 64
#define GUARD_SEED 77

static void *must_alloc(team_t *team, size_t bytes)
{
    void *buf = malloc(bytes + GUARD);

    TEAM_CHECK(team, NULL != buf);
    memset(buf, 0xee, bytes);
    team_fill((char *) buf + bytes, GUARD, GUARD_SEED);
    return buf;
}

static void check_and_free(team_t *team, void *buf, size_t bytes, uint64_t seed)
{
    TEAM_CHECK(team, team_matches(buf, bytes, seed));
    TEAM_CHECK(team, team_matches((char *) buf + bytes, GUARD, GUARD_SEED));
    free(buf);
}

/* Sizes around every threshold, both directions at once, on each logical rail. */
static void run_sizes(team_t *team)
{
    static const size_t sizes[] = {0,    1,    7,    8,     63,    64,    65,      1000,          4095,        4096,
                                   8191, 8192, 8193, 16384, 65535, 65536, 1 << 18, (1 << 20) - 1, 4 * MIB + 3, 8 * MIB};
    const int count = sizeof(sizes) / sizeof(sizes[0]);
    const int rails = 2 * gpuhier_net_rails(team->net);
    int other = 1 - team->me;
    int i;
    int rail;

    for (i = 0; i < count; ++i) {
        for (rail = 0; rail < rails; ++rail) {
            uint64_t tag = (uint64_t) i << 32 | (uint64_t) rail << 8;
            gpuhier_net_op_t send = {0};
            gpuhier_net_op_t recv = {0};
            void *out = must_alloc(team, sizes[i]);
            void *in = must_alloc(team, sizes[i]);

            team_fill(out, sizes[i], tag + (uint64_t) team->me);
            TEAM_CHECK(team, OMPI_SUCCESS
                                 == gpuhier_net_recv(team->peers[other], rail, tag + (uint64_t) other, in, sizes[i],
                                                     false, &recv));
            TEAM_CHECK(team, OMPI_SUCCESS
                                 == gpuhier_net_send(team->peers[other], rail, tag + (uint64_t) team->me, out, sizes[i],
                                                     false, &send));
            team_wait(team, &recv);
            team_wait(team, &send);
            TEAM_CHECK(team, GPUHIER_NET_OP_DONE == recv.state && sizes[i] == recv.bytes);
            TEAM_CHECK(team, GPUHIER_NET_OP_DONE == send.state && sizes[i] == send.bytes);
            check_and_free(team, in, sizes[i], tag + (uint64_t) other);
            check_and_free(team, out, sizes[i], tag + (uint64_t) team->me);
        }
    }
    team_barrier(team);
}

enum { TAGS = 200 };

static size_t tag_bytes(int i)
{
    return (size_t) (i * 997) % 30000;
}

static uint64_t tag_of(int from, int to, int i)
{
    return (uint64_t) (from * 10 + to) << 16 | (uint64_t) i;
}

/* Many messages at once, all members with all: even receives are posted before, odd ones after, both last to first. */
static void run_many_tags(team_t *team)
{
    static gpuhier_net_op_t sends[TEAM_MAX][TAGS];
    static gpuhier_net_op_t recvs[TEAM_MAX][TAGS];
    static void *out[TEAM_MAX][TAGS];
    static void *in[TEAM_MAX][TAGS];
    int peer;
    int i;
    int phase;

    for (phase = 0; phase < 3; ++phase) {
        for (i = TAGS - 1; i >= 0; --i) {
            for (peer = 0; peer < team->size; ++peer) {
                if (peer == team->me) {
                    continue;
                }
                if (0 == phase) {
                    out[peer][i] = must_alloc(team, tag_bytes(i));
                    in[peer][i] = must_alloc(team, tag_bytes(i));
                    team_fill(out[peer][i], tag_bytes(i), tag_of(team->me, peer, i));
                }
                if ((0 == phase && 0 == i % 2) || (2 == phase && 1 == i % 2)) {
                    gpuhier_net_recv(team->peers[peer], i, tag_of(peer, team->me, i), in[peer][i], tag_bytes(i), false,
                                     &recvs[peer][i]);
                }
                if (1 == phase) {
                    int j = TAGS - 1 - i;

                    gpuhier_net_send(team->peers[peer], j, tag_of(team->me, peer, j), out[peer][j], tag_bytes(j), false,
                                     &sends[peer][j]);
                }
            }
        }
        team_barrier(team);
        team_idle(team, 20);
    }
    for (peer = 0; peer < team->size; ++peer) {
        for (i = 0; i < TAGS && peer != team->me; ++i) {
            team_wait(team, &recvs[peer][i]);
            team_wait(team, &sends[peer][i]);
            TEAM_CHECK(team, GPUHIER_NET_OP_DONE == recvs[peer][i].state && tag_bytes(i) == recvs[peer][i].bytes);
            TEAM_CHECK(team, GPUHIER_NET_OP_DONE == sends[peer][i].state);
            check_and_free(team, in[peer][i], tag_bytes(i), tag_of(peer, team->me, i));
            free(out[peer][i]);
        }
    }
    team_barrier(team);
}

/* Resident memory of this process in bytes. */
static size_t resident(team_t *team)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long size;
    unsigned long pages = 0;

    TEAM_CHECK(team, NULL != file && 2 == fscanf(file, "%lu %lu", &size, &pages));
    fclose(file);
    return (size_t) pages * (size_t) sysconf(_SC_PAGESIZE);
}

/* 128 MiB are sent long before a receive is posted: the receiver's memory must not grow with them. */
static void run_late_receiver(team_t *team)
{
    enum { COUNT = 32 };
    const size_t bytes = 4 * MIB;
    static gpuhier_net_op_t ops[COUNT];
    static void *bufs[COUNT];
    size_t before;
    int i;

    for (i = 0; i < COUNT; ++i) {
        bufs[i] = must_alloc(team, bytes);
        team_fill(bufs[i], bytes, (0 == team->me) ? (uint64_t) i : 999);
    }
    before = resident(team);
    team_barrier(team);
    if (0 == team->me) {
        for (i = 0; i < COUNT; ++i) {
            gpuhier_net_send(team->peers[1], i, (uint64_t) i, bufs[i], bytes, false, &ops[i]);
        }
    }
    team_idle(team, 500);
    if (1 == team->me) {
        TEAM_CHECK(team, resident(team) < before + 8 * MIB);
        team_wait_flag(team, &team->board->flags[0], 1);
        for (i = COUNT - 1; i >= 0; --i) {
            gpuhier_net_recv(team->peers[0], i, (uint64_t) i, bufs[i], bytes, false, &ops[i]);
        }
    } else {
        for (i = 0; i < COUNT; ++i) {
            TEAM_CHECK(team, gpuhier_net_op_is_pending(&ops[i]));
        }
        atomic_store(&team->board->flags[0], 1);
    }
    for (i = 0; i < COUNT; ++i) {
        team_wait(team, &ops[i]);
        TEAM_CHECK(team, GPUHIER_NET_OP_DONE == ops[i].state && bytes == ops[i].bytes);
        check_and_free(team, bufs[i], bytes, (uint64_t) i);
    }
    team_barrier(team);
}

/* A cancelled receive leaves its buffer alone; its message goes to the next receive with the tag. */
static void run_cancel(team_t *team)
{
    static const size_t sizes[] = {16, 100000};
    size_t i;

    for (i = 0; i < 2; ++i) {
        void *buf = must_alloc(team, sizes[i]);
        gpuhier_net_op_t op = {0};

        if (0 == team->me) {
            team_barrier(team);
            team_fill(buf, sizes[i], 5);
            gpuhier_net_send(team->peers[1], 0, 42, buf, sizes[i], false, &op);
            gpuhier_net_cancel(&op); /* a send goes on */
            team_wait(team, &op);
            TEAM_CHECK(team, GPUHIER_NET_OP_DONE == op.state);
        } else {
            void *gone = must_alloc(team, sizes[i]);

            team_fill(gone, sizes[i], 6);
            gpuhier_net_recv(team->peers[0], 0, 42, gone, sizes[i], false, &op);
            TEAM_CHECK(team, gpuhier_net_op_is_pending(&op));
            gpuhier_net_cancel(&op);
            TEAM_CHECK(team, GPUHIER_NET_OP_ERROR == op.state && OMPI_ERR_INTERUPTED == op.status);
            team_barrier(team);
            team_idle(team, 100);
            check_and_free(team, gone, sizes[i], 6);
            gpuhier_net_recv(team->peers[0], 0, 42, buf, sizes[i], false, &op);
            team_wait(team, &op);
            TEAM_CHECK(team, GPUHIER_NET_OP_DONE == op.state);
        }
        check_and_free(team, buf, sizes[i], 5);
        team_barrier(team);
    }
}

/* Too long: an error, nothing beyond the buffer. Too short: fine, and told. The net works on. */
static void run_truncation(team_t *team)
{
    static const size_t sizes[] = {100, 100000};
    size_t i;
    int shorter;

    for (i = 0; i < 2; ++i) {
        for (shorter = 0; shorter < 2; ++shorter) {
            size_t room = (0 == shorter) ? sizes[i] / 2 : sizes[i] * 2;
            size_t bytes = (0 == team->me) ? sizes[i] : room;
            void *buf = must_alloc(team, bytes);
            gpuhier_net_op_t op = {0};

            if (0 == team->me) {
                team_fill(buf, bytes, 3);
                gpuhier_net_send(team->peers[1], 0, 7, buf, bytes, false, &op);
                team_wait(team, &op);
            } else {
                gpuhier_net_recv(team->peers[0], 0, 7, buf, room, false, &op);
                team_wait(team, &op);
                if (0 == shorter) {
                    TEAM_CHECK(team, GPUHIER_NET_OP_ERROR == op.state && OMPI_ERR_BUFFER == op.status);
                } else {
                    TEAM_CHECK(team, GPUHIER_NET_OP_DONE == op.state && sizes[i] == op.bytes);
                    TEAM_CHECK(team, team_matches(buf, sizes[i], 3));
                }
                TEAM_CHECK(team, team_matches((char *) buf + bytes, GUARD, GUARD_SEED));
            }
            free(buf);
            team_barrier(team);
        }
    }
    TEAM_CHECK(team, 0 == team->failures_reported);
}

/* Every damaged blob is refused, and an intact one still accepted. */
static void run_garbage_blob(team_t *team)
{
    size_t bytes = team->board->blob_bytes[1 - team->me];
    unsigned char *blob = malloc(bytes + 8);
    gpuhier_net_peer_t *peer = NULL;
    size_t i;

    TEAM_CHECK(team, NULL != blob);
    memcpy(blob, team->board->blobs[1 - team->me], bytes);
    memset(blob + bytes, 0, 8);
    for (i = 0; i < bytes; ++i) {
        unsigned char keep = blob[i];

        blob[i] = (unsigned char) (keep ^ (1u << (i % 8)));
        TEAM_CHECK(team, OMPI_ERR_BAD_PARAM == gpuhier_net_peer_create(team->net, blob, bytes, "member x", &peer));
        blob[i] = keep;
        TEAM_CHECK(team, OMPI_ERR_BAD_PARAM == gpuhier_net_peer_create(team->net, blob, i, "member x", &peer));
    }
    for (i = 1; i <= 8; ++i) {
        TEAM_CHECK(team, OMPI_ERR_BAD_PARAM == gpuhier_net_peer_create(team->net, blob, bytes + i, "member x", &peer));
    }
    TEAM_CHECK(team, OMPI_ERR_BAD_PARAM == gpuhier_net_peer_create(team->net, NULL, 0, "member x", &peer));
    TEAM_CHECK(team, NULL == peer);
    TEAM_CHECK(team, OMPI_SUCCESS == gpuhier_net_peer_create(team->net, blob, bytes, NULL, &peer));
    gpuhier_net_peer_destroy(peer, false);
    gpuhier_net_peer_destroy(NULL, false);
    free(blob);
}

/*
 * Several peers of one process, as several communicators have them: first used in
 * different order by the two sides, one destroyed when its last message is sent
 * but not received; the other works on.
 */
static void run_shared_process(team_t *team)
{
    const int other = 1 - team->me;
    const size_t bytes = 100000;
    gpuhier_net_peer_t *peers[2];
    gpuhier_net_op_t send = {0};
    gpuhier_net_op_t recv = {0};
    char last[8] = "last";
    char got[8] = "";
    void *out = must_alloc(team, bytes);
    void *in = must_alloc(team, bytes);
    int i;

    for (i = 0; i < 2; ++i) {
        TEAM_CHECK(team, OMPI_SUCCESS
                             == gpuhier_net_peer_create(team->net, team->board->blobs[other],
                                                        team->board->blob_bytes[other], "member 'other'", &peers[i]));
    }
    gpuhier_net_send(peers[team->me], 0, 1, last, sizeof(last), false, &send);
    team_wait(team, &send);
    TEAM_CHECK(team, GPUHIER_NET_OP_DONE == send.state);
    gpuhier_net_peer_destroy(peers[team->me], false);
    team_barrier(team);
    team_idle(team, 100);
    gpuhier_net_recv(peers[other], 0, 1, got, sizeof(got), false, &recv);
    team_wait(team, &recv);
    TEAM_CHECK(team, GPUHIER_NET_OP_DONE == recv.state && 0 == strcmp(got, "last"));
    for (i = 0; i < 3; ++i) {
        gpuhier_net_peer_t *peer = (1 == i) ? team->peers[other] : peers[other];

        team_fill(out, bytes, (uint64_t) (i * 2 + team->me));
        gpuhier_net_recv(peer, i, (uint64_t) (10 + i), in, bytes, false, &recv);
        gpuhier_net_send(peer, i, (uint64_t) (10 + i), out, bytes, false, &send);
        team_wait(team, &recv);
        team_wait(team, &send);
        TEAM_CHECK(team, GPUHIER_NET_OP_DONE == recv.state && GPUHIER_NET_OP_DONE == send.state);
        TEAM_CHECK(team, team_matches(in, bytes, (uint64_t) (i * 2 + other)));
    }
    gpuhier_net_peer_destroy(peers[other], false);
    TEAM_CHECK(team, 0 == team->failures_reported);
    free(out);
    free(in);
    team_barrier(team);
}

static void run_bad_input(team_t *team)
{
    const char *const devices[] = {"nosuch0"};
    gpuhier_net_t *net = NULL;
    const char *why = NULL;
    gpuhier_net_op_t op = {0};
    char byte = 0;

    TEAM_CHECK(team, OMPI_ERR_NOT_FOUND == gpuhier_net_open(devices, 1, UINT_MAX, GPUHIER_NET_AUTO, &net, &why));
    TEAM_CHECK(team, NULL != strstr(why, "nosuch0"));
    TEAM_CHECK(team, OMPI_ERR_BAD_PARAM
                         == gpuhier_net_open(devices, GPUHIER_RAILS_MAX + 1, UINT_MAX, GPUHIER_NET_AUTO, &net,
                                             &(const char *){NULL}));
    TEAM_CHECK(team, NULL == net);
    TEAM_CHECK(team, OMPI_SUCCESS == gpuhier_net_open(NULL, 0, UINT_MAX, GPUHIER_NET_AUTO, &net, &why));
    const bool has_cuda = GPUHIER_NET_GPU_NO_CUDA != gpuhier_net_gpu(net);
    gpuhier_net_close(net);
    net = NULL;
    const int forced = gpuhier_net_open(NULL, 0, UINT_MAX, GPUHIER_NET_DIRECT, &net, &why);
    TEAM_CHECK(team, has_cuda ? OMPI_SUCCESS == forced && gpuhier_net_gpu_is_yes(gpuhier_net_gpu(net))
                              : OMPI_ERR_NOT_SUPPORTED == forced);
    TEAM_CHECK(team, has_cuda || NULL != strstr(why, "CUDA"));
    gpuhier_net_close(net);
    if (!gpuhier_net_gpu_is_yes(gpuhier_net_gpu(team->net))) {
        TEAM_CHECK(team,
                   OMPI_ERR_NOT_SUPPORTED == gpuhier_net_send(team->peers[1 - team->me], 0, 1, &byte, 1, true, &op));
        TEAM_CHECK(team, GPUHIER_NET_OP_ERROR == op.state && OMPI_ERR_NOT_SUPPORTED == op.status);
    }
    TEAM_CHECK(team, OMPI_SUCCESS == gpuhier_net_open(NULL, 0, UINT_MAX, GPUHIER_NET_STAGED, &net, &why));
    TEAM_CHECK(team, !gpuhier_net_gpu_is_yes(gpuhier_net_gpu(net)) && 1 == gpuhier_net_rails(net) && '\0' == why[0]);
    gpuhier_net_close(net);
    gpuhier_net_close(NULL);
    TEAM_CHECK(team, OMPI_ERR_BAD_PARAM == gpuhier_net_send(team->peers[1 - team->me], -1, 1, &byte, 1, false, &op));
    TEAM_CHECK(team, OMPI_ERR_BAD_PARAM == gpuhier_net_recv(team->peers[1 - team->me], 0, 1, NULL, 1, false, &op));
}

/* Variables meant for Open MPI's own UCX leave the net alone. */
static void run_environment(team_t *team)
{
    gpuhier_net_t *net = NULL;
    gpuhier_net_peer_t *self = NULL;
    gpuhier_net_op_t send = {0};
    gpuhier_net_op_t recv = {0};
    uint64_t in = 0;
    uint64_t out = 4711;
    void *blob;
    size_t bytes;

    setenv("UCX_TLS", "rc", 1);
    setenv("UCX_NET_DEVICES", "mlx5_9:1", 1);
    setenv("UCX_SHM_DEVICES", "none", 1);
    setenv("UCX_RNDV_THRESH", "inf", 1);
    TEAM_CHECK(team,
               OMPI_SUCCESS == gpuhier_net_open(NULL, 0, UINT_MAX, GPUHIER_NET_AUTO, &net, &(const char *){NULL}));
    TEAM_CHECK(team, OMPI_SUCCESS == gpuhier_net_address(net, &blob, &bytes));
    TEAM_CHECK(team, OMPI_SUCCESS == gpuhier_net_peer_create(net, blob, bytes, "self", &self));
    free(blob);
    TEAM_CHECK(team, OMPI_SUCCESS == gpuhier_net_recv(self, 0, 1, &in, sizeof(in), false, &recv));
    TEAM_CHECK(team, OMPI_SUCCESS == gpuhier_net_send(self, 0, 1, &out, sizeof(out), false, &send));
    while (gpuhier_net_op_is_pending(&recv) || gpuhier_net_op_is_pending(&send)) {
        gpuhier_net_progress(net);
        team_idle(team, 1);
    }
    TEAM_CHECK(team, GPUHIER_NET_OP_DONE == recv.state && in == out);
    gpuhier_net_close(net);
}

/* Sends and receives a word by this rail of a net. Returns what the receive and the send returned, if not the same 0.
 */
static int word_swap(team_t *team, gpuhier_net_t *net, gpuhier_net_peer_t *peer, int rail)
{
    gpuhier_net_op_t send = {0}, recv = {0};
    const uint64_t mine = 100 + (uint64_t) team->me;
    uint64_t theirs = 0;
    const int received = gpuhier_net_recv(peer, rail, 7, &theirs, sizeof(theirs), false, &recv);
    const int sent = gpuhier_net_send(peer, rail, 7, &mine, sizeof(mine), false, &send);

    TEAM_CHECK(team, received == sent);
    while (gpuhier_net_op_is_pending(&recv) || gpuhier_net_op_is_pending(&send)) {
        gpuhier_net_progress(net);
        team_idle(team, 1);
    }
    TEAM_CHECK(team, OMPI_SUCCESS != received || theirs == 101 - (uint64_t) team->me);
    return received;
}

/* Exchanges the nets' addresses, and makes a peer from that of the other member. */
static gpuhier_net_peer_t *address_swap(team_t *team, gpuhier_net_t *net)
{
    gpuhier_net_peer_t *peer = NULL;
    void *blob;
    size_t bytes;

    TEAM_CHECK(team, OMPI_SUCCESS == gpuhier_net_address(net, &blob, &bytes) && bytes <= TEAM_BLOB_MAX);
    memcpy(team->board->blobs[team->me], blob, bytes);
    team->board->blob_bytes[team->me] = bytes;
    free(blob);
    team_barrier(team);
    TEAM_CHECK(team, OMPI_SUCCESS
                         == gpuhier_net_peer_create(net, team->board->blobs[1 - team->me],
                                                    team->board->blob_bytes[1 - team->me], "other", &peer));
    return peer;
}

/* Rails that are opened one after the other: all peers of a process know those of its newest address. */
static void run_late_rails(team_t *team)
{
    const char *const devices[] = {"lo", "lo", "lo"};
    static unsigned char old[TEAM_BLOB_MAX];
    gpuhier_net_t *net = NULL;
    gpuhier_net_peer_t *third = NULL;

    TEAM_CHECK(team, OMPI_SUCCESS == gpuhier_net_open(devices, 3, 1u, GPUHIER_NET_STAGED, &net, &(const char *){NULL}));
    TEAM_CHECK(team,
               OMPI_SUCCESS == gpuhier_net_open_rails(net, 0, &(const char *){NULL}) && 3 == gpuhier_net_rails(net));
    gpuhier_net_peer_t *first = address_swap(team, net);
    const size_t old_bytes = team->board->blob_bytes[1 - team->me];
    memcpy(old, team->board->blobs[1 - team->me], old_bytes);
    TEAM_CHECK(team, OMPI_SUCCESS == word_swap(team, net, first, 0));
    TEAM_CHECK(team, OMPI_ERR_NOT_FOUND == word_swap(team, net, first, 2));
    team_barrier(team);

    TEAM_CHECK(team, OMPI_SUCCESS == gpuhier_net_open_rails(net, 1u << 2, &(const char *){NULL}));
    TEAM_CHECK(team, OMPI_ERR_NOT_FOUND == word_swap(team, net, first, 2)); /* the other member's is not known */
    gpuhier_net_peer_t *second = address_swap(team, net);
    TEAM_CHECK(team, old_bytes < team->board->blob_bytes[1 - team->me]);
    TEAM_CHECK(team, OMPI_SUCCESS == word_swap(team, net, second, 2));
    TEAM_CHECK(team, OMPI_SUCCESS == word_swap(team, net, first, 2));
    TEAM_CHECK(team, OMPI_SUCCESS == word_swap(team, net, first, 0));
    TEAM_CHECK(team, OMPI_ERR_NOT_FOUND == word_swap(team, net, second, 1));

    /* An address that is older than what is known. */
    TEAM_CHECK(team, OMPI_SUCCESS == gpuhier_net_peer_create(net, old, old_bytes, "other", &third));
    TEAM_CHECK(team, OMPI_SUCCESS == word_swap(team, net, third, 2));
    gpuhier_net_leave(net, true);
    while (!gpuhier_net_has_left(net)) {
        gpuhier_net_progress(net);
        team_idle(team, 1);
    }
    gpuhier_net_close(net);
    team_barrier(team);
}

static const team_case_t cases[] = {
    {.name = "sizes", .run = run_sizes, .size = 2, .killed = -1},
    {.name = "many_tags", .run = run_many_tags, .size = 3, .killed = -1},
    {.name = "uneven_rails", .run = run_many_tags, .size = 3, .killed = -1, .rails_of_last = 1},
    {.name = "late_receiver", .run = run_late_receiver, .size = 2, .killed = -1},
    {.name = "cancel", .run = run_cancel, .size = 2, .killed = -1},
    {.name = "truncation", .run = run_truncation, .size = 2, .killed = -1},
    {.name = "garbage_blob", .run = run_garbage_blob, .size = 2, .killed = -1},
    {.name = "shared_process", .run = run_shared_process, .size = 2, .killed = -1},
    {.name = "late_rails", .run = run_late_rails, .size = 2, .killed = -1},
    {.name = "bad_input", .run = run_bad_input, .size = 2, .killed = -1},
    {.name = "environment", .run = run_environment, .size = 2, .killed = -1},
};

int main(int argc, char **argv)
{
    return team_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
