/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A profiling tool must see exactly the calls that the program makes: the component's own work goes by Open MPI's
 * internal functions, or by PMPI_ ones. All paths are walked with a tool linked in (pmpi_tool.h): set-up,
 * blocking calls short and long, nonblocking and persistent ones, staged ones, one that fails, and MPI_Finalize.
 *
 *   fault_tool      (with libsaboteur.so preloaded, for the call that fails)
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#include "fault_lib.h"
#include "flight.h"
#include "pmpi_tool.h"

/* Makes a call that the tool is to see. */
#define OWN(call) (pmpi_tool_expect(#call), call)

static const size_t counts[] = {5, 3000, 30000};
#define NCOUNTS (sizeof(counts) / sizeof(counts[0]))
#define CALLS 4

static unsigned long surprises;

/* Ends a window in which the tool has counted. */
static void check(int rank, const char *what)
{
    const char *name;
    long times;
    pmpi_tool_count(false);
    for (int from = 0; NULL != (name = pmpi_tool_surprise(&from, &times));) {
        fprintf(stderr, "fault_tool: rank %d: %s: the tool saw %ld call%s of %s too %s\n", rank, what, labs(times),
                1 == labs(times) ? "" : "s", name, times > 0 ? "many" : "few");
        ++surprises;
    }
    if (surprises > 0) {
        exit(1); /* what is counted next would be wrong as well */
    }
}

static void blocking(const suite_t *suite, MPI_Comm comm, const char *type, size_t count, const char *what)
{
    const value_type_t *kind = value_type_find(type);
    buffer_t send, recv;
    buffer_alloc(&send, BUFFER_DEVICE, count * kind->extent, 0);
    buffer_alloc(&recv, BUFFER_DEVICE, count * kind->extent, 0);
    pmpi_tool_count(true);
    for (int i = 0; i < CALLS; ++i) {
        OWN(MPI_Allreduce(send.message, recv.message, (int) count, kind->type, MPI_MAX, comm));
        OWN(MPI_Allreduce(MPI_IN_PLACE, recv.message, (int) count, kind->type, MPI_MAX, comm));
    }
    check(suite->rank, what);
    buffer_free(&send);
    buffer_free(&recv);
}

/* A long double has bytes that no value fills, so its input cannot be compared. */
static void result_check(suite_t *suite, flight_t *flight, const char *what)
{
    if (value_type_find("long_double") != flight->values.type) {
        flight_check(suite, flight, what);
    }
}

static void nonblocking(suite_t *suite, MPI_Comm comm, const char *type, size_t count, const char *what)
{
    flight_t flights[CALLS];
    for (int i = 0; i < CALLS; ++i) {
        flight_make(suite, &flights[i], comm, type, "max", count, BUFFER_DEVICE, BUFFER_DEVICE, false);
        flight_fill(suite, &flights[i]);
    }
    pmpi_tool_count(true);
    for (int i = 0; i < CALLS; ++i) {
        flight_t *flight = &flights[i];
        OWN(MPI_Iallreduce(flight->send.message, flight->recv.message, (int) count, flight->values.type->type, MPI_MAX,
                           comm, &flight->request));
    }
    for (int i = 0; i < CALLS; ++i) {
        OWN(MPI_Wait(&flights[i].request, MPI_STATUS_IGNORE));
    }
    check(suite->rank, what);
    for (int i = 0; i < CALLS; ++i) {
        result_check(suite, &flights[i], what);
        flight_free(&flights[i]);
    }
}

static void persistent(suite_t *suite, MPI_Comm comm, const char *type, size_t count, const char *what)
{
    flight_t flight;
    flight_make(suite, &flight, comm, type, "max", count, BUFFER_DEVICE, BUFFER_DEVICE, false);
    flight_fill(suite, &flight);
    pmpi_tool_count(true);
#if OMPI_MAJOR_VERSION >= 5
    pmpi_tool_expect("MPI_Allreduce_init(");
#endif
    const bool there_are = flight_init(suite, &flight);
    if (there_are) {
        for (int i = 0; i < CALLS; ++i) {
            OWN(MPI_Start(&flight.request));
            OWN(MPI_Wait(&flight.request, MPI_STATUS_IGNORE));
        }
        OWN(MPI_Request_free(&flight.request));
    }
    check(suite->rank, what);
    if (there_are) {
        result_check(suite, &flight, what);
    }
    flight_free(&flight);
}

/* A launch fails on the last rank, in a communicator of its own: an error on all ranks. */
static void failing(const suite_t *suite, const saboteur_t *saboteur)
{
    MPI_Comm comm;
    pair_t pair;
    pmpi_tool_count(true);
    OWN(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OWN(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    check(suite->rank, "a communicator is made");
    pair_alloc(&pair, 30000);
    pmpi_tool_count(true);
    int rc = OWN(MPI_Allreduce(pair.send.message, pair.recv.message, 30000, MPI_DOUBLE, MPI_MAX, comm));
    if (MPI_SUCCESS != rc || (suite->rank == suite->nranks - 1 && 0 != saboteur->arm("cuLaunchKernel:1:999"))) {
        fprintf(stderr, "fault_tool: rank %d: the first call of a communicator ended with %d\n", suite->rank, rc);
        exit(1);
    }
    rc = OWN(MPI_Allreduce(pair.send.message, pair.recv.message, 30000, MPI_DOUBLE, MPI_MAX, comm));
    if (MPI_SUCCESS == rc) {
        fprintf(stderr, "fault_tool: rank %d: a launch failed, and the call did not\n", suite->rank);
        exit(1);
    }
    OWN(MPI_Comm_free(&comm));
    check(suite->rank, "a call that fails");
    (void) saboteur->arm("");
    pair_free(&pair);
}

int main(int argc, char **argv)
{
    suite_t suite;
    saboteur_t saboteur;
    pvars_t before, after;

    deadline(100, "fault_tool");
    suite_begin(&suite, "fault_tool", &argc, &argv);
    saboteur_find(&saboteur);
    pvars_read(&before);
    for (size_t i = 0; i < NCOUNTS; ++i) {
        blocking(&suite, MPI_COMM_WORLD, "double", counts[i], "blocking calls");
        blocking(&suite, MPI_COMM_WORLD, "long_double", counts[i], "blocking calls of a type that is staged");
        nonblocking(&suite, MPI_COMM_WORLD, "double", counts[i], "nonblocking calls");
        nonblocking(&suite, MPI_COMM_WORLD, "long_double", counts[i], "nonblocking calls of a type that is staged");
        persistent(&suite, MPI_COMM_WORLD, "double", counts[i], "persistent calls");
        persistent(&suite, MPI_COMM_WORLD, "long_double", counts[i], "persistent calls of a type that is staged");
    }
    failing(&suite, &saboteur);
    pvars_read(&after);
    if (after.accelerated - before.accelerated < NCOUNTS * CALLS || after.nonblocking == before.nonblocking) {
        suite_fail(&suite, "only %llu calls were accelerated, %llu of them nonblocking",
                   (unsigned long long) (after.accelerated - before.accelerated),
                   (unsigned long long) (after.nonblocking - before.nonblocking));
    }
    if (after.staged == before.staged) {
        suite_fail(&suite, "no call was staged");
    }
    pvars_close();
    pmpi_tool_count(true);
    OWN(MPI_Finalize());
    check(suite.rank, "MPI_Finalize");
    printf("fault_tool: rank %d: the tool saw the program's calls only\n", suite.rank);
    return 0 == suite.failures ? 0 : 1;
}
