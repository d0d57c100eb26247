/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the collectives beside MPI_Allreduce that run on the GPUs: for each its row, and what all ranks know of a call.
 * That is the path's key: the operation, the type and the counts of a reduction; the bytes of blocks of the others,
 * whose ranks agree on no more. A rank whose type is not contiguous votes a call down. MPI_Alltoall(v) runs on the GPUs
 * where every group exchanges with each other one.
 *
 * Called by the entry points in coll_gpuhier_family.c.
 */
#include "ompi_config.h"

#include <stdlib.h>

#include "base/coll_gpuhier_report.h"
#include "coll/coll_gpuhier_path.h"
#include "coll/coll_gpuhier_request.h"
#include "coll/coll_gpuhier_rows.h"
#include "team/coll_gpuhier_team.h"
#include "ompi/datatype/ompi_datatype.h"

/* Kinds of the table of modes: MPI_Allreduce's are the numbers of the kernels. */
enum {
    KIND_REDUCE = GPUHIER_REDUCE_COUNT,
    KIND_REDUCE_SCATTER = 2 * GPUHIER_REDUCE_COUNT, /* and MPI_Reduce_scatter_block */
    KIND_ALLGATHER = 3 * GPUHIER_REDUCE_COUNT,      /* and MPI_Allgatherv */
    KIND_ALLTOALL,
    KIND_ALLTOALLV,
    KIND_BCAST,
    KIND_FIRST,
    KINDS
};
_Static_assert(KINDS <= GPUHIER_MODE_KINDS, "each kind has a row in the table of modes");

/* Key of all calls, as long as the communicator has no team. */
static const gpuhier_path_key_t first = {KIND_FIRST, 1};

#define BYTES_KERNEL \
    GPUHIER_REDUCE_bor_uint8 /* knows elements of one byte, which collectives that do not reduce move */

/*
 * May calls run on the GPUs of the communicator? Where it has no team yet, host programs make many calls of many kinds:
 * they share one entry of the table, and so its few probes, and rest until the next one is due.
 */
static bool is_open(gpuhier_module_t *module, struct ompi_communicator_t *comm, const gpuhier_call_args_t *args)
{
    gpuhier_reason_t why;
    if (NULL != module->team || NULL != gpuhier_path_blocking(module, comm, first, args->in, args->out, &why)) {
        return true;
    }
    gpuhier_mode_entry_t *entry = gpuhier_modes_entry(&module->modes, first.kind, first.bytes);
    if (GPUHIER_AGREE_NO == module->agree || module->team_failed || NULL == entry
        || GPUHIER_MODE_NEVER == entry->mode) {
        module->rest = UINT64_MAX;
    } else if (entry->probe > entry->calls + 1) {
        module->rest = entry->probe - entry->calls - 1;
        entry->calls += module->rest;
    }
    return false;
}

/* Do such calls run on the GPUs of a team's groups? Pairs need a partner in each other group. */
static bool suits(const gpuhier_team_t *team, const gpuhier_collective_t *row)
{
    return 1 == team->ngroups || GPUHIER_RANKS_PAIR != row->from
           || gpuhier_schedule_joins_all(team->limits.algorithm, team->ngroups);
}

/* For a rank that gives and takes nothing any GPU memory will do: its buffers do not keep the others from the GPUs. */
static void idle_fill(const gpuhier_team_t *team, gpuhier_call_args_t *args)
{
    if (args->is_idle) {
        args->in = args->out = (void *) (uintptr_t) team->device->witness;
    }
}

/*
 * Pairs with lists between groups: all ranks tell all how much they give to each. So a rank knows how long the chunks
 * are that come, whatever it expects, and how many slices the call has. Collective; returns an Open MPI code.
 */
static int lists_hear(gpuhier_module_t *module, const gpuhier_team_t *team, gpuhier_call_args_t *args)
{
    if (1 == team->ngroups || GPUHIER_RANKS_PAIR != args->row->from || !args->row->has_lists) {
        return OMPI_SUCCESS;
    }
    const size_t n = (size_t) team->nranks, me = (size_t) team->rank;
    uint64_t *lengths = calloc(n * n, sizeof(*lengths)); /* [giver][taker] */
    if (NULL == lengths) {
        gpuhier_request_abort(team->comm);
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    for (size_t i = 0; i < n && NULL != args->given; ++i) {
        lengths[me * n + i] = args->given[i].length;
    }
    const int rc = gpuhier_saved_gather(&module->saved, team->comm, MPI_IN_PLACE, lengths, n * sizeof(*lengths));
    args->count = 1;
    for (size_t i = 0; i < n * n; ++i) {
        args->count = lengths[i] > args->count ? lengths[i] : args->count;
    }
    for (size_t i = 0; i < n && NULL != args->given; ++i) {
        gpuhier_block_t *taken = &args->taken[i];
        args->heard = args->taken + n;
        args->heard[i].length = lengths[i * n + me];
        args->is_cut_short = args->is_cut_short || args->heard[i].length > taken->length;
        taken->length = args->heard[i].length < taken->length ? args->heard[i].length : taken->length;
    }
    free(lengths);
    return rc;
}

/* Bytes of the message, which nccl-tests calls the size; of pairs with lists, what this rank gives. */
static uint64_t message_bytes(const gpuhier_call_args_t *args, gpuhier_path_key_t key, int nranks)
{
    uint64_t bytes = 0;
    if (GPUHIER_RANKS_PAIR != args->row->from || !args->row->has_lists) {
        return key.bytes;
    }
    for (int i = 0; i < nranks && NULL != args->given; ++i) {
        bytes += args->given[i].length;
    }
    return bytes;
}

/* A call that runs on the GPUs; with an event and a time where these are asked for. */
static int run_watched(gpuhier_module_t *module, const gpuhier_coll_args_t *a, gpuhier_path_key_t key,
                       gpuhier_mode_entry_t *entry, gpuhier_call_args_t *args)
{
    const double nranks = ompi_comm_size(a->comm), begin = gpuhier_report_begin();
    const uint64_t bytes = message_bytes(args, key, ompi_comm_size(a->comm));
    gpuhier_trace_event_t event;
    if (gpuhier_trace_is_on()) {
        gpuhier_trace_begin(&event, GPUHIER_TRACE_BLOCKING, args->row->name, a->comm, args->dtype, a->op, args->count);
        event.bytes = bytes;
        args->trace = &event;
        gpuhier_trace_phase(&event, GPUHIER_TRACE_QUEUED);
    }
    const int rc = gpuhier_path_run(module, entry, args);
    if (GPUHIER_DECLINED != rc) {
        gpuhier_report_end(args->row->name, GPUHIER_REPORT_GPUS, bytes,
                           args->row->has_blocks ? (nranks - 1) / nranks : 1, begin);
    }
    if (NULL != args->trace && GPUHIER_DECLINED == rc) {
        gpuhier_trace_end_left(&event, GPUHIER_REASON_declined);
    } else if (NULL != args->trace) {
        gpuhier_trace_end(&event);
    }
    return rc;
}

static int run(gpuhier_module_t *module, const gpuhier_coll_args_t *a, gpuhier_path_key_t key,
               gpuhier_call_args_t *args)
{
    gpuhier_reason_t why;
    gpuhier_mode_entry_t *entry = NULL;
    if (is_open(module, a->comm, args)) {
        if (!suits(module->team, args->row)) {
            return GPUHIER_DECLINED;
        }
        idle_fill(module->team, args);
        entry = gpuhier_path_blocking(module, a->comm, key, args->in, args->out, &why);
    }
    if (NULL == entry) {
        return OMPI_SUCCESS != module->saved.failure ? module->saved.failure : GPUHIER_DECLINED;
    }
    const int rc = lists_hear(module, module->team, args);
    return OMPI_SUCCESS != rc                                    ? rc
           : gpuhier_trace_is_on() || 0 != gpuhier_params.report ? run_watched(module, a, key, entry, args)
                                                                 : gpuhier_path_run(module, entry, args);
}

int gpuhier_row_run(gpuhier_module_t *module, const gpuhier_coll_args_t *a, gpuhier_row_fn *row)
{
    gpuhier_call_args_t args;
    gpuhier_path_key_t key;
    if (!row(a, &args, &key)) {
        return GPUHIER_DECLINED;
    }
    const int rc = run(module, a, key, &args);
    gpuhier_call_lists_free(&args);
    return rc;
}

/* Data of any type move as bytes. A call that is voted down can only go on with types that all ranks know: so the
 * operation decides, which is the same on all ranks. */
int gpuhier_row_post(gpuhier_module_t *module, const gpuhier_coll_args_t *a, gpuhier_row_fn *row,
                     ompi_request_t **request_p)
{
    gpuhier_call_args_t args;
    gpuhier_path_key_t key;
    if (!row(a, &args, &key)) {
        return GPUHIER_DECLINED;
    }
    const bool may = GPUHIER_RANKS_ALL == args.row->from && key.bytes > GPUHIER_PATH_NONBLOCKING_BYTES;
    gpuhier_mode_entry_t *entry = may ? gpuhier_path_nonblocking(module, key) : NULL;
    if (NULL != entry) {
        return gpuhier_request_run(module->team, entry, &args, a->comm, NULL, request_p);
    }
    if (may) {
        gpuhier_path_note(module, NULL == module->team ? first : key, args.in, args.out);
    }
    gpuhier_call_lists_free(&args);
    return GPUHIER_DECLINED;
}

/* MPI_Start, MPI_Startall. */
static int start(size_t count, ompi_request_t **requests)
{
    for (size_t i = 0; i < count; ++i) {
        if (gpuhier_end_has_come()) {
            return OMPI_ERR_NOT_AVAILABLE; /* as coll_gpuhier_persistent.c */
        }
        gpuhier_request_post((gpuhier_request_t *) requests[i]);
    }
    return OMPI_SUCCESS;
}

int gpuhier_row_init(gpuhier_module_t *module, const gpuhier_coll_args_t *a, gpuhier_row_fn *row,
                     ompi_request_t **request_p)
{
    gpuhier_call_args_t args;
    gpuhier_path_key_t key;
    gpuhier_reason_t why;
    if (!row(a, &args, &key)) {
        return GPUHIER_DECLINED;
    }
    gpuhier_request_t *request = gpuhier_request_get(a->comm, true);
    gpuhier_team_t *team =
        gpuhier_path_persistent(module, a->comm, args.in, args.out, key, NULL != request && !args.declines, &why);
    if (NULL == request) {
        gpuhier_request_abort(a->comm);
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    request->team = team;
    request->owns_team = NULL != team;
    request->args = args;
    if (NULL == team || !suits(team, args.row)) {
        gpuhier_request_drop(request);
        return OMPI_SUCCESS != module->saved.failure ? module->saved.failure : GPUHIER_DECLINED;
    }
    idle_fill(team, &request->args);
    const int rc = lists_hear(module, team, &request->args);
    if (OMPI_SUCCESS != rc) {
        gpuhier_request_drop(request);
        return rc;
    }
    request->args.tag = gpuhier_hostcall_tag(a->comm);
    request->base.super.req_start = start;
    *request_p = &request->base.super;
    return OMPI_SUCCESS;
}

/* -- lists of blocks -------------------------------------------------------------------------- */

static gpuhier_block_t *lists_make(const gpuhier_coll_args_t *a, int lists)
{
    return malloc((size_t) (lists * ompi_comm_size(a->comm)) * sizeof(gpuhier_block_t));
}

/* Elements of all blocks, and of the longest one. */
static uint64_t counts_sum(gpuhier_counts_t counts, int nranks, uint64_t *longest_p)
{
    uint64_t all = 0;
    *longest_p = 0;
    for (int i = 0; i < nranks; ++i) {
        const uint64_t count = GPUHIER_COUNTS_AT(counts, i);
        *longest_p = count > *longest_p ? count : *longest_p;
        all += count;
    }
    return all;
}

/* Where so many elements begin, and whether they are contiguous. */
static bool is_contiguous(const void *buffer, size_t count, const struct ompi_datatype_t *dtype, char **begin_p)
{
    *begin_p = (char *) (uintptr_t) buffer + dtype->super.true_lb;
    return ompi_datatype_is_contiguous_memory_layout(dtype, count < 2 ? 1 : 2); /* more are as two */
}

/* Fills a list with blocks of bytes, from the lowest of them on, which is *begin_p. Displacements may be negative;
 * those of empty blocks mean nothing. Are the blocks contiguous? */
static bool list_fill(gpuhier_counts_t counts, gpuhier_disps_t disps, const struct ompi_datatype_t *dtype, int nranks,
                      const void *buffer, gpuhier_block_t *list, uint64_t *longest_p, char **begin_p)
{
    const size_t size = dtype->super.size;
    const ptrdiff_t extent = dtype->super.ub - dtype->super.lb;
    ptrdiff_t least = PTRDIFF_MAX;
    uint64_t longest;
    (void) counts_sum(counts, nranks, &longest);
    const bool fits = is_contiguous(buffer, longest, dtype, begin_p);
    *longest_p = longest * size;
    for (int i = 0; i < nranks && longest > 0; ++i) {
        const ptrdiff_t at = GPUHIER_DISPS_AT(disps, i) * extent;
        least = GPUHIER_COUNTS_AT(counts, i) > 0 && at < least ? at : least;
    }
    for (int i = 0; i < nranks; ++i) {
        list[i] = (gpuhier_block_t){.begin = (uint64_t) (GPUHIER_DISPS_AT(disps, i) * extent) - (uint64_t) least,
                                    .length = GPUHIER_COUNTS_AT(counts, i) * size};
    }
    *begin_p += longest > 0 ? least : 0;
    return fits || 0 == *longest_p;
}

/* -- reductions: the operation, the type and the counts are the same on all ranks ------------- */

static bool reduction(const gpuhier_coll_args_t *a, const gpuhier_collective_t *row, int kind, size_t blocks,
                      gpuhier_call_args_t *args, gpuhier_path_key_t *key)
{
    const bool is_taker = GPUHIER_RANKS_ROOT != row->to || ompi_comm_rank(a->comm) == a->root;
    const void *in = MPI_IN_PLACE == a->sbuf ? a->rbuf : a->sbuf;
    *args =
        (gpuhier_call_args_t){.row = row, .root = a->root, .count = (uint64_t) a->rcount, .in = in, .dtype = a->rdtype};
    args->out = is_taker ? a->rbuf : (void *) in;
    args->kernel = gpuhier_reduce_find(a->op, a->rdtype, &args->elem_bytes);
    *key = (gpuhier_path_key_t){kind + args->kernel, (size_t) a->rcount * args->elem_bytes * blocks};
    return args->kernel >= 0 && args->count > 0;
}

bool gpuhier_row_reduce(const gpuhier_coll_args_t *a, gpuhier_call_args_t *args, gpuhier_path_key_t *key)
{
    static const gpuhier_collective_t row = {.name = "MPI_Reduce", .from = GPUHIER_RANKS_ALL, .to = GPUHIER_RANKS_ROOT};
    return reduction(a, &row, KIND_REDUCE, 1, args, key);
}

bool gpuhier_row_reduce_scatter_block(const gpuhier_coll_args_t *a, gpuhier_call_args_t *args, gpuhier_path_key_t *key)
{
    static const gpuhier_collective_t row = {
        .name = "MPI_Reduce_scatter_block", .from = GPUHIER_RANKS_ALL, .to = GPUHIER_RANKS_OWNER, .has_blocks = true};
    return reduction(a, &row, KIND_REDUCE_SCATTER, (size_t) ompi_comm_size(a->comm), args, key);
}

bool gpuhier_row_reduce_scatter(const gpuhier_coll_args_t *a, gpuhier_call_args_t *args, gpuhier_path_key_t *key)
{
    static const gpuhier_collective_t row = {.name = "MPI_Reduce_scatter",
                                             .from = GPUHIER_RANKS_ALL,
                                             .to = GPUHIER_RANKS_OWNER,
                                             .has_blocks = true,
                                             .has_lists = true};
    const int nranks = ompi_comm_size(a->comm);
    const void *in = MPI_IN_PLACE == a->sbuf ? a->rbuf : a->sbuf;
    *args = (gpuhier_call_args_t){.row = &row, .in = in, .dtype = a->rdtype};
    args->kernel = gpuhier_reduce_find(a->op, a->rdtype, &args->elem_bytes);
    const uint64_t all = counts_sum(a->rcounts, nranks, &args->count);
    if (args->kernel < 0 || 0 == all) {
        return false;
    }
    args->listed = all;
    args->given = lists_make(a, 1);
    args->declines = NULL == args->given;
    uint64_t end = 0;
    for (int i = 0; i < nranks && NULL != args->given; ++i) {
        args->given[i] = (gpuhier_block_t){.begin = end, .length = GPUHIER_COUNTS_AT(a->rcounts, i)};
        end += args->given[i].length;
    }
    args->out = 0 == GPUHIER_COUNTS_AT(a->rcounts, ompi_comm_rank(a->comm)) ? (void *) (uintptr_t) in : a->rbuf;
    *key = (gpuhier_path_key_t){KIND_REDUCE_SCATTER + args->kernel, all * args->elem_bytes};
    return true;
}

/* -- the others: the bytes of a block are the same on all ranks -------------------------------- */

/* What a call that moves so many bytes of a block has in common with its like. */
#define BYTES_OF(row_, bytes_) \
    .row = &row_, .kernel = BYTES_KERNEL, .elem_bytes = 1, .count = bytes_, .dtype = &ompi_mpi_byte.dt

bool gpuhier_row_allgather(const gpuhier_coll_args_t *a, gpuhier_call_args_t *args, gpuhier_path_key_t *key)
{
    static const gpuhier_collective_t row = {
        .name = "MPI_Allgather", .from = GPUHIER_RANKS_OWNER, .to = GPUHIER_RANKS_ALL, .has_blocks = true};
    const size_t bytes = (size_t) a->rcount * a->rdtype->super.size, nranks = (size_t) ompi_comm_size(a->comm);
    char *in, *out;
    bool fits = is_contiguous(a->rbuf, (size_t) a->rcount * nranks, a->rdtype, &out);
    if (MPI_IN_PLACE == a->sbuf) {
        in = out + (size_t) ompi_comm_rank(a->comm) * bytes;
    } else {
        fits = is_contiguous(a->sbuf, (size_t) a->scount, a->sdtype, &in) && fits;
    }
    *args = (gpuhier_call_args_t){BYTES_OF(row, bytes), .in = in, .out = out, .declines = !fits};
    *key = (gpuhier_path_key_t){KIND_ALLGATHER, bytes * nranks};
    return bytes > 0;
}

bool gpuhier_row_allgatherv(const gpuhier_coll_args_t *a, gpuhier_call_args_t *args, gpuhier_path_key_t *key)
{
    static const gpuhier_collective_t row = {.name = "MPI_Allgatherv",
                                             .from = GPUHIER_RANKS_OWNER,
                                             .to = GPUHIER_RANKS_ALL,
                                             .has_blocks = true,
                                             .has_lists = true};
    const int rank = ompi_comm_rank(a->comm), nranks = ompi_comm_size(a->comm);
    uint64_t longest;
    const uint64_t all = counts_sum(a->rcounts, nranks, &longest) * a->rdtype->super.size;
    gpuhier_block_t *list = 0 == all ? NULL : lists_make(a, 1);
    char *in = a->rbuf, *out = a->rbuf;
    bool fits = NULL != list && list_fill(a->rcounts, a->rdisps, a->rdtype, nranks, a->rbuf, list, &longest, &out);
    if (fits) {
        in = out + (list[rank].length > 0 ? list[rank].begin : 0);
    }
    if (fits && list[rank].length > 0 && MPI_IN_PLACE != a->sbuf) {
        fits = is_contiguous(a->sbuf, (size_t) a->scount, a->sdtype, &in);
    }
    *args = (gpuhier_call_args_t){BYTES_OF(row, longest), .taken = list, .listed = all, .in = in, .out = out,
                                  .declines = !fits};
    *key = (gpuhier_path_key_t){KIND_ALLGATHER, all};
    return all > 0;
}

bool gpuhier_row_alltoall(const gpuhier_coll_args_t *a, gpuhier_call_args_t *args, gpuhier_path_key_t *key)
{
    static const gpuhier_collective_t row = {
        .name = "MPI_Alltoall", .from = GPUHIER_RANKS_PAIR, .to = GPUHIER_RANKS_PAIR, .has_blocks = true};
    const size_t bytes = (size_t) a->rcount * a->rdtype->super.size, nranks = (size_t) ompi_comm_size(a->comm);
    char *in, *out;
    bool fits = is_contiguous(a->rbuf, (size_t) a->rcount * nranks, a->rdtype, &out);
    if (MPI_IN_PLACE == a->sbuf) {
        in = out;
    } else {
        fits = is_contiguous(a->sbuf, (size_t) a->scount * nranks, a->sdtype, &in) && fits;
    }
    *args = (gpuhier_call_args_t){BYTES_OF(row, bytes), .in = in, .out = out, .declines = !fits};
    *key = (gpuhier_path_key_t){KIND_ALLTOALL, bytes * nranks};
    return bytes > 0;
}

/* A rank knows its own counts only, so all calls of a communicator are of one kind. */
bool gpuhier_row_alltoallv(const gpuhier_coll_args_t *a, gpuhier_call_args_t *args, gpuhier_path_key_t *key)
{
    static const gpuhier_collective_t row = {.name = "MPI_Alltoallv",
                                             .from = GPUHIER_RANKS_PAIR,
                                             .to = GPUHIER_RANKS_PAIR,
                                             .has_blocks = true,
                                             .has_lists = true};
    const int nranks = ompi_comm_size(a->comm);
    const bool in_place = MPI_IN_PLACE == a->sbuf;
    gpuhier_block_t *lists = lists_make(a, 3); /* the third is for what is heard */
    *args = (gpuhier_call_args_t){BYTES_OF(row, 0), .in = a->rbuf, .out = a->rbuf, .declines = NULL == lists};
    *key = (gpuhier_path_key_t){KIND_ALLTOALLV, 1};
    if (NULL != lists) {
        char *in, *out;
        uint64_t taken;
        args->given = lists;
        args->taken = lists + nranks;
        const bool takes = list_fill(a->rcounts, a->rdisps, a->rdtype, nranks, a->rbuf, args->taken, &taken, &out);
        const bool gives =
            in_place ? list_fill(a->rcounts, a->rdisps, a->rdtype, nranks, a->rbuf, args->given, &args->count, &in)
                     : list_fill(a->scounts, a->sdisps, a->sdtype, nranks, a->sbuf, args->given, &args->count, &in);
        args->in = 0 == args->count ? out : in;
        args->out = 0 == taken ? (void *) (uintptr_t) args->in : out;
        args->is_idle = 0 == args->count && 0 == taken;
        args->declines = !takes || !gives;
    }
    return true;
}

bool gpuhier_row_bcast(const gpuhier_coll_args_t *a, gpuhier_call_args_t *args, gpuhier_path_key_t *key)
{
    static const gpuhier_collective_t row = {.name = "MPI_Bcast", .from = GPUHIER_RANKS_ROOT, .to = GPUHIER_RANKS_ALL};
    const size_t bytes = (size_t) a->rcount * a->rdtype->super.size;
    char *begin;
    const bool fits = is_contiguous(a->rbuf, (size_t) a->rcount, a->rdtype, &begin);
    *args = (gpuhier_call_args_t){BYTES_OF(row, bytes), .root = a->root, .in = begin, .out = begin, .declines = !fits};
    *key = (gpuhier_path_key_t){KIND_BCAST, bytes};
    return bytes > 0;
}
