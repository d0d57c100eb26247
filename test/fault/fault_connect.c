/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * UCX connects to another node over TCP in the set-up of a communicator, and a connect() that waits may wait for
 * minutes. Calls that another thread makes on a communicator of the node do not wait with it: here such a connect()
 * returns when they are over, and not before. Two nodes with two ranks each. This program's connect() stands before the
 * C library's.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fault_lib.h"

#define COUNT 20000
#define CALLS 50

static atomic_bool holds; /* a connect() that waits is held until this is false */
static atomic_int connects;

typedef int (*connect_fn_t)(int, const struct sockaddr *, socklen_t);

int connect(int file, const struct sockaddr *address, socklen_t bytes)
{
    static _Atomic(connect_fn_t) real;
    connect_fn_t function = atomic_load(&real);
    Dl_info info;
    if (NULL == function) {
        void *place = dlsym(RTLD_NEXT, "connect");
        memcpy(&function, &place, sizeof(function));
        atomic_store(&real, function);
    }
    if (0 != dladdr(__builtin_return_address(0), &info) && NULL != info.dli_fname
        && NULL != strstr(info.dli_fname, "libuc")) {
        atomic_fetch_add(&connects, 1);
        while (0 == (fcntl(file, F_GETFL) & O_NONBLOCK) && atomic_load(&holds)) {
            usleep(1000);
        }
    }
    return function(file, address, bytes);
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

int main(int argc, char **argv)
{
    suite_t suite;
    MPI_Comm node;
    pair_t pair;
    pthread_t thread;
    int provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    suite_begin(&suite, "fault_connect", &argc, &argv);
    if (MPI_THREAD_MULTIPLE != provided) {
        printf("this Open MPI has no MPI_THREAD_MULTIPLE\n");
        MPI_Finalize();
        return 77;
    }
    work_t all = {.suite = &suite};
    MPI_Comm_dup(MPI_COMM_WORLD, &all.comm);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, suite.rank, MPI_INFO_NULL, &node);
    pair_alloc(&pair, COUNT);
    deadline(60, "in a call of the node, or in the first of all nodes");
    for (int i = 0; i < 3; ++i) {
        (void) pair_call(&suite, node, &pair, COUNT, ++suite.salt);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    atomic_store(&holds, true);
    pthread_create(&thread, NULL, first_call, &all);
    while (0 == atomic_load(&connects)) {
        usleep(1000);
    }
    for (int i = 0; i < CALLS; ++i) {
        const outcome_t outcome = pair_call(&suite, node, &pair, COUNT, ++suite.salt);
        if (OUTCOME_RIGHT != outcome) {
            suite_fail(&suite, "a call beside the first of all nodes ended with %c", outcome_letter(outcome));
        }
        ++suite.calls;
    }
    MPI_Barrier(node);
    atomic_store(&holds, false);
    pthread_join(thread, NULL);
    if (OUTCOME_RIGHT != all.outcome) {
        suite_fail(&suite, "the first call of all nodes ended with %c", outcome_letter(all.outcome));
    }
    deadline(0, "");
    ++suite.calls;
    MPI_Comm_free(&node);
    MPI_Comm_free(&all.comm);
    pair_free(&pair);
    return suite_end(&suite);
}
