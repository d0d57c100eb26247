/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_THREAD_MULTIPLE: several threads, each with a communicator of its own, sum device buffers, blocking and
 * nonblocking, while one thread sends messages around and one uses collectives on host memory. Communicators are
 * set up and used in all of them at once. They are made before, one after the other: when the threads duplicated
 * them at once, this program on host memory and without gpuhier crashed, hung or got a wrong sum in 8 of 414 runs on
 * Open MPI 4.1.4. There they are freed at the end, too: when the threads freed them, 3 of 160 such runs crashed, with a
 * communicator gone that was in use, and since then none of 160.
 *
 *   threads [--stock] [calls of each thread]
 */
#include "calls.h"

#include <math.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SUMMERS 3  /* threads that sum device buffers */
#define COUNT 3000 /* doubles at most */
#define RENEW 20   /* calls between two communicators */
#define THREADS_FREE (OMPI_MAJOR_VERSION >= 5)

/* One thread: what it is given, and how often something was wrong. */
typedef struct work {
    const suite_t *suite;
    int index;
    int ncalls;
    MPI_Comm parent;
    MPI_Comm *comms; /* RENEW calls each */
    unsigned long wrong, calls;
    unsigned long accelerated; /* of the calls, those that must be */
} work_t;

static void complain(work_t *work, const char *what, int call)
{
    if (0 == work->wrong++) {
        fprintf(stderr, "threads: rank %d: thread %d: %s, call %d\n", work->suite->rank, work->index, what, call);
    }
}

/* The sum, which lies in the buffer, once more: that is nranks times as much. Another thread may complete the request.
 */
static void sum_again(work_t *work, MPI_Comm comm, buffer_t *buffer, size_t count, double *host, int call)
{
    MPI_Request request;
    int done = 0;
    double once = host[count - 1] * work->suite->nranks;

    if (MPI_SUCCESS
        != MPI_Iallreduce(MPI_IN_PLACE, buffer->message, (int) count, MPI_DOUBLE, MPI_SUM, comm, &request)) {
        complain(work, "MPI_Iallreduce failed", call);
        return;
    }
    while (!done && MPI_SUCCESS == MPI_Test(&request, &done, MPI_STATUS_IGNORE)) {
        sched_yield();
    }
    buffer_read(buffer, host, count * sizeof(*host));
    if (!done || fabs(host[count - 1] - once) > 1e-12 * fabs(once)) {
        complain(work, "wrong nonblocking sum", call);
    }
    work->accelerated += count * sizeof(*host) > 64; /* shorter ones are Open MPI's */
}

static void sum_once(work_t *work, MPI_Comm comm, buffer_t *send, buffer_t *recv, int call)
{
    value_case_t c = {.type = value_type_find("double"),
                      .op = value_op_find("sum"),
                      .nranks = work->suite->nranks,
                      .salt = (uint64_t) (work->index * 100000 + call)};
    size_t count = 1 + (size_t) (call * 37 % COUNT), first_wrong;
    double *host = malloc(count * sizeof(*host));

    if (NULL == host) {
        exit(3);
    }
    value_fill(&c, work->suite->rank, 0, count, host);
    buffer_write(send, host, count * sizeof(*host));
    if (MPI_SUCCESS != MPI_Allreduce(send->message, recv->message, (int) count, MPI_DOUBLE, MPI_SUM, comm)) {
        complain(work, "MPI_Allreduce failed", call);
    }
    buffer_read(recv, host, count * sizeof(*host));
    if (0 != value_check(&c, 0, count, host, &first_wrong)) {
        complain(work, "wrong sum", call);
    }
    ++work->accelerated;
    if (0 != call % 2) {
        sum_again(work, comm, recv, count, host, call);
    }
    free(host);
}

static void *sum(void *arg)
{
    work_t *work = arg;
    buffer_t send, recv;

    suite_choose_gpu(); /* a thread's own choice */
    buffer_alloc(&send, BUFFER_DEVICE, COUNT * sizeof(double), 0);
    buffer_alloc(&recv, BUFFER_DEVICE, COUNT * sizeof(double), 0);
    for (int call = 0; call < work->ncalls; ++call) {
        MPI_Comm *comm = &work->comms[call / RENEW];
        sum_once(work, *comm, &send, &recv, call);
        ++work->calls;
        if (THREADS_FREE && (RENEW - 1 == call % RENEW || work->ncalls - 1 == call)) {
            MPI_Comm_free(comm);
        }
    }
    buffer_free(&send);
    buffer_free(&recv);
    return NULL;
}

static void *send_around(void *arg)
{
    work_t *work = arg;
    const int rank = work->suite->rank, nranks = work->suite->nranks;
    const int next = (rank + 1) % nranks, previous = (rank + nranks - 1) % nranks;

    for (int call = 0; call < work->ncalls; ++call) {
        int sent = rank + 1000 * call, got = -1;
        MPI_Sendrecv(&sent, 1, MPI_INT, next, call, &got, 1, MPI_INT, previous, call, work->parent, MPI_STATUS_IGNORE);
        if (previous + 1000 * call != got) {
            complain(work, "a wrong message", call);
        }
        ++work->calls;
    }
    return NULL;
}

static void *collect(void *arg)
{
    work_t *work = arg;
    const int rank = work->suite->rank, nranks = work->suite->nranks;

    for (int call = 0; call < work->ncalls; ++call) {
        int in[50], out[50], word = rank == call % nranks ? call : -1;
        for (int i = 0; i < 50; ++i) {
            in[i] = rank + call + i;
        }
        MPI_Bcast(&word, 1, MPI_INT, call % nranks, work->parent);
        MPI_Allreduce(in, out, 50, MPI_INT, MPI_SUM, work->parent);
        if (call != word || nranks * (call + 49) + nranks * (nranks - 1) / 2 != out[49]) {
            complain(work, "a wrong result on the host", call);
        }
        ++work->calls;
    }
    return NULL;
}

/* Beside the parent; only threads that sum need any. */
static int comms_of(const work_t *work)
{
    return work->index < SUMMERS ? (work->ncalls + RENEW - 1) / RENEW : 0;
}

static void comms_make(work_t *work)
{
    const int ncomms = comms_of(work);

    work->comms = malloc(sizeof(*work->comms) * (size_t) (ncomms + 1));
    if (NULL == work->comms) {
        exit(3);
    }
    for (int i = 0; i < ncomms; ++i) {
        MPI_Comm_dup(work->parent, &work->comms[i]);
    }
}

static void comms_free(work_t *work)
{
    for (int i = 0; i < comms_of(work); ++i) {
        if (MPI_COMM_NULL != work->comms[i]) {
            MPI_Comm_free(&work->comms[i]);
        }
    }
    MPI_Comm_free(&work->parent);
}

int main(int argc, char **argv)
{
    work_t works[SUMMERS + 2];
    pthread_t threads[SUMMERS + 2];
    suite_t suite;
    pvars_t before, after;
    unsigned long wanted = 0;
    int provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    if (MPI_THREAD_MULTIPLE != provided) {
        printf("this Open MPI has no MPI_THREAD_MULTIPLE\n");
        MPI_Finalize();
        return 77;
    }
    suite_begin(&suite, "threads", &argc, &argv);
    const int ncalls = argc > 1 ? atoi(argv[1]) : suite.full ? 2000 : 200;
    pvars_read(&before);
    for (int i = 0; i < SUMMERS + 2; ++i) {
        works[i] = (work_t){.suite = &suite, .index = i, .ncalls = ncalls};
        MPI_Comm_dup(MPI_COMM_WORLD, &works[i].parent);
        comms_make(&works[i]);
    }
    for (int i = 0; i < SUMMERS + 2; ++i) {
        pthread_create(&threads[i], NULL, i < SUMMERS ? sum : SUMMERS == i ? send_around : collect, &works[i]);
    }
    for (int i = 0; i < SUMMERS + 2; ++i) {
        pthread_join(threads[i], NULL);
        suite.failures += works[i].wrong;
        suite.calls += works[i].calls;
        wanted += works[i].accelerated;
    }
    for (int i = 0; i < SUMMERS + 2; ++i) {
        comms_free(&works[i]);
        free(works[i].comms);
    }
    pvars_read(&after);
    if (PATH_ANY != suite.default_path && after.accelerated - before.accelerated != wanted) {
        suite_fail(&suite, "%llu calls were accelerated, not %lu",
                   (unsigned long long) (after.accelerated - before.accelerated), wanted);
    }
    return suite_end(&suite);
}
