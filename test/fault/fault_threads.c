/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A call that fails on one communicator, while another thread works on another one.
 *
 *   fault_threads stopped   rank 1 stops itself in the middle of a call of all, for longer than
 *                           coll_gpuhier_timeout allows, and the others' calls fail; nobody may write
 *                           into their buffers any more, so they wait for rank 1 to come to rest.
 *                           Calls that ranks 0 and 2 make meanwhile in another thread are not held up.
 *   fault_threads crossed   two threads, two communicators: a launch fails on each rank, at random on either
 *                           communicator. Nobody hangs, and no result is wrong.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fault_lib.h"

#define COUNT 60000     /* doubles: several slices of 64 KiB */
#define SMALL 1000
#define STOPPED_SECONDS 8 /* longer than coll_gpuhier_timeout, which is 3 */
#define GIVEN_UP 4.5      /* seconds after which the others have given up the call, and wait for rank 1 to come to rest */
#define FEW 4             /* calls; one that is held up meanwhile ends with the call that failed, and no other is made */
#define ROUNDS 15

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double) time.tv_sec + 1e-9 * (double) time.tv_nsec;
}

/* What a thread is given, and what it found. */
typedef struct work {
    const suite_t *suite;
    MPI_Comm comm;
    const atomic_bool *until; /* it goes on until its first rank sees this; NULL: one call */
    size_t count;
    uint64_t salt;
    int calls;
    int late; /* of the calls: those that began after GIVEN_UP */
    outcome_t worst, last;
} work_t;

static void *calls(void *arg)
{
    work_t *work = arg;
    pair_t pair;
    const double begin = now();
    int go_on = 1;

    suite_choose_gpu(); /* a thread's own choice */
    pair_alloc(&pair, work->count);
    do {
        work->late += now() - begin > GIVEN_UP;
        work->last = pair_call(work->suite, work->comm, &pair, work->count, ++work->salt);
        work->worst = work->last > work->worst ? work->last : work->worst;
        ++work->calls;
        if (NULL != work->until) {
            usleep(2000);
            go_on = !atomic_load(work->until);
            MPI_Bcast(&go_on, 1, MPI_INT, 0, work->comm);
        }
    } while (NULL != work->until && go_on);
    pair_free(&pair);
    return NULL;
}

static void stopped(suite_t *suite, const saboteur_t *saboteur)
{
    work_t all = {.suite = suite, .comm = MPI_COMM_WORLD, .count = COUNT};
    atomic_bool ended = false;
    work_t others = {.suite = suite, .count = SMALL, .until = &ended};
    pthread_t thread;
    char plan[64];

    MPI_Comm_split(MPI_COMM_WORLD, 1 == suite->rank, suite->rank, &others.comm);
    calls(&all);
    if (OUTCOME_RIGHT != all.worst) {
        suite_fail(suite, "a call before any harm failed");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    deadline(40, "while rank 1 was stopped");
    if (1 == suite->rank) {
        snprintf(plan, sizeof(plan), "cuLaunchKernel:2:stop=%d", STOPPED_SECONDS);
        saboteur->arm(plan);
    } else {
        pthread_create(&thread, NULL, calls, &others);
    }
    calls(&all);
    atomic_store(&ended, true);
    if (OUTCOME_ERROR != all.last) {
        suite_fail(suite, "the call that rank 1 took too long for ended with %c", outcome_letter(all.last));
    }
    if (1 != suite->rank) {
        pthread_join(thread, NULL);
        printf("fault_threads: rank %d: %d calls of the other thread, %d of them late\n", suite->rank, others.calls, others.late);
        if (OUTCOME_RIGHT != others.worst || others.late <= FEW) {
            suite_fail(suite, "another thread's calls: worst %c, %d while one waited", outcome_letter(others.worst), others.late);
        }
    }
    suite->calls += (unsigned long) (all.calls + others.calls);
    MPI_Comm_free(&others.comm);
}

static void crossed(suite_t *suite, const saboteur_t *saboteur)
{
    int errors = 0;

    for (int round = 0; round < ROUNDS; ++round) {
        work_t works[2] = {{.suite = suite, .count = COUNT, .salt = (uint64_t) round << 8},
                           {.suite = suite, .count = COUNT, .salt = (uint64_t) round << 8}};
        pthread_t threads[2];

        for (int i = 0; i < 2; ++i) {
            MPI_Comm_dup(MPI_COMM_WORLD, &works[i].comm);
            calls(&works[i]);
        }
        deadline(40, "in calls of two threads, of which some fail");
        saboteur->arm(0 == round % 2 ? "cuLaunchKernel:5:719" : "cuLaunchKernel:9:719");
        for (int i = 0; i < 2; ++i) {
            pthread_create(&threads[i], NULL, calls, &works[i]);
        }
        for (int i = 0; i < 2; ++i) {
            pthread_join(threads[i], NULL);
            errors += OUTCOME_ERROR == works[i].last;
            if (OUTCOME_WRONG == works[i].worst) {
                suite_fail(suite, "round %d: a wrong result", round);
            }
        }
        saboteur->arm("");
        deadline(0, "");
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < 2; ++i) {
            MPI_Comm_free(&works[i].comm);
            suite->calls += (unsigned long) works[i].calls;
        }
    }
    printf("fault_threads: rank %d: %d errors in %d calls\n", suite->rank, errors, 2 * ROUNDS);
    if (errors < ROUNDS) {
        suite_fail(suite, "the saboteur struck too rarely: %d errors", errors);
    }
}

int main(int argc, char **argv)
{
    suite_t suite;
    saboteur_t saboteur;
    int provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    suite_begin(&suite, "fault_threads", &argc, &argv);
    if (MPI_THREAD_MULTIPLE != provided) {
        printf("this Open MPI has no MPI_THREAD_MULTIPLE\n");
        MPI_Finalize();
        return 77;
    }
    saboteur_find(&saboteur);
    if (argc == 2 && 0 == strcmp(argv[1], "stopped")) {
        stopped(&suite, &saboteur);
    } else {
        crossed(&suite, &saboteur);
    }
    return suite_end(&suite);
}
