/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The harness of net_team.h: fork, bootstrap through shared memory, deadlines.
 */
#include "net_team.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CASE_DEADLINE_MS 300000

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

static void nap(void)
{
    struct timespec pause = {.tv_nsec = 200000};

    nanosleep(&pause, NULL);
}

void team_check(const team_t *team, bool ok, const char *text, const char *function, int line)
{
    if (!ok) {
        fprintf(stderr, "member %d: %s, line %d: not so: %s\n", team->me, function, line, text);
        _exit(1);
    }
}

static void progress(team_t *team)
{
    if (0 == gpuhier_net_progress(team->net)) {
        nap();
    }
}

void team_barrier(team_t *team)
{
    uint64_t deadline = now_ms() + TEAM_WAIT_MS;

    team->barriers++;
    atomic_fetch_add(&team->board->arrived, 1);
    while (atomic_load(&team->board->arrived) < team->barriers * (unsigned) team->size) {
        TEAM_CHECK(team, now_ms() < deadline);
        if (NULL != team->net) {
            progress(team);
        } else {
            nap();
        }
    }
}

void team_wait(team_t *team, const gpuhier_net_op_t *op)
{
    uint64_t deadline = now_ms() + TEAM_WAIT_MS;

    while (gpuhier_net_op_is_pending(op)) {
        TEAM_CHECK(team, now_ms() < deadline);
        progress(team);
    }
}

void team_wait_flag(team_t *team, atomic_int *flag, int value)
{
    uint64_t deadline = now_ms() + TEAM_WAIT_MS;

    while (atomic_load(flag) != value) {
        TEAM_CHECK(team, now_ms() < deadline);
        progress(team);
    }
}

void team_idle(team_t *team, int ms)
{
    uint64_t deadline = now_ms() + (uint64_t) ms;

    while (now_ms() < deadline) {
        progress(team);
    }
}

static unsigned char pattern(size_t i, uint64_t seed)
{
    return (unsigned char) ((i * 131 + (i >> 8) * 17 + seed * 97 + (seed >> 8)) & 0xff);
}

void team_fill(void *buf, size_t bytes, uint64_t seed)
{
    unsigned char *byte = buf;
    size_t i;

    for (i = 0; i < bytes; ++i) {
        byte[i] = pattern(i, seed);
    }
}

bool team_matches(const void *buf, size_t bytes, uint64_t seed)
{
    const unsigned char *byte = buf;
    size_t i;

    for (i = 0; i < bytes; ++i) {
        if (byte[i] != pattern(i, seed)) {
            return false;
        }
    }
    return true;
}

static void on_failure(void *arg, gpuhier_net_peer_t *peer, int code, const char *text)
{
    team_t *team = arg;

    (void) peer;
    team_check(team, 0 != code && NULL != strstr(text, "member"), "the text names the peer", __func__, __LINE__);
    team->failures_reported++;
}

/* One member's life. Exits with 0 only if the case's function returned. */
static void member(const team_case_t *test, int me, const char *const *devices, int nrails, team_board_t *board)
{
    team_t team = {.me = me, .size = test->size, .board = board};
    const char *why;
    char name[32];
    void *blob;
    size_t bytes;
    int i;

    /* A member must not outlive a parent that is killed. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (nrails > 0 && me == test->size - 1 && 0 != test->rails_of_last) {
        nrails = test->rails_of_last;
    }
    if (0 != gpuhier_net_open(devices, nrails, UINT_MAX, GPUHIER_NET_AUTO, &team.net, &why)) {
        fprintf(stderr, "member %d: open: %s\n", me, why);
        _exit(1);
    }
    gpuhier_net_set_error_handler(team.net, on_failure, &team);
    TEAM_CHECK(&team, 0 == gpuhier_net_address(team.net, &blob, &bytes) && bytes <= TEAM_BLOB_MAX);
    memcpy(board->blobs[me], blob, bytes);
    board->blob_bytes[me] = bytes;
    free(blob);
    team_barrier(&team);
    for (i = 0; i < test->size; ++i) {
        if (i != me) {
            snprintf(name, sizeof(name), "member %d", i);
            TEAM_CHECK(
                &team,
                0 == gpuhier_net_peer_create(team.net, board->blobs[i], board->blob_bytes[i], name, &team.peers[i]));
        }
    }
    test->run(&team);
    gpuhier_net_close(team.net);
    exit(0);
}

/*
 * Reap members as they end, in any order (a zombie would still look alive to
 * the others), and kill the rest at the deadline or when one has failed.
 * Returns true if all ended as they should.
 */
static bool reap_members(const team_case_t *test, const pid_t *pids)
{
    uint64_t deadline = now_ms() + CASE_DEADLINE_MS;
    bool ended[TEAM_MAX] = {false};
    bool ok = true;
    int left = test->size;
    int status;
    int i;

    while (left > 0) {
        for (i = 0; i < test->size; ++i) {
            if (ended[i] || pids[i] != waitpid(pids[i], &status, WNOHANG)) {
                continue;
            }
            ended[i] = true;
            left--;
            if (i == test->killed ? !WIFSIGNALED(status) || SIGKILL != WTERMSIG(status)
                                  : !WIFEXITED(status) || 0 != WEXITSTATUS(status)) {
                fprintf(stderr, "%s: member %d ended with %s %d\n", test->name, i,
                        WIFSIGNALED(status) ? "signal" : "status",
                        WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
                ok = false;
            }
        }
        if (!ok || now_ms() >= deadline) {
            for (i = 0; i < test->size; ++i) {
                if (!ended[i]) {
                    kill(pids[i], SIGKILL);
                    waitpid(pids[i], &status, 0);
                }
            }
            return false;
        }
        nap();
    }
    return true;
}

bool team_run(const team_case_t *test, const char *const *devices, int nrails)
{
    team_board_t *board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pids[TEAM_MAX];
    bool ok;
    int i;

    if (MAP_FAILED == board) {
        perror("mmap");
        return false;
    }
    fflush(NULL);
    for (i = 0; i < test->size; ++i) {
        pids[i] = fork();
        if (0 == pids[i]) {
            member(test, i, devices, nrails, board);
        }
        if (pids[i] < 0) {
            perror("fork");
            exit(1);
        }
    }
    ok = reap_members(test, pids);
    munmap(board, sizeof(*board));
    return ok;
}

int team_main(int argc, char **argv, const team_case_t *cases, int count)
{
    const char *devices[GPUHIER_RAILS_MAX];
    const char *only = NULL;
    char *at;
    int nrails = 0;
    int failures = 0;
    int ran = 0;
    int i;

    for (i = 1; i < argc; ++i) {
        if (0 == strcmp(argv[i], "--tls") && i + 1 < argc) {
            setenv("GPUHIER_UCX_TLS", argv[++i], 1);
        } else if (0 == strcmp(argv[i], "--devices") && i + 1 < argc) {
            for (at = strtok(argv[++i], ","); NULL != at && nrails < GPUHIER_RAILS_MAX; at = strtok(NULL, ",")) {
                devices[nrails++] = at;
            }
        } else if ('-' != argv[i][0] && NULL == only) {
            only = argv[i];
        } else {
            fprintf(stderr, "usage: %s [--tls LIST] [--devices A,B,..] [CASE]\n", argv[0]);
            return 2;
        }
    }
    for (i = 0; i < count; ++i) {
        uint64_t start = now_ms();
        bool ok;

        if (NULL != only && 0 != strcmp(only, cases[i].name)) {
            continue;
        }
        ok = team_run(&cases[i], devices, nrails);
        printf("%s %s (%llu ms)\n", ok ? "ok    " : "FAILED", cases[i].name, (unsigned long long) (now_ms() - start));
        failures += ok ? 0 : 1;
        ran++;
    }
    printf("%d cases, %d failed\n", ran, failures);
    return (0 == failures && ran > 0) ? 0 : 1;
}
