/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The net layer when a process dies or leaves: every operation on it ends with
 * an error within the deadline of team_wait, wherever the message was; the error
 * handler is called once; operations with the living go on; memory whose
 * operation ended is not written again; what a process sent before it left in
 * peace still arrives.
 *
 * The last member of each team is the one that dies, by SIGKILL of its own.
 */
#include "net_team.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ompi_config.h"

#include "ompi/constants.h"

#define BIG ((size_t) 8 << 20)
#define SMALL ((size_t) 64)
#define TAG_EXCHANGE 1000
#define TAG_PENDING 2000
#define WAITED_OUT 25 /* seconds: a process that waits in vain for a word gives up after 30 */

static void die(void)
{
    kill(getpid(), SIGKILL);
    for (;;) {
        pause();
    }
}

static void *must_alloc(team_t *team, size_t bytes)
{
    void *buf = malloc(bytes);

    TEAM_CHECK(team, NULL != buf);
    team_fill(buf, bytes, 1);
    return buf;
}

/* One small message each way between me and every other, so that all are connected. */
static void exchange(team_t *team, uint64_t tag)
{
    gpuhier_net_op_t sends[TEAM_MAX] = {0};
    gpuhier_net_op_t recvs[TEAM_MAX] = {0};
    char out[SMALL];
    char in[TEAM_MAX][SMALL];
    int i;

    team_fill(out, SMALL, tag + (uint64_t) team->me);
    for (i = 0; i < team->size; ++i) {
        if (i != team->me) {
            gpuhier_net_recv(team->peers[i], 0, tag + (uint64_t) i, in[i], SMALL, false, &recvs[i]);
            gpuhier_net_send(team->peers[i], 0, tag + (uint64_t) team->me, out, SMALL, false, &sends[i]);
        }
    }
    for (i = 0; i < team->size; ++i) {
        if (i != team->me) {
            team_wait(team, &recvs[i]);
            team_wait(team, &sends[i]);
            TEAM_CHECK(team, GPUHIER_NET_OP_DONE == recvs[i].state && GPUHIER_NET_OP_DONE == sends[i].state);
            TEAM_CHECK(team, team_matches(in[i], SMALL, tag + (uint64_t) i));
        }
    }
}

static void check_dead(team_t *team, gpuhier_net_peer_t *peer)
{
    gpuhier_net_op_t op = {0};
    char byte = 0;

    TEAM_CHECK(team, 1 == team->failures_reported);
    /* And everything later fails at once. */
    TEAM_CHECK(team, OMPI_ERR_UNREACH == gpuhier_net_send(peer, 0, 1, &byte, 1, false, &op));
    TEAM_CHECK(team, GPUHIER_NET_OP_ERROR == op.state);
    TEAM_CHECK(team, OMPI_ERR_UNREACH == gpuhier_net_recv(peer, 0, 1, &byte, 1, false, &op));
    TEAM_CHECK(team, GPUHIER_NET_OP_ERROR == op.state);
}

static void expect_unreach(team_t *team, const gpuhier_net_op_t *op)
{
    team_wait(team, op);
    TEAM_CHECK(team, GPUHIER_NET_OP_ERROR == op->state && OMPI_ERR_UNREACH == op->status);
}

/* A posted receive that no message matches, and a large send that no process receives. */
static void run_killed_idle(team_t *team)
{
    gpuhier_net_peer_t *peer = team->peers[1];
    gpuhier_net_op_t recv = {0};
    gpuhier_net_op_t send = {0};
    void *in = must_alloc(team, BIG);
    void *out = must_alloc(team, BIG);

    exchange(team, TAG_EXCHANGE);
    if (1 == team->me) {
        team_wait_flag(team, &team->board->flags[0], 1);
        team_idle(team, 100);
        die();
    }
    gpuhier_net_recv(peer, 0, TAG_PENDING, in, BIG, false, &recv);
    gpuhier_net_send(peer, 0, TAG_PENDING, out, BIG, false, &send);
    atomic_store(&team->board->flags[0], 1);
    expect_unreach(team, &recv);
    expect_unreach(team, &send);
    check_dead(team, peer);
    TEAM_CHECK(team, team_matches(in, BIG, 1));
    free(in);
    free(out);
}

/* Killed while large messages move both ways. Ones that end well before are whole. */
static void run_killed_moving(team_t *team)
{
    enum { COUNT = 64 };
    static gpuhier_net_op_t recvs[COUNT];
    static gpuhier_net_op_t sends[COUNT];
    static void *in[COUNT];
    gpuhier_net_peer_t *peer = team->peers[1 - team->me];
    const size_t bytes = BIG / 8;
    void *out = must_alloc(team, bytes);
    int errors = 0;
    int i;

    for (i = 0; i < COUNT; ++i) {
        in[i] = malloc(bytes);
        TEAM_CHECK(team, NULL != in[i]);
        memset(in[i], 0, bytes);
    }
    exchange(team, TAG_EXCHANGE);
    /* The one that dies leaves some out, so that not all can be done before. */
    for (i = 0; i < ((0 == team->me) ? COUNT : COUNT - 8); ++i) {
        gpuhier_net_recv(peer, i, (uint64_t) (TAG_PENDING + i), in[i], bytes, false, &recvs[i]);
        gpuhier_net_send(peer, i, (uint64_t) (TAG_PENDING + i), out, bytes, false, &sends[i]);
    }
    if (1 == team->me) {
        team_wait(team, &recvs[3]);
        die();
    }
    for (i = 0; i < COUNT; ++i) {
        team_wait(team, &recvs[i]);
        team_wait(team, &sends[i]);
        if (GPUHIER_NET_OP_DONE == recvs[i].state) {
            TEAM_CHECK(team, team_matches(in[i], bytes, 1));
        } else {
            expect_unreach(team, &recvs[i]);
            errors++;
        }
        /* Given back: a later write here would show by a checking malloc or an unmapped page. */
        free(in[i]);
    }
    TEAM_CHECK(team, errors >= 8);
    team_idle(team, 50);
    check_dead(team, peer);
    free(out);
}

/* Dead before anything was said: the first operation is a receive, or a send. */
static void run_killed_before(team_t *team)
{
    gpuhier_net_peer_t *peer = team->peers[1 - team->me];
    gpuhier_net_op_t recv = {0};
    gpuhier_net_op_t send = {0};
    void *buf = must_alloc(team, BIG);

    if (1 == team->me) {
        atomic_store(&team->board->flags[0], 1);
        die();
    }
    team_wait_flag(team, &team->board->flags[0], 1);
    team_idle(team, 200);
    gpuhier_net_recv(peer, 0, TAG_PENDING, buf, BIG, false, &recv);
    gpuhier_net_send(peer, 0, TAG_PENDING, buf, BIG, false, &send);
    expect_unreach(team, &recv);
    expect_unreach(team, &send);
    check_dead(team, peer);
    free(buf);
}

/* Killed after announcing a large message, before and after this side posts for it. */
static void run_killed_announced(team_t *team)
{
    gpuhier_net_peer_t *peer = team->peers[1 - team->me];
    gpuhier_net_op_t op = {0};
    void *buf = must_alloc(team, BIG);

    exchange(team, TAG_EXCHANGE);
    if (1 == team->me) {
        gpuhier_net_send(peer, 0, TAG_PENDING, buf, BIG, false, &op);
        team_idle(team, 100);
        die();
    }
    team_idle(team, 300);
    gpuhier_net_recv(peer, 0, TAG_PENDING, buf, BIG, false, &op);
    expect_unreach(team, &op);
    check_dead(team, peer);
    free(buf);
}

/* One of three dies: one peer is lost, once; the living finish their exchange. */
static void run_killed_third(team_t *team)
{
    gpuhier_net_peer_t *dead = team->peers[2];
    gpuhier_net_op_t recv = {0};
    gpuhier_net_op_t alive = {0};
    gpuhier_net_op_t send = {0};
    char *in = must_alloc(team, BIG);
    char *out = must_alloc(team, BIG);
    char lost[SMALL];
    int other = (0 == team->me) ? 1 : 0;

    exchange(team, TAG_EXCHANGE);
    if (2 == team->me) {
        team_wait_flag(team, &team->board->flags[0], 2);
        die();
    }
    memset(in, 0, BIG);
    gpuhier_net_recv(dead, 0, TAG_PENDING, lost, SMALL, false, &recv);
    gpuhier_net_recv(team->peers[other], 0, TAG_PENDING + 1, in, BIG, false, &alive);
    atomic_fetch_add(&team->board->flags[0], 1);
    expect_unreach(team, &recv);
    TEAM_CHECK(team, gpuhier_net_op_is_pending(&alive));
    atomic_fetch_add(&team->board->flags[1], 1);
    team_wait_flag(team, &team->board->flags[1], 2);
    gpuhier_net_send(team->peers[other], 0, TAG_PENDING + 1, out, BIG, false, &send);
    team_wait(team, &alive);
    team_wait(team, &send);
    TEAM_CHECK(team, GPUHIER_NET_OP_DONE == alive.state && GPUHIER_NET_OP_DONE == send.state);
    TEAM_CHECK(team, team_matches(in, BIG, 1) && 1 == team->failures_reported);
    atomic_fetch_add(&team->board->flags[2], 1);
    team_wait_flag(team, &team->board->flags[2], 2);
    free(in);
    free(out);
}

/*
 * A peer is destroyed while a large send waits for its receive: other peers of the connection go on, and the send ends
 * when the other side throws the message away.
 */
static void run_destroyed_pending(team_t *team)
{
    const int other = 1 - team->me;
    gpuhier_net_peer_t *extra;
    gpuhier_net_op_t send = {0};
    gpuhier_net_op_t recv = {0};
    void *out = must_alloc(team, BIG);
    char in[SMALL];

    exchange(team, TAG_EXCHANGE);
    if (0 == team->me) {
        TEAM_CHECK(team, OMPI_SUCCESS
                             == gpuhier_net_peer_create(team->net, team->board->blobs[other],
                                                        team->board->blob_bytes[other], "member extra", &extra));
        gpuhier_net_recv(extra, 0, TAG_PENDING, in, SMALL, false, &recv);
        gpuhier_net_peer_destroy(extra, false);
        TEAM_CHECK(team, GPUHIER_NET_OP_ERROR == recv.state && OMPI_ERR_INTERUPTED == recv.status);
        TEAM_CHECK(team, 0 == team->failures_reported);
        TEAM_CHECK(team, OMPI_SUCCESS
                             == gpuhier_net_peer_create(team->net, team->board->blobs[other],
                                                        team->board->blob_bytes[other], "member extra", &extra));
        gpuhier_net_send(extra, 0, TAG_PENDING, out, BIG, false, &send);
        TEAM_CHECK(team, gpuhier_net_op_is_pending(&send));
        gpuhier_net_peer_destroy(extra, false);
        TEAM_CHECK(team, gpuhier_net_op_is_pending(&send));
        TEAM_CHECK(team, 0 == team->failures_reported);
    }
    team_barrier(team);
    exchange(team, TAG_EXCHANGE + 100);
    TEAM_CHECK(team, (0 == team->me) == gpuhier_net_op_is_pending(&send));
    team_barrier(team);
    if (1 == team->me) {
        /* What has another tag stays. */
        TEAM_CHECK(team, 0 == gpuhier_net_discard(team->net, TAG_PENDING ^ 1, UINT64_MAX));
        while (0 == gpuhier_net_discard(team->net, TAG_PENDING, UINT64_MAX)) {
            team_idle(team, 1);
        }
    } else {
        team_wait(team, &send);
        TEAM_CHECK(team, GPUHIER_NET_OP_DONE == send.state);
    }
    team_barrier(team);
    free(out);
}

/* A message that was sent before its sender left is received after it left. */
static void run_left_in_peace(team_t *team)
{
    gpuhier_net_peer_t *peer = team->peers[1 - team->me];
    gpuhier_net_op_t op = {0};
    char buf[SMALL];

    exchange(team, TAG_EXCHANGE);
    if (1 == team->me) {
        team_fill(buf, SMALL, 9);
        gpuhier_net_send(peer, 0, TAG_PENDING, buf, SMALL, false, &op);
        team_wait(team, &op);
        TEAM_CHECK(team, GPUHIER_NET_OP_DONE == op.state);
        gpuhier_net_close(team->net);
        atomic_store(&team->board->flags[0], 1);
        _exit(0);
    }
    while (1 != atomic_load(&team->board->flags[0])) {
        struct timespec pause = {.tv_nsec = 1000000};

        nanosleep(&pause, NULL); /* no progress: nothing was read from the connection yet */
    }
    team_idle(team, 200);
    gpuhier_net_recv(peer, 0, TAG_PENDING, buf, SMALL, false, &op);
    TEAM_CHECK(team, GPUHIER_NET_OP_DONE == op.state && SMALL == op.bytes && team_matches(buf, SMALL, 9));
    check_dead(team, peer);
}

/* A process that leaves stays until the other needs nothing more, and then both go. */
static void run_leave(team_t *team)
{
    gpuhier_net_peer_t *peer = team->peers[1 - team->me];
    gpuhier_net_op_t ops[2] = {0};
    char buf[2][SMALL];

    exchange(team, TAG_EXCHANGE);
    if (0 == team->me) {
        struct timespec busy = {.tv_nsec = 300000000};

        nanosleep(&busy, NULL); /* no progress, while the other has long sent what I still want */
        for (int i = 0; i < 2; ++i) {
            gpuhier_net_recv(peer, i, TAG_PENDING, buf[i], SMALL, false, &ops[i]);
            team_wait(team, &ops[i]);
            TEAM_CHECK(team, GPUHIER_NET_OP_DONE == ops[i].state && team_matches(buf[i], SMALL, 9));
        }
        TEAM_CHECK(team, 0 == team->failures_reported);
        atomic_store(&team->board->flags[0], 1);
    } else {
        for (int i = 0; i < 2; ++i) {
            team_fill(buf[i], SMALL, 9);
            gpuhier_net_send(peer, i, TAG_PENDING, buf[i], SMALL, false, &ops[i]);
            team_wait(team, &ops[i]);
        }
    }
    gpuhier_net_leave(team->net, true);
    for (bool left = false; !left; left = gpuhier_net_has_left(team->net)) {
        team_idle(team, 1);
    }
    TEAM_CHECK(team, 1 == atomic_load(&team->board->flags[0]));
    gpuhier_net_close(team->net);
    team->net = NULL;
}

/* Nor is another that lives on, when nothing is left in common. */
static void run_leave_stranger(team_t *team)
{
    struct timespec start, end, pause = {.tv_nsec = 1000000};

    exchange(team, TAG_EXCHANGE);
    while (1 == team->me && 1 != atomic_load(&team->board->flags[0])) {
        nanosleep(&pause, NULL);
    }
    if (0 == team->me) {
        gpuhier_net_peer_destroy(team->peers[1], false);
        clock_gettime(CLOCK_MONOTONIC, &start);
        gpuhier_net_leave(team->net, true);
        for (bool left = false; !left; left = gpuhier_net_has_left(team->net)) {
            team_idle(team, 1);
        }
        clock_gettime(CLOCK_MONOTONIC, &end);
        atomic_store(&team->board->flags[0], 1);
        TEAM_CHECK(team, end.tv_sec - start.tv_sec < WAITED_OUT);
    }
}

/* The other dies instead: that is no reason to stay. */
static void run_leave_dead(team_t *team)
{
    struct timespec start, end;

    exchange(team, TAG_EXCHANGE);
    if (1 == team->me) {
        die();
    }
    clock_gettime(CLOCK_MONOTONIC, &start);
    gpuhier_net_leave(team->net, true);
    for (bool left = false; !left; left = gpuhier_net_has_left(team->net)) {
        team_idle(team, 1);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    TEAM_CHECK(team, end.tv_sec - start.tv_sec < WAITED_OUT);
}

#define CLIENTS 4

/* Another process's net, in this one: it says something to member 0, and leaves. */
static void client_live(team_t *team, gpuhier_net_t *client)
{
    gpuhier_net_peer_t *server;
    gpuhier_net_op_t send = {0};
    char out[SMALL];

    team_fill(out, SMALL, 3);
    TEAM_CHECK(team, OMPI_SUCCESS
                         == gpuhier_net_peer_create(client, team->board->blobs[0], team->board->blob_bytes[0], "server",
                                                    &server));
    gpuhier_net_send(server, 0, TAG_PENDING, out, SMALL, false, &send);
    while (gpuhier_net_op_is_pending(&send)) {
        gpuhier_net_progress(client);
    }
    TEAM_CHECK(team, GPUHIER_NET_OP_DONE == send.state);
    gpuhier_net_peer_destroy(server, false);
    gpuhier_net_leave(client, false);
    while (!gpuhier_net_has_left(client)) {
        gpuhier_net_progress(client);
    }
    gpuhier_net_close(client);
}

/* A process's address, kept by the server. */
typedef struct {
    char blob[TEAM_BLOB_MAX];
    size_t bytes;
} address_t;

/*
 * Does the net remember the process, which has gone? A peer of it then shares the connection that failed, and a send
 * is refused without a word. Otherwise the peer makes a new connection, whose failure is reported.
 */
static bool is_remembered(team_t *team, const address_t *address)
{
    const int before = team->failures_reported;
    gpuhier_net_peer_t *peer;
    TEAM_CHECK(team,
               OMPI_SUCCESS == gpuhier_net_peer_create(team->net, address->blob, address->bytes, "member gone", &peer));
    gpuhier_net_op_t send = {0};
    gpuhier_net_op_t recv = {0};
    char byte[2] = {0};
    gpuhier_net_send(peer, 0, TAG_PENDING, &byte[0], 1, false, &send);
    gpuhier_net_recv(peer, 0, TAG_PENDING + 1, &byte[1], 1, false, &recv);
    expect_unreach(team, &recv);
    team_wait(team, &send); /* a short one may have ended well, in a buffer of UCX's */
    gpuhier_net_peer_destroy(peer, false);
    return before == team->failures_reported;
}

/* Clients come and go: their server forgets each, whether it lets go of it before the client leaves, or after. */
static void run_clients(team_t *team)
{
    static address_t addresses[CLIENTS];
    exchange(team, TAG_EXCHANGE);
    for (int i = 0; i < CLIENTS; ++i) {
        if (1 == team->me) {
            gpuhier_net_t *client;
            void *blob;
            size_t bytes;
            TEAM_CHECK(team,
                       OMPI_SUCCESS
                           == gpuhier_net_open(NULL, 0, UINT_MAX, GPUHIER_NET_AUTO, &client, &(const char *){NULL}));
            TEAM_CHECK(team, OMPI_SUCCESS == gpuhier_net_address(client, &blob, &bytes) && bytes <= TEAM_BLOB_MAX);
            memcpy(team->board->blobs[2], blob, bytes);
            team->board->blob_bytes[2] = bytes;
            free(blob);
            team_barrier(team);
            client_live(team, client);
            team_barrier(team);
        } else {
            gpuhier_net_peer_t *peer;
            gpuhier_net_op_t recv = {0};
            char in[SMALL];
            team_barrier(team);
            TEAM_CHECK(team, OMPI_SUCCESS
                                 == gpuhier_net_peer_create(team->net, team->board->blobs[2],
                                                            team->board->blob_bytes[2], "client of member 1", &peer));
            addresses[i].bytes = team->board->blob_bytes[2];
            memcpy(addresses[i].blob, team->board->blobs[2], addresses[i].bytes);
            gpuhier_net_recv(peer, 0, TAG_PENDING, in, SMALL, false, &recv);
            team_wait(team, &recv);
            TEAM_CHECK(team, GPUHIER_NET_OP_DONE == recv.state && team_matches(in, SMALL, 3));
            if (0 == i % 2) {
                gpuhier_net_peer_destroy(peer, false);
            }
            team_barrier(team);
            if (0 != i % 2) {
                gpuhier_net_peer_destroy(peer, false);
            }
        }
    }
    for (int i = 0; 0 == team->me && i < CLIENTS; ++i) {
        bool remembered = true;
        for (int ms = 0; ms < TEAM_WAIT_MS / 2 && remembered; ++ms) {
            team_idle(team, 1);
            remembered = is_remembered(team, &addresses[i]);
        }
        TEAM_CHECK(team, !remembered);
    }
    exchange(team, TAG_EXCHANGE + 100);
}

/* close with everything pending: it ends in time, and so does every operation. */
static void run_close_pending(team_t *team)
{
    gpuhier_net_peer_t *peer = team->peers[1 - team->me];
    gpuhier_net_op_t ops[4] = {0};
    struct timespec start;
    struct timespec end;
    void *in = must_alloc(team, BIG);
    void *out = must_alloc(team, BIG);
    int i;

    exchange(team, TAG_EXCHANGE);
    gpuhier_net_recv(peer, 0, TAG_PENDING, in, BIG, false, &ops[0]);
    gpuhier_net_recv(peer, 1, TAG_PENDING + 1, in, BIG, false, &ops[1]);
    gpuhier_net_send(peer, 0, TAG_PENDING + 2, out, BIG, false, &ops[2]);
    gpuhier_net_send(peer, 1, TAG_PENDING + 3, out, BIG, false, &ops[3]);
    team_barrier(team);
    clock_gettime(CLOCK_MONOTONIC, &start);
    gpuhier_net_close(team->net);
    clock_gettime(CLOCK_MONOTONIC, &end);
    TEAM_CHECK(team, end.tv_sec - start.tv_sec < WAITED_OUT);
    for (i = 0; i < 4; ++i) {
        TEAM_CHECK(team, GPUHIER_NET_OP_ERROR == ops[i].state && OMPI_SUCCESS != ops[i].status);
    }
    free(in);
    free(out);
    team->net = NULL;
}

static const team_case_t cases[] = {
    {.name = "killed_idle", .run = run_killed_idle, .size = 2, .killed = 1},
    {.name = "killed_moving", .run = run_killed_moving, .size = 2, .killed = 1},
    {.name = "killed_before", .run = run_killed_before, .size = 2, .killed = 1},
    {.name = "killed_announced", .run = run_killed_announced, .size = 2, .killed = 1},
    {.name = "killed_third", .run = run_killed_third, .size = 3, .killed = 2},
    {.name = "destroyed_pending", .run = run_destroyed_pending, .size = 2, .killed = -1},
    {.name = "left_in_peace", .run = run_left_in_peace, .size = 2, .killed = -1},
    {.name = "leave", .run = run_leave, .size = 2, .killed = -1},
    {.name = "leave_stranger", .run = run_leave_stranger, .size = 2, .killed = -1},
    {.name = "leave_dead", .run = run_leave_dead, .size = 2, .killed = 1},
    {.name = "clients", .run = run_clients, .size = 2, .killed = -1},
    {.name = "close_pending", .run = run_close_pending, .size = 2, .killed = -1},
};

int main(int argc, char **argv)
{
    return team_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
