/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Rank 0 returns from a call over all nodes while UCX still holds the end of what it sent, and waits for something that
 * comes only when the others have received that end. So UCX must send it meanwhile. For ranks 2,1,1.
 *
 *   tail_and_pending [--stock] nonblocking|persistent|short COUNT ROUNDS   doubles
 *
 * nonblocking, persistent: rank 0 waits in a call on its node, which rank 1 joins when ranks 2 and 3 have told it that
 * they are done. short: rank 0 has a short call of all nodes pending behind work of its own GPU, which ends when ranks
 * 2 and 3 have told rank 0.
 */
#include "flight.h"

#include <cuda_runtime_api.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SHORT 100 /* doubles */

typedef enum pending { NONBLOCKING, PERSISTENT, SHORT_CALL } pending_t;

typedef struct test {
    suite_t suite;
    pending_t pending;
    MPI_Comm node, across; /* of ranks 0 and 1; of ranks 0, 2 and 3 */
    size_t count;
} test_t;

static _Atomic bool may_end;

/* Keeps the stream busy. */
static void CUDART_CB work(void *unused)
{
    (void) unused;
    while (!atomic_load(&may_end)) {
        sched_yield();
    }
}

static void reduce(test_t *test, MPI_Comm comm, size_t count)
{
    call_t call = {.type = value_type_find("double"),
                   .op = value_op_find("sum"),
                   .count = count,
                   .comm = comm,
                   .path = test->suite.default_path};
    suite_call(&test->suite, &call);
}

static void land(test_t *test, flight_t *flight)
{
    int error = MPI_Wait(&flight->request, MPI_STATUS_IGNORE);
    if (MPI_SUCCESS != error) {
        suite_fail(&test->suite, "MPI_Wait returned %d", error);
    }
    flight_check(&test->suite, flight, "a call that was pending");
}

/* Ranks 2 and 3 are done. */
static void tell(int whom)
{
    MPI_Send(NULL, 0, MPI_BYTE, whom, 0, MPI_COMM_WORLD);
}

static void hear(void)
{
    MPI_Request requests[2];
    for (int i = 0; i < 2; ++i) {
        MPI_Irecv(NULL, 0, MPI_BYTE, 2 + i, 0, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void round_on_node(test_t *test, flight_t *flight)
{
    const int rank = test->suite.rank;
    if (1 != rank) {
        reduce(test, test->across, test->count);
    }
    if (rank > 1) {
        tell(1);
        return;
    }
    if (1 == rank) {
        hear();
    }
    if (NONBLOCKING == test->pending) {
        flight_post(&test->suite, flight);
    } else {
        ++test->suite.calls;
        MPI_Start(&flight->request);
    }
    land(test, flight);
}

static void round_short(test_t *test, flight_t *flight)
{
    const int rank = test->suite.rank;
    if (1 == rank) {
        return;
    }
    reduce(test, test->across, test->count);
    if (0 == rank) {
        atomic_store(&may_end, false);
        CUDA_MUST(cudaLaunchHostFunc(0, work, NULL));
    } else {
        tell(0);
    }
    flight_post(&test->suite, flight);
    if (0 == rank) {
        hear();
        atomic_store(&may_end, true);
    }
    land(test, flight);
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"nonblocking", "persistent", "short"};
    test_t test = {0};
    flight_t flight;

    suite_begin(&test.suite, "tail_and_pending", &argc, &argv);
    for (int i = 0; i < 3; ++i) {
        test.pending = argc > 1 && 0 == strcmp(names[i], argv[1]) ? (pending_t) i : test.pending;
    }
    test.count = argc > 2 ? strtoul(argv[2], NULL, 0) : 1;
    const int rounds = argc > 3 ? atoi(argv[3]) : 1, rank = test.suite.rank;
    const bool on_node = SHORT_CALL != test.pending, in_flight = on_node ? rank < 2 : 1 != rank;
    MPI_Comm_split(MPI_COMM_WORLD, rank < 2 ? 0 : MPI_UNDEFINED, rank, &test.node);
    MPI_Comm_split(MPI_COMM_WORLD, 1 == rank ? MPI_UNDEFINED : 0, rank, &test.across);
    if (rank < 2) {
        reduce(&test, test.node, SHORT);
    }
    MPI_Comm comm = on_node ? test.node : test.across;
    if (in_flight) {
        test.suite.salt = 1;        /* alike on all ranks, which make different calls */
        reduce(&test, comm, SHORT); /* brings calls of this length to the GPUs */
        flight_make(&test.suite, &flight, comm, "double", "sum", SHORT, BUFFER_DEVICE, BUFFER_DEVICE, false);
        if (PERSISTENT == test.pending && !flight_init(&test.suite, &flight)) {
            test.pending = NONBLOCKING;
        }
    }
    for (int i = 0; i < rounds; ++i) {
        test.suite.salt = 10 * (uint64_t) (i + 1);
        if (in_flight) {
            flight_fill(&test.suite, &flight);
        }
        test.suite.salt = 10 * (uint64_t) (i + 1) + 5;
        on_node ? round_on_node(&test, &flight) : round_short(&test, &flight);
    }
    if (in_flight) {
        if (PERSISTENT == test.pending) {
            MPI_Request_free(&flight.request);
        }
        flight_free(&flight);
    }
    if (MPI_COMM_NULL != test.node) {
        MPI_Comm_free(&test.node);
    }
    if (MPI_COMM_NULL != test.across) {
        MPI_Comm_free(&test.across);
    }
    return suite_end(&test.suite);
}
