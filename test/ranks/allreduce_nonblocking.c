/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_Iallreduce: many in flight on one communicator and on several, completed in any order and by any of
 * MPI's calls, mixed with blocking calls; every kind of buffer, alike on all ranks or not; on the GPUs
 * and on the saved collective; communicators freed meanwhile; MPI_Cancel and MPI_Request_free.
 *
 *   allreduce_nonblocking [--stock] [order]     order: only that part
 */
#include "flight.h"
#include "overlap.h"

#include <cuda_runtime_api.h>
#include <mpi-ext.h>
#include <stdio.h>
#include <string.h>

#define NCOMMS 3
#define NFLIGHTS 32

/* Several sizes, each of a key of its own; the tests set slices of 64 KiB. */
static const size_t counts[] = {9, 1000, 30001};
#define NCOUNTS ((int) (sizeof(counts) / sizeof(counts[0])))

typedef enum finish {
    FINISH_REVERSE,
    FINISH_TEST,
    FINISH_WAITANY,
    FINISH_WAITALL,
    FINISH_TESTSOME,
    FINISH_TESTALL,
    NFINISHES
} finish_t;
static const char *const finish_names[NFINISHES] = {
    "MPI_Wait in reverse order", "MPI_Test", "MPI_Waitany", "MPI_Waitall", "MPI_Testsome", "MPI_Testall"};

/* Blocking calls that bring the keys of `counts` to the GPUs. */
static void warm(suite_t *suite, MPI_Comm comm, const char *type, const char *op)
{
    for (int i = 0; i < NCOUNTS; ++i) {
        call_t call = {.comm = comm,
                       .type = value_type_find(type),
                       .op = value_op_find(op),
                       .count = counts[i],
                       .path = PATH_ACCELERATED};
        suite_call(suite, &call);
    }
}

static void must(suite_t *suite, int error, const char *what)
{
    if (MPI_SUCCESS != error) {
        suite_fail(suite, "%s returned %d", what, error);
    }
}

static void finish_some(suite_t *suite, MPI_Request *requests, int n)
{
    int indices[NFLIGHTS], left = n;
    while (left > 0) {
        int some = 0;
        must(suite, MPI_Testsome(n, requests, &some, indices, MPI_STATUSES_IGNORE), "MPI_Testsome");
        if (MPI_UNDEFINED == some) {
            suite_fail(suite, "MPI_Testsome lost %d requests", left);
            return;
        }
        left -= some;
    }
}

static void finish(suite_t *suite, finish_t how, MPI_Request *requests, int n)
{
    MPI_Status statuses[NFLIGHTS];
    int done = 0, index;
    switch (how) {
    case FINISH_REVERSE:
        for (int i = n - 1; i >= 0; --i) {
            must(suite, MPI_Wait(&requests[i], MPI_STATUS_IGNORE), "MPI_Wait");
        }
        break;
    case FINISH_TEST:
        for (int i = 0; i < n; ++i) {
            for (done = 0; !done;) {
                must(suite, MPI_Test(&requests[(i * 7) % n], &done, MPI_STATUS_IGNORE), "MPI_Test");
            }
        }
        break;
    case FINISH_WAITANY:
        for (int i = 0; i < n; ++i) {
            must(suite, MPI_Waitany(n, requests, &index, MPI_STATUS_IGNORE), "MPI_Waitany");
        }
        break;
    case FINISH_WAITALL:
        must(suite, MPI_Waitall(n, requests, statuses), "MPI_Waitall");
        break;
    case FINISH_TESTSOME:
        finish_some(suite, requests, n);
        break;
    case FINISH_TESTALL:
    default:
        for (done = 0; !done;) {
            must(suite, MPI_Testall(n, requests, &done, MPI_STATUSES_IGNORE), "MPI_Testall");
        }
        break;
    }
    for (int i = 0; i < n; ++i) {
        if (MPI_REQUEST_NULL != requests[i]) {
            suite_fail(suite, "%s: request %d was not taken back", finish_names[how], i);
        }
    }
}

/* Posts n flights on the communicators in turn, has them finished, and checks them. blocking: a blocking call after
 * every so many. */
static void fly(suite_t *suite, const MPI_Comm *comms, int ncomms, finish_t how, int blocking)
{
    static flight_t flights[NFLIGHTS];
    MPI_Request requests[NFLIGHTS];
    pvars_t before;
    int nblocking = 0;

    pvars_read(&before);
    for (int i = 0; i < NFLIGHTS; ++i) {
        flight_make(suite, &flights[i], comms[i % ncomms], "double", "sum", counts[i / ncomms % NCOUNTS], BUFFER_DEVICE,
                    BUFFER_DEVICE, 0 == i % 5);
        flight_post(suite, &flights[i]);
        requests[i] = flights[i].request;
        if (blocking > 0 && 0 == i % blocking) {
            call_t call = {.comm = comms[i % ncomms],
                           .type = value_type_find("double"),
                           .op = value_op_find("sum"),
                           .count = 1000};
            suite_call(suite, &call);
            ++nblocking;
        }
    }
    finish(suite, how, requests, NFLIGHTS);
    for (int i = 0; i < NFLIGHTS; ++i) {
        flight_check(suite, &flights[i], finish_names[how]);
        flight_free(&flights[i]);
    }
    flight_check_path(suite, finish_names[how], &before, (uint64_t) (NFLIGHTS + nblocking), NFLIGHTS);
}

/* The same on communicators that overlap, each on its own path: a rank may be alone in one. */
static void run_overlapping(suite_t *suite)
{
    static flight_t flights[NFLIGHTS];
    MPI_Comm comms[OVERLAP_NKINDS];
    MPI_Request requests[NFLIGHTS];
    overlap_make(MPI_COMM_WORLD, comms);
    for (int how = 0; how < NFINISHES; ++how) {
        for (int i = 0; i < NFLIGHTS; ++i) {
            MPI_Comm comm = comms[i % OVERLAP_NKINDS];
            flight_t blocked;
            flight_make(suite, &flights[i], comm, "double", "sum", counts[i / OVERLAP_NKINDS % NCOUNTS], BUFFER_DEVICE,
                        BUFFER_DEVICE, 0 == i % 7);
            flight_post(suite, &flights[i]);
            requests[i] = flights[i].request;
            if (0 == i % 4) {
                flight_make(suite, &blocked, comm, "double", "sum", flights[i].count, BUFFER_DEVICE, BUFFER_DEVICE,
                            false);
                flight_reduce(suite, &blocked);
                flight_check(suite, &blocked, "a blocking call among overlapping ones");
                flight_free(&blocked);
            }
        }
        finish(suite, (finish_t) how, requests, NFLIGHTS);
        for (int i = 0; i < NFLIGHTS; ++i) {
            flight_check(suite, &flights[i], finish_names[how]);
            flight_free(&flights[i]);
        }
    }
    overlap_free(comms);
}

static void run_many(suite_t *suite)
{
    MPI_Comm comms[NCOMMS];
    for (int i = 0; i < NCOMMS; ++i) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        warm(suite, comms[i], "double", "sum");
    }
    for (int how = 0; how < NFINISHES; ++how) {
        fly(suite, comms, 1, (finish_t) how, 0);
        fly(suite, comms, NCOMMS, (finish_t) how, how % 3 * 2);
    }
    for (int i = 0; i < NCOMMS; ++i) {
        MPI_Comm_free(&comms[i]);
    }
}

/* One flight of its own, checked at once; path: whether it counts as accelerated, as staged, or is not looked at. */
typedef enum expected { EXPECT_ANY, EXPECT_ENGINE, EXPECT_STAGED, EXPECT_SAVED } expected_t;

static void fly_one(suite_t *suite, flight_t *flight, const char *what, expected_t expected)
{
    pvars_t before, after;
    pvars_read(&before);
    flight_post(suite, flight);
    must(suite, MPI_Wait(&flight->request, MPI_STATUS_IGNORE), what);
    flight_check(suite, flight, what);
    pvars_read(&after);
    if (PATH_ANY == suite->default_path || EXPECT_ANY == expected) {
        return;
    }
    bool engine = 1 == after.nonblocking - before.nonblocking, staged = 1 == after.staged - before.staged;
    if (engine != (EXPECT_ENGINE == expected) || staged != (EXPECT_STAGED == expected)) {
        suite_fail(suite, "%s: %s the engine, %s", what, engine ? "on" : "not on", staged ? "staged" : "not staged");
    }
}

/*
 * In mode ACC the engine takes any buffer. Host memory on any rank moves the mode, but not before the next blocking
 * call ends, which still runs on the GPUs.
 */
static void run_kind(suite_t *suite, buffer_kind_t kind, int owner, bool in_place)
{
    const bool mine = owner < 0 || owner == suite->rank, host = !buffer_kind_on_device(kind);
    call_t call = {
        .type = value_type_find("float"), .op = value_op_find("max"), .count = 3000, .path = PATH_ACCELERATED};
    MPI_Comm comm;
    flight_t flight;
    char what[96];
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    call.comm = comm;
    suite_call(suite, &call);
    snprintf(what, sizeof(what), "%s buffers%s%s", buffer_kind_name(kind), owner < 0 ? "" : " on one rank",
             in_place ? ", in place" : "");
    for (int i = 0; i < 3; ++i) {
        buffer_kind_t here = mine ? kind : BUFFER_DEVICE;
        flight_make(suite, &flight, comm, "float", "max", 3000, here, here, in_place);
        fly_one(suite, &flight, what, EXPECT_ENGINE);
        flight_free(&flight);
    }
    suite_call(suite, &call);
    flight_make(suite, &flight, comm, "float", "max", 3000, BUFFER_DEVICE, BUFFER_DEVICE, in_place);
    fly_one(suite, &flight, what, host ? EXPECT_STAGED : EXPECT_ENGINE);
    flight_free(&flight);
    MPI_Comm_free(&comm);
}

static void run_kinds(suite_t *suite)
{
    for (int kind = 0; kind < BUFFER_NKINDS; ++kind) {
        run_kind(suite, (buffer_kind_t) kind, -1, kind % 2);
        run_kind(suite, (buffer_kind_t) kind, kind % suite->nranks, kind % 3);
    }
}

/* What the default stream was still doing to an input when its call was posted is waited for, also by calls that wait
 * their turn. */
static void run_order(suite_t *suite)
{
    enum { LATE = 8 };
    flight_t flights[LATE];
    buffer_t pinned[LATE], ballast;
    MPI_Comm comm;
    pvars_t before;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    buffer_alloc(&ballast, BUFFER_DEVICE, 1 << 20, 0);
    for (int warm_up = 1; warm_up >= 0; --warm_up) { /* first staged, then on the GPUs */
        for (int i = 0; i < LATE; ++i) {
            const size_t count = counts[i % NCOUNTS];
            flight_make(suite, &flights[i], comm, "double", "sum", count, BUFFER_DEVICE, BUFFER_DEVICE, false);
            buffer_alloc(&pinned[i], BUFFER_PINNED, count * sizeof(double), 0);
            flight_fill_pinned(suite, &flights[i], &pinned[i]);
        }
        pvars_read(&before);
        for (int i = 0; i < LATE; ++i) {
            CUDA_MUST(cudaMemsetAsync(ballast.message, i, ballast.bytes, 0)); /* keeps the stream busy */
            flight_fill_queue(&flights[i], &pinned[i]);
            flight_post(suite, &flights[i]);
        }
        for (int i = LATE - 1; i >= 0; --i) {
            must(suite, MPI_Wait(&flights[i].request, MPI_STATUS_IGNORE), "MPI_Wait");
            flight_check(suite, &flights[i], "an input that came late");
            flight_free(&flights[i]);
            buffer_free(&pinned[i]);
        }
        suite_check_paths(suite, "inputs that came late", &before, warm_up ? 0 : LATE, warm_up ? LATE : 0);
        if (warm_up) {
            warm(suite, comm, "double", "sum");
        }
    }
    buffer_free(&ballast);
    MPI_Comm_free(&comm);
}

/* Before any blocking call the saved collective serves all calls, staged where need be; small ones always. */
static void run_saved(suite_t *suite)
{
    static const char *const types[] = {"double", "int", "double_int"};
    static const char *const ops[] = {"sum", "bxor", "maxloc"};
    MPI_Comm comm;
    flight_t flight;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int i = 0; i < 3; ++i) {
        for (int kind = 0; kind < BUFFER_NKINDS; ++kind) {
            const bool staged = buffer_kind_on_device((buffer_kind_t) kind);
            flight_make(suite, &flight, comm, types[i], ops[i], 3000, (buffer_kind_t) kind, (buffer_kind_t) kind,
                        1 == i);
            fly_one(suite, &flight, "a call before any blocking one", staged ? EXPECT_STAGED : EXPECT_SAVED);
            flight_free(&flight);
        }
    }
    for (int i = 0; i < 4; ++i) {
        call_t call = {.comm = comm,
                       .type = value_type_find("int"),
                       .op = value_op_find("sum"),
                       .count = 2,
                       .path = PATH_ACCELERATED};
        suite_call(suite, &call);
        flight_make(suite, &flight, comm, "int", "sum", 2, BUFFER_DEVICE,
                    1 == i && 0 == suite->rank ? BUFFER_HOST : BUFFER_DEVICE, 2 == i);
        fly_one(suite, &flight, "a small call", EXPECT_STAGED);
        flight_free(&flight);
    }
    MPI_Comm_free(&comm);
}

/* Of elements {long, long, gap}. */
static void add_all(void *in, void *inout, int *n, MPI_Datatype *type)
{
    (void) type;
    for (int i = 0; i < *n; ++i) {
        ((long *) inout)[3 * i] += ((long *) in)[3 * i];
        ((long *) inout)[3 * i + 1] += ((long *) in)[3 * i + 1];
    }
}

#if OMPI_MAJOR_VERSION >= 5
#    define ALLREDUCE_INIT MPI_Allreduce_init
#elif defined(OMPI_HAVE_MPI_EXT_PCOLLREQ) && OMPI_HAVE_MPI_EXT_PCOLLREQ
#    define ALLREDUCE_INIT MPIX_Allreduce_init
#endif

/* Makes a persistent call, and counts it as one call. False when this Open MPI has no such calls. */
static bool make_persistent(suite_t *suite, void *buffer, int count, MPI_Datatype type, MPI_Op op, MPI_Request *request)
{
#ifdef ALLREDUCE_INIT
    must(suite, ALLREDUCE_INIT(MPI_IN_PLACE, buffer, count, type, op, MPI_COMM_WORLD, MPI_INFO_NULL, request),
         "MPI_Allreduce_init of a derived type");
    return true;
#else
    (void) suite, (void) buffer, (void) count, (void) type, (void) op, (void) request;
    return false;
#endif
}

/* A user's operation on a derived type with a gap: both are the program's, and may be freed while the call runs, or
 * before a persistent one starts. */
static void run_derived(suite_t *suite, bool persistent)
{
    enum { COUNT = 500, WORDS = 3 * COUNT };
    long host[WORDS];
    void *device;
    MPI_Op op;
    MPI_Datatype pair, spaced;
    MPI_Request request;
    CUDA_MUST(cudaMalloc(&device, sizeof(host)));
    for (int i = 0; i < WORDS; ++i) {
        host[i] = 2 == i % 3 ? -1 : i + suite->rank;
    }
    CUDA_MUST(cudaMemcpy(device, host, sizeof(host), cudaMemcpyDefault));
    MPI_Type_contiguous(2, MPI_LONG, &pair);
    MPI_Type_create_resized(pair, 0, 3 * sizeof(long), &spaced);
    MPI_Type_commit(&spaced);
    MPI_Op_create(add_all, 1, &op);
    pvars_t before;
    pvars_read(&before);
    ++suite->calls;
    const bool starts = persistent && make_persistent(suite, device, COUNT, spaced, op, &request);
    if (!starts) {
        must(suite, MPI_Iallreduce(MPI_IN_PLACE, device, COUNT, spaced, op, MPI_COMM_WORLD, &request),
             "MPI_Iallreduce of a derived type");
    }
    MPI_Type_free(&spaced);
    MPI_Type_free(&pair);
    MPI_Op_free(&op);
    if (starts) {
        must(suite, MPI_Start(&request), "MPI_Start of a derived type");
    }
    must(suite, MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait of a derived type");
    if (starts) {
        MPI_Request_free(&request);
    }
    suite_check_paths(suite, "a derived type", &before, 0, 1);
    CUDA_MUST(cudaMemcpy(host, device, sizeof(host), cudaMemcpyDefault));
    for (long i = 0; i < WORDS; ++i) {
        const long right = 2 == i % 3 ? -1 : suite->nranks * i + suite->nranks * (suite->nranks - 1) / 2;
        if (right != host[i]) {
            suite_fail(suite, "a derived type: word %ld is %ld and not %ld", i, host[i], right);
            break;
        }
    }
    CUDA_MUST(cudaFree(device));
}

/* A communicator that is freed lives until its calls are through; a collective cannot be cancelled. */
static void run_rules(suite_t *suite)
{
    flight_t flight[4];
    MPI_Comm comm;
    pvars_t before;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    warm(suite, comm, "double", "sum");
    pvars_read(&before);
    for (int i = 0; i < 4; ++i) {
        flight_make(suite, &flight[i], comm, "double", "sum", 30001, BUFFER_DEVICE, BUFFER_DEVICE, false);
        flight_post(suite, &flight[i]);
    }
    MPI_Request last = flight[3].request;
    if (MPI_SUCCESS == MPI_Cancel(&last)) {
        suite_fail(suite, "a collective was cancelled");
    }
    MPI_Comm_free(&comm);
    for (int i = 3; i >= 0; --i) {
        must(suite, MPI_Wait(&flight[i].request, MPI_STATUS_IGNORE), "MPI_Wait after MPI_Comm_free");
        flight_check(suite, &flight[i], "a communicator freed in flight");
        flight_free(&flight[i]);
    }
    flight_check_path(suite, "a communicator freed in flight", &before, 4, 4);
}

/* MPI_Request_free of a call that cannot have ended, since rank 0 waits with its own. */
static void run_free(suite_t *suite)
{
    flight_t flight;
    MPI_Comm comm;
    pvars_t before;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    warm(suite, comm, "double", "sum");
    flight_make(suite, &flight, comm, "double", "sum", 1000, BUFFER_DEVICE, BUFFER_DEVICE, false);
    pvars_read(&before);
    if (0 == suite->rank) {
        MPI_Barrier(MPI_COMM_WORLD);
        flight_post(suite, &flight);
    } else {
        flight_post(suite, &flight);
        MPI_Request same = flight.request;
        if (MPI_SUCCESS == MPI_Request_free(&same)) {
            suite_fail(suite, "an active collective was freed");
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    must(suite, MPI_Wait(&flight.request, MPI_STATUS_IGNORE), "MPI_Wait after MPI_Request_free");
    flight_check(suite, &flight, "a call that was not freed");
    flight_check_path(suite, "a call that was not freed", &before, 1, 1);
    flight_free(&flight);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    suite_t suite;
    suite_begin(&suite, "allreduce_nonblocking", &argc, &argv);
    run_order(&suite);
    if (argc > 1 && 0 == strcmp(argv[1], "order")) {
        return suite_end(&suite);
    }
    run_many(&suite);
    run_overlapping(&suite);
    run_kinds(&suite);
    run_saved(&suite);
    run_derived(&suite, false);
    run_derived(&suite, true);
    run_rules(&suite);
    if (PATH_ANY != suite.default_path) {
        run_free(&suite);
    }
    return suite_end(&suite);
}
