/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Communicators of every making come and go (dup, split, split_type, create, create_group), each with a
 * sum of device buffers or, every third, without: descriptors, mappings, files in /dev/shm, GPU memory,
 * memory opened from others and GPU events must not grow at all; private memory hardly. The time that
 * one takes is printed, for test/bench/suite.sh. The second half is compared with the end of the first; when private
 * memory grew, which it does when messages pile up for the first time, further halves follow: a leak grows in each.
 *
 *   fault_leaks [communicators]     (default 3000; 10000 in the whole matrix)
 *   fault_leaks N requests          N persistent requests instead, each made, started and freed, and N nonblocking
 *                                   calls
 *   fault_leaks N failing COUNT     N dups instead, each with a sum of COUNT doubles that the last rank comes to when
 *                                   it has failed on the others (coll_gpuhier_timeout), so that messages and lanes
 *                                   are left over
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fault_lib.h"
#include "flight.h"
#include "resources.h"

#define GROWTH_KIB 512 /* private memory in all that malloc and Open MPI may keep */
#if OMPI_MAJOR_VERSION >= 5
#    define GROWTH_KIB_EACH 1.0 /* Open MPI 5.0.7 over tcp keeps 0.7 KiB of each communicator by itself */
#else
#    define GROWTH_KIB_EACH 0.0
#endif
#define HALVES 4

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double) time.tv_sec + 1e-9 * (double) time.tv_nsec;
}

static MPI_Group everybody;

/* Number i: all ranks of the world, in its order or the reverse, made in one of the ways there are. */
static void make(const suite_t *suite, int i, MPI_Comm *comm_p)
{
    switch (i % 5) {
    case 0:
        MPI_Comm_dup(MPI_COMM_WORLD, comm_p);
        break;
    case 1:
        MPI_Comm_split(MPI_COMM_WORLD, 0, -suite->rank, comm_p);
        break;
    case 2:
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, suite->rank, MPI_INFO_NULL, comm_p);
        break;
    case 3:
        MPI_Comm_create(MPI_COMM_WORLD, everybody, comm_p);
        break;
    default:
        MPI_Comm_create_group(MPI_COMM_WORLD, everybody, i % 1000, comm_p);
        break;
    }
}

/* The same with requests. */
static uint64_t use_requests(suite_t *suite, flight_t *flight, int first, int end)
{
    for (int i = first; i < end; ++i) {
        flight_fill(suite, flight);
        flight_init(suite, flight);
        MPI_Start(&flight->request);
        MPI_Wait(&flight->request, MPI_STATUS_IGNORE);
        flight_check(suite, flight, "a persistent request");
        MPI_Request_free(&flight->request);
        flight_post(suite, flight);
        MPI_Wait(&flight->request, MPI_STATUS_IGNORE);
    }
    return 2 * (uint64_t) (end - first);
}

#define SETTLING 200 /* barriers, in which messages of calls that have failed are brought to their end */

/* Dups on which a call fails, each after calls that are right. */
static uint64_t use_failing(suite_t *suite, pair_t *pair, int rounds)
{
    const bool late = suite->nranks - 1 == suite->rank;
    for (int i = 0; i < rounds; ++i) {
        MPI_Comm comm;
        outcome_t outcome;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        deadline(60, "in a call that fails");
        for (int call = 0; call < 2; ++call) {
            if (OUTCOME_RIGHT != pair_call(suite, comm, pair, pair->most, ++suite->salt)) {
                suite_fail(suite, "round %d: a call failed that all ranks made", i);
            }
        }
        if (late) {
            MPI_Barrier(MPI_COMM_WORLD);
        }
        outcome = pair_call(suite, comm, pair, pair->most, ++suite->salt);
        if (OUTCOME_ERROR != outcome && !(late && OUTCOME_RIGHT == outcome)) {
            suite_fail(suite, "round %d: the call that the last rank stayed away from ended with %c", i,
                       outcome_letter(outcome));
        }
        suite->calls += 3;
        for (int barrier = late; barrier < SETTLING; ++barrier) {
            MPI_Barrier(MPI_COMM_WORLD);
        }
        MPI_Comm_free(&comm);
        for (int barrier = 0; barrier < SETTLING; ++barrier) {
            MPI_Barrier(MPI_COMM_WORLD);
        }
        deadline(0, "");
    }
    return 0;
}

/* Makes, uses and frees communicators first .. end - 1; times[i] gets the time of number i. Returns how many could be
 * accelerated. */
static uint64_t use(suite_t *suite, pair_t *pair, int first, int end, double *times)
{
    uint64_t could = 0;
    for (int i = first; i < end; ++i) {
        double begin = now();
        MPI_Comm comm;
        int size;
        make(suite, i, &comm);
        MPI_Comm_size(comm, &size);
        if (0 != i % 3) {
            could += size > 1;
            if (OUTCOME_RIGHT != pair_call(suite, comm, pair, 1000, ++suite->salt)) {
                suite_fail(suite, "communicator %d: a call failed", i);
            }
            ++suite->calls;
        }
        MPI_Comm_free(&comm);
        times[i] = now() - begin;
    }
    return could;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

/* Seconds that a dup takes when the machine lets it, the fastest tenth of those first .. end - 1; with a call or
 * without. */
static double usual(const double *times, int first, int end, bool call)
{
    double *of_kind = malloc(sizeof(*of_kind) * (size_t) (end - first + 1));
    int count = 0;
    for (int i = first; NULL != of_kind && i < end; ++i) {
        if (0 == i % 5 && call == (0 != i % 3)) {
            of_kind[count++] = times[i];
        }
    }
    if (0 == count) {
        free(of_kind);
        return 0;
    }
    qsort(of_kind, (size_t) count, sizeof(*of_kind), by_value);
    double found = of_kind[count / 10];
    free(of_kind);
    return found;
}

static long private_most(int ncomms)
{
    return GROWTH_KIB + (long) (GROWTH_KIB_EACH * ncomms);
}

/* Is it so on any rank? The same answer on all; no all-reduce, since those are what is tested. */
static bool on_any(bool mine)
{
    int one = mine, any = 0;
    MPI_Reduce(&one, &any, 1, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Bcast(&any, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return 0 != any;
}

/* Seconds of a dup and its end, in the second part of the first half and in that of the last; [1] with a call. */
typedef struct usual_times {
    double early[2], late[2];
} usual_times_t;

static usual_times_t usual_times(const double *times, int half, int all)
{
    usual_times_t found;
    for (int call = 0; call < 2; ++call) {
        found.early[call] = usual(times, half / 2, half, 0 != call);
        found.late[call] = usual(times, all - half / 2, all, 0 != call);
    }
    return found;
}

static void compare(suite_t *suite, const long before[RESOURCES], const long after[RESOURCES], int ncomms,
                    const char *what)
{
    for (int kind = 0; kind < RESOURCES; ++kind) {
        long grown = after[kind] - before[kind];
        if (grown > (RESOURCE_PRIVATE_KIB == kind ? private_most(ncomms) : 0)) {
            suite_fail(suite, "%d %s left %ld %s", ncomms, what, grown, resource_names[kind]);
        }
    }
    if (0 == suite->rank) {
        printf("fault_leaks: %ld KiB more after %d %s\n", after[RESOURCE_PRIVATE_KIB] - before[RESOURCE_PRIVATE_KIB],
               ncomms, what);
    }
}

static void print_times(const suite_t *suite, const usual_times_t *t)
{
    if (0 == suite->rank) {
        printf("fault_leaks: a dup with a call, and its end: %.0f us early, %.0f us late; "
               "without a call %.0f us and %.0f us\n",
               t->early[1] * 1e6, t->late[1] * 1e6, t->early[0] * 1e6, t->late[0] * 1e6);
    }
}

int main(int argc, char **argv)
{
    suite_t suite;
    pair_t pair;
    long before[RESOURCES], after[RESOURCES];
    pvars_t begin, end;

    suite_begin(&suite, "fault_leaks", &argc, &argv);
    const int all = argc > 1 ? atoi(argv[1]) : suite.full ? 10000 : 3000, half = all / 2;
    double *times = malloc(sizeof(*times) * (size_t) (HALVES * half + 2));
    MPI_Comm_group(MPI_COMM_WORLD, &everybody);
    const bool failing = argc > 3 && 0 == strcmp(argv[2], "failing"), requests = argc > 2 && !failing;
    pair_alloc(&pair, failing ? (size_t) atol(argv[3]) : 1000);
    flight_t flight;
    flight_make(&suite, &flight, MPI_COMM_WORLD, "double", "sum", 1000, BUFFER_DEVICE, BUFFER_DEVICE, false);
    pair_call(&suite, MPI_COMM_WORLD, &pair, pair.most, ++suite.salt); /* nonblocking calls follow the blocking ones */
    pvars_read(&begin);
    uint64_t could = failing    ? use_failing(&suite, &pair, half)
                     : requests ? use_requests(&suite, &flight, 0, half)
                                : use(&suite, &pair, 0, half, times);
    int done = 1;
    bool more;
    do {
        const int from = done * half, to = from + half;
        MPI_Barrier(MPI_COMM_WORLD);
        resources_read(before);
        MPI_Barrier(MPI_COMM_WORLD);
        could += failing    ? use_failing(&suite, &pair, half)
                 : requests ? use_requests(&suite, &flight, from, to)
                            : use(&suite, &pair, from, to, times);
        MPI_Barrier(MPI_COMM_WORLD);
        resources_read(after);
        /* What other work on the machine did to one half is gone in another; and a second lane may be made late, while
         * the first is kept. */
        more = on_any(after[RESOURCE_PRIVATE_KIB] - before[RESOURCE_PRIVATE_KIB] > private_most(half)
                      || (failing && after[RESOURCE_GPU_BYTES] > before[RESOURCE_GPU_BYTES]));
    } while (++done < HALVES && more);
    pvars_read(&end);
    compare(&suite, before, after, half, failing ? "calls that failed" : requests ? "requests" : "communicators");
    if (!failing && PATH_ANY != suite.default_path && end.accelerated - begin.accelerated != could) {
        suite_fail(&suite, "%llu calls ran on the GPUs, not %llu",
                   (unsigned long long) (end.accelerated - begin.accelerated), (unsigned long long) could);
    }
    if (!requests && !failing) {
        const usual_times_t usual = usual_times(times, half, done * half);
        print_times(&suite, &usual);
    }
    flight_free(&flight);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Group_free(&everybody);
    pair_free(&pair);
    free(times);
    return suite_end(&suite);
}
