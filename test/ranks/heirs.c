/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What a duplicate of a communicator inherits: kinds of calls that ran on the GPUs when it was made do so from its
 * first call on, without a probe. Other new communicators inherit nothing, and neither does a duplicate whose ranks
 * have inherited different things, or where a rank passes host memory first: all of them give right results, and probe.
 *
 *   heirs             all of this
 *   heirs threads     first calls of several duplicates at once, in a thread each
 */
#include "calls.h"

#include <pthread.h>

#define SHORT 1000  /* doubles; kinds that MPI_COMM_WORLD has learned */
#define LONG 5000   /* the same */
#define LATE 20000  /* learned later */
#define OTHER 70000 /* not learned */
#define THREADS 4

static uint64_t probes_of(suite_t *suite, MPI_Comm comm, size_t count)
{
    pvars_t before, after;
    call_t call = {.comm = comm,
                   .type = value_type_find("double"),
                   .op = value_op_find("sum"),
                   .count = count,
                   .path = PATH_ACCELERATED};
    pvars_read(&before);
    suite_call(suite, &call);
    pvars_read(&after);
    return after.probes - before.probes;
}

static void expect(suite_t *suite, const char *what, MPI_Comm comm, size_t count, uint64_t probes)
{
    const uint64_t got = probes_of(suite, comm, count);
    if (got != probes) {
        suite_fail(suite, "%s: %llu probes for %zu elements, expected %llu", what, (unsigned long long) got, count,
                   (unsigned long long) probes);
    }
}

/* An heir: no probe for what its parent knew, one for what that did not know. Frees it. */
static void expect_heir(suite_t *suite, const char *what, MPI_Comm *comm_p)
{
    expect(suite, what, *comm_p, SHORT, 0);
    expect(suite, what, *comm_p, LONG, 0);
    expect(suite, what, *comm_p, OTHER, 1);
    MPI_Comm_free(comm_p);
}

static void expect_none(suite_t *suite, const char *what, MPI_Comm *comm_p)
{
    expect(suite, what, *comm_p, SHORT, 1);
    expect(suite, what, *comm_p, LONG, 1);
    MPI_Comm_free(comm_p);
}

static void duplicates(suite_t *suite)
{
    MPI_Comm comm, grandchild;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    expect_heir(suite, "MPI_Comm_dup", &comm);
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, &comm);
    expect_heir(suite, "MPI_Comm_dup_with_info", &comm);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_dup(comm, &grandchild);
    MPI_Comm_free(&comm);
    expect_heir(suite, "a duplicate of a duplicate", &grandchild);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    expect(suite, "a duplicate", comm, SHORT, 0);
    MPI_Comm_dup(comm, &grandchild);
    expect_heir(suite, "a duplicate of a duplicate in use", &grandchild);
    MPI_Comm_free(&comm);
}

/* The parent learns more, and completes calls, while the duplication is pending: what counts is what it knew before. */
static void pending(suite_t *suite)
{
    MPI_Comm parent, comm;
    MPI_Request requests[2];
    buffer_t buffer, late;
    pvars_t before, after;
    MPI_Comm_dup(MPI_COMM_WORLD, &parent);
    expect(suite, "the parent", parent, SHORT, 0);
    buffer_alloc(&buffer, BUFFER_DEVICE, SHORT * sizeof(double), 0);
    buffer_alloc(&late, BUFFER_DEVICE, LATE * sizeof(double), 0);
    pvars_read(&before);
    MPI_Iallreduce(MPI_IN_PLACE, buffer.message, SHORT, MPI_DOUBLE, MPI_SUM, parent, &requests[0]);
    MPI_Comm_idup(parent, &comm, &requests[1]);
    for (int i = 0; i < 2; ++i) {
        MPI_Allreduce(MPI_IN_PLACE, late.message, LATE, MPI_DOUBLE, MPI_SUM, parent);
    }
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    pvars_read(&after);
    suite->calls += 3;
    if (3 != after.accelerated - before.accelerated || 1 != after.probes - before.probes) {
        suite_fail(suite, "the parent: %llu calls accelerated, %llu probes",
                   (unsigned long long) (after.accelerated - before.accelerated),
                   (unsigned long long) (after.probes - before.probes));
    }
    expect(suite, "MPI_Comm_idup", comm, LATE, 1);
    expect_heir(suite, "MPI_Comm_idup", &comm);
    MPI_Comm_free(&parent);
    buffer_free(&buffer);
    buffer_free(&late);
}

static void others(suite_t *suite)
{
    MPI_Group group;
    MPI_Comm comm;
    MPI_Comm_split(MPI_COMM_WORLD, 0, suite->rank, &comm);
    expect_none(suite, "MPI_Comm_split", &comm);
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    /* Open MPI copies attributes here, too, in some releases: then its members are heirs if they have the same. */
    MPI_Comm_create_group(MPI_COMM_WORLD, group, 5, &comm);
    if (probes_of(suite, comm, SHORT) > 1) {
        suite_fail(suite, "MPI_Comm_create_group: more than one probe");
    }
    MPI_Comm_free(&comm);
    MPI_Comm_create(MPI_COMM_WORLD, group, &comm);
    expect_none(suite, "MPI_Comm_create", &comm);
    MPI_Group_free(&group);
}

/* Takes away from one rank what it has inherited: whatever key that has. */
static void disinherit(suite_t *suite, MPI_Comm comm)
{
    int deleted = 0;
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int key = 0; key < 1000; ++key) {
        deleted += MPI_SUCCESS == MPI_Comm_delete_attr(comm, key);
    }
    if (0 == deleted) {
        suite_fail(suite, "a duplicate has no attribute");
    }
}

static void differing(suite_t *suite)
{
    for (int rank = 0; rank < suite->nranks; ++rank) {
        MPI_Comm comm;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        if (rank == suite->rank) {
            disinherit(suite, comm);
        }
        expect_none(suite, "ranks that differ", &comm);
    }
}

/* Host memory on one rank in the first call. */
static void host_first(suite_t *suite)
{
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    call_t call = {.comm = comm,
                   .type = value_type_find("double"),
                   .op = value_op_find("sum"),
                   .count = SHORT,
                   .send_kind = suite->nranks - 1 == suite->rank ? BUFFER_HOST : BUFFER_DEVICE,
                   .path = PATH_SAVED};
    suite_call(suite, &call);
    expect_none(suite, "host memory first", &comm);
}

/* A program that calls nothing but MPI_Iallreduce and MPI_Barrier. */
static void nonblocking(suite_t *suite)
{
    MPI_Comm comm;
    MPI_Request request;
    buffer_t buffer;
    pvars_t before, after;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    buffer_alloc(&buffer, BUFFER_DEVICE, SHORT * sizeof(double), 0);
    pvars_read(&before);
    for (int i = 0; i < 2; ++i) {
        MPI_Iallreduce(MPI_IN_PLACE, buffer.message, SHORT, MPI_DOUBLE, MPI_SUM, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Barrier(comm);
    }
    pvars_read(&after);
    suite->calls += 2;
    if (1 != after.nonblocking - before.nonblocking || after.probes != before.probes) {
        suite_fail(suite, "%llu of 2 nonblocking calls accelerated, and %llu probes",
                   (unsigned long long) (after.nonblocking - before.nonblocking),
                   (unsigned long long) (after.probes - before.probes));
    }
    buffer_free(&buffer);
    MPI_Comm_free(&comm);
}

typedef struct work {
    MPI_Comm comm;
    buffer_t send, recv;
    int failed;
} work_t;

static void *first_calls(void *argument)
{
    work_t *work = argument;
    const int counts[] = {SHORT, LONG};
    for (int i = 0; i < 2; ++i) {
        work->failed |=
            MPI_SUCCESS
            != MPI_Allreduce(work->send.message, work->recv.message, counts[i], MPI_DOUBLE, MPI_SUM, work->comm);
    }
    return NULL;
}

static void threads(suite_t *suite)
{
    static double host[LONG];
    work_t works[THREADS];
    pthread_t ids[THREADS];
    pvars_t before, after;
    for (int t = 0; t < THREADS; ++t) {
        works[t].failed = 0;
        MPI_Comm_dup(MPI_COMM_WORLD, &works[t].comm);
        buffer_alloc(&works[t].send, BUFFER_DEVICE, sizeof(host), 0);
        buffer_alloc(&works[t].recv, BUFFER_DEVICE, sizeof(host), 0);
        for (int i = 0; i < LONG; ++i) {
            host[i] = suite->rank + t + i;
        }
        buffer_write(&works[t].send, host, sizeof(host));
    }
    pvars_read(&before);
    for (int t = 0; t < THREADS; ++t) {
        pthread_create(&ids[t], NULL, first_calls, &works[t]);
    }
    const double ranks = suite->nranks;
    for (int t = 0; t < THREADS; ++t) {
        pthread_join(ids[t], NULL);
        buffer_read(&works[t].recv, host, sizeof(host));
        for (int i = 0; i < LONG; ++i) {
            if (works[t].failed || host[i] != ranks * (ranks - 1) / 2 + ranks * (t + i)) {
                suite_fail(suite, "thread %d, element %d: %g", t, i, host[i]);
                break;
            }
        }
        suite->calls += 2;
        buffer_free(&works[t].send);
        buffer_free(&works[t].recv);
        MPI_Comm_free(&works[t].comm);
    }
    pvars_read(&after);
    if (2 * THREADS != after.accelerated - before.accelerated || after.probes != before.probes) {
        suite_fail(suite, "%llu of %d calls accelerated, and %llu probes",
                   (unsigned long long) (after.accelerated - before.accelerated), 2 * THREADS,
                   (unsigned long long) (after.probes - before.probes));
    }
}

int main(int argc, char **argv)
{
    suite_t suite;
    int provided = MPI_THREAD_SINGLE;
    MPI_Init_thread(&argc, &argv, argc > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    suite_begin(&suite, "heirs", &argc, &argv);
    expect(&suite, "MPI_COMM_WORLD", MPI_COMM_WORLD, SHORT, 1);
    expect(&suite, "MPI_COMM_WORLD", MPI_COMM_WORLD, LONG, 1);
    if (argc > 1) {
        threads(&suite);
        return suite_end(&suite);
    }
    duplicates(&suite);
    pending(&suite);
    others(&suite);
    differing(&suite);
    host_first(&suite);
    nonblocking(&suite);
    return suite_end(&suite);
}
