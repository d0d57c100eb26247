/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Ranks that are done go straight from their last call to MPI_Finalize; one whose GPU is slow is still in
 * that call then, and must end it as if they were there.
 *
 *   last_call COUNT [free | callback | callback_mixed]   doubles; the last rank is the slow one
 *   last_call ROUNDS callback_one
 *
 * free: the call's communicator is freed before, and others than MPI_COMM_WORLD are not used. callback: more calls are
 * made in a callback of MPI_COMM_SELF, with which MPI_Finalize begins; callback_mixed: set later on every other rank.
 * callback_one: rank 0 tells the others to end in such a callback, by the last of the same calls on host memory; until
 * then they are not in MPI_Finalize.
 */
#include "flight.h"

#include <stdlib.h>
#include <string.h>

/* Longest delay of one piece of GPU work, far more than others need to leave and a waiting rank to notice that. */
#define SLOW_US "150000"

static flight_t persistent; /* a request that was made before, on the GPUs */

/* Such a request has ended with the component: an error, and nothing worse. */
static void start_at_end(suite_t *suite)
{
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (MPI_SUCCESS == MPI_Start(&persistent.request)) {
        suite_fail(suite, "a persistent request was started after the component had ended");
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Request_free(&persistent.request);
    flight_free(&persistent);
}

static int calls_at_end(MPI_Comm self, int key, void *value, void *extra)
{
    suite_t *suite = extra;
    const size_t *count_p = value;
    flight_t flight;
    pvars_t before;
    (void) self;
    (void) key;
    for (int i = 0; i < 2; ++i) {
        buffer_kind_t kind = 0 == i ? BUFFER_HOST : BUFFER_DEVICE;
        call_t call = {
            .comm = MPI_COMM_WORLD, .type = value_type_find("double"), .op = value_op_find("sum"), .count = *count_p};
        call.send_kind = call.recv_kind = kind;
        call.path = PATH_SAVED;
        suite_call(suite, &call);
    }
    flight_make(suite, &flight, MPI_COMM_WORLD, "double", "sum", *count_p, BUFFER_DEVICE, BUFFER_DEVICE, false);
    pvars_read(&before);
    flight_post(suite, &flight);
    MPI_Wait(&flight.request, MPI_STATUS_IGNORE);
    suite_check_paths(suite, "a nonblocking call in a callback of MPI_Finalize", &before, 0, 1);
    flight_check(suite, &flight, "in a callback of MPI_Finalize");
    flight_free(&flight);
    if (MPI_REQUEST_NULL != persistent.request) {
        start_at_end(suite);
    }
    pvars_close();
    return MPI_SUCCESS;
}

/* Calls that pass a word on to all ranks. Returns the word. */
static int word_pass(suite_t *suite, int word)
{
    int sum = -1;
    ++suite->calls;
    MPI_Bcast(&word, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Allreduce(&word, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (sum != word * suite->nranks) {
        suite_fail(suite, "the sum of %d on %d ranks is %d", word, suite->nranks, sum);
    }
    return word;
}

static int end_tell(MPI_Comm self, int key, void *value, void *suite)
{
    (void) self;
    (void) key;
    (void) value;
    word_pass(suite, 0);
    return MPI_SUCCESS;
}

static void one_ends(suite_t *suite, int rounds)
{
    int key;
    if (0 == suite->rank) {
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, end_tell, &key, suite);
        MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
        for (int i = 0; i < rounds; ++i) {
            word_pass(suite, i + 1);
        }
        return;
    }
    while (0 != word_pass(suite, -1)) {
    }
}

int main(int argc, char **argv)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *size = getenv("OMPI_COMM_WORLD_SIZE");
    if (NULL != rank && NULL != size && atoi(rank) + 1 == atoi(size)) {
        setenv("CUDASIM_ASYNC", "thread", 1);
        setenv("CUDASIM_MAX_DELAY_US", SLOW_US, 1);
    }
    suite_t suite;
    suite_begin(&suite, "last_call", &argc, &argv);
    if (argc > 2 && 0 == strcmp(argv[2], "callback_one")) {
        one_ends(&suite, atoi(argv[1]));
        return suite_end(&suite);
    }
    const bool frees = argc > 2 && 0 == strcmp(argv[2], "free");
    MPI_Comm comm = MPI_COMM_WORLD;
    size_t count = argc > 1 ? strtoul(argv[1], NULL, 0) : 1;
    int key = MPI_KEYVAL_INVALID;
    /* The first to be set is the last to be called. */
    const bool calls_back = argc > 2 && NULL != strstr(argv[2], "callback"),
               late = calls_back && NULL != strstr(argv[2], "mixed") && 0 != suite.rank % 2;
    if (calls_back) {
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, calls_at_end, &key, &suite);
    }
    if (calls_back && !late) {
        MPI_Comm_set_attr(MPI_COMM_SELF, key, &count);
    }
    if (frees) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    }
    call_t call = {.comm = comm, .type = value_type_find("double"), .op = value_op_find("sum"), .count = count};
    call.path = suite.default_path;
    for (int i = 0; i < 2; ++i) {
        suite_call(&suite, &call);
    }
    persistent.request = MPI_REQUEST_NULL;
    if (MPI_KEYVAL_INVALID != key) {
        flight_make(&suite, &persistent, MPI_COMM_WORLD, "double", "sum", count, BUFFER_DEVICE, BUFFER_DEVICE, false);
        flight_init(&suite, &persistent);
    }
    if (late) {
        MPI_Comm_set_attr(MPI_COMM_SELF, key, &count);
    }
    if (frees) {
        MPI_Comm_free(&comm);
    }
    return suite_end(&suite);
}
