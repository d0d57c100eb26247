/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Random calls of the nine collectives that run on the GPUs: on several communicators, blocking, nonblocking and
 * persistent, up to three at a time, with random counts, roots, displacements and memory, in place or not. Each is made
 * once more by Open MPI on host memory, on a communicator without gpuhier; all bytes of both receive buffers must be
 * equal. Values are small integers, so that sums do not depend on their order.
 *
 *   soak CALLS SEED
 *   soak TIME SEED [leak]   for a time (90s, 20m) instead. Of the communicators all but one are made anew every 500
 *                           calls, and each rank's resources are watched (soak_watch.c). "leak": the last rank leaks a
 *                           descriptor every ten calls, and the run must fail.
 */
#include "soak_watch.h"

#include <fcntl.h>
#include <mpi-ext.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PENDING = 3, COMMS = 4, MOST_RANKS = 16, MOST_BYTES = 2 << 20 };
enum { ROUND = 100, ROUNDS_OF_COMMS = 5 }; /* calls between two looks at the clock; such rounds of a communicator */

typedef enum way { BLOCKING, NONBLOCKING, PERSISTENT } way_t;

typedef enum coll {
    ALLREDUCE,
    REDUCE,
    REDUCE_SCATTER_BLOCK,
    REDUCE_SCATTER,
    BCAST,
    ALLGATHER,
    ALLGATHERV,
    ALLTOALL,
    ALLTOALLV,
    COLLS
} coll_t;
static const char *const names[COLLS] = {"allreduce",      "reduce",   "reduce_scatter_block",
                                         "reduce_scatter", "bcast",    "allgather",
                                         "allgatherv",     "alltoall", "alltoallv"};

/* Ints of one pseudo-random sequence: that of all ranks, or this rank's own. */
static uint64_t common, local;

static unsigned draw(uint64_t *state, unsigned below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned) (*state >> 33) % below;
}

/* A call. Counts and displacements are in elements. */
typedef struct op {
    coll_t coll;
    way_t way;
    MPI_Datatype type;
    MPI_Op op;
    size_t elem_bytes;
    int count, root, nranks, rank;
    bool in_place;
    int scounts[MOST_RANKS], rcounts[MOST_RANKS], sdisps[MOST_RANKS], rdisps[MOST_RANKS];
    size_t in_bytes, out_bytes;
    int comm;
    MPI_Request request;
    buffer_t send, recv; /* on which gpuhier works */
    char *in, *out;      /* host memory, for Open MPI */
} op_t;

static MPI_Comm comms[COMMS], plain[COMMS];
static op_t ops[PENDING];
static int npending;

/* The run is by time. Open MPI 4.1.4 never frees the temporary buffer of a persistent call on host memory, as those are
 * that gpuhier stages and those that results are compared with. So the ones that need a buffer are short here. */
static bool watched;

#define CALL(Name, Iname, ...)                                          \
    (BLOCKING == way      ? MPI_##Name(__VA_ARGS__, comm)               \
     : NONBLOCKING == way ? MPI_##Iname(__VA_ARGS__, comm, &o->request) \
                          : PERSISTENT_NAME(Name)(__VA_ARGS__, comm, MPI_INFO_NULL, &o->request))

static int make(op_t *o, way_t way, void *in, void *out, MPI_Comm comm)
{
    const void *from = o->in_place ? MPI_IN_PLACE : in;
    const bool is_root = o->rank == o->root;
    switch (o->coll) {
    case ALLREDUCE:
        return CALL(Allreduce, Iallreduce, from, out, o->count, o->type, o->op);
    case REDUCE:
        return CALL(Reduce, Ireduce, is_root ? from : in, is_root ? out : NULL, o->count, o->type, o->op, o->root);
    case REDUCE_SCATTER_BLOCK:
        return CALL(Reduce_scatter_block, Ireduce_scatter_block, from, out, o->count, o->type, o->op);
    case REDUCE_SCATTER:
        return CALL(Reduce_scatter, Ireduce_scatter, from, out, o->rcounts, o->type, o->op);
    case BCAST:
        return CALL(Bcast, Ibcast, out, o->count, o->type, o->root);
    case ALLGATHER:
        return CALL(Allgather, Iallgather, from, o->count, o->type, out, o->count, o->type);
    case ALLGATHERV:
        return CALL(Allgatherv, Iallgatherv, from, o->rcounts[o->rank], o->type, out, o->rcounts, o->rdisps, o->type);
    case ALLTOALL:
        return CALL(Alltoall, Ialltoall, from, o->count, o->type, out, o->count, o->type);
    default:
        return CALL(Alltoallv, Ialltoallv, from, o->scounts, o->sdisps, o->type, out, o->rcounts, o->rdisps, o->type);
    }
}

static int length_draw(void)
{
    static const unsigned most[] = {4, 40, 600, 5000, 30000};
    return (int) draw(&common, most[draw(&common, 5)]);
}

/* Displacements in a random order of blocks, with holes. Returns the elements from the first to the end of the last. */
static size_t disps_draw(const int *counts, int *disps, int n)
{
    const bool backwards = 0 == draw(&local, 2);
    size_t at = draw(&local, 3);
    for (int i = 0; i < n; ++i) {
        const int k = backwards ? n - 1 - i : i;
        disps[k] = (int) at;
        at += (size_t) counts[k] + draw(&local, 3) / 2;
    }
    return at;
}

static bool is_reduction(coll_t coll)
{
    return coll <= REDUCE_SCATTER;
}

/* Chooses a call: what all ranks of the communicator must agree on from `common`. */
static void op_draw(op_t *o)
{
    static const struct {
        MPI_Datatype type;
        MPI_Op op;
        size_t bytes;
    } kinds[] = {{MPI_INT, MPI_SUM, 4},
                 {MPI_DOUBLE, MPI_SUM, 8},
                 {MPI_FLOAT, MPI_MAX, 4},
                 {MPI_LONG, MPI_BOR, 8},
                 {MPI_UNSIGNED_CHAR, MPI_MAX, 1},
                 {MPI_DOUBLE, MPI_MIN, 8},
                 {MPI_UNSIGNED_SHORT, MPI_BXOR, 2}};
    const unsigned kind = draw(&common, sizeof(kinds) / sizeof(kinds[0]));
    o->comm = (int) draw(&common, COMMS);
    MPI_Comm_size(comms[o->comm], &o->nranks);
    MPI_Comm_rank(comms[o->comm], &o->rank);
    o->coll = (coll_t) draw(&common, COLLS);
    const unsigned way = draw(&common, 10);
    /* In Open MPI 4.1.4 nonblocking MPI_Alltoallv hangs where counts differ. */
    o->way = way < 7 || ALLTOALLV == o->coll ? BLOCKING : way < 9 ? NONBLOCKING : PERSISTENT;
    o->type = kinds[kind].type;
    o->op = kinds[kind].op;
    o->elem_bytes = kinds[kind].bytes;
    o->in_place = 0 == draw(&common, 3);
    const int n = o->nranks, most = (int) (MOST_BYTES / o->elem_bytes) / (n + 1) - 4;
    o->root = (int) draw(&common, 1 << 20) % n;
    o->count = length_draw();
    if (watched && PERSISTENT == o->way && (is_reduction(o->coll) || o->in_place)) {
        o->count %= 4;
    }
    o->count = o->count < most ? o->count : most;
    int matrix[MOST_RANKS][MOST_RANKS];
    for (int i = 0; i < MOST_RANKS; ++i) { /* as many draws on all communicators */
        for (int k = 0; k < MOST_RANKS; ++k) {
            const unsigned shape = draw(&common, 4);
            matrix[i][k] = 0 == shape ? 0 : (int) (draw(&common, (unsigned) o->count + 1));
        }
    }
    for (int i = 0; i < n; ++i) {
        const int far = i < o->rank ? i : o->rank, near = i < o->rank ? o->rank : i;
        o->rcounts[i] = ALLTOALLV != o->coll ? matrix[0][i] : o->in_place ? matrix[far][near] : matrix[i][o->rank];
        o->scounts[i] = matrix[o->rank][i];
    }
    const size_t count = (size_t) o->count, all = count * (size_t) n;
    size_t listed = 0;
    for (int i = 0; i < n; ++i) {
        listed += (size_t) o->rcounts[i];
    }
    const size_t ins[] = {count, count, all, listed, 0, count, (size_t) o->rcounts[o->rank], all, 0};
    const size_t outs[] = {count, count, count, (size_t) o->rcounts[o->rank], count, all, 0, all, 0};
    size_t in = ins[o->coll], out = outs[o->coll];
    in = ALLTOALLV == o->coll ? disps_draw(o->scounts, o->sdisps, n) : in;
    out = ALLTOALLV == o->coll || ALLGATHERV == o->coll ? disps_draw(o->rcounts, o->rdisps, n) : out;
    out = o->in_place && in > out && ALLTOALLV != o->coll ? in : out;
    o->in_bytes = in * o->elem_bytes;
    o->out_bytes = out * o->elem_bytes;
}

static void value_put(const op_t *o, char *at, size_t i)
{
    const unsigned value = draw(&local, 9);
    if (MPI_INT == o->type) {
        ((int *) (void *) at)[i] = (int) value;
    } else if (MPI_DOUBLE == o->type) {
        ((double *) (void *) at)[i] = value;
    } else if (MPI_FLOAT == o->type) {
        ((float *) (void *) at)[i] = (float) value;
    } else if (MPI_LONG == o->type) {
        ((long *) (void *) at)[i] = (long) value;
    } else if (MPI_UNSIGNED_SHORT == o->type) {
        ((unsigned short *) (void *) at)[i] = (unsigned short) value;
    } else {
        at[i] = (char) value;
    }
}

static buffer_kind_t kind_draw(void)
{
    const unsigned x = draw(&local, 40);
    return x < BUFFER_NKINDS ? (buffer_kind_t) x : BUFFER_DEVICE;
}

/* Buffers with values in all elements: what is no result keeps them. */
static void op_fill(op_t *o)
{
    o->in = malloc(o->in_bytes + 16);
    o->out = malloc(o->out_bytes + 16);
    for (size_t i = 0; i < o->in_bytes / o->elem_bytes; ++i) {
        value_put(o, o->in, i);
    }
    for (size_t i = 0; i < o->out_bytes / o->elem_bytes; ++i) {
        value_put(o, o->out, i);
    }
    buffer_alloc(&o->send, kind_draw(), o->in_bytes + 16, o->elem_bytes * draw(&local, 2));
    buffer_alloc(&o->recv, kind_draw(), o->out_bytes + 16, o->elem_bytes * draw(&local, 2));
    buffer_write(&o->send, o->in, o->in_bytes);
    buffer_write(&o->recv, o->out, o->out_bytes);
}

/* Makes the call on host memory, compares, and lets go. */
static void op_check(suite_t *suite, op_t *o)
{
    char *got = malloc(o->out_bytes + 16);
    make(o, BLOCKING, o->in, o->out, plain[o->comm]);
    buffer_read(&o->recv, got, o->out_bytes);
    /* What a reduction in place has left of its input is not defined. */
    const size_t scattered = REDUCE_SCATTER_BLOCK == o->coll ? (size_t) o->count : (size_t) o->rcounts[o->rank];
    const bool scatters = REDUCE_SCATTER_BLOCK == o->coll || REDUCE_SCATTER == o->coll;
    const size_t bytes = scatters ? scattered * o->elem_bytes : o->out_bytes;
    size_t at = 0;
    while (at < bytes && got[at] == o->out[at]) {
        ++at;
    }
    if (at < bytes || 0 != buffer_check_guards(&o->recv) || 0 != buffer_check_guards(&o->send)) {
        suite_fail(suite, "call %lu: %s, way %d, comm %d, root %d, count %d, in place %d, %s to %s: byte %zu of %zu",
                   suite->calls, names[o->coll], o->way, o->comm, o->root, o->count, o->in_place,
                   buffer_kind_name(o->send.kind), buffer_kind_name(o->recv.kind), at, bytes);
    }
    free(got);
    free(o->in);
    free(o->out);
    buffer_free(&o->send);
    buffer_free(&o->recv);
}

static void all_wait(suite_t *suite)
{
    for (int i = 0; i < npending; ++i) {
        op_t *o = &ops[i];
        if (BLOCKING != o->way && MPI_SUCCESS != MPI_Wait(&o->request, MPI_STATUS_IGNORE)) {
            suite_fail(suite, "%s: an error of MPI_Wait", names[o->coll]);
        }
        if (PERSISTENT == o->way) {
            MPI_Request_free(&o->request);
        }
    }
    for (int i = 0; i < npending; ++i) {
        op_check(suite, &ops[i]);
    }
    npending = 0;
}

/* Makes communicators first .. COMMS - 1. */
static void comms_make(MPI_Comm *to, int first, const suite_t *suite)
{
    const int colors[COMMS] = {0, 0, suite->rank % 2, suite->rank < suite->nranks / 2};
    for (int i = first; i < COMMS; ++i) {
        if (0 == i) {
            MPI_Comm_dup(MPI_COMM_WORLD, &to[i]);
        } else {
            MPI_Comm_split(MPI_COMM_WORLD, colors[i], 1 == i ? -suite->rank : suite->rank, &to[i]);
        }
    }
}

static void comms_free(MPI_Comm *of, int first)
{
    for (int i = first; i < COMMS; ++i) {
        MPI_Comm_free(&of[i]);
    }
}

/* Makes one more call. It and those before it may be left pending. */
static void one_call(suite_t *suite)
{
    op_t *o = &ops[npending++];
    op_draw(o);
    op_fill(o);
    int error = make(o, o->way, o->send.message, o->recv.message, comms[o->comm]);
    if (MPI_SUCCESS == error && PERSISTENT == o->way) {
        error = MPI_Start(&o->request);
    }
    if (MPI_SUCCESS != error) {
        suite_fail(suite, "%s, way %d: error %d", names[o->coll], o->way, error);
    }
    ++suite->calls;
    if (PENDING == npending || 0 == draw(&common, 2)) {
        all_wait(suite);
    }
}

/* Makes calls for a time. Notes are made while the communicators that come and go are gone: what they held must have
 * gone with them. The one that stays must not hold more and more. */
static void soak_for(suite_t *suite, watch_t *watch, double seconds, bool leaks)
{
    watch_word_t word;
    watch_begin(watch, plain[0], seconds);
    do {
        for (int i = 0; i < ROUND; ++i) {
            one_call(suite);
            if (leaks && 0 == i % 10 && open("/dev/null", O_RDONLY) < 0) {
                suite_fail(suite, "cannot open /dev/null");
            }
        }
        all_wait(suite);
        word = watch_ask(watch);
        if (WATCH_GO_ON != word || 0 == suite->calls % (ROUND * ROUNDS_OF_COMMS)) {
            comms_free(comms, 1);
            if (WATCH_GO_ON != word) {
                watch_note(watch);
            }
            comms_make(comms, 1, suite);
        }
    } while (WATCH_NOTE_AND_STOP != word);
}

/* Seconds of "90s" or "20m"; 0 if it is a number of calls. */
static double time_read(const char *text)
{
    char *end;
    const double number = strtod(text, &end);
    return 0 == strcmp(end, "s") ? number : 0 == strcmp(end, "m") ? 60 * number : 0;
}

int main(int argc, char **argv)
{
    suite_t suite;
    watch_t watch;
    pvars_t before, after;
    suite_begin(&suite, "soak", &argc, &argv);
    if (argc < 3 || suite.nranks > MOST_RANKS) {
        fprintf(stderr, "soak CALLS SEED, or soak TIME SEED [leak], on at most %d ranks\n", MOST_RANKS);
        return 2;
    }
    const double seconds = time_read(argv[1]);
    watched = seconds > 0;
    const unsigned long calls = strtoul(argv[1], NULL, 10);
    common = strtoull(argv[2], NULL, 10) * 977;
    local = common + 7919u * (unsigned) (suite.rank + 1);
    comms_make(comms, 0, &suite);
    pvars_enable(false);
    comms_make(plain, 0, &suite);
    pvars_enable(true);
    pvars_read(&before);
    if (watched) {
        const bool leaks = argc > 3 && 0 == strcmp(argv[3], "leak") && suite.nranks - 1 == suite.rank;
        soak_for(&suite, &watch, seconds, leaks);
    }
    while (!watched && suite.calls < calls) {
        one_call(&suite);
    }
    all_wait(&suite);
    pvars_read(&after);
    const uint64_t on_gpus = after.accelerated - before.accelerated;
    if (PATH_ANY != suite.default_path && on_gpus < suite.calls / 4) {
        suite_fail(&suite, "%llu of %lu calls on the GPUs", (unsigned long long) on_gpus, suite.calls);
    }
    if (watched) {
        watch_end(&watch, &suite, on_gpus);
    }
    comms_free(comms, 0);
    comms_free(plain, 0);
    return suite_end(&suite);
}
