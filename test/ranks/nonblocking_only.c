/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Programs that call MPI_Iallreduce and never MPI_Allreduce. The ranks ask each other about such calls at the next
 * MPI_Barrier, and later calls run on the GPUs. Calls are never held up: one rank may post two before another one
 * posts the first.
 *
 *   nonblocking_only [--stock] [host | reset | reset_lists]
 *     host:         odd ranks pass host memory, so all calls stay with Open MPI
 *     reset:        rank 0 loses its context, and one blocking call is what it takes to come back to the GPUs
 *     reset_lists:  the same with MPI_Ialltoallv, whose ranks first tell each other their counts between groups
 */
#include "flight.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#define NKINDS 10 /* more than are asked about at one barrier */

static const char *const ops[2] = {"sum", "max"};

static void must(suite_t *suite, int error, const char *what)
{
    if (MPI_SUCCESS != error) {
        suite_fail(suite, "%s returned %d", what, error);
    }
}

/* Posts, waits, checks: the path, too. */
static void one(suite_t *suite, flight_t *flight, bool on_gpus, const char *what)
{
    pvars_t before;
    pvars_read(&before);
    flight_fill(suite, flight);
    flight_post(suite, flight);
    must(suite, MPI_Wait(&flight->request, MPI_STATUS_IGNORE), "MPI_Wait");
    flight_check(suite, flight, what);
    flight_check_path(suite, what, &before, on_gpus ? 1 : 0, on_gpus ? 1 : 0);
}

/* Rank 0 posts two calls, and only then lets rank 1 post its first. Needs the other one only once both wait. */
static void one_ahead(suite_t *suite, MPI_Comm comm, flight_t *first, flight_t *second, const char *what)
{
    int word = 0;
    if (1 == suite->rank) {
        must(suite, MPI_Recv(&word, 1, MPI_INT, 0, 0, comm, MPI_STATUS_IGNORE), "MPI_Recv");
    }
    flight_fill(suite, first);
    flight_fill(suite, second);
    flight_post(suite, first);
    flight_post(suite, second);
    if (0 == suite->rank) {
        must(suite, MPI_Send(&word, 1, MPI_INT, 1, 0, comm), "MPI_Send");
    }
    must(suite, MPI_Wait(&second->request, MPI_STATUS_IGNORE), "MPI_Wait");
    must(suite, MPI_Wait(&first->request, MPI_STATUS_IGNORE), "MPI_Wait");
    flight_check(suite, first, what);
    flight_check(suite, second, what);
}

/* A communicator of its own, from its first call. */
static void come_to_gpus(suite_t *suite, buffer_kind_t kind, bool come)
{
    MPI_Comm comm;
    flight_t first, second;
    must(suite, MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
    flight_make(suite, &first, comm, "double", "sum", 30000, kind, kind, false);
    flight_make(suite, &second, comm, "double", "sum", 30000, kind, kind, true);
    one_ahead(suite, comm, &first, &second, "one rank ahead, before the barrier");
    one(suite, &first, false, "before the barrier");

    flight_fill(suite, &second);
    flight_post(suite, &second); /* pending during the barrier */
    must(suite, MPI_Barrier(comm), "MPI_Barrier");
    one(suite, &first, come, "after the barrier");
    must(suite, MPI_Wait(&second.request, MPI_STATUS_IGNORE), "MPI_Wait");
    flight_check(suite, &second, "pending during the barrier");

    one_ahead(suite, comm, &first, &second, "one rank ahead, after the barrier");
    for (int i = 0; i < 20; ++i) {
        one(suite, &first, come, "many barriers");
        must(suite, MPI_Barrier(comm), "MPI_Barrier");
    }
    flight_free(&first);
    flight_free(&second);
    must(suite, MPI_Comm_free(&comm), "MPI_Comm_free");
}

/* Kinds beyond those that one barrier asks about are asked about at the next. */
static void many_kinds(suite_t *suite)
{
    MPI_Comm comm;
    flight_t flights[NKINDS];
    must(suite, MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
    for (int i = 0; i < NKINDS; ++i) {
        flight_make(suite, &flights[i], comm, "int", ops[i % 2], (size_t) 1000 << i / 2, BUFFER_DEVICE, BUFFER_DEVICE,
                    false);
        one(suite, &flights[i], false, "the first call of a kind");
    }
    must(suite, MPI_Barrier(comm), "MPI_Barrier");
    for (int i = 0; i < NKINDS; ++i) {
        one(suite, &flights[i], i < 8, "after one barrier");
    }
    must(suite, MPI_Barrier(comm), "MPI_Barrier");
    for (int i = 0; i < NKINDS; ++i) {
        one(suite, &flights[i], true, "after two barriers");
        flight_free(&flights[i]);
    }
    must(suite, MPI_Comm_free(&comm), "MPI_Comm_free");
}

/* A blocking call of another kind is a meeting as well. The buffers of a call may be gone when all ranks are asked. */
static void gone_or_blocking(suite_t *suite)
{
    MPI_Comm comm;
    flight_t flight;
    double mine = suite->rank, sum = -1.0;
    must(suite, MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
    flight_make(suite, &flight, comm, "float", "sum", 5000, BUFFER_DEVICE, BUFFER_DEVICE, false);
    one(suite, &flight, false, "buffers that will be gone");
    flight_free(&flight);
    must(suite, MPI_Barrier(comm), "MPI_Barrier");
    flight_make(suite, &flight, comm, "float", "sum", 5000, BUFFER_DEVICE, BUFFER_DEVICE, false);
    flight_fill(suite, &flight);
    flight_post(suite, &flight);
    must(suite, MPI_Wait(&flight.request, MPI_STATUS_IGNORE), "MPI_Wait");
    flight_check(suite, &flight, "new buffers");
    must(suite, MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, comm), "MPI_Allreduce");
    if (sum != suite->nranks * (suite->nranks - 1) / 2) {
        suite_fail(suite, "a sum of host memory is %g", sum);
    }
    one(suite, &flight, true, "after a blocking call of another kind");
    flight_free(&flight);
    must(suite, MPI_Comm_free(&comm), "MPI_Comm_free");
}

/* While rank 0 has lost its context, the ranks vote down each call and reduce it in host memory. Barriers do not change
 * that. After a blocking call of the kind the next barrier does. */
static void reset(suite_t *suite)
{
    MPI_Comm comm;
    flight_t flight;
    must(suite, MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
    flight_make(suite, &flight, comm, "double", "sum", 30000, BUFFER_DEVICE, BUFFER_DEVICE, false);
    one(suite, &flight, false, "before the barrier");
    must(suite, MPI_Barrier(comm), "MPI_Barrier");
    one(suite, &flight, true, "before the reset");
    flight_free(&flight);
    must(suite, MPI_Barrier(comm), "MPI_Barrier");
    if (0 == suite->rank) {
        CUDA_MUST(cudaDeviceReset());
        CUDA_MUST(cudaFree(NULL));
    }
    flight_make(suite, &flight, comm, "double", "sum", 30000, BUFFER_DEVICE, BUFFER_DEVICE, false);
    for (int i = 0; i < 5; ++i) {
        one(suite, &flight, false, "after the reset");
        must(suite, MPI_Barrier(comm), "MPI_Barrier");
    }
    flight_fill(suite, &flight);
    flight_reduce(suite, &flight);
    flight_check(suite, &flight, "a blocking call after the reset");
    one(suite, &flight, false, "after the blocking call");
    must(suite, MPI_Barrier(comm), "MPI_Barrier");
    one(suite, &flight, true, "after the blocking call and a barrier");
    flight_free(&flight);
    must(suite, MPI_Comm_free(&comm), "MPI_Comm_free");
}

#define LIST_RANKS 8
#define LIST_INTS 30000 /* from each rank to each */

/* The buffers of MPI_Ialltoallv, in GPU memory. They live until the barrier that asks about them. */
typedef struct lists {
    MPI_Comm comm;
    size_t bytes;
    buffer_t send, recv;
    int counts[LIST_RANKS], begins[LIST_RANKS];
} lists_t;

static void lists_make(suite_t *suite, lists_t *l, MPI_Comm comm)
{
    l->comm = comm;
    l->bytes = (size_t) suite->nranks * LIST_INTS * sizeof(int);
    buffer_alloc(&l->send, BUFFER_DEVICE, l->bytes, 0);
    buffer_alloc(&l->recv, BUFFER_DEVICE, l->bytes, 0);
    for (int i = 0; i < suite->nranks; ++i) {
        l->counts[i] = LIST_INTS;
        l->begins[i] = i * LIST_INTS;
    }
}

static void lists_free(lists_t *l)
{
    buffer_free(&l->send);
    buffer_free(&l->recv);
}

/* New values; the call, which waits; its result. */
static void lists_call(suite_t *suite, lists_t *l, bool is_blocking, bool on_gpus, const char *what)
{
    const int salt = (int) ++suite->salt, mine = suite->rank * LIST_INTS;
    int *values = malloc(l->bytes), wrong = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    pvars_t before;
    for (int i = 0; i < suite->nranks * LIST_INTS; ++i) {
        values[i] = salt + 1000000 * suite->rank + i;
    }
    buffer_write(&l->send, values, l->bytes);
    pvars_read(&before);
    if (is_blocking) {
        must(suite,
             MPI_Alltoallv(l->send.message, l->counts, l->begins, MPI_INT, l->recv.message, l->counts, l->begins,
                           MPI_INT, l->comm),
             "MPI_Alltoallv");
    } else {
        must(suite,
             MPI_Ialltoallv(l->send.message, l->counts, l->begins, MPI_INT, l->recv.message, l->counts, l->begins,
                            MPI_INT, l->comm, &request),
             "MPI_Ialltoallv");
        must(suite, MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
    }
    ++suite->calls;
    flight_check_path(suite, what, &before, on_gpus ? 1 : 0, on_gpus ? 1 : 0);
    buffer_read(&l->recv, values, l->bytes);
    for (int i = 0; i < suite->nranks * LIST_INTS; ++i) {
        wrong += salt + 1000000 * (i / LIST_INTS) + mine + i % LIST_INTS != values[i];
    }
    if (wrong > 0 || buffer_check_guards(&l->recv) > 0) {
        suite_fail(suite, "lists %s: %d ints are wrong", what, wrong);
    }
    free(values);
}

static void reset_lists(suite_t *suite)
{
    lists_t l;
    MPI_Comm comm;
    must(suite, MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
    must(suite, MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    lists_make(suite, &l, comm);
    for (int i = 0; i < 2; ++i) { /* the first barrier asks for all collectives other than MPI_Allreduce */
        lists_call(suite, &l, false, false, "before the barrier");
        must(suite, MPI_Barrier(comm), "MPI_Barrier");
    }
    lists_call(suite, &l, false, true, "before the reset");
    lists_free(&l);
    must(suite, MPI_Barrier(comm), "MPI_Barrier");
    if (0 == suite->rank) {
        CUDA_MUST(cudaDeviceReset());
        CUDA_MUST(cudaFree(NULL));
    }
    lists_make(suite, &l, comm);
    for (int i = 0; i < 5; ++i) {
        lists_call(suite, &l, false, false, "after the reset");
        must(suite, MPI_Barrier(comm), "MPI_Barrier");
    }
    lists_call(suite, &l, true, false, "a blocking call after the reset");
    lists_call(suite, &l, false, false, "after the blocking call");
    must(suite, MPI_Barrier(comm), "MPI_Barrier");
    lists_call(suite, &l, false, true, "after the blocking call and a barrier");
    lists_free(&l);
    must(suite, MPI_Comm_free(&comm), "MPI_Comm_free");
}

/* The last call before MPI_Finalize, whose own barrier must ask nothing. */
static void last(suite_t *suite, buffer_kind_t kind)
{
    flight_t flight;
    flight_make(suite, &flight, MPI_COMM_WORLD, "double", "min", 3000, kind, kind, false);
    one(suite, &flight, false, "the last call");
    flight_free(&flight);
}

int main(int argc, char **argv)
{
    suite_t suite;
    int gpus = 0;
    if (cudaSuccess == cudaGetDeviceCount(&gpus) && gpus > 0) {
        suite_begin(&suite, "nonblocking_only", &argc, &argv);
    } else {
        suite_begin_host(&suite, "nonblocking_only", &argc, &argv);
    }
    const bool host = argc > 1 && 0 == strcmp(argv[1], "host");
    const buffer_kind_t kind = 0 == gpus || (host && 1 == suite.rank % 2) ? BUFFER_HOST : BUFFER_DEVICE;
    if (argc > 1 && 0 == strcmp(argv[1], "reset")) {
        reset(&suite);
        return suite_end(&suite);
    }
    if (argc > 1 && 0 == strcmp(argv[1], "reset_lists")) {
        reset_lists(&suite);
        return suite_end(&suite);
    }
    come_to_gpus(&suite, kind, !host);
    if (!host) {
        many_kinds(&suite);
        gone_or_blocking(&suite);
    }
    last(&suite, kind);
    return suite_end(&suite);
}
