/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the entry points of all collectives. Calls that do not run on the GPUs, by coll_gpuhier_rows.h, are left to the
 * saved collective, and staged where that cannot take GPU memory. Each collective is
 *
 *   a signature   its arguments, once; the entry points, and the calls of the saved functions, follow from it
 *   its operands  a function that says which blocks of its buffers the collective reads and writes on this rank
 *   a row         GPUHIER_FAMILY: both, and the names of its blocking, nonblocking and persistent functions
 *
 * An entry point asks whether an operand is GPU memory. If not, which takes no call of the driver for most host memory,
 * it calls the saved function. No other rank is asked: a rank stages alone, whatever memory the others pass.
 *
 * A rank that cannot copy its input takes part with a host copy full of ones, which are no numbers, and returns the
 * error: the other ranks do not wait for it, and cannot take the result for a right one.
 *
 * Called by Open MPI.
 */
#include "ompi_config.h"

#include "base/coll_gpuhier_counters.h"
#include "base/coll_gpuhier_report.h"
#include "coll/coll_gpuhier_module.h"
#include "coll/coll_gpuhier_request.h"
#include "coll/coll_gpuhier_rows.h"
#include "host/coll_gpuhier_fallback.h"

typedef gpuhier_coll_args_t args_t;

/* -- signatures: the arguments up to the communicator, as X(type, name) ---------------- */

#define SEND_EQUAL(X) X(const void *, sbuf) X(gpuhier_count_t, scount) X(struct ompi_datatype_t *, sdtype)
#define RECV_EQUAL(X) X(void *, rbuf) X(gpuhier_count_t, rcount) X(struct ompi_datatype_t *, rdtype)
#define SEND_LISTED(X)    \
    X(const void *, sbuf) \
    X(gpuhier_counts_t, scounts) X(gpuhier_disps_t, sdisps) X(struct ompi_datatype_t *, sdtype)
#define RECV_LISTED(X) \
    X(void *, rbuf)    \
    X(gpuhier_counts_t, rcounts) X(gpuhier_disps_t, rdisps) X(struct ompi_datatype_t *, rdtype)
#define SEND_TYPED(X, disps_t, disps) \
    X(const void *, sbuf)             \
    X(gpuhier_counts_t, scounts) X(disps_t, disps) X(struct ompi_datatype_t *const *, sdtypes)
#define RECV_TYPED(X, disps_t, disps) \
    X(void *, rbuf)                   \
    X(gpuhier_counts_t, rcounts) X(disps_t, disps) X(struct ompi_datatype_t *const *, rdtypes)
#define OPERATION(X) X(struct ompi_datatype_t *, rdtype) X(struct ompi_op_t *, op)
#define ROOT(X) X(int, root)

#define EQUAL_EQUAL(X) SEND_EQUAL(X) RECV_EQUAL(X)
#define EQUAL_LISTED(X) SEND_EQUAL(X) RECV_LISTED(X)
#define LISTED_LISTED(X) SEND_LISTED(X) RECV_LISTED(X)
#define TYPED_TYPED(X) SEND_TYPED(X, gpuhier_disps_t, sdisps) RECV_TYPED(X, gpuhier_disps_t, rdisps)
#define FAR_FAR(X) SEND_TYPED(X, gpuhier_aints_t, saints) RECV_TYPED(X, gpuhier_aints_t, raints)
#define EQUAL_EQUAL_ROOT(X) EQUAL_EQUAL(X) ROOT(X)
#define EQUAL_LISTED_ROOT(X) EQUAL_LISTED(X) ROOT(X)
#define LISTED_EQUAL_ROOT(X) SEND_LISTED(X) RECV_EQUAL(X) ROOT(X)
#define BUFFER_ROOT(X) RECV_EQUAL(X) ROOT(X)
#define REDUCTION(X) X(const void *, sbuf) X(void *, rbuf) X(gpuhier_count_t, rcount) OPERATION(X)
#define REDUCTION_ROOT(X) REDUCTION(X) ROOT(X)
#define REDUCTION_LISTED(X) X(const void *, sbuf) X(void *, rbuf) X(gpuhier_counts_t, rcounts) OPERATION(X)

/*
 * X(name, nonblocking, persistent, signature, operands, layout of sbuf, layout of rbuf, who copies GPU memory, the
 * function that says what a call is to do on the GPUs or NULL).
 * A CUDA-aware Open MPI moves data of GPU buffers itself, but for blocks that a rank sends to itself in MPI_Alltoallv:
 * 5.0.7 reads these as if they were the host's. And it always reduces on the host: its coll/cuda stages blocking
 * reductions, takes the first element for the first byte, and writes into gaps; its others read GPU memory as if it
 * were the host's. So gpuhier stages these in any case.
 */
#define MOVES false
#define STAGED true
#define GPUHIER_FAMILY(X)                                                                                              \
    X(allgather, iallgather, allgather_init, EQUAL_EQUAL, gather_to_all, EQUAL, EQUAL, MOVES, gpuhier_row_allgather)   \
    X(allgatherv, iallgatherv, allgatherv_init, EQUAL_LISTED, gather_to_all, EQUAL, LISTED, MOVES,                     \
      gpuhier_row_allgatherv)                                                                                          \
    X(allreduce, iallreduce, allreduce_init, REDUCTION, scan_up_to, EQUAL, EQUAL, STAGED, gpuhier_row_allreduce)       \
    X(alltoall, ialltoall, alltoall_init, EQUAL_EQUAL, all_to_all, EQUAL, EQUAL, MOVES, gpuhier_row_alltoall)          \
    X(alltoallv, ialltoallv, alltoallv_init, LISTED_LISTED, all_to_all, LISTED, LISTED, STAGED, gpuhier_row_alltoallv) \
    X(alltoallw, ialltoallw, alltoallw_init, TYPED_TYPED, all_to_all, TYPED, TYPED, MOVES, NULL)                       \
    X(bcast, ibcast, bcast_init, BUFFER_ROOT, broadcast, EQUAL, EQUAL, MOVES, gpuhier_row_bcast)                       \
    X(exscan, iexscan, exscan_init, REDUCTION, scan_before, EQUAL, EQUAL, STAGED, NULL)                                \
    X(gather, igather, gather_init, EQUAL_EQUAL_ROOT, gather_to_root, EQUAL, EQUAL, MOVES, NULL)                       \
    X(gatherv, igatherv, gatherv_init, EQUAL_LISTED_ROOT, gather_to_root, EQUAL, LISTED, MOVES, NULL)                  \
    X(reduce, ireduce, reduce_init, REDUCTION_ROOT, reduce_to_root, EQUAL, EQUAL, STAGED, gpuhier_row_reduce)          \
    X(reduce_scatter, ireduce_scatter, reduce_scatter_init, REDUCTION_LISTED, reduce_lists, EQUAL, EQUAL, STAGED,      \
      gpuhier_row_reduce_scatter)                                                                                      \
    X(reduce_scatter_block, ireduce_scatter_block, reduce_scatter_block_init, REDUCTION, reduce_blocks, EQUAL, EQUAL,  \
      STAGED, gpuhier_row_reduce_scatter_block)                                                                        \
    X(scan, iscan, scan_init, REDUCTION, scan_up_to, EQUAL, EQUAL, STAGED, NULL)                                       \
    X(scatter, iscatter, scatter_init, EQUAL_EQUAL_ROOT, scatter_from_root, EQUAL, EQUAL, MOVES, NULL)                 \
    X(scatterv, iscatterv, scatterv_init, LISTED_EQUAL_ROOT, scatter_from_root, LISTED, EQUAL, MOVES, NULL)            \
    X(neighbor_allgather, ineighbor_allgather, neighbor_allgather_init, EQUAL_EQUAL, gather_near, EQUAL, EQUAL, MOVES, \
      NULL)                                                                                                            \
    X(neighbor_allgatherv, ineighbor_allgatherv, neighbor_allgatherv_init, EQUAL_LISTED, gather_near, EQUAL, LISTED,   \
      MOVES, NULL)                                                                                                     \
    X(neighbor_alltoall, ineighbor_alltoall, neighbor_alltoall_init, EQUAL_EQUAL, all_to_near, EQUAL, EQUAL, MOVES,    \
      NULL)                                                                                                            \
    X(neighbor_alltoallv, ineighbor_alltoallv, neighbor_alltoallv_init, LISTED_LISTED, all_to_near, LISTED, LISTED,    \
      MOVES, NULL)                                                                                                     \
    X(neighbor_alltoallw, ineighbor_alltoallw, neighbor_alltoallw_init, FAR_FAR, all_to_near, FAR, FAR, MOVES, NULL)

/* -- operands ------------------------------------------------------------------------- */

typedef gpuhier_operands_t operands_t;

/* Does the rank have the root's part, or the part of the others? In one group the root has both. */
static bool is_root(const args_t *a)
{
    return OMPI_COMM_IS_INTER(a->comm) ? MPI_ROOT == a->root : ompi_comm_rank(a->comm) == a->root;
}

static bool is_other(const args_t *a)
{
    return !OMPI_COMM_IS_INTER(a->comm) || a->root >= 0;
}

/* The ranks that it exchanges data with. */
static size_t peers(const args_t *a)
{
    return (size_t) (OMPI_COMM_IS_INTER(a->comm) ? ompi_comm_remote_size(a->comm) : ompi_comm_size(a->comm));
}

/* The operand of sbuf, of which n blocks are read, unless it is MPI_IN_PLACE. */
static gpuhier_operand_t input(const args_t *a, gpuhier_layout_t layout, size_t n)
{
    return MPI_IN_PLACE == a->sbuf ? (gpuhier_operand_t){0}
                                   : (gpuhier_operand_t){.user = a->sbuf,
                                                         .layout = layout,
                                                         .count = (size_t) a->scount,
                                                         .dtype = a->sdtype,
                                                         .counts = a->scounts,
                                                         .disps = a->sdisps,
                                                         .aints = a->saints,
                                                         .dtypes = a->sdtypes,
                                                         .read_end = n};
}

/* The operand of rbuf, of which n blocks are written. In place, blocks from `from` on, `in` of them, are the input. */
static gpuhier_operand_t output(const args_t *a, gpuhier_layout_t layout, size_t n, size_t from, size_t in)
{
    const bool in_place = MPI_IN_PLACE == a->sbuf;
    return MPI_IN_PLACE == a->rbuf ? (gpuhier_operand_t){0}
                                   : (gpuhier_operand_t){.user = a->rbuf,
                                                         .layout = layout,
                                                         .count = (size_t) a->rcount,
                                                         .dtype = a->rdtype,
                                                         .counts = a->rcounts,
                                                         .disps = a->rdisps,
                                                         .aints = a->raints,
                                                         .dtypes = a->rdtypes,
                                                         .read_from = in_place ? from : 0,
                                                         .read_end = in_place ? from + in : 0,
                                                         .write_end = n};
}

static operands_t gather_to_all(const args_t *a, gpuhier_layout_t sbuf_is, gpuhier_layout_t rbuf_is)
{
    return (operands_t){input(a, sbuf_is, 1), output(a, rbuf_is, peers(a), (size_t) ompi_comm_rank(a->comm), 1)};
}

static operands_t gather_to_root(const args_t *a, gpuhier_layout_t sbuf_is, gpuhier_layout_t rbuf_is)
{
    operands_t o = {{0}, {0}};
    if (is_other(a)) {
        o.send = input(a, sbuf_is, 1);
    }
    if (is_root(a)) {
        o.recv = output(a, rbuf_is, peers(a), (size_t) ompi_comm_rank(a->comm), 1);
    }
    return o;
}

static operands_t scatter_from_root(const args_t *a, gpuhier_layout_t sbuf_is, gpuhier_layout_t rbuf_is)
{
    operands_t o = {{0}, {0}};
    if (is_root(a)) {
        o.send = input(a, sbuf_is, peers(a));
    }
    if (is_other(a)) {
        o.recv = output(a, rbuf_is, 1, 0, 0);
    }
    return o;
}

static operands_t all_to_all(const args_t *a, gpuhier_layout_t sbuf_is, gpuhier_layout_t rbuf_is)
{
    return (operands_t){input(a, sbuf_is, peers(a)), output(a, rbuf_is, peers(a), 0, peers(a))};
}

static operands_t broadcast(const args_t *a, gpuhier_layout_t sbuf_is, gpuhier_layout_t rbuf_is)
{
    operands_t o = {{0}, output(a, rbuf_is, !is_root(a) && is_other(a) ? 1 : 0, 0, 0)};
    (void) sbuf_is;
    o.recv.read_end = is_root(a) ? 1 : 0;
    return o;
}

/* `all` elements are reduced, and this rank gets `mine` of them. In place, these come to lie where all have begun. */
static operands_t reduction(const args_t *a, size_t all, size_t mine)
{
    args_t b = *a;
    b.scount = b.rcount = 1;
    b.sdtype = a->rdtype;
    return (operands_t){input(&b, GPUHIER_LAYOUT_EQUAL, all), output(&b, GPUHIER_LAYOUT_EQUAL, mine, 0, all)};
}

static operands_t scan_up_to(const args_t *a, gpuhier_layout_t sbuf_is, gpuhier_layout_t rbuf_is)
{
    (void) sbuf_is;
    (void) rbuf_is;
    return reduction(a, (size_t) a->rcount, (size_t) a->rcount);
}

static operands_t scan_before(const args_t *a, gpuhier_layout_t sbuf_is, gpuhier_layout_t rbuf_is)
{
    (void) sbuf_is;
    (void) rbuf_is;
    return reduction(a, (size_t) a->rcount, 0 == ompi_comm_rank(a->comm) ? 0 : (size_t) a->rcount);
}

static operands_t reduce_to_root(const args_t *a, gpuhier_layout_t sbuf_is, gpuhier_layout_t rbuf_is)
{
    operands_t o = scan_up_to(a, sbuf_is, rbuf_is);
    if (!is_other(a)) {
        o.send = (gpuhier_operand_t){0};
    }
    if (!is_root(a)) {
        o.recv = (gpuhier_operand_t){0};
    }
    return o;
}

static operands_t reduce_blocks(const args_t *a, gpuhier_layout_t sbuf_is, gpuhier_layout_t rbuf_is)
{
    (void) sbuf_is;
    (void) rbuf_is;
    return reduction(a, (size_t) a->rcount * (size_t) ompi_comm_size(a->comm), (size_t) a->rcount);
}

static operands_t reduce_lists(const args_t *a, gpuhier_layout_t sbuf_is, gpuhier_layout_t rbuf_is)
{
    size_t all = 0;
    (void) sbuf_is;
    (void) rbuf_is;
    for (int i = 0; i < ompi_comm_size(a->comm); ++i) {
        all += GPUHIER_COUNTS_AT(a->rcounts, i);
    }
    return reduction(a, all, GPUHIER_COUNTS_AT(a->rcounts, ompi_comm_rank(a->comm)));
}

/* The neighbours from which the rank receives, and those to which it sends. */
static void degrees(struct ompi_communicator_t *comm, int *in_p, int *out_p)
{
    int kind = MPI_UNDEFINED, weighted;
    *in_p = *out_p = 0;
    (void) PMPI_Topo_test(comm, &kind);
    if (MPI_DIST_GRAPH == kind) {
        (void) PMPI_Dist_graph_neighbors_count(comm, in_p, out_p, &weighted);
        return;
    }
    if (MPI_CART == kind) {
        (void) PMPI_Cartdim_get(comm, in_p);
        *in_p *= 2;
    } else if (MPI_GRAPH == kind) {
        (void) PMPI_Graph_neighbors_count(comm, ompi_comm_rank(comm), in_p);
    }
    *out_p = *in_p;
}

/* all: a block for each neighbour is sent, not the same one. Blocks from neighbours that do not exist stay as they are,
 * so the host copy gets the contents of all. */
static operands_t neighbors(const args_t *a, gpuhier_layout_t sbuf_is, gpuhier_layout_t rbuf_is, bool all)
{
    int in, out;
    degrees(a->comm, &in, &out);
    operands_t o = {input(a, sbuf_is, all ? (size_t) out : 1), output(a, rbuf_is, (size_t) in, 0, 0)};
    o.recv.read_end = (size_t) in;
    return o;
}

static operands_t gather_near(const args_t *a, gpuhier_layout_t sbuf_is, gpuhier_layout_t rbuf_is)
{
    return neighbors(a, sbuf_is, rbuf_is, false);
}

static operands_t all_to_near(const args_t *a, gpuhier_layout_t sbuf_is, gpuhier_layout_t rbuf_is)
{
    return neighbors(a, sbuf_is, rbuf_is, true);
}

/* MPI_Reduce_local: rbuf = sbuf op rbuf. */
static operands_t both(const args_t *a, gpuhier_layout_t sbuf_is, gpuhier_layout_t rbuf_is)
{
    operands_t o = scan_up_to(a, sbuf_is, rbuf_is);
    o.recv.read_end = (size_t) a->rcount;
    return o;
}

/* MPI_Allreduce's: its calls that ask nobody go another way. */
static const gpuhier_operands_of_t of_allreduce;

/* -- calls ---------------------------------------------------------------------------- */

typedef enum way { BLOCKING, NONBLOCKING, PERSISTENT } way_t;

typedef gpuhier_saved_fn call_fn;

static gpuhier_reason_t why_of(const gpuhier_entry_t *entry)
{
    return GPUHIER_REASON_COUNT != entry->why ? entry->why
           : NULL == entry->row               ? GPUHIER_REASON_collective
                                              : gpuhier_rows_reason(entry->module);
}

static inline bool is_noted(const gpuhier_entry_t *entry)
{
    return NULL != entry->watched && NULL != entry->watched->name;
}

/* A call that is left to Open MPI has ended; posted: its request is Open MPI's own, so that its end is not seen. */
static void watched_end(const gpuhier_entry_t *entry, bool posted)
{
    const gpuhier_watched_t *watched = entry->watched;
    gpuhier_report_end(watched->name, GPUHIER_REPORT_SAVED, watched->bytes, watched->bus, watched->begin);
    if (NULL != watched->trace) {
        watched->trace->is_posted_only = posted;
        gpuhier_trace_end_left(watched->trace, why_of(entry));
    }
}

static int stage(call_fn *call, const gpuhier_entry_t *entry, const operands_t *o)
{
    args_t *a = entry->a;
    gpuhier_staged_t staged;
    gpuhier_watched_phase(entry->watched, GPUHIER_TRACE_READ);
    int rc = gpuhier_staged_open(&staged, &o->send, &o->recv);
    if (OMPI_SUCCESS != rc) {
        if (NULL != a->comm) {
            gpuhier_staged_abort(&staged, a->comm); /* without memory it cannot take part */
        }
        gpuhier_staged_close(&staged);
        return rc;
    }
    const int failure = gpuhier_staged_bring(&staged, a->comm);
    gpuhier_staged_count(&staged, a->comm, entry->why);
    gpuhier_use_copies(a, &staged);
    gpuhier_watched_phase(entry->watched, GPUHIER_TRACE_OPEN_MPI);
    rc = gpuhier_saved_call(call, &entry->module->saved, a, NULL);
    gpuhier_watched_phase(entry->watched, GPUHIER_TRACE_WRITE);
    rc = OMPI_SUCCESS != rc ? rc : gpuhier_staged_write(&staged);
    gpuhier_staged_close(&staged);
    return OMPI_SUCCESS != failure ? failure : rc;
}

static inline __attribute__((always_inline)) bool surely_host(const void *buffer)
{
    return MPI_IN_PLACE == buffer || gpuhier_address_surely_host(buffer);
}

/* Can the saved function take the call's buffers as they are? */
static inline __attribute__((always_inline)) bool takes(const args_t *a, const gpuhier_operands_of_t *of, operands_t *o)
{
    if ((surely_host(a->rbuf) && (broadcast == of->find || surely_host(a->sbuf)))
        || (!of->stages && gpuhier_ompi_is_cuda_aware())) {
        return true;
    }
    *o = of->find(a, of->sbuf_is, of->rbuf_is);
    return !gpuhier_operand_on_device(&o->recv) && !gpuhier_operand_on_device(&o->send);
}

/* A call that does not run on the GPUs, nor on its buffers as they are. */
static __attribute__((noinline)) int staged(way_t way, call_fn *call, gpuhier_entry_t *entry, const operands_t *o,
                                            ompi_request_t **request_p)
{
    const bool counted = GPUHIER_REASON_COUNT != entry->why && gpuhier_row_allreduce == entry->row;
    entry->why = why_of(entry);
    gpuhier_count(&gpuhier_counters.saved_because[entry->why], PERSISTENT != way && !counted);
    if (BLOCKING != way) {
        return gpuhier_request_stage(entry, call, o, PERSISTENT == way, request_p);
    }
    const int rc = stage(call, entry, o);
    if (is_noted(entry)) {
        watched_end(entry, false);
    }
    return rc;
}

static inline __attribute__((always_inline)) int left(way_t way, call_fn *call, gpuhier_entry_t *entry,
                                                      ompi_request_t **request_p)
{
    operands_t o;
    if (!takes(entry->a, entry->of, &o)) {
        return staged(way, call, entry, &o, request_p);
    }
    gpuhier_watched_phase(entry->watched, GPUHIER_TRACE_OPEN_MPI);
    const int rc = gpuhier_saved_call(call, &entry->module->saved, entry->a, request_p);
    if (is_noted(entry)) {
        watched_end(entry, BLOCKING != way);
    }
    return rc;
}

/* Every call of a collective that may run on the GPUs. */
static inline __attribute__((always_inline)) int try_gpus(way_t way, call_fn *call, gpuhier_entry_t *entry,
                                                          ompi_request_t **request_p)
{
    const int rc = BLOCKING == way      ? gpuhier_row_run(entry)
                   : NONBLOCKING == way ? gpuhier_row_post(entry, request_p)
                                        : gpuhier_row_init(entry, request_p);
    return GPUHIER_DECLINED != rc ? rc : left(way, call, entry, request_p);
}

/* A traced call, or a reported one. This is a function of its own, so that other calls need no event and do not read
 * the clock. */
static __attribute__((noinline)) int watch(way_t way, call_fn *call, gpuhier_entry_t *entry, ompi_request_t **request_p)
{
    gpuhier_watched_t watched;
    watched.begin = BLOCKING == way ? gpuhier_report_begin() : 0;
    watched.trace = NULL;
    watched.name = NULL;
    entry->watched = &watched;
    return try_gpus(way, call, entry, request_p);
}

/* Every entry point. */
static inline __attribute__((always_inline)) int serve(way_t way, call_fn *call, gpuhier_module_t *module, args_t *a,
                                                       const gpuhier_operands_of_t *of, gpuhier_row_fn *row,
                                                       ompi_request_t **request_p)
{
    if (gpuhier_inside_saved > 0) {
        return gpuhier_saved_call(call, &module->saved, a, request_p);
    }
    const bool rests = BLOCKING == way && NULL != row && &of_allreduce != of && gpuhier_rows_rest(module);
    const bool watched = NULL != row && __builtin_expect(module->is_watched, 0);
    operands_t o;
    if ((NULL == row || rests) && !watched && takes(a, of, &o)) { /* most calls of a host program */
        return gpuhier_saved_call(call, &module->saved, a, request_p);
    }
    gpuhier_entry_t entry = {
        .module = module, .a = a, .of = of, .row = row, .rests = rests, .why = GPUHIER_REASON_COUNT};
    return watched                ? watch(way, call, &entry, request_p)
           : NULL == row || rests ? staged(way, call, &entry, &o, request_p)
                                  : try_gpus(way, call, &entry, request_p);
}

#define PARAM(type, name) type name,
#define FILL(type, name) .name = name,
#define PASS(type, name) a->name,

#define ENTER(way, name, SIGNATURE, find, sbuf_is, rbuf_is, kind, on_gpus, PARAMS, FILLS, PASSES, request)           \
    static int call_##name(const gpuhier_saved_t *saved, const args_t *a, ompi_request_t **request_p)                \
    {                                                                                                                \
        (void) request_p;                                                                                            \
        return saved->name(SIGNATURE(PASS) PASSES saved->name##_module);                                             \
    }                                                                                                                \
    static const gpuhier_operands_of_t of_##name = {find, GPUHIER_LAYOUT_##sbuf_is, GPUHIER_LAYOUT_##rbuf_is, kind}; \
    static int enter_##name(SIGNATURE(PARAM) PARAMS mca_coll_base_module_t *base)                                    \
    {                                                                                                                \
        args_t a = {SIGNATURE(FILL) FILLS};                                                                          \
        return serve(way, call_##name, gpuhier_module_of(base), &a, &of_##name, on_gpus, request);                   \
    }

#define COMM struct ompi_communicator_t *comm,
#define REQUEST ompi_request_t **request_p,
#define INFO struct ompi_info_t *info,
#define THREE_WAYS(name, nonblocking, persistent, SIGNATURE, find, sbuf_is, rbuf_is, kind, on_gpus)                  \
    ENTER(BLOCKING, name, SIGNATURE, find, sbuf_is, rbuf_is, kind, on_gpus, COMM, .comm = comm, a->comm COMMA, NULL) \
    ENTER(NONBLOCKING, nonblocking, SIGNATURE, find, sbuf_is, rbuf_is, kind, on_gpus, COMM REQUEST, .comm = comm,    \
          a->comm COMMA request_p COMMA, request_p)                                                                  \
    ENTER(PERSISTENT, persistent, SIGNATURE, find, sbuf_is, rbuf_is, kind, on_gpus, COMM INFO REQUEST,               \
          .comm = comm COMMA.info = info, a->comm COMMA a->info COMMA request_p COMMA, request_p)
#define COMMA ,

GPUHIER_FAMILY(THREE_WAYS)
ENTER(BLOCKING, reduce_local, REDUCTION, both, EQUAL, EQUAL, STAGED, NULL, , .comm = NULL, , NULL)

/* -- MPI_Allreduce has a short way to the GPUs, and MPI_Barrier is a meeting ------------ */

static __attribute__((noinline)) int allreduce_left(const void *sbuf, void *rbuf, gpuhier_count_t count,
                                                    struct ompi_datatype_t *dtype, struct ompi_op_t *op,
                                                    struct ompi_communicator_t *comm, gpuhier_module_t *module,
                                                    gpuhier_reason_t why)
{
    gpuhier_path_saved(module, comm, gpuhier_collectives[GPUHIER_ALLREDUCE].name, dtype, (size_t) count, why);
    if (surely_host(rbuf) && surely_host(sbuf)) {
        ++gpuhier_inside_saved;
        const int rc = module->saved.allreduce(sbuf, rbuf, count, dtype, op, comm, module->saved.allreduce_module);
        --gpuhier_inside_saved;
        return rc;
    }
    args_t a = {.sbuf = sbuf, .rbuf = rbuf, .rcount = count, .rdtype = dtype, .op = op, .comm = comm};
    gpuhier_entry_t entry = {.module = module, .a = &a, .of = &of_allreduce, .row = gpuhier_row_allreduce, .why = why};
    return left(BLOCKING, call_allreduce, &entry, NULL);
}

static int allreduce(const void *sbuf, void *rbuf, gpuhier_count_t count, struct ompi_datatype_t *dtype,
                     struct ompi_op_t *op, struct ompi_communicator_t *comm, mca_coll_base_module_t *base)
{
    gpuhier_module_t *module = gpuhier_module_of(base);
    if (gpuhier_inside_saved > 0 || module->is_watched) {
        return enter_allreduce(sbuf, rbuf, count, dtype, op, comm, base);
    }
    const void *in = MPI_IN_PLACE == sbuf ? rbuf : sbuf;
    gpuhier_reason_t why = 0 == count ? GPUHIER_REASON_empty : GPUHIER_REASON_type;
    size_t elem_bytes = 0;
    const int kernel = 0 == count ? -1 : gpuhier_path_find(module, op, dtype, &elem_bytes);
    if (kernel >= 0) {
        const gpuhier_path_key_t key = {kernel, (size_t) count * elem_bytes};
        gpuhier_mode_entry_t *mode = gpuhier_path_blocking(module, comm, key, in, rbuf, &why);
        if (NULL != mode) {
            const gpuhier_call_args_t args = {.row = &gpuhier_collectives[GPUHIER_ALLREDUCE],
                                              .kernel = kernel,
                                              .elem_bytes = elem_bytes,
                                              .count = (uint64_t) count,
                                              .in = in,
                                              .out = rbuf};
            const int rc = gpuhier_path_run(module, mode, &args);
            if (GPUHIER_DECLINED != rc) {
                return rc;
            }
            why = GPUHIER_REASON_declined;
        } else if (OMPI_SUCCESS != module->saved.failure) {
            return module->saved.failure;
        }
    }
    return allreduce_left(sbuf, rbuf, count, dtype, op, comm, module, why);
}

/* A barrier waits for all ranks in any case. So a program with nonblocking calls only is accelerated from here on. */
static int barrier(struct ompi_communicator_t *comm, mca_coll_base_module_t *base)
{
    gpuhier_module_t *module = gpuhier_module_of(base);
    if (0 == gpuhier_inside_saved && !gpuhier_path_meet(module, comm)) {
        return module->saved.failure;
    }
    ++gpuhier_inside_saved;
    int rc = module->saved.barrier(comm, module->saved.barrier_module);
    --gpuhier_inside_saved;
    return rc;
}

void gpuhier_family_offer(mca_coll_base_module_t *module)
{
    const bool all = gpuhier_cuda_present(), moves = all && !gpuhier_ompi_is_cuda_aware();
#define OFFER(name, nonblocking, persistent, SIGNATURE, find, sbuf_is, rbuf_is, kind, on_gpus)  \
    if (&of_allreduce == &of_##name || moves || (all && (NULL != on_gpus || STAGED == kind))) { \
        module->coll_##name = enter_##name;                                                     \
        module->coll_##nonblocking = enter_##nonblocking;                                       \
        module->coll_##persistent = enter_##persistent;                                         \
    }
    GPUHIER_FAMILY(OFFER)
    module->coll_reduce_local = all ? enter_reduce_local : NULL;
    module->coll_allreduce = allreduce;
    module->coll_barrier = barrier;
}
