/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The collectives beside MPI_Allreduce that run on the GPUs. Blocks of many lengths, every root (with the longest block
 * and two others; with all of them in the full matrix), in place or not, on buffers that are used until they are
 * mapped, and on new ones; and calls in which one rank passes host memory or a type with gaps. Lists of counts have
 * zeros, or all elements at one rank, and a rank may have nothing to send and to receive; displacements differ between
 * ranks, leave holes, and are not in the order of ranks. Results are compared with sums and copies that this program
 * makes itself. What lies around a result must keep its contents.
 *
 *   rows [wide]
 *     wide: by the functions with large counts
 */
#include "calls.h"

#include <mpi-ext.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buffers.h"
#include "pvars.h"

#define RANKS_MAX 16
#define GUARD 64       /* ints before and behind each buffer */
#define WARM 6         /* calls after which a kind runs on the GPUs, and buffers are mapped */
#define STRANGE 4      /* calls with a rank that differs: after a flip back to the host, some probes must come again */
#define STRANGE_MAX 40 /* in so many, they do */

typedef enum way { BLOCKING, NONBLOCKING, PERSISTENT } way_t;
static const char *const way_names[] = {"blocking", "nonblocking", "persistent"};

typedef enum coll {
    ALLGATHER,
    BCAST,
    REDUCE,
    REDUCE_SCATTER_BLOCK,
    ALLGATHERV,
    REDUCE_SCATTER,
    ALLTOALL,
    ALLTOALLV,
    COLLS
} coll_t;

static bool is_wide; /* suite_is_wide() */

static const char *const names[COLLS] = {
    "MPI_Allgather",  "MPI_Bcast",          "MPI_Reduce",   "MPI_Reduce_scatter_block",
    "MPI_Allgatherv", "MPI_Reduce_scatter", "MPI_Alltoall", "MPI_Alltoallv"};

/* One call: `count` ints of a block. */
typedef struct plan {
    coll_t coll;
    size_t count;
    int root;
    bool in_place;
    size_t step; /* ints from one to the next, in what this rank sends or has of MPI_Bcast */
    int salt;
    way_t way;
} plan_t;

/* The upper bits of a product: they repeat at no distance that a slice or a block may have, and cost no division. */
static int value(int rank, size_t i, int salt)
{
    return (int) (((uint32_t) rank * 2246822519u + (uint32_t) i * 2654435761u + (uint32_t) salt * 3266489917u) >> 18);
}

/* Ints of the block of a rank. Lists of counts have zeros. */
static size_t length(const suite_t *suite, const plan_t *p, int rank)
{
    if ((ALLGATHERV != p->coll && REDUCE_SCATTER != p->coll) || 0 == p->count) {
        return p->count;
    }
    if (0 == p->count % 2) {
        return rank == suite->nranks - 1 ? p->count : 0;
    }
    return 1 == rank % 4 ? 0 : p->count + (size_t) rank % 2;
}

/* Where the block of a rank begins, of those that lie in the order of ranks; of nranks: the ints of all. */
static size_t in_order(const suite_t *suite, const plan_t *p, int rank)
{
    size_t ints = 0;
    for (int i = 0; i < rank; ++i) {
        ints += length(suite, p, i);
    }
    return ints;
}

/* Bytes that all ranks know of. */
static size_t bytes_of_all(const suite_t *suite, const plan_t *p)
{
    const bool has_one = BCAST == p->coll || REDUCE == p->coll;
    return (has_one ? p->count : in_order(suite, p, suite->nranks)) * sizeof(int);
}

/* Where the block of a rank begins in this rank's result of MPI_Allgatherv: the last rank's is first. */
static size_t displacement(const suite_t *suite, const plan_t *p, int rank)
{
    size_t ints = 2;
    for (int i = suite->nranks - 1; i > rank; --i) {
        ints += length(suite, p, i) + 1 + (size_t) suite->rank;
    }
    return ints;
}

/* Does the last rank give nothing and take nothing? */
static bool has_idle(const plan_t *p)
{
    return ALLTOALLV == p->coll && 0 == p->count % 2;
}

/* MPI_Alltoallv: ints from one rank to another. In place, as many go back. */
static size_t pair_length(const suite_t *suite, const plan_t *p, int from, int to)
{
    const int last = suite->nranks - 1, low = from < to ? from : to, high = from < to ? to : from;
    if (has_idle(p)) {
        return (p->in_place ? low + 1 == high || low == high : to == (from + 1) % last) && high < last ? p->count : 0;
    }
    const int key = p->in_place ? low + 2 * high : from + 2 * to;
    return 1 == key % 4 || 0 == p->count ? 0 : p->count + (size_t) key % 3;
}

/* Where the block for a rank, or of a rank, begins in what another one gives or takes. The last rank's is first. */
static size_t pair_place(const suite_t *suite, const plan_t *p, int rank, int other, bool given)
{
    size_t ints = given ? 1 : 2;
    for (int i = suite->nranks - 1; i > other; --i) {
        ints += given ? pair_length(suite, p, rank, i) + 3 : pair_length(suite, p, i, rank) + 1 + (size_t) rank;
    }
    return ints;
}

static size_t in_ints(const suite_t *suite, const plan_t *p)
{
    if (ALLTOALLV == p->coll) {
        return pair_place(suite, p, suite->rank, 0, !p->in_place) + pair_length(suite, p, suite->rank, 0);
    }
    const bool all = REDUCE_SCATTER_BLOCK == p->coll || ALLTOALL == p->coll || REDUCE_SCATTER == p->coll;
    return all ? in_order(suite, p, suite->nranks) : length(suite, p, suite->rank);
}

/* From the result's begin to its end, with holes. */
static size_t out_ints(const suite_t *suite, const plan_t *p)
{
    switch (p->coll) {
    case ALLGATHER:
    case ALLTOALL:
        return in_order(suite, p, suite->nranks);
    case ALLGATHERV:
        return displacement(suite, p, 0) + length(suite, p, 0);
    case ALLTOALLV:
        return pair_place(suite, p, suite->rank, 0, false) + pair_length(suite, p, 0, suite->rank);
    default:
        return length(suite, p, suite->rank);
    }
}

/* Elements from `first` of what a rank gives, `step` ints apart. */
static void values_write(int *to, size_t step, size_t ints, int rank, size_t first, int salt)
{
    for (size_t i = 0; i < ints; ++i) {
        to[i * step] = value(rank, first + i, salt);
    }
}

/* Writes this rank's result to where it must lie, and nothing elsewhere. */
static void result_write(const suite_t *suite, const plan_t *p, int *to)
{
    const size_t n = out_ints(suite, p), mine = REDUCE == p->coll ? 0 : in_order(suite, p, suite->rank);
    switch (p->coll) {
    case BCAST:
        values_write(to, p->step, p->count, p->root, 0, p->salt);
        return;
    case REDUCE:
    case REDUCE_SCATTER:
    case REDUCE_SCATTER_BLOCK:
        memset(to, 0, n * sizeof(int));
        break;
    default:
        break;
    }
    for (int rank = 0; rank < suite->nranks; ++rank) {
        switch (p->coll) {
        case ALLGATHER:
            values_write(to + (size_t) rank * p->count, 1, p->count, rank, 0, p->salt);
            break;
        case ALLGATHERV:
            values_write(to + displacement(suite, p, rank), 1, length(suite, p, rank), rank, 0, p->salt);
            break;
        case ALLTOALL:
            values_write(to + (size_t) rank * p->count, 1, p->count, rank, (size_t) suite->rank * p->count, p->salt);
            break;
        case ALLTOALLV:
            values_write(to + pair_place(suite, p, suite->rank, rank, false), 1,
                         pair_length(suite, p, rank, suite->rank), rank,
                         pair_place(suite, p, rank, suite->rank, !p->in_place), p->salt);
            break;
        default:
            for (size_t i = 0; i < n; ++i) {
                to[i] += value(rank, mine + i, p->salt);
            }
        }
    }
}

/* Where this rank's input lies if it lies in the result's buffer, in ints. */
static size_t place_of(const suite_t *suite, const plan_t *p)
{
    return ALLGATHER == p->coll    ? (size_t) suite->rank * p->count
           : ALLGATHERV == p->coll ? displacement(suite, p, suite->rank)
                                   : 0;
}

/* Lists of counts and displacements, in ints: of the blocks that the rank takes, and that it gives. */
typedef struct lists {
    int counts[RANKS_MAX], displs[RANKS_MAX], given[RANKS_MAX], places[RANKS_MAX];
} lists_t;
typedef struct wide_lists {
    MPI_Count counts[RANKS_MAX], given[RANKS_MAX];
    MPI_Aint displs[RANKS_MAX], places[RANKS_MAX];
} wide_lists_t;

/* The three ways to make one call, whose arguments find the lists under `l`. */
#define CALL(Name, Iname, ...)                                                                                        \
    WIDE_OR(is_wide, CALL_BY(wide_lists_t, &wide, MPI_##Name##_c, MPI_##Iname##_c, MPI_##Name##_init_c, __VA_ARGS__), \
            CALL_BY(lists_t, &lists, MPI_##Name, MPI_##Iname, PERSISTENT_NAME(Name), __VA_ARGS__))
#define CALL_BY(type_of_lists, lists_of, blocking, nonblocking, init, ...)         \
    __extension__({                                                                \
        const type_of_lists *l = lists_of;                                         \
        (void) l;                                                                  \
        BLOCKING == p->way      ? blocking(__VA_ARGS__, comm)                      \
        : NONBLOCKING == p->way ? nonblocking(__VA_ARGS__, comm, request)          \
                                : init(__VA_ARGS__, comm, MPI_INFO_NULL, request); \
    })

/* Until the call has ended. */
static lists_t lists;
static wide_lists_t wide;

static void lists_fill(const suite_t *suite, const plan_t *p)
{
    for (int i = 0; i < suite->nranks; ++i) {
        lists.counts[i] = (int) length(suite, p, i);
        lists.displs[i] = (int) displacement(suite, p, i);
        if (ALLTOALLV == p->coll) {
            lists.counts[i] = (int) pair_length(suite, p, i, suite->rank);
            lists.displs[i] = (int) pair_place(suite, p, suite->rank, i, false);
            lists.given[i] = (int) pair_length(suite, p, suite->rank, i);
            lists.places[i] = (int) pair_place(suite, p, suite->rank, i, true);
        }
        wide.counts[i] = lists.counts[i];
        wide.displs[i] = lists.displs[i];
        wide.given[i] = lists.given[i];
        wide.places[i] = lists.places[i];
    }
}

/* request: not of blocking calls. */
static int begin(const suite_t *suite, const plan_t *p, int *in, int *out, MPI_Comm comm, MPI_Datatype type, int count,
                 MPI_Request *request)
{
    const bool is_root = suite->rank == p->root;
    const void *from = p->in_place ? MPI_IN_PLACE : in;
    lists_fill(suite, p);
    switch (p->coll) {
    case ALLGATHER:
        return CALL(Allgather, Iallgather, from, count, type, out, (int) p->count, MPI_INT);
    case ALLGATHERV:
        return CALL(Allgatherv, Iallgatherv, from, count, type, out, l->counts, l->displs, MPI_INT);
    case ALLTOALL:
        return CALL(Alltoall, Ialltoall, from, count, type, out, (int) p->count, MPI_INT);
    case ALLTOALLV: /* a rank with nothing may have no buffers */
        if (has_idle(p) && suite->rank == suite->nranks - 1 && BLOCKING == p->way) {
            from = p->in_place ? MPI_IN_PLACE : NULL;
            out = NULL;
        }
        return CALL(Alltoallv, Ialltoallv, from, l->given, l->places, type, out, l->counts, l->displs, MPI_INT);
    case BCAST:
        return CALL(Bcast, Ibcast, out, count, type, p->root);
    case REDUCE:
        return CALL(Reduce, Ireduce,
                    p->in_place && is_root ? MPI_IN_PLACE
                    : p->in_place          ? out
                                           : in,
                    is_root ? out : NULL, (int) p->count, MPI_INT, MPI_SUM, p->root);
    case REDUCE_SCATTER:
        return CALL(Reduce_scatter, Ireduce_scatter, from, out, l->counts, MPI_INT, MPI_SUM);
    default:
        return CALL(Reduce_scatter_block, Ireduce_scatter_block, from, out, (int) p->count, MPI_INT, MPI_SUM);
    }
}

static int call(const suite_t *suite, const plan_t *p, int *in, int *out, MPI_Comm comm, MPI_Datatype type, int count)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int error = begin(suite, p, in, out, comm, type, count, &request);
    if (MPI_SUCCESS == error && PERSISTENT == p->way) {
        error = MPI_Start(&request);
    }
    if (MPI_SUCCESS == error && BLOCKING != p->way) {
        error = MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    if (PERSISTENT == p->way && MPI_REQUEST_NULL != request) {
        MPI_Request_free(&request);
    }
    return error;
}

/* found: what the call found in the result's buffer; becomes what must be there. */
static void check(suite_t *suite, const plan_t *p, const int *image, int *found, size_t ints, const char *what)
{
    const bool scatters = REDUCE_SCATTER_BLOCK == p->coll || REDUCE_SCATTER == p->coll;
    /* In place, what lies behind the result was input. */
    const size_t scratch = p->in_place && scatters ? GUARD + out_ints(suite, p) : ints;
    if (REDUCE != p->coll || suite->rank == p->root) {
        result_write(suite, p, found + GUARD);
    }
    const bool same = 0 == memcmp(image, found, ints * sizeof(int));
    for (size_t i = 0; !same && i < ints; ++i) {
        if (image[i] != found[i] && (i < scratch || i >= ints - GUARD)) {
            suite_fail(suite, "%s, %s, %zu ints, root %d%s, %s: element %zd is %d, not %d", names[p->coll],
                       way_names[p->way], p->count, p->root, p->in_place ? ", in place" : "", what, (ssize_t) i - GUARD,
                       image[i], found[i]);
            return;
        }
    }
}

/* The buffers of a row of calls. Both may hold the longer one of input and output, for calls in place. */
typedef struct pair {
    buffer_t in, out;
    size_t ints; /* of each, with guards */
    int *image, *before;
} pair_t;

static void pair_make(const suite_t *suite, const plan_t *p, buffer_kind_t kind, pair_t *pair)
{
    const size_t in = in_ints(suite, p), all = ALLTOALLV == p->coll ? in_order(suite, p, suite->nranks) : 0;
    const size_t out = out_ints(suite, p) > all ? out_ints(suite, p) : all;
    pair->ints = (in > out ? in : out) * p->step + 2 * GUARD;
    buffer_alloc(&pair->in, kind, pair->ints * sizeof(int), 0);
    buffer_alloc(&pair->out, kind, pair->ints * sizeof(int), 0);
    pair->image = malloc(pair->ints * sizeof(int));
    pair->before = malloc(pair->ints * sizeof(int));
}

static void pair_free(pair_t *pair)
{
    buffer_free(&pair->in);
    buffer_free(&pair->out);
    free(pair->image);
    free(pair->before);
}

static void input_write(const suite_t *suite, const plan_t *p, pair_t *pair)
{
    const bool in_out = p->in_place || BCAST == p->coll;
    const bool gives = BCAST != p->coll || suite->rank == p->root;
    const size_t at = GUARD + (in_out ? place_of(suite, p) : 0);
    for (size_t i = 0; i < pair->ints; ++i) {
        pair->before[i] = -7 - (int) (i % 5);
    }
    buffer_write(&pair->out, pair->before, pair->ints * sizeof(int));
    memcpy(pair->image, pair->before, pair->ints * sizeof(int));
    values_write(pair->image + at, p->step, gives ? in_ints(suite, p) : 0, suite->rank, 0, p->salt);
    buffer_write(in_out ? &pair->out : &pair->in, pair->image, pair->ints * sizeof(int));
    if (in_out) { /* what is no result keeps what the call found */
        memcpy(pair->before, pair->image, pair->ints * sizeof(int));
    }
}

static int *ints_of(buffer_t *buffer)
{
    return (int *) (void *) buffer->message + GUARD;
}

static bool was_short;   /* the last call was a short one: by the host, or in kernels that wait */
static bool was_oneshot; /* in such kernels */

/* Makes one call and checks it. Returns whether it ran on the GPUs. */
static bool one(suite_t *suite, plan_t *p, pair_t *pair, MPI_Comm comm, MPI_Datatype type, int count, const char *what)
{
    pvars_t before, after;
    p->salt = (int) (++suite->salt % 1000);
    input_write(suite, p, pair);
    ++suite->calls;
    pvars_read(&before);
    const int error = call(suite, p, ints_of(&pair->in), ints_of(&pair->out), comm, type, count);
    pvars_read(&after);
    if (MPI_SUCCESS != error) {
        suite_fail(suite, "%s, %zu ints: error %d", names[p->coll], p->count, error);
    }
    buffer_read(&pair->out, pair->image, pair->ints * sizeof(int));
    check(suite, p, pair->image, pair->before, pair->ints, what);
    was_oneshot = after.oneshot > before.oneshot;
    was_short = was_oneshot || after.small > before.small;
    return after.accelerated > before.accelerated;
}

/* Blocks of unlike length go in kernels that wait for each other where those of MPI_Allgather do, which comes first. */
static void form_check(suite_t *suite, const plan_t *p)
{
    static size_t most; /* ints of the longest of these */
    if (ALLGATHER == p->coll && was_oneshot && p->count > most) {
        most = p->count;
    } else if ((ALLGATHERV == p->coll || REDUCE_SCATTER == p->coll || ALLTOALLV == p->coll)
               && was_oneshot != (p->count <= most)) {
        suite_fail(suite, "%s, %zu ints at most%s: %sin kernels that wait, where MPI_Allgather of %zu ints is",
                   names[p->coll], p->count, p->in_place ? ", in place" : "", was_oneshot ? "" : "not ", most);
    }
}

static void row_run(suite_t *suite, plan_t *p, MPI_Comm comm, bool asserts)
{
    pair_t pair;
    /* Each persistent request has a team of its own: of lists and pairs, one of each pattern will do. Open MPI 4.1.4's
     * libnbc mixes up the blocks of MPI_Alltoallv. */
    const bool few = (p->coll >= ALLTOALL && !asserts)
                     || (p->coll >= ALLGATHERV && !suite->full && 1000 != p->count && 4099 != p->count);
    bool on_gpus = false;
    pair_make(suite, p, BUFFER_DEVICE, &pair);
    for (int i = 0; i < WARM; ++i) {
        (void) one(suite, p, &pair, comm, MPI_INT, (int) length(suite, p, suite->rank), "device memory");
    }
    for (p->way = BLOCKING; p->way <= (few ? BLOCKING : PERSISTENT); ++p->way) {
        /* Open MPI posts nonblocking calls of up to 64 bytes of its own. */
        const bool may = NONBLOCKING != p->way || ALLTOALLV == p->coll || bytes_of_all(suite, p) > 64;
        on_gpus = one(suite, p, &pair, comm, MPI_INT, (int) length(suite, p, suite->rank), "device memory");
        if (asserts && may && !on_gpus) {
            suite_fail(suite, "%s, %s, %zu ints, root %d: not on the GPUs", names[p->coll], way_names[p->way], p->count,
                       p->root);
        } else if (asserts && on_gpus && p->count <= 5 && ALLTOALLV != p->coll && !was_short) { /* see form_check() */
            suite_fail(suite, "%s, %s, %zu ints, root %d: in slices", names[p->coll], way_names[p->way], p->count,
                       p->root);
        }
        if (asserts && BLOCKING == p->way) {
            form_check(suite, p);
        }
    }
    p->way = BLOCKING;
    pair_free(&pair);
}

/* In place, in memory that peers have mapped for calls whose results may lie there: their inputs may not be overwritten
 * before all have read them. */
static void known_run(suite_t *suite, plan_t *p, MPI_Comm comm)
{
    pair_t pair;
    const size_t all = in_order(suite, p, suite->nranks);
    pair_make(suite, p, BUFFER_DEVICE, &pair);
    for (int i = 0; i <= 2 * WARM; ++i) {
        MPI_Allreduce(MPI_IN_PLACE, ints_of(&pair.out), (int) all, MPI_INT, MPI_MAX, comm);
        (void) one(suite, p, &pair, comm, MPI_INT, (int) length(suite, p, suite->rank), "in memory known to all");
    }
    pair_free(&pair);
}

/* A rank passes host memory; or the call's data by a type with gaps, of which it has as many bytes. */
static void strange_run(suite_t *suite, plan_t *p, MPI_Comm comm, bool asserts)
{
    pair_t pair;
    const int strange = suite->nranks - 1, ints = (int) length(suite, p, suite->rank);
    pair_make(suite, p, suite->rank == strange ? BUFFER_HOST : BUFFER_DEVICE, &pair);
    for (int i = 0; i < STRANGE; ++i) {
        (void) one(suite, p, &pair, comm, MPI_INT, ints, "host memory on one rank");
    }
    pair_free(&pair);
    /* The host memory has left such calls to Open MPI, and a CUDA-aware one copies a type with gaps element by element.
     * They come back to the GPUs. */
    const bool reduces = REDUCE == p->coll || REDUCE_SCATTER_BLOCK == p->coll || REDUCE_SCATTER == p->coll;
    if (reduces || (suite->cuda_aware && p->count > 4099)) {
        return;
    }
    MPI_Datatype vector, pieces;
    /* Open MPI's MPI_Allgatherv hangs where the ranks' types have different sizes: by these it chooses its algorithm.
     */
    const bool lists = ALLGATHERV == p->coll || ALLTOALLV == p->coll;
    const int each = lists ? 1 : ints, n = lists ? ints : 1;
    MPI_Type_vector(each, 1, 2, MPI_INT, &vector);
    MPI_Type_create_resized(vector, 0, (MPI_Aint) (2 * sizeof(int)) * each, &pieces);
    MPI_Type_commit(&pieces);
    MPI_Type_free(&vector);
    p->step = suite->rank == strange ? 2 : 1;
    pair_make(suite, p, BUFFER_DEVICE, &pair);
    const bool mine = suite->rank == strange;
    bool on_gpus = false;
    for (int i = 0; i < WARM || (i < STRANGE_MAX && asserts && !on_gpus); ++i) {
        on_gpus = one(suite, p, &pair, comm, mine ? pieces : MPI_INT, mine ? n : ints, "a type with gaps on one rank");
    }
    for (p->way = BLOCKING; p->way <= PERSISTENT && asserts; ++p->way) {
        const bool may = NONBLOCKING != p->way || ALLTOALLV == p->coll || bytes_of_all(suite, p) > 64;
        if (may && !one(suite, p, &pair, comm, mine ? pieces : MPI_INT, mine ? n : ints, "a type with gaps")) {
            suite_fail(suite, "%s, %s, %zu ints, a type with gaps on one rank: not on the GPUs", names[p->coll],
                       way_names[p->way], p->count);
        }
    }
    p->way = BLOCKING;
    pair_free(&pair);
    MPI_Type_free(&pieces);
}

/* A rank takes an int less than another one gives: it gets an error, the rest of the data, and no byte too many. */
static void short_run(suite_t *suite, MPI_Comm comm)
{
    enum { INTS = 1000 };
    const int n = suite->nranks, takes = 0 == suite->rank ? INTS - 1 : INTS;
    int given[n], taken[n], sdispls[n], rdispls[n], *image = malloc((size_t) n * INTS * sizeof(int));
    buffer_t in, out;
    for (int i = 0; i < n; ++i) {
        given[i] = INTS;
        sdispls[i] = rdispls[i] = i * INTS;
        taken[i] = 1 == i ? takes : INTS;
    }
    buffer_alloc(&in, BUFFER_DEVICE, (size_t) n * INTS * sizeof(int), 0);
    buffer_alloc(&out, BUFFER_DEVICE, (size_t) n * INTS * sizeof(int), 0);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int k = 0; k <= WARM; ++k) {
        for (int i = 0; i < n * INTS; ++i) {
            image[i] = 10 * suite->rank + k;
        }
        buffer_write(&in, image, (size_t) n * INTS * sizeof(int));
        memset(image, 0xff, (size_t) n * INTS * sizeof(int));
        buffer_write(&out, image, (size_t) n * INTS * sizeof(int));
        ++suite->calls;
        int code = MPI_Alltoallv(in.message, given, sdispls, MPI_INT, out.message, taken, rdispls, MPI_INT, comm);
        if (MPI_SUCCESS != code) {
            MPI_Error_class(code, &code);
        }
        buffer_read(&out, image, (size_t) n * INTS * sizeof(int));
        for (int i = 0; i < n * INTS; ++i) {
            const int want = i % INTS < taken[i / INTS] ? 10 * (i / INTS) + k : -1;
            if (image[i] != want) {
                suite_fail(suite, "MPI_Alltoallv that takes less: element %d is %d, not %d", i, image[i], want);
                break;
            }
        }
        if (code != (0 == suite->rank ? MPI_ERR_TRUNCATE : MPI_SUCCESS)) {
            suite_fail(suite, "MPI_Alltoallv that takes less: error class %d", code);
        }
    }
    buffer_free(&in);
    buffer_free(&out);
    free(image);
}

int main(int argc, char **argv)
{
    suite_t suite;
    MPI_Comm comm;
    size_t counts[] = {1, 1000, 4099, 32768, 5, 70001};

    suite_begin(&suite, "rows", &argc, &argv);
    is_wide = suite_is_wide(&suite, &argc, &argv);
    if (suite.full) {
        counts[3] = 65536;
        counts[5] = 300001;
    }
    for (int coll = 0; coll < COLLS; ++coll) {
        const bool asserts = PATH_ANY != suite.default_path;
        const bool has_root = BCAST == coll || REDUCE == coll;
        const size_t ncounts = ALLTOALLV == coll ? 4 : sizeof(counts) / sizeof(counts[0]);
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        for (size_t i = 0; i < ncounts; ++i) {
            for (int in_place = 0; in_place < (BCAST == coll ? 1 : 2); ++in_place) {
                for (int root = 0; root < (has_root ? suite.nranks : 1); ++root) {
                    plan_t p = {
                        .coll = (coll_t) coll, .count = counts[i], .root = root, .in_place = 0 != in_place, .step = 1};
                    if (has_root && !suite.full && 5 != i && 0 != (root + (int) i) % 3) {
                        continue;
                    }
                    row_run(&suite, &p, comm, asserts);
                    if (p.in_place && !has_root && (suite.full || 0 != i % 3)) { /* small, one-shot, in slices */
                        known_run(&suite, &p, comm);
                    }
                }
            }
        }
        MPI_Comm_free(&comm);
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        for (size_t i = 0; i < ncounts; ++i) {
            plan_t p = {.coll = (coll_t) coll, .count = counts[i], .root = suite.nranks - 1, .step = 1};
            /* Calls of MPI_Alltoallv are all of one kind, which a strange one leaves to Open MPI. */
            row_run(&suite, &p, comm, asserts && (ALLTOALLV != coll || 0 == i));
            strange_run(&suite, &p, comm, asserts);
        }
        row_run(&suite, &(plan_t){.coll = (coll_t) coll, .step = 1}, comm, false);
        if (ALLTOALLV == coll && asserts) {
            MPI_Comm_free(&comm);
            MPI_Comm_dup(MPI_COMM_WORLD, &comm);
            short_run(&suite, comm);
        }
        MPI_Comm_free(&comm);
    }
    return suite_end(&suite);
}
