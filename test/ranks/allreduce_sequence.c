/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A seeded random sequence of calls on several communicators (world, a dup, two halves, reversed order, one
 * rank, made and freed meanwhile), with host messages in between: state of one call or communicator
 * must not leak into another.
 *
 *   allreduce_sequence [--stock] [calls] [seed]
 *
 * With calls "10s" it goes on for ten seconds, and ranks choose kinds of memory of their own, too: test/fuzz.
 */
#include "calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NCOMMS 5

#define CALLS_APART 20 /* between two questions whether the time is over */

static uint64_t random_state, own_state;

static unsigned next(uint64_t *state, unsigned limit)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned) (*state >> 33) % limit;
}

/* The same sequence on all ranks: they must agree on what they call. */
static unsigned pick(unsigned limit)
{
    return next(&random_state, limit);
}

/* Each rank's own: ranks choose their kinds of buffers independently. */
static unsigned pick_own(unsigned limit)
{
    return next(&own_state, limit);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double) time.tv_sec + 1e-9 * (double) time.tv_nsec;
}

/* Call number i, or is it over? Rank 0's clock decides. */
static bool goes_on(int i, int ncalls, double end)
{
    int more = 1;
    if (end <= 0) {
        return i < ncalls;
    }
    if (0 == i % CALLS_APART) {
        more = now() < end;
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    return more;
}

static void comms_make(const suite_t *suite, MPI_Comm *comms)
{
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]);
    MPI_Comm_dup(comms[0], &comms[1]);
    MPI_Comm_split(MPI_COMM_WORLD, suite->rank % 2, suite->rank, &comms[2]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -suite->rank, &comms[3]);
    MPI_Comm_split(MPI_COMM_WORLD, suite->rank, 0, &comms[4]);
}

static void comms_free(MPI_Comm *comms)
{
    for (int i = 0; i < NCOMMS; ++i) {
        MPI_Comm_free(&comms[i]);
    }
}

/* A ring of messages between hosts, which a collective that goes astray would take. */
static void ring(suite_t *suite)
{
    int sent = suite->rank, got = -1;
    int next = (suite->rank + 1) % suite->nranks;
    int previous = (suite->rank + suite->nranks - 1) % suite->nranks;

    MPI_Sendrecv(&sent, 1, MPI_INT, next, 7, &got, 1, MPI_INT, previous, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (got != previous) {
        suite_fail(suite, "a message from rank %d brought %d", previous, got);
    }
}

int main(int argc, char **argv)
{
    suite_t suite;
    MPI_Comm comms[NCOMMS];

    suite_begin(&suite, "allreduce_sequence", &argc, &argv);
    int ncalls = argc > 1 ? atoi(argv[1]) : 300;
    random_state = argc > 2 ? (uint64_t) atoll(argv[2]) : 1;
    own_state = random_state * 1000 + (uint64_t) suite.rank;
    const bool timed = argc > 1 && NULL != strchr(argv[1], 's');
    const double end = timed ? now() + ncalls : 0;
    comms_make(&suite, comms);
    for (int i = 0; goes_on(i, ncalls, end); ++i) {
        const value_op_t *op;
        const value_type_t *type = &value_types[pick((unsigned) value_ntypes)];
        do {
            op = &value_ops[pick((unsigned) value_nops)];
        } while (!value_is_defined(type, op));
        call_t call = {.comm = comms[pick(NCOMMS)],
                       .type = type,
                       .op = op,
                       .count = pick(1u << (1 + pick(15))),
                       .in_place = 0 == pick(3),
                       .path = PATH_ANY};
        unsigned kind = pick(BUFFER_NKINDS);
        call.send_offset = pick(4) * type->extent;
        call.recv_offset = pick(4) * type->extent;
        if (0 == pick(4)) {
            call.send_kind = call.recv_kind = (buffer_kind_t) kind;
        }
        if (timed && 0 == pick(6)) {
            call.send_kind = (buffer_kind_t) pick_own(BUFFER_NKINDS);
            call.recv_kind = (buffer_kind_t) pick_own(BUFFER_NKINDS);
            call.send_offset = pick_own(4) * type->extent;
            call.recv_offset = pick_own(4) * type->extent;
        }
        suite_call(&suite, &call);
        if (0 == pick(8)) {
            ring(&suite);
        }
        if (0 == pick(60)) {
            comms_free(comms);
            comms_make(&suite, comms);
        }
    }
    comms_free(comms);
    return suite_end(&suite);
}
