/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A rank dies while the one-shot kernel of rank 0 waits for it on the default stream, and a nonblocking call of rank 0
 * with another rank has a result that is to be copied there. Rank 0 must see the death, get an error in the blocking
 * call, and then the right result of the other one.
 *
 *   fault_behind staged|packed
 *
 * Ranks 0 and 1 make the blocking call; rank 1 stops at the launch of its kernel. Rank 2, which comes to the
 * nonblocking call when the kernel of rank 0 runs, kills rank 1 some time later. "staged" is MPI_Iscan of another
 * operation than gpuhier's, "packed" MPI_Ibcast on the GPUs, which rank 0 receives by a type with gaps. Ranks 0 and 2
 * print "rank N is content"; the script `death` counts them.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault_lib.h"
#include "pvars.h"

#define COUNT 1000    /* doubles of the blocking call: one-shot */
#define ELEMENTS 3001 /* ints of the nonblocking call */
#define GAP 77

typedef struct work {
    suite_t *suite;
    bool packed;
    MPI_Comm comm; /* ranks 2 and 0, in this order */
    MPI_Datatype vector;
    buffer_t in, out;
} work_t;

static int value(int rank, int i, int salt)
{
    return 31 * rank + 5 * i + salt;
}

/* Ints of rank 0 lie at every second place. */
static int places(const work_t *w)
{
    return w->packed && 0 == w->suite->rank ? 2 : 1;
}

static MPI_Request post(work_t *w, int salt)
{
    int *in = calloc(2 * ELEMENTS, sizeof(int));
    MPI_Request request;
    for (int i = 0; i < 2 * ELEMENTS; ++i) {
        in[i] = 2 == places(w) ? GAP : value(w->suite->rank, i, salt);
    }
    buffer_write(w->packed ? &w->out : &w->in, in, 2 * ELEMENTS * sizeof(int));
    free(in);
    if (!w->packed) {
        MPI_Iscan(w->in.message, w->out.message, ELEMENTS, MPI_INT, MPI_SUM, w->comm, &request);
    } else if (2 == places(w)) {
        MPI_Ibcast(w->out.message, 1, w->vector, 0, w->comm, &request);
    } else {
        MPI_Ibcast(w->out.message, ELEMENTS, MPI_INT, 0, w->comm, &request);
    }
    return request;
}

static bool is_right(const work_t *w, int salt)
{
    int *out = malloc(2 * ELEMENTS * sizeof(int));
    bool right = true;
    buffer_read(&w->out, out, 2 * ELEMENTS * sizeof(int));
    for (int i = 0; i < ELEMENTS; ++i) {
        const int sum = w->packed || 2 == w->suite->rank ? 0 : value(0, i, salt);
        right = right && value(2, i, salt) + sum == out[places(w) * i] && (1 == places(w) || GAP == out[2 * i + 1]);
    }
    free(out);
    return right;
}

static void pending_right(work_t *w, int salt)
{
    MPI_Request request = post(w, salt);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (!is_right(w, salt)) {
        fprintf(stderr, "fault_behind: rank %d: a call before any harm is wrong\n", w->suite->rank);
        _exit(1);
    }
}

/* Blocking calls are probed, and take the nonblocking ones of the kind to the GPUs. */
static void warm(work_t *w, pair_t *pair, MPI_Comm pair_comm)
{
    for (int i = 0; i < 6; ++i) {
        if (MPI_COMM_NULL != pair_comm
            && OUTCOME_RIGHT != pair_call(w->suite, pair_comm, pair, COUNT, ++w->suite->salt)) {
            fprintf(stderr, "fault_behind: rank %d: a call before any harm failed\n", w->suite->rank);
            _exit(1);
        }
        if (MPI_COMM_NULL != w->comm && w->packed) {
            MPI_Bcast(w->out.message, ELEMENTS, MPI_INT, 0, w->comm);
        }
    }
    if (MPI_COMM_NULL != w->comm) {
        pending_right(w, 1);
    }
}

int main(int argc, char **argv)
{
    suite_t suite;
    saboteur_t saboteur;
    pair_t pair;
    pvars_t before, after;
    MPI_Comm pair_comm;
    suite_begin(&suite, "fault_behind", &argc, &argv);
    if (2 != argc || 3 != suite.nranks) {
        fprintf(stderr, "fault_behind staged|packed, on 3 ranks\n");
        _exit(2);
    }
    saboteur_find(&saboteur);
    deaths_tolerate();
    work_t w = {.suite = &suite, .packed = 0 == strcmp(argv[1], "packed")};
    MPI_Comm_split(MPI_COMM_WORLD, 2 == suite.rank ? MPI_UNDEFINED : 0, 0, &pair_comm);
    MPI_Comm_split(MPI_COMM_WORLD, 1 == suite.rank ? MPI_UNDEFINED : 0, -suite.rank, &w.comm);
    MPI_Type_vector(ELEMENTS, 1, 2, MPI_INT, &w.vector);
    MPI_Type_commit(&w.vector);
    pair_alloc(&pair, COUNT);
    buffer_alloc(&w.in, BUFFER_DEVICE, 2 * ELEMENTS * sizeof(int), 0);
    buffer_alloc(&w.out, BUFFER_DEVICE, 2 * ELEMENTS * sizeof(int), 0);
    warm(&w, &pair, pair_comm);
    int victim = (int) getpid();
    MPI_Bcast(&victim, 1, MPI_INT, 1, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    deadline(30, "in a call whose kernel waits for a dead rank");
    pvars_read(&before);
    bool content = true;
    if (1 == suite.rank) {
        saboteur.arm("cuLaunchKernel:1:stop");
        (void) pair_call(&suite, pair_comm, &pair, COUNT, ++suite.salt);
        _exit(3); /* it is dead */
    }
    if (2 == suite.rank) {
        sleep(2);
    }
    MPI_Request request = post(&w, 2);
    if (2 == suite.rank) {
        sleep(2);
        kill(victim, SIGKILL);
    } else {
        content = OUTCOME_ERROR == pair_call(&suite, pair_comm, &pair, COUNT, ++suite.salt);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    pvars_read(&after);
    const bool right = is_right(&w, 2), took = !w.packed || after.accelerated > before.accelerated;
    printf("rank %d is %s: blocking %d, nonblocking %d, on its path %d\n", suite.rank,
           content && right && took ? "content" : "not content", content, right, took);
    fflush(stdout);
    deadline(0, "");
    sleep(120); /* the other one says its word, and then the script ends all */
    MPI_Abort(MPI_COMM_WORLD, 5);
    return 1;
}
