/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Persistent MPI_Allreduce: started again and again, several at once and in another order on each rank, beside
 * blocking and nonblocking calls; inactive requests; host and mixed buffers; a communicator freed meanwhile.
 *
 *   allreduce_persistent [--stock] [short]
 *
 *   short   many short ones in flight at once take no GPU memory to speak of, instead of all that
 */
#include "flight.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

#define NSHORT 100
#define SHORT_BYTES ((size_t) 64 << 20) /* of GPU memory that so many may take: less than scratch for three calls */
#define NREQUESTS 6
#define NSTARTS 1000
#define NREFILLS 10 /* of the starts, those with new values */

static const size_t counts[NREQUESTS] = {1, 9, 1000, 30001, 77, 5000};

static void must(suite_t *suite, int error, const char *what)
{
    if (MPI_SUCCESS != error) {
        suite_fail(suite, "%s returned %d", what, error);
    }
}

static void run_restarts(suite_t *suite)
{
    flight_t flight;
    pvars_t before;
    pvars_read(&before);
    flight_make(suite, &flight, MPI_COMM_WORLD, "float", "sum", 3000, BUFFER_DEVICE, BUFFER_DEVICE, false);
    flight_init(suite, &flight);
    for (int i = 0; i < NSTARTS; ++i) {
        ++suite->calls;
        must(suite, MPI_Start(&flight.request), "MPI_Start");
        must(suite, MPI_Wait(&flight.request, MPI_STATUS_IGNORE), "MPI_Wait");
        if (0 == i % (NSTARTS / NREFILLS)) {
            flight_check(suite, &flight, "a request started again");
            flight_fill(suite, &flight);
        }
    }
    flight_check_path(suite, "a request started again", &before, NSTARTS, NSTARTS);
    must(suite, MPI_Request_free(&flight.request), "MPI_Request_free");
    flight_free(&flight);
}

/* Only making requests is ordered; each rank starts them in an order of its own. */
static void start_in_order(suite_t *suite, flight_t *flights, int turn)
{
    MPI_Request requests[NREQUESTS];
    if (0 == turn % 2) {
        for (int i = 0; i < NREQUESTS; ++i) {
            requests[i] = flights[(i + turn + suite->rank) % NREQUESTS].request;
        }
        must(suite, MPI_Startall(NREQUESTS, requests), "MPI_Startall");
        return;
    }
    for (int i = 0; i < NREQUESTS; ++i) {
        must(suite, MPI_Start(&flights[0 == suite->rank % 2 ? i : NREQUESTS - 1 - i].request), "MPI_Start");
    }
}

static void run_many(suite_t *suite, buffer_kind_t kind, bool mixed, bool accelerated)
{
    flight_t flights[NREQUESTS], other;
    MPI_Comm comm;
    char what[96];
    pvars_t before;
    snprintf(what, sizeof(what), "%s buffers%s", buffer_kind_name(kind), mixed ? ", mixed" : "");
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int i = 0; i < NREQUESTS; ++i) {
        buffer_kind_t mine = mixed && suite->rank % 2 == i % 2 ? BUFFER_HOST : kind;
        flight_make(suite, &flights[i], comm, "double", i % 2 ? "sum" : "min", counts[i], mine, mine, 0 == i % 3);
        flight_init(suite, &flights[i]);
    }
    for (int turn = 0; turn < 4; ++turn) {
        pvars_read(&before);
        start_in_order(suite, flights, turn);
        suite->calls += NREQUESTS;
        flight_make(suite, &other, comm, "double", "sum", 2000, BUFFER_DEVICE, BUFFER_DEVICE, false);
        flight_post(suite, &other);
        call_t call = {.comm = comm, .type = value_type_find("int"), .op = value_op_find("sum"), .count = 500};
        suite_call(suite, &call);
        for (int i = NREQUESTS - 1; i >= 0; --i) {
            must(suite, MPI_Wait(&flights[i].request, MPI_STATUS_IGNORE), "MPI_Wait");
        }
        must(suite, MPI_Wait(&other.request, MPI_STATUS_IGNORE), "MPI_Wait of another call");
        flight_check(suite, &other, "a nonblocking call beside");
        flight_free(&other);
        for (int i = 0; i < NREQUESTS; ++i) {
            flight_check(suite, &flights[i], what);
            flight_fill(suite, &flights[i]);
        }
        /* The blocking call of the first turn has brought the kind of `other` to the GPUs. */
        const uint64_t nonblocking = (accelerated ? NREQUESTS : 0) + (turn > 0 ? 1 : 0);
        flight_check_path(suite, what, &before, nonblocking + 1, nonblocking);
    }
    for (int i = 0; i < NREQUESTS; ++i) {
        must(suite, MPI_Request_free(&flights[i].request), "MPI_Request_free");
        flight_free(&flights[i]);
    }
    MPI_Comm_free(&comm);
}

/* An inactive request is complete; its communicator lives as long as it does. */
static void run_inactive(suite_t *suite)
{
    flight_t flight;
    MPI_Comm comm;
    int done = 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    flight_make(suite, &flight, comm, "int", "max", 3000, BUFFER_DEVICE, BUFFER_DEVICE, true);
    flight_init(suite, &flight);
    MPI_Comm_free(&comm);
    for (int i = 0; i < 2; ++i) {
        must(suite, MPI_Wait(&flight.request, MPI_STATUS_IGNORE), "MPI_Wait of an inactive request");
        must(suite, MPI_Test(&flight.request, &done, MPI_STATUS_IGNORE), "MPI_Test of an inactive request");
        if (!done) {
            suite_fail(suite, "an inactive request is not complete");
        }
        ++suite->calls;
        must(suite, MPI_Start(&flight.request), "MPI_Start");
        for (done = 0; !done;) {
            must(suite, MPI_Test(&flight.request, &done, MPI_STATUS_IGNORE), "MPI_Test");
        }
        flight_check(suite, &flight, "a communicator freed before the start");
        flight_fill(suite, &flight);
    }
    must(suite, MPI_Request_free(&flight.request), "MPI_Request_free");
    flight_free(&flight);
    /* One that is never started. */
    flight_make(suite, &flight, MPI_COMM_WORLD, "int", "max", 3000, BUFFER_DEVICE, BUFFER_DEVICE, false);
    flight_init(suite, &flight);
    must(suite, MPI_Request_free(&flight.request), "MPI_Request_free of a request never started");
    flight_free(&flight);
}

/* Rank 0 starts all of them, and only then lets the others do so: none of its own can end before. */
static void run_short(suite_t *suite)
{
    static flight_t flights[NSHORT];
    MPI_Request requests[NSHORT];
    pvars_t before, after;
    size_t free_before = 0, free_after = 0, all;
    int go = 1;
    for (int i = 0; i < NSHORT; ++i) {
        flight_make(suite, &flights[i], MPI_COMM_WORLD, "double", "sum", 1, BUFFER_DEVICE, BUFFER_DEVICE, 0 == i % 2);
        flight_init(suite, &flights[i]);
        requests[i] = flights[i].request;
    }
    pvars_read(&before);
    if (0 != suite->rank) {
        MPI_Recv(&go, 1, MPI_INT, suite->rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    CUDA_MUST(cudaMemGetInfo(&free_before, &all));
    must(suite, MPI_Startall(NSHORT, requests), "MPI_Startall");
    CUDA_MUST(cudaMemGetInfo(&free_after, &all));
    if (free_before > free_after + SHORT_BYTES) {
        suite_fail(suite, "%d short calls in flight take %zu bytes of GPU memory", NSHORT, free_before - free_after);
    }
    if (suite->rank + 1 < suite->nranks) {
        MPI_Send(&go, 1, MPI_INT, suite->rank + 1, 0, MPI_COMM_WORLD);
    }
    suite->calls += NSHORT;
    must(suite, MPI_Waitall(NSHORT, requests, MPI_STATUSES_IGNORE), "MPI_Waitall");
    for (int i = 0; i < NSHORT; ++i) {
        flight_check(suite, &flights[i], "one of many short calls");
    }
    flight_check_path(suite, "many short calls", &before, NSHORT, NSHORT);
    pvars_read(&after);
    if (PATH_ANY != suite->default_path && NSHORT != after.small - before.small) {
        suite_fail(suite, "%llu of %d calls were reduced by the host",
                   (unsigned long long) (after.small - before.small), NSHORT);
    }
    for (int i = 0; i < NSHORT; ++i) {
        must(suite, MPI_Request_free(&flights[i].request), "MPI_Request_free");
        flight_free(&flights[i]);
    }
}

int main(int argc, char **argv)
{
    suite_t suite;
    flight_t probe;
    suite_begin(&suite, "allreduce_persistent", &argc, &argv);
    flight_make(&suite, &probe, MPI_COMM_WORLD, "int", "sum", 1, BUFFER_HOST, BUFFER_HOST, false);
    if (!flight_init(&suite, &probe)) {
        printf("this Open MPI has no persistent collectives\n");
        return 77;
    }
    MPI_Request_free(&probe.request);
    flight_free(&probe);
    if (0 == strcmp("short", argv[argc - 1])) {
        run_short(&suite);
        return suite_end(&suite);
    }
    run_restarts(&suite);
    run_many(&suite, BUFFER_DEVICE, false, true);
    run_many(&suite, BUFFER_POOL, false, true);
    run_many(&suite, BUFFER_HOST, false, false);
    run_many(&suite, BUFFER_DEVICE, true, false);
    run_inactive(&suite);
    return suite_end(&suite);
}
