/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory that one rank cannot have: each allocation that the component itself makes for a communicator's set-up and
 * first blocking calls fails once, on the last rank. Every call must end on every rank, with the right result or, on
 * all ranks, with an error; a communicator of which a call ended with an error is of no more use, and others are served
 * as before.
 *
 *   fault_memory            as above
 *   fault_memory request    the memory of a nonblocking call's request: the job ends, with a message
 *   fault_memory module     the memory of a new communicator's module: likewise
 *
 * How: malloc() and calloc() of this program are found before the C library's, and find out which library calls them.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault_lib.h"
#include "flight.h"
#include "pvars.h"

#define CASES_MAX 200
#define CASE_SECONDS 60

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);

static _Atomic long to_fail; /* the component's allocation that fails, from 1; 0: none */
static _Atomic long seen;    /* of its allocations, since */

static bool fails(const void *caller)
{
    Dl_info info;
    return 0 != atomic_load(&to_fail) && 0 != dladdr(caller, &info) && NULL != info.dli_fname
           && NULL != strstr(info.dli_fname, "mca_coll_gpuhier")
           && atomic_fetch_add(&seen, 1) + 1 == atomic_load(&to_fail);
}

__attribute__((visibility("default"))) void *malloc(size_t bytes)
{
    if (fails(__builtin_return_address(0))) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_malloc(bytes);
}

__attribute__((visibility("default"))) void *calloc(size_t count, size_t bytes)
{
    if (fails(__builtin_return_address(0))) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_calloc(count, bytes);
}

static void arm(long number)
{
    atomic_store(&seen, 0);
    atomic_store(&to_fail, number);
}

static const size_t counts[] = {5, 3000, 30000, 5, 30000};
#define NCALLS (sizeof(counts) / sizeof(counts[0]))

/* One communicator, whose allocation of that number fails here. Returns how many there were. */
static long run_case(suite_t *suite, pair_t *pair, long number)
{
    const bool victim = suite->rank == suite->nranks - 1;
    char mine[NCALLS + 1] = "", all[64][NCALLS + 1], what[64];
    MPI_Comm comm;

    snprintf(what, sizeof(what), "allocation %ld", number);
    deadline(CASE_SECONDS, what);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    arm(victim ? number : -1);
    for (size_t i = 0; i < NCALLS; ++i) {
        mine[i] = outcome_letter(pair_call(suite, comm, pair, counts[i], ++suite->salt));
        ++suite->calls;
    }
    const long n = atomic_load(&seen);
    arm(0);
    MPI_Allgather(mine, sizeof(mine), MPI_CHAR, all, sizeof(mine), MPI_CHAR, MPI_COMM_WORLD);
    for (int rank = 0; rank < suite->nranks; ++rank) {
        if (0 != strcmp(mine, all[rank]) || NULL != strchr(mine, 'W')) {
            suite_fail(suite, "%s: %s here, %s on rank %d", what, mine, all[rank], rank);
            break;
        }
    }
    MPI_Comm_free(&comm);
    call_t call = {.comm = MPI_COMM_WORLD,
                   .type = value_type_find("double"),
                   .op = value_op_find("sum"),
                   .count = 3000,
                   .path = PATH_ACCELERATED};
    suite_call(suite, &call);
    return n;
}

/* The last rank posts while it cannot have the component's first allocation; it does not come back from that. */
static void run_request(suite_t *suite)
{
    flight_t flight;
    deadline(CASE_SECONDS, "a request");
    for (int i = 0; i < 2; ++i) {
        call_t call = {.comm = MPI_COMM_WORLD,
                       .type = value_type_find("double"),
                       .op = value_op_find("sum"),
                       .count = 3000,
                       .path = PATH_ACCELERATED};
        suite_call(suite, &call);
    }
    flight_make(suite, &flight, MPI_COMM_WORLD, "double", "sum", 3000, BUFFER_DEVICE, BUFFER_DEVICE, false);
    flight_fill(suite, &flight);
    arm(suite->rank == suite->nranks - 1 ? 1 : -1);
    flight_post(suite, &flight);
    MPI_Wait(&flight.request, MPI_STATUS_IGNORE);
    arm(0);
    printf("fault_memory: rank %d: a call without memory went on\n", suite->rank);
}

/* The same for a new communicator. */
static void run_module(suite_t *suite)
{
    MPI_Comm comm;
    deadline(CASE_SECONDS, "a communicator");
    arm(suite->rank == suite->nranks - 1 ? 1 : -1);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    arm(0);
    while (suite->rank < suite->nranks - 1) {
        pause(); /* until the job ends: mpirun of 4.1.4 may hang if it is aborted while others leave */
    }
    printf("fault_memory: rank %d: a communicator was made without memory\n", suite->rank);
}

int main(int argc, char **argv)
{
    suite_t suite;
    pair_t pair;

    suite_begin(&suite, "fault_memory", &argc, &argv);
    if (argc > 1 && 0 == strcmp(argv[1], "request")) {
        run_request(&suite);
        return suite_end(&suite);
    }
    if (argc > 1 && 0 == strcmp(argv[1], "module")) {
        run_module(&suite);
        return suite_end(&suite);
    }
    if (suite.nranks > 64) {
        return 2;
    }
    pair_alloc(&pair, counts[NCALLS - 1]);
    call_t call = {.comm = MPI_COMM_WORLD,
                   .type = value_type_find("double"),
                   .op = value_op_find("sum"),
                   .count = 3000,
                   .path = PATH_ACCELERATED};
    suite_call(&suite, &call);
    pvars_t before, after;
    pvars_read(&before);
    long ncases = run_case(&suite, &pair, -1); /* nothing fails: counts */
    pvars_read(&after);
    if (NCALLS + 1 != after.accelerated - before.accelerated) {
        suite_fail(&suite, "not all calls without a fault were accelerated");
    }
    MPI_Bcast(&ncases, 1, MPI_LONG, suite.nranks - 1, MPI_COMM_WORLD);
    if (0 == ncases) {
        suite_fail(&suite, "no allocation of the component was seen");
    }
    for (long i = 1; i <= ncases && i <= CASES_MAX; ++i) {
        run_case(&suite, &pair, i);
    }
    if (0 == suite.rank) {
        printf("fault_memory: %ld allocations failed\n", ncases);
    }
    pair_free(&pair);
    return suite_end(&suite);
}
