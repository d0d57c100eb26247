/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A driver call of one rank fails where a nonblocking or persistent collective other than MPI_Allreduce begins: the
 * ranks vote the call down, and it ends in host memory, right on all of them. Every such collective, roots that fail
 * and roots that do not. Blocking calls before and after are right.
 *
 *   fault_voted VICTIM HARM
 *
 * HARM: a plan of the saboteur, made just before a call is posted.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault_lib.h"
#include "flight.h"

#include <mpi-ext.h>

#if MPI_VERSION >= 4 || defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5
#    define PERSISTENT_NAME(name) MPI_##name##_init
#else
#    define PERSISTENT_NAME(name) MPIX_##name##_init
#endif

#define COUNT 3001 /* ints of a block */
#define WARM 6

#define RANKS_MAX 8
#define HOLE 3 /* ints between blocks in lists */

typedef enum coll { REDUCE, SCATTER, BCAST, GATHER, SCATTER_LIST, GATHER_LIST, PAIRS, PAIRS_LIST, COLLS } coll_t;
static const char *const names[] = {"MPI_Reduce",         "MPI_Reduce_scatter_block", "MPI_Bcast",    "MPI_Allgather",
                                    "MPI_Reduce_scatter", "MPI_Allgatherv",           "MPI_Alltoall", "MPI_Alltoallv"};

typedef enum way { BLOCKING, NONBLOCKING, PERSISTENT } way_t;

typedef struct work {
    suite_t *suite;
    coll_t coll;
    int root, salt;
    buffer_t in, out;
    size_t in_ints, out_ints;
} work_t;

static int value(const work_t *w, int rank, size_t i)
{
    return (int) ((size_t) (rank + 1) * 1009u + i * 13u + (size_t) w->salt * 7u) % 5003;
}

/* Ints of the block that a rank gives to another one. */
static size_t block(const work_t *w, int from, int to)
{
    switch (w->coll) {
    case SCATTER_LIST:
        return 1 == to ? 0 : COUNT - 100 * (size_t) to;
    case GATHER_LIST:
        return 1 == from ? 0 : COUNT - 100 * (size_t) from;
    case PAIRS_LIST:
        return to == (from + 1) % 3 ? 0 : COUNT - 100 * (size_t) from - 10 * (size_t) to;
    default:
        return COUNT;
    }
}

/* Where a rank's block for another one begins in its input; for nranks: where the input ends. */
static size_t given_at(const work_t *w, int from, int to)
{
    const bool all = SCATTER == w->coll || SCATTER_LIST == w->coll || PAIRS <= w->coll;
    size_t ints = 0;
    for (int i = 0; i < to && all; ++i) {
        ints += block(w, from, i) + (PAIRS_LIST == w->coll ? HOLE : 0);
    }
    return all ? ints : to == w->suite->nranks ? block(w, from, from) : 0;
}

/* The same for the block of a rank in this rank's result. */
static size_t taken_at(const work_t *w, int from)
{
    const bool all = GATHER == w->coll || GATHER_LIST <= w->coll,
               holes = GATHER_LIST == w->coll || PAIRS_LIST == w->coll;
    size_t ints = 0;
    for (int i = 0; i < from && all; ++i) {
        ints += block(w, i, w->suite->rank) + (holes ? HOLE : 0);
    }
    return all ? ints : from == w->suite->nranks ? block(w, w->suite->rank, w->suite->rank) : 0;
}

/* hole: what lies between blocks. */
static int expected(const work_t *w, size_t i, int hole)
{
    const int me = w->suite->rank, n = w->suite->nranks;
    int sum = 0;
    if (BCAST == w->coll) {
        return value(w, w->root, i);
    }
    if (GATHER == w->coll || GATHER_LIST <= w->coll) {
        for (int from = 0; from < n; ++from) {
            const size_t begin = taken_at(w, from);
            if (i >= begin && i < begin + block(w, from, me)) {
                return value(w, from, given_at(w, from, me) + i - begin);
            }
        }
        return hole;
    }
    for (int rank = 0; rank < n; ++rank) {
        sum += value(w, rank, given_at(w, rank, me) + i);
    }
    return sum;
}

static void fill(work_t *w)
{
    int *ints = malloc(w->in_ints * sizeof(int));
    int *holes = malloc(w->out_ints * sizeof(int));
    ++w->salt;
    for (size_t i = 0; i < w->out_ints; ++i) {
        holes[i] = -w->salt;
    }
    for (size_t i = 0; i < w->in_ints; ++i) {
        ints[i] = value(w, w->suite->rank, i);
    }
    buffer_poison(&w->out);
    buffer_write(&w->out, holes, w->out_ints * sizeof(int));
    buffer_write(BCAST == w->coll && w->suite->rank == w->root ? &w->out : &w->in, ints, w->in_ints * sizeof(int));
    free(ints);
    free(holes);
}

static void check(work_t *w, const char *when)
{
    int *ints = malloc(w->out_ints * sizeof(int));
    buffer_read(&w->out, ints, w->out_ints * sizeof(int));
    const bool takes = REDUCE != w->coll || w->suite->rank == w->root;
    for (size_t i = 0; takes && i < w->out_ints; ++i) {
        if (ints[i] != expected(w, i, -w->salt)) {
            suite_fail(w->suite, "%s, root %d, %s: element %zu is %d, not %d", names[w->coll], w->root, when, i,
                       ints[i], expected(w, i, -w->salt));
            break;
        }
    }
    ++w->suite->calls;
    free(ints);
}

#define CALL(Name, Iname, ...)                                                \
    (BLOCKING == way      ? MPI_##Name(__VA_ARGS__, MPI_COMM_WORLD)           \
     : NONBLOCKING == way ? MPI_##Iname(__VA_ARGS__, MPI_COMM_WORLD, request) \
                          : PERSISTENT_NAME(Name)(__VA_ARGS__, MPI_COMM_WORLD, MPI_INFO_NULL, request))

static int begin(work_t *w, way_t way, MPI_Request *request)
{
    static int given[RANKS_MAX], from[RANKS_MAX], taken[RANKS_MAX], into[RANKS_MAX]; /* until the call has ended */
    void *in = w->in.message, *out = w->out.message;
    const int me = w->suite->rank;
    for (int i = 0; i < w->suite->nranks; ++i) {
        given[i] = (int) block(w, me, i);
        from[i] = (int) given_at(w, me, i);
        taken[i] = (int) block(w, i, me);
        into[i] = (int) taken_at(w, i);
    }
    switch (w->coll) {
    case REDUCE:
        return CALL(Reduce, Ireduce, in, out, COUNT, MPI_INT, MPI_SUM, w->root);
    case SCATTER:
        return CALL(Reduce_scatter_block, Ireduce_scatter_block, in, out, COUNT, MPI_INT, MPI_SUM);
    case BCAST:
        return CALL(Bcast, Ibcast, out, COUNT, MPI_INT, w->root);
    case SCATTER_LIST:
        return CALL(Reduce_scatter, Ireduce_scatter, in, out, given, MPI_INT, MPI_SUM);
    case GATHER_LIST:
        return CALL(Allgatherv, Iallgatherv, in, given[me], MPI_INT, out, taken, into, MPI_INT);
    case PAIRS:
        return CALL(Alltoall, Ialltoall, in, COUNT, MPI_INT, out, COUNT, MPI_INT);
    case PAIRS_LIST:
        return CALL(Alltoallv, Ialltoallv, in, given, from, MPI_INT, out, taken, into, MPI_INT);
    default:
        return CALL(Allgather, Iallgather, in, COUNT, MPI_INT, out, COUNT, MPI_INT);
    }
}

static void blocking(work_t *w, const char *when)
{
    for (int i = 0; i < WARM; ++i) {
        fill(w);
        if (MPI_SUCCESS != begin(w, BLOCKING, NULL)) {
            suite_fail(w->suite, "%s, %s: error", names[w->coll], when);
        }
        check(w, when);
    }
}

/* A call that is voted down, and one after it that is not. */
static void voted(work_t *w, way_t way, const saboteur_t *saboteur, const char *harm)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int error = PERSISTENT == way ? begin(w, way, &request) : MPI_SUCCESS;
    for (int turn = 0; turn < 2; ++turn) {
        pvars_t before, after;
        fill(w);
        MPI_Barrier(MPI_COMM_WORLD);
        pvars_read(&before);
        if (NULL != harm && 0 == turn && 0 != saboteur->arm(harm)) {
            _exit(2);
        }
        error = MPI_SUCCESS != error ? error : PERSISTENT == way ? MPI_Start(&request) : begin(w, way, &request);
        error = MPI_SUCCESS != error ? error : MPI_Wait(&request, MPI_STATUS_IGNORE);
        saboteur->arm("");
        pvars_read(&after);
        if (MPI_SUCCESS != error) {
            suite_fail(w->suite, "%s, voted down: error %d", names[w->coll], error);
            return;
        }
        check(w, 0 == turn ? "voted down" : "after a vote");
        if (1 - turn != (int) (after.on_host - before.on_host)) {
            suite_fail(w->suite, "%s, root %d, %s: %llu calls ended in host memory, not %d", names[w->coll], w->root,
                       PERSISTENT == way ? "persistent" : "nonblocking",
                       (unsigned long long) (after.on_host - before.on_host), 1 - turn);
        }
    }
    if (MPI_REQUEST_NULL != request) {
        MPI_Request_free(&request);
    }
}

int main(int argc, char **argv)
{
    suite_t suite;
    saboteur_t saboteur;
    suite_begin(&suite, "fault_voted", &argc, &argv);
    if (3 != argc) {
        fprintf(stderr, "fault_voted VICTIM HARM\n");
        _exit(2);
    }
    saboteur_find(&saboteur);
    const char *harm = suite.rank == atoi(argv[1]) ? argv[2] : NULL;
    deadline(60, "in calls that the ranks vote down");
    for (int coll = 0; coll < COLLS; ++coll) {
        const bool has_root = REDUCE == coll || BCAST == coll;
        for (int root = 0; root < (has_root ? suite.nranks : 1); ++root) {
            work_t w = {.suite = &suite, .coll = (coll_t) coll, .root = root};
            w.in_ints = given_at(&w, suite.rank, suite.nranks);
            w.out_ints = taken_at(&w, suite.nranks);
            buffer_alloc(&w.in, BUFFER_DEVICE, w.in_ints * sizeof(int), 0);
            buffer_alloc(&w.out, BUFFER_DEVICE, w.out_ints * sizeof(int), 0);
            blocking(&w, "before");
            voted(&w, NONBLOCKING, &saboteur, harm);
            blocking(&w, "between");
            voted(&w, PERSISTENT, &saboteur, harm);
            blocking(&w, "after");
            buffer_free(&w.in);
            buffer_free(&w.out);
        }
    }
    deadline(0, "");
    return suite_end(&suite);
}
