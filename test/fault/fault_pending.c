/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Something happens while nonblocking calls are pending: a rank dies or is late, or a driver call of it fails.
 *
 *   fault_pending VICTIM HARM EXPECTED SECONDS [COUNT [TYPE OP [KIND]]]
 *
 * COUNT, TYPE and OP: of a call, 30000 doubles and their sum unless given. KIND: of memory, on every other rank
 * from rank 0 on; device memory unless given. HARM is as in fault_death: "before", "late=S", or a plan of
 * the saboteur, made just before the calls are posted.
 * EXPECTED, on every rank that lives and before the deadline of SECONDS:
 *     error   the calls are right up to some, and errors from there on; the last one is one, and so is a later call
 *     right   all are right
 *     host    all are right, and at least one ended in host memory
 *     unread  one is an error on all ranks, as its data could not be had; all others are right
 *     unwritten  one is an error on the victim alone, which could not write its result; all others are right, and the
 *             blocking calls that follow as well
 * Each such rank prints "rank N is content"; the script `death` counts them.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fault_lib.h"
#include "flight.h"

#define NFLIGHTS 8
#define NMORE 2 /* posted when the others have ended */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double) time.tv_sec + 1e-9 * (double) time.tv_nsec;
}

/* Blocking calls like the flights. False if one is wrong. */
static bool block(suite_t *suite, const char *type, const char *op, size_t count, call_path_t path)
{
    bool right = true;
    for (int i = 0; i < 4 && right; ++i) {
        call_t call = {.comm = MPI_COMM_WORLD,
                       .type = value_type_find(type),
                       .op = value_op_find(op),
                       .count = count,
                       .path = path};
        right = suite_call(suite, &call);
    }
    return right;
}

static void harm_self(const saboteur_t *saboteur, const char *harm)
{
    if (0 == strcmp(harm, "before")) {
        raise(SIGKILL);
    } else if (0 == strncmp(harm, "late=", 5)) {
        sleep((unsigned) atoi(harm + 5));
    } else if (0 != saboteur->arm(harm)) {
        _exit(2);
    }
}

/* Waits for one call; 'r', 'E' or 'W'. */
static char land(suite_t *suite, flight_t *flight)
{
    unsigned long failures = suite->failures;
    if (MPI_REQUEST_NULL == flight->request) {
        return 'W';
    }
    if (MPI_SUCCESS != MPI_Wait(&flight->request, MPI_STATUS_IGNORE)) {
        /* Open MPI itself frees it, when its error handler returns. */
        if (MPI_REQUEST_NULL != flight->request && MPI_SUCCESS != MPI_Request_free(&flight->request)) {
            fprintf(stderr, "fault_pending: rank %d: a call that ended with an error could not be freed\n",
                    suite->rank);
            return 'W';
        }
        return 'E';
    }
    flight_check(suite, flight, "a pending call");
    return failures == suite->failures ? 'r' : 'W';
}

static bool is_expected(const char *expected, const char *ends, uint64_t on_host, bool victim)
{
    const size_t right = strspn(ends, "r"), errors = strspn(ends + right, "E");
    if (0 == strcmp(expected, "error")) {
        return right < NFLIGHTS && NFLIGHTS + NMORE == right + errors;
    }
    if (0 == strcmp(expected, "unread") || (0 == strcmp(expected, "unwritten") && victim)) {
        return 1 == errors && NFLIGHTS + NMORE == right + errors + strspn(ends + right + errors, "r");
    }
    const bool is_host = 0 == strcmp(expected, "host") || 0 == strcmp(expected, "unwritten");
    return NFLIGHTS + NMORE == right && (!is_host || on_host > 0);
}

int main(int argc, char **argv)
{
    static flight_t flights[NFLIGHTS + NMORE];
    char ends[NFLIGHTS + NMORE + 1] = "";
    suite_t suite;
    saboteur_t saboteur;
    pvars_t before, after;

    suite_begin(&suite, "fault_pending", &argc, &argv);
    if (argc != 5 && argc != 6 && argc != 8 && argc != 9) {
        fprintf(stderr, "fault_pending VICTIM HARM EXPECTED SECONDS [COUNT [TYPE OP [KIND]]]\n");
        _exit(2);
    }
    const char *type = argc > 7 ? argv[6] : "double", *op = argc > 7 ? argv[7] : "sum";
    const buffer_kind_t kind = argc > 8 && 0 == suite.rank % 2 ? buffer_kind_find(argv[8]) : BUFFER_DEVICE;
    const size_t count = argc > 5 ? (size_t) atol(argv[5]) : 30000;
    saboteur_find(&saboteur);
    for (int i = 0; i < NFLIGHTS + NMORE; ++i) {
        flight_make(&suite, &flights[i], MPI_COMM_WORLD, type, op, count, kind, kind, false);
        flights[i].on_engine = true;
    }
    if (!block(&suite, type, op, count, PATH_ACCELERATED)) {
        _exit(1);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    pvars_read(&before);
    deadline((unsigned) atoi(argv[4]), "in calls that are harmed, or later ones");
    const bool victim = suite.rank == atoi(argv[1]);
    if (victim) {
        harm_self(&saboteur, argv[2]);
    }
    double begin = now();
    for (int i = 0; i < NFLIGHTS; ++i) {
        flight_post(&suite, &flights[i]);
    }
    for (int i = NFLIGHTS - 1; i >= 0; --i) {
        ends[i] = land(&suite, &flights[i]);
    }
    const double took = now() - begin;
    for (int i = NFLIGHTS; i < NFLIGHTS + NMORE; ++i) {
        flight_post(&suite, &flights[i]);
        ends[i] = land(&suite, &flights[i]);
    }
    if (victim) {
        saboteur.arm("");
    }
    pvars_read(&after);
    if (0 == strcmp(argv[3], "unwritten")) {
        (void) block(&suite, type, op, count, PATH_ANY);
    }
    const bool content = is_expected(argv[3], ends, after.on_host - before.on_host, victim) && 0 == suite.failures;
    printf("rank %d is %s: %s, %.1f s, %llu on the host\n", suite.rank, content ? "content" : "not content", ends, took,
           (unsigned long long) (after.on_host - before.on_host));
    fflush(stdout);
    deadline(0, "");
    if (0 == strcmp(argv[3], "error")) {
        sleep(120);                   /* the others say their word first, and then the script ends all */
        MPI_Abort(MPI_COMM_WORLD, 5); /* mpirun, told to survive deaths, would wait for the dead */
    }
    for (int i = 0; i < NFLIGHTS + NMORE; ++i) {
        flight_free(&flights[i]);
    }
    suite_end(&suite);
    return content ? 0 : 1;
}
