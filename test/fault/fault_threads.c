/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Two threads call on two communicators, and a launch fails on each rank, at random on either communicator. No call
 * hangs, and no result is wrong.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>

#include "fault_lib.h"

#define COUNT 60000 /* doubles: several slices of 64 KiB */
#define ROUNDS 15

/* What a thread is given, and what it found. */
typedef struct work {
    const suite_t *suite;
    MPI_Comm comm;
    uint64_t salt;
    int calls;
    outcome_t worst, last;
} work_t;

static void *call(void *arg)
{
    work_t *work = arg;
    pair_t pair;

    suite_choose_gpu(); /* a thread's own choice */
    pair_alloc(&pair, COUNT);
    work->last = pair_call(work->suite, work->comm, &pair, COUNT, ++work->salt);
    work->worst = work->last > work->worst ? work->last : work->worst;
    ++work->calls;
    pair_free(&pair);
    return NULL;
}

static void crossed(suite_t *suite, const saboteur_t *saboteur)
{
    int errors = 0;

    for (int round = 0; round < ROUNDS; ++round) {
        work_t works[2] = {{.suite = suite, .salt = (uint64_t) round << 8},
                           {.suite = suite, .salt = (uint64_t) round << 8}};
        pthread_t threads[2];

        for (int i = 0; i < 2; ++i) {
            MPI_Comm_dup(MPI_COMM_WORLD, &works[i].comm);
            call(&works[i]);
        }
        deadline(40, "in calls of two threads, of which some fail");
        saboteur->arm(0 == round % 2 ? "cuLaunchKernel:5:719" : "cuLaunchKernel:9:719");
        for (int i = 0; i < 2; ++i) {
            pthread_create(&threads[i], NULL, call, &works[i]);
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
    crossed(&suite, &saboteur);
    return suite_end(&suite);
}
