/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A team of forked processes for tests of the net layer, without MPI.
 *
 * team_run forks the members, each opens a net, all exchange address blobs
 * through a page of shared memory, and each runs the case's function. The parent
 * waits until a deadline and judges the exit codes. A member that fails prints
 * why and exits at once; the parent then ends the others. Nothing outlives it.
 */
#ifndef NET_TEAM_H
#define NET_TEAM_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "net/coll_gpuhier_net.h"

#define TEAM_MAX 3
#define TEAM_BLOB_MAX 8192
/* Every wait inside a member ends here, in milliseconds. */
#define TEAM_WAIT_MS 100000

/* Shared by the members; written by the owner of each entry, published by the barrier. */
typedef struct {
    atomic_uint arrived; /* members that ever arrived, over all barriers */
    atomic_int flags[8]; /* for the cases; 0 at the start */
    size_t blob_bytes[TEAM_MAX];
    char blobs[TEAM_MAX][TEAM_BLOB_MAX];
} team_board_t;

typedef struct {
    int me;
    int size;
    unsigned barriers; /* that this member passed */
    gpuhier_net_t *net;
    gpuhier_net_peer_t *peers[TEAM_MAX]; /* NULL for oneself */
    team_board_t *board;
    int failures_reported; /* calls of the error handler */
} team_t;

typedef struct {
    const char *name;
    void (*run)(team_t *team);
    int size;          /* members */
    int killed;        /* the member that must end by SIGKILL, or -1 */
    int rails_of_last; /* rails that the last member opens, 0: as many as the others */
} team_case_t;

/* Run one case with these devices (see gpuhier_net_open). Returns true if it passed. */
bool team_run(const team_case_t *test, const char *const *devices, int nrails);

/* Run all cases of a table; argv: [--tls LIST] [--devices A,B,..] [CASE]. Returns main's status. */
int team_main(int argc, char **argv, const team_case_t *cases, int count);

/* End this member with a message unless the condition holds. */
#define TEAM_CHECK(team, condition) team_check((team), (condition), #condition, __func__, __LINE__)
void team_check(const team_t *team, bool ok, const char *text, const char *function, int line);

/* Wait for all members, making progress. */
void team_barrier(team_t *team);

/* Progress until the op ends, or fail the test at the deadline. */
void team_wait(team_t *team, const gpuhier_net_op_t *op);

/* The same until *flag is value. */
void team_wait_flag(team_t *team, atomic_int *flag, int value);

/* Progress for so long. */
void team_idle(team_t *team, int ms);

/* A pattern that depends on seed and place, and its check. */
void team_fill(void *buf, size_t bytes, uint64_t seed);
bool team_matches(const void *buf, size_t bytes, uint64_t seed);

#endif /* NET_TEAM_H */
