/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A rank cannot copy the input that it passes by a type with gaps, in nonblocking and persistent MPI_Allgather on the
 * GPUs: MPI_Wait returns an error on that rank alone, and no rank waits for it. The others get ones for its block, and
 * right blocks of the rest. The calls after it are right. Another rank, which passes ints, never knows.
 *
 *   fault_packed VICTIM
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault_lib.h"
#include "pvars.h"

#include <mpi-ext.h>

#if MPI_VERSION >= 4 || defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5
#    define ALLGATHER_INIT MPI_Allgather_init
#else
#    define ALLGATHER_INIT MPIX_Allgather_init
#endif

#define COUNT 3001 /* ints of a block */
#define WARM 6

/* All copies by which a strided input can come to host memory. */
#define HARM "cuMemcpy2DAsync:*:999,cuMemcpyAsync:*:999,cuMemcpyDtoH:*:999"

typedef enum way { BLOCKING, NONBLOCKING, PERSISTENT, WAYS } way_t;
static const char *const ways[] = {"blocking", "nonblocking", "persistent"};

typedef struct work {
    suite_t *suite;
    int victim, salt;
    buffer_t in, out;
    MPI_Datatype type; /* of this rank's input */
    int count;
} work_t;

static int value(int rank, int i, int salt)
{
    return 5003 * (rank + 1) + 13 * i + 7 * salt;
}

/* One call. harm: of the input's copy; NULL: none. */
static void one(work_t *w, way_t way, const saboteur_t *saboteur, const char *harm)
{
    const int n = w->suite->nranks, me = w->suite->rank, step = me == w->victim ? 2 : 1;
    int *in = malloc(2 * COUNT * sizeof(int)), *out = malloc((size_t) n * COUNT * sizeof(int));
    MPI_Request request = MPI_REQUEST_NULL;
    pvars_t before, after;
    ++w->salt;
    for (int i = 0; i < step * COUNT; ++i) {
        in[i] = 0 == i % step ? value(me, i / step, w->salt) : 77;
    }
    buffer_poison(&w->out);
    buffer_write(&w->in, in, (size_t) step * COUNT * sizeof(int));
    if (PERSISTENT == way) {
        ALLGATHER_INIT(w->in.message, w->count, w->type, w->out.message, COUNT, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL,
                       &request);
    }
    pvars_read(&before);
    if (NULL != harm && me == w->victim && 0 != saboteur->arm(harm)) {
        _exit(2);
    }
    int error = BLOCKING == way
                    ? MPI_Allgather(w->in.message, w->count, w->type, w->out.message, COUNT, MPI_INT, MPI_COMM_WORLD)
                : PERSISTENT == way ? MPI_Start(&request)
                                    : MPI_Iallgather(w->in.message, w->count, w->type, w->out.message, COUNT, MPI_INT,
                                                     MPI_COMM_WORLD, &request);
    saboteur->arm("");
    error = BLOCKING == way || MPI_SUCCESS != error ? error : MPI_Wait(&request, MPI_STATUS_IGNORE);
    pvars_read(&after);
    buffer_read(&w->out, out, (size_t) n * COUNT * sizeof(int));
    if ((MPI_SUCCESS != error) != (NULL != harm && me == w->victim)) {
        suite_fail(w->suite, "%s: error %d", ways[way], error);
    }
    for (int i = 0; i < n * COUNT; ++i) {
        const int rank = i / COUNT, want = NULL != harm && rank == w->victim ? -1 : value(rank, i % COUNT, w->salt);
        if (out[i] != want) {
            suite_fail(w->suite, "%s: element %d is %d, not %d", ways[way], i, out[i], want);
            break;
        }
    }
    if (w->salt > WARM && after.accelerated == before.accelerated) {
        suite_fail(w->suite, "%s: not on the GPUs", ways[way]);
    }
    ++w->suite->calls;
    if (MPI_REQUEST_NULL != request) { /* Open MPI frees one that ends with an error */
        MPI_Request_free(&request);
    }
    free(in);
    free(out);
}

int main(int argc, char **argv)
{
    suite_t suite;
    saboteur_t saboteur;
    MPI_Datatype vector;
    suite_begin(&suite, "fault_packed", &argc, &argv);
    if (2 != argc) {
        fprintf(stderr, "fault_packed VICTIM\n");
        _exit(2);
    }
    saboteur_find(&saboteur);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Type_vector(COUNT, 1, 2, MPI_INT, &vector);
    MPI_Type_commit(&vector);
    work_t w = {.suite = &suite, .victim = atoi(argv[1]), .type = MPI_INT, .count = COUNT};
    if (suite.rank == w.victim) {
        w.type = vector;
        w.count = 1;
    }
    deadline(60, "in calls whose input cannot be packed");
    buffer_alloc(&w.in, BUFFER_DEVICE, 2 * COUNT * sizeof(int), 0);
    buffer_alloc(&w.out, BUFFER_DEVICE, (size_t) suite.nranks * COUNT * sizeof(int), 0);
    for (int i = 0; i < WARM; ++i) {
        one(&w, BLOCKING, &saboteur, NULL);
    }
    for (way_t way = NONBLOCKING; way < WAYS; ++way) {
        one(&w, way, &saboteur, NULL);
        one(&w, way, &saboteur, HARM);
        one(&w, way, &saboteur, NULL);
    }
    one(&w, BLOCKING, &saboteur, NULL);
    MPI_Type_free(&vector);
    buffer_free(&w.in);
    buffer_free(&w.out);
    deadline(0, "");
    return suite_end(&suite);
}
