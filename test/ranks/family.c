/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Every collective on every kind of memory: blocking, nonblocking and persistent; device, host and managed memory, and
 * ranks that differ; ints and a type with gaps; in place; no elements and odd counts; each rank as the root.
 *
 *   family [--stock] [wide] [world | halves | inter | near | local | unread | unwritten]
 *     world: all ranks; halves: communicators of every other rank; inter: both halves and what joins them; near:
 *     neighbours on a line and on a graph; local: MPI_Reduce_local. All of these by default. unread, unwritten: rank
 *     1 cannot copy GPU memory to the host, or back. wide: by the functions with large counts.
 *
 * A collective is a row: whom a rank's blocks go to and come from. What the receive buffer must hold is computed from
 * the row alone: the element k of the block that rank s sends to rank d is a number made of s, d and k, or the sum of
 * such numbers. All other bytes of both buffers, gaps and guards included, must be what they were. Lists of counts are
 * as long as MPI says: what lies behind them cannot be read.
 */
#include "family.h"

#include <mpi-ext.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static bool is_wide; /* suite_is_wide() */

static const char *const way_names[] = {"blocking", "nonblocking", "persistent"};

static const char *const coll_names[] = {"allgather",
                                         "allgatherv",
                                         "allreduce",
                                         "alltoall",
                                         "alltoallv",
                                         "alltoallw",
                                         "bcast",
                                         "exscan",
                                         "gather",
                                         "gatherv",
                                         "reduce",
                                         "reduce_scatter",
                                         "reduce_scatter_block",
                                         "scan",
                                         "scatter",
                                         "scatterv",
                                         "neighbor_allgather",
                                         "neighbor_allgatherv",
                                         "neighbor_alltoall",
                                         "neighbor_alltoallv",
                                         "neighbor_alltoallw"};

static MPI_Datatype gaps; /* two ints with a gap between, and a gap of two behind */
static MPI_Op gaps_sum;

static void add_gaps(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void) type;
    for (int i = 0; i < *count; ++i) {
        for (int p = 0; p <= 2; p += 2) {
            ((int32_t *) inout)[5 * i + p] += ((int32_t *) in)[5 * i + p];
        }
    }
}

/* -- memory ------------------------------------------------------------------------- */

static size_t bytes_of(const shape_t *shape, const side_t *side)
{
    return (size_t) (side->elements * shape->step) * sizeof(int32_t);
}

/* Memory for a list of so many bytes, which ends where the accessible page ends. Calls use the same pages, one at a
 * time: `which` tells apart the lists of one. */
static void *list_at(int which, size_t bytes)
{
    static char *ends[2][6];
    char **end = &ends[0][0] + which;
    if (NULL == *end) {
        const size_t page = (size_t) sysconf(_SC_PAGESIZE);
        char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (MAP_FAILED == (void *) pages || 0 != mprotect(pages + page, page, PROT_NONE)) {
            perror("family: a page for lists");
            exit(1);
        }
        *end = pages + page;
    }
    return *end - bytes;
}

static void lists_make(const shape_t *shape, side_t *side, int which)
{
    const int n = side->nlisted > 0 ? side->nlisted : 1; /* a count of one block may be the first of a list */
    const size_t length = (size_t) n;
    side->lists.counts = list_at(which, length * sizeof(int));
    side->lists.disps = list_at(which + 1, length * sizeof(int));
    side->lists.bytes = list_at(which + 2, length * sizeof(int));
    side->wide.counts = list_at(which + 3, length * sizeof(MPI_Count));
    side->wide.disps = list_at(which + 4, length * sizeof(MPI_Aint));
    side->wide.bytes = list_at(which + 5, length * sizeof(MPI_Aint));
    for (int i = 0; i < n; ++i) {
        side->wide.counts[i] = side->lists.counts[i] = side->counts[i];
        side->wide.disps[i] = side->lists.disps[i] = side->disps[i];
        side->wide.bytes[i] = side->lists.bytes[i] = side->disps[i] * shape->step * (int) sizeof(int32_t);
    }
}

static void side_make(const shape_t *shape, side_t *side, buffer_kind_t kind)
{
    const size_t bytes = bytes_of(shape, side);
    buffer_alloc(&side->memory, kind, bytes, 0);
    side->image = malloc(bytes + 1);
    side->address = side->memory.message;
    for (int i = 0; i < BLOCKS_MAX; ++i) {
        side->types[i] = shape->type;
    }
}

/* Fills the buffers for a call, and computes what they must hold after it. */
static void sides_fill(const shape_t *shape, const place_t *at, side_t *send, side_t *recv)
{
    const bool own =
        ALLGATHER == shape->coll || ALLGATHERV == shape->coll || GATHER == shape->coll || GATHERV == shape->coll;
    buffer_poison(&send->memory);
    buffer_poison(&recv->memory);
    buffer_read(&send->memory, send->image, bytes_of(shape, send));
    buffer_read(&recv->memory, recv->image, bytes_of(shape, recv));
    for (int i = 0; i < send->nblocks; ++i) {
        block_t block = send->blocks[i];
        if (shape->in_place) { /* to where the result of the same rank will be */
            block.at = own ? recv->blocks[at->rank].at : family_reduces(shape->coll) ? 0 : recv->blocks[i].at;
        }
        family_paint(shape, shape->in_place ? recv->image : send->image, &block);
    }
    buffer_write(&send->memory, send->image, bytes_of(shape, send));
    buffer_write(&recv->memory, recv->image, bytes_of(shape, recv));
    for (int i = 0; i < recv->nblocks; ++i) {
        if (MPI_PROC_NULL != recv->blocks[i].from) {
            family_paint(shape, recv->image, &recv->blocks[i]);
        }
    }
}

static void side_check(suite_t *suite, const shape_t *shape, const place_t *at, const side_t *side, const char *what)
{
    const size_t bytes = bytes_of(shape, side);
    int32_t *now = malloc(bytes + 1);
    buffer_read(&side->memory, now, bytes);
    size_t wrong = 0, first = 0;
    for (size_t i = 0; i < bytes / sizeof(*now); ++i) {
        if (now[i] != side->image[i]) {
            first = 0 == wrong++ ? i : first;
        }
    }
    if (wrong > 0 || buffer_check_guards(&side->memory) > 0) {
        suite_fail(suite,
                   "%s %s on %s, %d elements%s%s, root %d, %s and %s memory: %s: %zu of %zu ints are wrong, "
                   "first %zu (%d, not %d), guards %zu",
                   way_names[shape->way], coll_names[shape->coll], at->name, shape->count,
                   shape->in_place ? " in place" : "", shape->ints > 1 ? " with gaps" : "", shape->root,
                   buffer_kind_name(shape->send_kind), buffer_kind_name(shape->recv_kind), what, wrong,
                   bytes / sizeof(*now), first, wrong > 0 ? now[first] : 0, wrong > 0 ? side->image[first] : 0,
                   buffer_check_guards(&side->memory));
    }
    free(now);
}

/* -- calls -------------------------------------------------------------------------- */

/* The three ways to make one call, whose arguments find the lists of both sides under `in` and `out`. */
#define CALL(Name, Iname, ...)                                                                                       \
    WIDE_OR(is_wide, CALL_BY(wide_lists_t, wide, MPI_##Name##_c, MPI_##Iname##_c, MPI_##Name##_init_c, __VA_ARGS__), \
            CALL_BY(lists_t, lists, MPI_##Name, MPI_##Iname, PERSISTENT_NAME(Name), __VA_ARGS__))
#define CALL_BY(type_of_lists, lists_of, blocking, nonblocking, init, ...)            \
    __extension__({                                                                   \
        const type_of_lists *in = &s->lists_of, *out = &r->lists_of;                  \
        (void) in;                                                                    \
        (void) out;                                                                   \
        BLOCKING == way      ? blocking(__VA_ARGS__, at->comm)                        \
        : NONBLOCKING == way ? nonblocking(__VA_ARGS__, at->comm, request_p)          \
                             : init(__VA_ARGS__, at->comm, MPI_INFO_NULL, request_p); \
    })

static int call(const shape_t *shape, const place_t *at, side_t *s, side_t *r, MPI_Request *request_p)
{
    const way_t way = shape->way;
    const int count = shape->count, share = family_share(shape, at, 0), root = family_part(shape, at).root;
    MPI_Datatype type = shape->type;
    const bool scatters = SCATTER == shape->coll || SCATTERV == shape->coll;
    const bool in_place = shape->in_place && !family_is_rooted(shape->coll);
    const bool here = shape->in_place && family_is_rooted(shape->coll) && at->rank == shape->root;
    const void *sbuf = in_place || (here && !scatters) ? MPI_IN_PLACE : s->address;
    void *rbuf = here && scatters ? MPI_IN_PLACE : r->address;
    switch (shape->coll) {
    case ALLGATHER:
        return CALL(Allgather, Iallgather, sbuf, count, type, rbuf, count, type);
    case ALLGATHERV:
        return CALL(Allgatherv, Iallgatherv, sbuf, in->counts[0], type, rbuf, out->counts, out->disps, type);
    case ALLREDUCE:
        return CALL(Allreduce, Iallreduce, sbuf, rbuf, count, type, shape->op);
    case ALLTOALL:
        return CALL(Alltoall, Ialltoall, sbuf, count, type, rbuf, count, type);
    case ALLTOALLV:
        return CALL(Alltoallv, Ialltoallv, sbuf, in->counts, in->disps, type, rbuf, out->counts, out->disps, type);
    case ALLTOALLW:
        return CALL(Alltoallw, Ialltoallw, sbuf, in->counts, in->bytes, s->types, rbuf, out->counts, out->bytes,
                    r->types);
    case BCAST:
        return CALL(Bcast, Ibcast, s->nblocks > 0 ? s->address : r->address, count, type, root);
    case EXSCAN:
        return CALL(Exscan, Iexscan, sbuf, rbuf, count, type, shape->op);
    case GATHER:
        return CALL(Gather, Igather, sbuf, count, type, rbuf, count, type, root);
    case GATHERV:
        return CALL(Gatherv, Igatherv, sbuf, in->counts[0], type, rbuf, out->counts, out->disps, type, root);
    case REDUCE:
        return CALL(Reduce, Ireduce, sbuf, rbuf, count, type, shape->op, root);
    case REDUCE_SCATTER:
        return CALL(Reduce_scatter, Ireduce_scatter, sbuf, rbuf, out->counts, type, shape->op);
    case REDUCE_SCATTER_BLOCK:
        return CALL(Reduce_scatter_block, Ireduce_scatter_block, sbuf, rbuf, share, type, shape->op);
    case SCAN:
        return CALL(Scan, Iscan, sbuf, rbuf, count, type, shape->op);
    case SCATTER:
        return CALL(Scatter, Iscatter, sbuf, count, type, rbuf, count, type, root);
    case SCATTERV:
        return CALL(Scatterv, Iscatterv, sbuf, in->counts, in->disps, type, rbuf, out->counts[0], type, root);
    case NEIGHBOR_ALLGATHER:
        return CALL(Neighbor_allgather, Ineighbor_allgather, sbuf, count, type, rbuf, count, type);
    case NEIGHBOR_ALLGATHERV:
        return CALL(Neighbor_allgatherv, Ineighbor_allgatherv, sbuf, in->counts[0], type, rbuf, out->counts, out->disps,
                    type);
    case NEIGHBOR_ALLTOALL:
        return CALL(Neighbor_alltoall, Ineighbor_alltoall, sbuf, count, type, rbuf, count, type);
    case NEIGHBOR_ALLTOALLV:
        return CALL(Neighbor_alltoallv, Ineighbor_alltoallv, sbuf, in->counts, in->disps, type, rbuf, out->counts,
                    out->disps, type);
    case NEIGHBOR_ALLTOALLW:
    default:
        return CALL(Neighbor_alltoallw, Ineighbor_alltoallw, sbuf, in->counts, s->wide.bytes, s->types, rbuf,
                    out->counts, r->wide.bytes, r->types);
    }
}

static int elements_of(const side_t *side)
{
    int sum = 0;
    for (int i = 0; i < side->nblocks; ++i) {
        sum += side->blocks[i].count;
    }
    return sum;
}

/* The collectives beside MPI_Allreduce that gpuhier may run on the GPUs; test/ranks/rows asserts that it does. */
static bool may_run_on_gpus(const shape_t *shape)
{
    const bool reduces = REDUCE == shape->coll || REDUCE_SCATTER_BLOCK == shape->coll || REDUCE_SCATTER == shape->coll;
    const bool moves = ALLGATHER == shape->coll || ALLGATHERV == shape->coll || ALLTOALL == shape->coll
                       || ALLTOALLV == shape->coll || BCAST == shape->coll;
    return reduces || moves;
}

/* Makes the call, or starts a persistent request twice, each time with new values. */
static void run(suite_t *suite, shape_t *shape, const place_t *at)
{
    side_t *sides = calloc(2, sizeof(*sides)), *send = &sides[0], *recv = &sides[1];
    MPI_Request request = MPI_REQUEST_NULL;
    pvars_t before, after;
    family_plan(shape, at, send, recv);
    const bool here = shape->in_place && (!family_is_rooted(shape->coll) || at->rank == shape->root);
    const bool scatters = SCATTER == shape->coll || SCATTERV == shape->coll;
    if (here && scatters) {
        recv->nblocks = 0; /* the root's own block stays where it is */
    }
    shape_t mine = *shape;
    mine.in_place = here && !scatters;
    side_make(&mine, send, shape->send_kind);
    side_make(&mine, recv, shape->recv_kind);
    lists_make(&mine, send, 0);
    lists_make(&mine, recv, 6);
    const bool on_device =
        (!mine.in_place && elements_of(send) > 0 && buffer_kind_on_device(shape->send_kind))
        || (elements_of(recv) + (mine.in_place ? elements_of(send) : 0) > 0 && buffer_kind_on_device(shape->recv_kind));
    /* MPI_Bcast returns at once where there is one rank. */
    const bool asserts = PATH_ANY != suite->default_path && !suite->cuda_aware && ALLREDUCE != shape->coll
                         && (BCAST != shape->coll || at->inter || at->size > 1);
    for (int turn = 0; turn < (PERSISTENT == shape->way ? 2 : 1); ++turn) {
        mine.salt = shape->salt = (uint32_t) ++suite->salt;
        sides_fill(&mine, at, send, recv);
        ++suite->calls;
        pvars_read(&before);
        int error = 0 == turn ? call(shape, at, send, recv, &request) : MPI_SUCCESS;
        if (PERSISTENT == shape->way && MPI_SUCCESS == error) {
            error = MPI_Start(&request);
        }
        if (BLOCKING != shape->way && MPI_SUCCESS == error) {
            error = MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        pvars_read(&after);
        if (MPI_SUCCESS != error) {
            suite_fail(suite, "%s %s on %s: error %d", way_names[shape->way], coll_names[shape->coll], at->name, error);
        }
        const bool on_gpus = may_run_on_gpus(shape) && after.accelerated > before.accelerated;
        if (asserts && !on_gpus && after.staged - before.staged != (on_device ? 1 : 0)) {
            suite_fail(suite, "%s %s on %s: %d calls staged, not %d", way_names[shape->way], coll_names[shape->coll],
                       at->name, (int) (after.staged - before.staged), on_device);
        }
        side_check(suite, &mine, at, send, "input");
        side_check(suite, &mine, at, recv, "result");
    }
    if (PERSISTENT == shape->way && MPI_REQUEST_NULL != request) {
        MPI_Request_free(&request);
    }
    for (int i = 0; i < 2; ++i) {
        buffer_free(&sides[i].memory);
        free(sides[i].image);
    }
    free(sides);
}

/* -- cases -------------------------------------------------------------------------- */

static const buffer_kind_t kinds[][2] = {{BUFFER_DEVICE, BUFFER_DEVICE},   {BUFFER_HOST, BUFFER_HOST},
                                         {BUFFER_MANAGED, BUFFER_MANAGED}, {BUFFER_DEVICE, BUFFER_HOST},
                                         {BUFFER_HOST, BUFFER_DEVICE},     {BUFFER_POOL, BUFFER_CHUNKS}};
#define NKINDS ((int) (sizeof(kinds) / sizeof(kinds[0])))

/* Open MPI 4.1.4's libnbc mixes up the blocks of these, in host memory too, with five ranks and long messages. */
static bool open_mpi_fails(const shape_t *shape)
{
    return BLOCKING != shape->way && (ALLTOALLV == shape->coll || ALLTOALLW == shape->coll) && shape->count > 1000;
}

static void run_all(suite_t *suite, const place_t *at, coll_t from, coll_t end)
{
    static const int counts[] = {0, 1, 17, 4099};
    int turn = 0;
    for (int c = (int) from; c < (int) end; ++c) {
        for (int way = 0; way < WAYS; ++way) {
            for (int k = 0; k <= NKINDS; ++k) { /* one kind on all ranks, and at last each rank's own */
                for (int i = 0; i < 4; ++i) {
                    const int kind = (k + (NKINDS == k ? suite->rank + turn : 0)) % NKINDS;
                    const bool with_gaps = 1 == (i + k + way) % 2;
                    const int roots = at->inter ? at->in_second ? at->peers : at->size : at->size;
                    shape_t shape = {.coll = (coll_t) c,
                                     .way = (way_t) way,
                                     .send_kind = kinds[kind][0],
                                     .recv_kind = kinds[kind][1],
                                     .count = counts[i],
                                     .root = turn % roots};
                    shape.type = with_gaps ? gaps : MPI_INT;
                    shape.op = with_gaps ? gaps_sum : MPI_SUM;
                    shape.ints = with_gaps ? 2 : 1;
                    shape.step = with_gaps ? 5 : 1;
                    ++turn;
                    if ((at->inter && (SCAN == c || EXSCAN == c)) || (i > 2 && !suite->full && 0 != k)) {
                        continue;
                    }
                    run(suite, &shape, at);
                    shape.in_place = !at->inter && c < (int) COLLS && BCAST != c;
                    if (shape.in_place && !open_mpi_fails(&shape)) {
                        run(suite, &shape, at);
                    }
                }
            }
        }
    }
}

static place_t place_of(MPI_Comm comm, const char *name)
{
    place_t at = {.comm = comm, .name = name};
    MPI_Comm_rank(comm, &at.rank);
    MPI_Comm_size(comm, &at.size);
    at.number = at.rank;
    at.peers = at.size;
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    return at;
}

static void run_world(suite_t *suite)
{
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    const place_t at = place_of(comm, "all ranks");
    run_all(suite, &at, (coll_t) 0, COLLS);
    MPI_Comm_free(&comm);
}

static void run_halves(suite_t *suite, bool joined)
{
    MPI_Comm half, inter = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, suite->rank % 2, -suite->rank, &half);
    place_t at = place_of(half, "half of the ranks");
    if (joined && suite->nranks > 1) {
        /* rank 0 of a half is its last rank in MPI_COMM_WORLD */
        const int last = suite->nranks - 1, leader = last % 2 == suite->rank % 2 ? last - 1 : last;
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, leader, 7, &inter);
        at.comm = inter;
        at.name = "two groups";
        at.inter = true;
        at.in_second = 1 == suite->rank % 2;
        MPI_Comm_remote_size(inter, &at.peers);
        at.first = at.in_second ? at.peers : 0;
        at.first_peer = at.in_second ? 0 : at.size;
        at.number = at.first + at.rank;
        MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    }
    run_all(suite, &at, (coll_t) 0, COLLS);
    if (MPI_COMM_NULL != inter) {
        MPI_Comm_free(&inter);
    }
    MPI_Comm_free(&half);
}

/* A line, whose ends have one neighbour; and a graph, in which a rank sends to the next two and itself. */
static void run_near(suite_t *suite)
{
    MPI_Comm comm;
    const int n = suite->nranks, none = 0;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &n, &none, 0, &comm);
    place_t at = place_of(comm, "a line");
    at.nin = at.nout = 2;
    MPI_Cart_shift(comm, 0, 1, &at.in[0], &at.in[1]);
    memcpy(at.out, at.in, sizeof(at.in));
    run_all(suite, &at, COLLS, ALL_COLLS);
    MPI_Comm_free(&comm);

    int in[3] = {0}, out[3] = {0}, ones[3] = {1, 1, 1};
    for (int i = 0; i < 3; ++i) {
        out[i] = (suite->rank + i) % n;
        in[i] = (suite->rank + 3 * n - i) % n;
    }
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 3, in, ones, 3, out, ones, MPI_INFO_NULL, 0, &comm);
    at = place_of(comm, "a graph");
    at.nin = at.nout = 3;
    memcpy(at.in, in, sizeof(in));
    memcpy(at.out, out, sizeof(out));
    if (n >= 3) { /* else two blocks would come from one rank */
        run_all(suite, &at, COLLS, ALL_COLLS);
    }
    MPI_Comm_free(&comm);
}

static void run_local(suite_t *suite)
{
    for (int k = 0; k < NKINDS; ++k) {
        for (int with_gaps = 0; with_gaps < 2; ++with_gaps) {
            shape_t shape = {.coll = ALLREDUCE,
                             .send_kind = kinds[k][0],
                             .recv_kind = kinds[k][1],
                             .type = with_gaps ? gaps : MPI_INT,
                             .ints = 1 + with_gaps,
                             .step = with_gaps ? 5 : 1,
                             .salt = (uint32_t) ++suite->salt};
            const place_t at = {.name = "itself"};
            side_t *sides = calloc(2, sizeof(*sides));
            for (int i = 0; i < 2; ++i) {
                sides[i].blocks[0] = (block_t){.from = i, .to = ALL, .count = 33};
                sides[i].nblocks = 1;
                sides[i].elements = 33;
                side_make(&shape, &sides[i], kinds[k][i]);
                buffer_read(&sides[i].memory, sides[i].image, bytes_of(&shape, &sides[i]));
                family_paint(&shape, sides[i].image, &sides[i].blocks[0]);
                buffer_write(&sides[i].memory, sides[i].image, bytes_of(&shape, &sides[i]));
            }
            ++suite->calls;
            if (MPI_SUCCESS
                != MPI_Reduce_local(sides[0].address, sides[1].address, 33, shape.type,
                                    with_gaps ? gaps_sum : MPI_SUM)) {
                suite_fail(suite, "MPI_Reduce_local: an error");
            }
            family_paint(&shape, sides[1].image, &(block_t){.from = ALL, .first = 0, .last = 1, .count = 33});
            for (int i = 0; i < 2; ++i) {
                side_check(suite, &shape, &at, &sides[i], 0 == i ? "input" : "result of MPI_Reduce_local");
                buffer_free(&sides[i].memory);
                free(sides[i].image);
            }
            free(sides);
        }
    }
}

/*
 * Rank 1 cannot read its input, or write its result. It gets an error and takes part all the same: no rank hangs. What
 * the others get of an input that was not read is full of ones.
 */
static void run_broken(suite_t *suite, bool unread)
{
    enum { N = 17 };
    const bool broken = 1 == suite->rank;
    int32_t mine[N], all[BLOCKS_MAX * N];
    buffer_t in, out;
    buffer_alloc(&in, BUFFER_DEVICE, sizeof(mine), 0);
    buffer_alloc(&out, BUFFER_DEVICE, (size_t) suite->nranks * sizeof(mine), 0);
    for (int turn = 0; turn < 4; ++turn) {
        MPI_Request request = MPI_REQUEST_NULL;
        for (int i = 0; i < N; ++i) {
            mine[i] = 100 * turn + suite->rank;
        }
        buffer_write(&in, mine, sizeof(mine));
        buffer_poison(&out);
        int error = 0 == turn   ? MPI_Allgather(in.message, N, MPI_INT, out.message, N, MPI_INT, MPI_COMM_WORLD)
                    : 1 == turn ? MPI_Alltoall(MPI_IN_PLACE, 0, MPI_INT, out.message, N, MPI_INT, MPI_COMM_WORLD)
                    : 2 == turn
                        ? MPI_Iallgather(in.message, N, MPI_INT, out.message, N, MPI_INT, MPI_COMM_WORLD, &request)
                        : MPI_Bcast(in.message, N, MPI_INT, 1, MPI_COMM_WORLD);
        error = MPI_SUCCESS == error && 2 == turn ? MPI_Wait(&request, MPI_STATUS_IGNORE) : error;
        ++suite->calls;
        const bool fails = broken && (unread || 3 != turn); /* the root of MPI_Bcast writes nothing */
        if (fails != (MPI_SUCCESS != error)) {
            suite_fail(suite, "call %d returned %d", turn, error);
        }
        buffer_read(3 == turn ? &in : &out, all, (3 == turn ? 1 : (size_t) suite->nranks) * sizeof(mine));
        for (int from = 0; from < suite->nranks && 1 != turn && !broken; ++from) {
            const int sent = 100 * turn + (3 == turn ? 1 : from), i = 3 == turn ? 0 : from * N;
            const int wanted = unread && (1 == from || 3 == turn) ? -1 : sent;
            if (wanted != all[i] || wanted != all[i + N - 1]) {
                suite_fail(suite, "call %d: %d of rank %d, not %d", turn, (int) all[i], from, wanted);
            }
        }
    }
    buffer_free(&in);
    buffer_free(&out);
}

int main(int argc, char **argv)
{
    suite_t suite;
    MPI_Datatype pair;

    suite_begin(&suite, "family", &argc, &argv);
    is_wide = suite_is_wide(&suite, &argc, &argv);
    const char *what = argc > 1 ? argv[1] : "all";
    const bool all = 0 == strcmp(what, "all");
    MPI_Type_vector(2, 1, 2, MPI_INT, &pair);
    MPI_Type_create_resized(pair, 0, 5 * (MPI_Aint) sizeof(int32_t), &gaps);
    MPI_Type_commit(&gaps);
    MPI_Type_free(&pair);
    MPI_Op_create(add_gaps, 1, &gaps_sum);
    if (all || 0 == strcmp(what, "world")) {
        run_world(&suite);
    }
    if (all || 0 == strcmp(what, "halves")) {
        run_halves(&suite, false);
    }
    if (all || 0 == strcmp(what, "inter")) {
        run_halves(&suite, true);
    }
    if (all || 0 == strcmp(what, "near")) {
        run_near(&suite);
    }
    if (all || 0 == strcmp(what, "local")) {
        run_local(&suite);
    }
    if (0 == strcmp(what, "unread") || 0 == strcmp(what, "unwritten")) {
        run_broken(&suite, 0 == strcmp(what, "unread"));
    }
    MPI_Op_free(&gaps_sum);
    MPI_Type_free(&gaps);
    return suite_end(&suite);
}
