/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What a process has published may be long in coming: in a communicator's first call, a rank waits for what a neighbour
 * has said of itself. Another thread's calls on another communicator do not wait with it: here the answer comes when
 * they are over, and not before. Three ranks. This program's PMIx_Get() stands before that of PMIx.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault_lib.h"

#define COUNT 20000
#define CALLS 50

static atomic_bool holds; /* an answer about gpuhier is held back until this is false */
static atomic_int held_back;

typedef int (*get_fn_t)(const void *, const char *, const void *, size_t, void **);

int PMIx_Get(const void *process, const char *key, const void *info, size_t ninfo, void **value_p);
int PMIx_Get(const void *process, const char *key, const void *info, size_t ninfo, void **value_p)
{
    static _Atomic(get_fn_t) real;
    get_fn_t get = atomic_load(&real);
    if (NULL == get) {
        void *place = dlsym(RTLD_NEXT, "PMIx_Get");
        memcpy(&get, &place, sizeof(get));
        if (NULL == get) {
            fprintf(stderr, "fault_lookup: there is no PMIx_Get()\n");
            abort();
        }
        atomic_store(&real, get);
    }
    const bool is_ours = NULL != key && NULL != strstr(key, "gpuhier") && atomic_load(&holds);
    atomic_fetch_add(&held_back, is_ours);
    while (is_ours && atomic_load(&holds)) {
        usleep(1000);
    }
    return get(process, key, info, ninfo, value_p);
}

typedef struct work {
    const suite_t *suite;
    MPI_Comm comm;
    outcome_t outcome;
} work_t;

static void *first_call(void *arg)
{
    work_t *work = arg;
    pair_t pair;
    suite_choose_gpu(); /* a thread's own choice */
    pair_alloc(&pair, COUNT);
    work->outcome = pair_call(work->suite, work->comm, &pair, COUNT, 7);
    pair_free(&pair);
    return NULL;
}

/* A communicator of ranks 0 and 1, made without them asking for rank 2, as MPI_Comm_split would: it gathers. */
static void two_of(MPI_Comm *two_p, int rank)
{
    MPI_Group all, two;
    int ranks[2] = {0, 1};

    *two_p = MPI_COMM_NULL;
    if (rank < 2) {
        MPI_Comm_group(MPI_COMM_WORLD, &all);
        MPI_Group_incl(all, 2, ranks, &two);
        MPI_Comm_create_group(MPI_COMM_WORLD, two, 0, two_p);
        MPI_Group_free(&two);
        MPI_Group_free(&all);
    }
}

int main(int argc, char **argv)
{
    suite_t suite;
    MPI_Comm two;
    pair_t pair;
    pthread_t thread;
    int provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    suite_begin(&suite, "fault_lookup", &argc, &argv);
    if (3 != suite.nranks || MPI_THREAD_MULTIPLE != provided) {
        fprintf(stderr, "fault_lookup: three ranks, MPI_THREAD_MULTIPLE\n");
        _exit(2);
    }
    work_t all = {.suite = &suite};
    MPI_Comm_dup(MPI_COMM_WORLD, &all.comm);
    two_of(&two, suite.rank);
    pair_alloc(&pair, COUNT);
    deadline(60, "in a call of two ranks, or the first of all three");
    for (int i = 0; 2 != suite.rank && i < 3; ++i) {
        (void) pair_call(&suite, two, &pair, COUNT, ++suite.salt);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    atomic_store(&holds, 0 == suite.rank); /* rank 0 does not know rank 2 yet, which is a child of it in the tree */
    pthread_create(&thread, NULL, first_call, &all);
    while (0 == suite.rank && 0 == atomic_load(&held_back)) {
        usleep(1000);
    }
    for (int i = 0; 2 != suite.rank && i < CALLS; ++i) {
        const outcome_t outcome = pair_call(&suite, two, &pair, COUNT, ++suite.salt);
        if (OUTCOME_RIGHT != outcome) {
            suite_fail(&suite, "a call beside the first of all three ended with %c", outcome_letter(outcome));
        }
        ++suite.calls;
    }
    atomic_store(&holds, false);
    pthread_join(thread, NULL);
    if (OUTCOME_RIGHT != all.outcome) {
        suite_fail(&suite, "the first call of all three ended with %c", outcome_letter(all.outcome));
    }
    deadline(0, "");
    ++suite.calls;
    if (MPI_COMM_NULL != two) {
        MPI_Comm_free(&two);
    }
    MPI_Comm_free(&all.comm);
    pair_free(&pair);
    return suite_end(&suite);
}
