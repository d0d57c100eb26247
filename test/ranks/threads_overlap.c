/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_THREAD_MULTIPLE: each of several threads has overlapping communicators of its own, and mixes MPI_Allreduce and
 * MPI_Iallreduce of device buffers on them, in an order that is the same on all ranks. What is in flight is
 * completed in an order of each rank's own. So at any time some threads wait for others of their process: to be driven
 * by them, and not to be kept from what they need.
 *
 *   threads_overlap [--stock] [calls of each thread] [seed]
 */
#include "flight.h"
#include "overlap.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define NTHREADS 3
#define NSLOTS 5 /* calls that a thread may have in flight */

static const size_t counts[] = {1, 9, 700, 3000, 30001};
#define NCOUNTS (sizeof(counts) / sizeof(counts[0]))

/* One thread: what it is given, and its own view of the test. */
typedef struct work {
    suite_t suite; /* its own: counters and values */
    int ncalls;
    uint64_t shared_state, own_state; /* of the random choices that all ranks make, and of this rank's */
    MPI_Comm comms[OVERLAP_NKINDS];
    flight_t flights[NSLOTS];
} work_t;

static unsigned draw(uint64_t *state, unsigned limit)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned) (*state >> 33) % limit;
}

static void land(work_t *work, flight_t *flight)
{
    flight_check(&work->suite, flight, "a call of one thread of several");
    flight_free(flight);
    flight->count = 0;
}

/* Waits for one in flight, or only tests it. */
static void finish(work_t *work, flight_t *flight, bool wait)
{
    int done = 1;
    int error =
        wait ? MPI_Wait(&flight->request, MPI_STATUS_IGNORE) : MPI_Test(&flight->request, &done, MPI_STATUS_IGNORE);
    if (MPI_SUCCESS != error) {
        suite_fail(&work->suite, "a call of one thread of several ended with %d", error);
    }
    if (done) {
        land(work, flight);
    }
}

/* One that is not in flight; if there is none, one of this rank's choice is waited for. */
static flight_t *flight_find(work_t *work)
{
    const unsigned first = draw(&work->own_state, NSLOTS);
    for (unsigned i = 0; i < NSLOTS; ++i) {
        if (0 == work->flights[(first + i) % NSLOTS].count) {
            return &work->flights[(first + i) % NSLOTS];
        }
    }
    finish(work, &work->flights[first], true);
    return &work->flights[first];
}

static void step(work_t *work)
{
    MPI_Comm comm = work->comms[draw(&work->shared_state, OVERLAP_NKINDS)];
    const size_t count = counts[draw(&work->shared_state, NCOUNTS)];
    const bool blocking = 0 == draw(&work->shared_state, 2), in_place = 0 == draw(&work->shared_state, 3);
    flight_t blocked, *flight = blocking ? &blocked : flight_find(work);
    flight_make(&work->suite, flight, comm, "double", "sum", count, BUFFER_DEVICE, BUFFER_DEVICE, in_place);
    if (blocking) {
        flight_reduce(&work->suite, flight);
        land(work, flight);
    } else {
        flight_post(&work->suite, flight);
    }
    flight = &work->flights[draw(&work->own_state, NSLOTS)];
    if (flight->count > 0) {
        finish(work, flight, 0 == draw(&work->own_state, 3));
    }
}

static void *run(void *arg)
{
    work_t *work = arg;
    suite_choose_gpu(); /* a thread's own choice */
    for (int call = 0; call < work->ncalls; ++call) {
        step(work);
    }
    const unsigned first = draw(&work->own_state, NSLOTS);
    for (unsigned i = 0; i < NSLOTS; ++i) {
        flight_t *flight = &work->flights[(first + i) % NSLOTS];
        if (flight->count > 0) {
            finish(work, flight, true);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static work_t works[NTHREADS];
    pthread_t threads[NTHREADS];
    suite_t suite;
    pvars_t before, after;
    int provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    if (MPI_THREAD_MULTIPLE != provided) {
        printf("this Open MPI has no MPI_THREAD_MULTIPLE\n");
        MPI_Finalize();
        return 77;
    }
    suite_begin(&suite, "threads_overlap", &argc, &argv);
    const int ncalls = argc > 1 ? atoi(argv[1]) : suite.full ? 1000 : 100;
    const uint64_t seed = argc > 2 ? (uint64_t) atoll(argv[2]) : 1;
    pvars_read(&before);
    for (int i = 0; i < NTHREADS; ++i) {
        work_t *work = &works[i];
        work->suite = suite;
        work->suite.salt = 1000000 * (uint64_t) (i + 1);
        work->ncalls = ncalls;
        work->shared_state = seed + 100 * (uint64_t) (i + 1);
        work->own_state = work->shared_state + 10000 * (uint64_t) (suite.rank + 1);
        overlap_make(MPI_COMM_WORLD, work->comms);
    }
    for (int i = 0; i < NTHREADS; ++i) {
        pthread_create(&threads[i], NULL, run, &works[i]);
    }
    for (int i = 0; i < NTHREADS; ++i) {
        pthread_join(threads[i], NULL);
        suite.calls += works[i].suite.calls;
        suite.failures += works[i].suite.failures;
        overlap_free(works[i].comms);
    }
    pvars_read(&after);
    if (PATH_ANY != suite.default_path && after.accelerated == before.accelerated) {
        suite_fail(&suite, "no call was accelerated");
    }
    return suite_end(&suite);
}
