/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the collectives beside MPI_Allreduce that run on the GPUs: for each its row, and what all ranks know of a call.
 * That is the path's key: the operation, the type and the counts of a reduction; the bytes of blocks of the others,
 * whose ranks agree on no more. A rank whose type has gaps works on a packed copy in host memory, of which no other
 * rank knows. MPI_Alltoall(v) runs on the GPUs where every group exchanges with each other one.
 *
 * Called by the entry points in coll_gpuhier_family.c.
 */
#include "ompi_config.h"

#include <stdlib.h>
#include <string.h>

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
static bool must_hear(const gpuhier_team_t *team, const gpuhier_collective_t *row)
{
    return team->ngroups > 1 && GPUHIER_RANKS_PAIR == row->from && row->has_lists;
}

static int lists_hear(gpuhier_module_t *module, const gpuhier_team_t *team, gpuhier_call_args_t *args)
{
    if (!must_hear(team, args->row)) {
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

/*
 * Types with gaps: makes the packed copies on which the call works. Ends the job if there is no memory, since other
 * ranks are in the call.
 */
static int packed_open(const gpuhier_coll_args_t *a, const gpuhier_operands_of_t *of, gpuhier_row_call_t *call,
                       gpuhier_staged_t *packed)
{
    gpuhier_call_args_t *args = &call->args;
    if (!call->packs_in && !call->packs_out) {
        return OMPI_SUCCESS;
    }
    const gpuhier_operands_t o = of->find(a, of->sbuf_is, of->rbuf_is);
    const int rc = gpuhier_staged_pack(packed, call->packs_in ? &o.send : NULL, call->packs_out ? &o.recv : NULL);
    if (OMPI_SUCCESS != rc) {
        gpuhier_staged_abort(packed, a->comm, rc);
        return rc;
    }
    args->is_packed = gpuhier_address_on_device(args->in) && gpuhier_address_on_device(args->out);
    if (call->packs_out) {
        args->out = packed->recv.whole.host;
        args->in = call->in_place ? packed->recv.whole.host + call->in_at : args->in;
    }
    if (call->packs_in) {
        args->in = packed->send.whole.host;
    }
    return OMPI_SUCCESS;
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
    if (!gpuhier_trace_is_on() && 0 == gpuhier_params.report) {
        return gpuhier_path_run(module, entry, args);
    }
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

/* The same with packed copies of this rank's data. A rank that cannot read its input votes the call down. */
static int run_packed(gpuhier_module_t *module, const gpuhier_coll_args_t *a, const gpuhier_operands_of_t *of,
                      gpuhier_mode_entry_t *entry, gpuhier_row_call_t *call)
{
    gpuhier_staged_t packed;
    memset(&packed, 0, sizeof(packed));
    int rc = packed_open(a, of, call, &packed);
    if (OMPI_SUCCESS == rc) {
        call->args.declines = call->args.declines || OMPI_SUCCESS != gpuhier_staged_read(&packed);
        rc = run_watched(module, a, call->key, entry, &call->args);
        rc = gpuhier_staged_end(&packed, rc);
    }
    gpuhier_staged_close(&packed);
    return rc;
}

static int run(gpuhier_module_t *module, const gpuhier_coll_args_t *a, const gpuhier_operands_of_t *of,
               gpuhier_row_call_t *call)
{
    gpuhier_call_args_t *args = &call->args;
    gpuhier_reason_t why;
    gpuhier_mode_entry_t *entry = NULL;
    if (is_open(module, a->comm, args)) {
        if (!suits(module->team, args->row)) {
            return GPUHIER_DECLINED;
        }
        idle_fill(module->team, args);
        entry = gpuhier_path_blocking(module, a->comm, call->key, args->in, args->out, &why);
    }
    if (NULL == entry) {
        return OMPI_SUCCESS != module->saved.failure ? module->saved.failure : GPUHIER_DECLINED;
    }
    const int rc = lists_hear(module, module->team, args);
    return OMPI_SUCCESS != rc                  ? rc
           : call->packs_in || call->packs_out ? run_packed(module, a, of, entry, call)
                                               : run_watched(module, a, call->key, entry, args);
}

int gpuhier_row_run(gpuhier_module_t *module, const gpuhier_coll_args_t *a, const gpuhier_operands_of_t *of,
                    gpuhier_row_fn *row)
{
    gpuhier_row_call_t call;
    if (!row(a, &call)) {
        return GPUHIER_DECLINED;
    }
    const int rc = run(module, a, of, &call);
    gpuhier_call_lists_free(&call.args);
    return rc;
}

/* Gives the request what it needs to run the call, but no team: lists, packed copies, a tag. */
static int request_fill(gpuhier_request_t *request, const gpuhier_coll_args_t *a, const gpuhier_operands_of_t *of,
                        gpuhier_row_call_t *call)
{
    const int rc = packed_open(a, of, call, &request->staged);
    request->args = call->args;
    request->args.tag = gpuhier_hostcall_tag(a->comm);
    return rc;
}

/* A rank that cannot read its input takes part with ones, and returns the error; see coll_gpuhier_family.c. */
static void request_post(gpuhier_request_t *request)
{
    request->failure = gpuhier_staged_read(&request->staged);
    if (OMPI_SUCCESS != request->failure) {
        gpuhier_staged_spoil(&request->staged);
    }
    gpuhier_request_post(request);
}

int gpuhier_row_post(gpuhier_module_t *module, const gpuhier_coll_args_t *a, const gpuhier_operands_of_t *of,
                     gpuhier_row_fn *row, ompi_request_t **request_p)
{
    gpuhier_row_call_t call;
    if (!row(a, &call)) {
        return GPUHIER_DECLINED;
    }
    const gpuhier_team_t *team = module->team;
    const bool may = call.key.bytes > GPUHIER_PATH_NONBLOCKING_BYTES
                     && (NULL == team || (suits(team, call.args.row) && !must_hear(team, call.args.row)));
    gpuhier_mode_entry_t *entry = may ? gpuhier_path_nonblocking(module, call.key) : NULL;
    if (NULL == entry) {
        if (may) {
            gpuhier_path_note(module, NULL == team ? first : call.key, call.args.in, call.args.out);
        }
        gpuhier_call_lists_free(&call.args);
        return GPUHIER_DECLINED;
    }
    gpuhier_request_t *request = gpuhier_request_get(a->comm, false);
    if (NULL == request) {
        gpuhier_request_abort(a->comm);
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    idle_fill(team, &call.args);
    call.args.outcome_p = &entry->outcome;
    const int rc = request_fill(request, a, of, &call);
    if (OMPI_SUCCESS != rc) {
        gpuhier_request_drop(request);
        return rc;
    }
    request->team = module->team;
    *request_p = &request->base.super;
    request_post(request);
    return OMPI_SUCCESS;
}

/* MPI_Start, MPI_Startall. */
static int start(size_t count, ompi_request_t **requests)
{
    for (size_t i = 0; i < count; ++i) {
        if (gpuhier_end_has_come()) {
            return OMPI_ERR_NOT_AVAILABLE; /* as coll_gpuhier_persistent.c */
        }
        request_post((gpuhier_request_t *) requests[i]);
    }
    return OMPI_SUCCESS;
}

int gpuhier_row_init(gpuhier_module_t *module, const gpuhier_coll_args_t *a, const gpuhier_operands_of_t *of,
                     gpuhier_row_fn *row, ompi_request_t **request_p)
{
    gpuhier_row_call_t call;
    gpuhier_reason_t why;
    if (!row(a, &call)) {
        return GPUHIER_DECLINED;
    }
    const gpuhier_call_args_t *args = &call.args;
    gpuhier_request_t *request = gpuhier_request_get(a->comm, true);
    gpuhier_team_t *team = gpuhier_path_persistent(module, a->comm, args->in, args->out, call.key,
                                                   NULL != request && !args->declines, &why);
    if (NULL == request) {
        gpuhier_request_abort(a->comm);
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    request->team = team;
    request->owns_team = NULL != team;
    request->args = *args; /* whose lists it owns */
    if (NULL == team || !suits(team, args->row)) {
        gpuhier_request_drop(request);
        return OMPI_SUCCESS != module->saved.failure ? module->saved.failure : GPUHIER_DECLINED;
    }
    idle_fill(team, &call.args);
    int rc = lists_hear(module, team, &call.args);
    rc = OMPI_SUCCESS != rc ? rc : request_fill(request, a, of, &call);
    if (OMPI_SUCCESS != rc) {
        gpuhier_request_drop(request);
        return rc;
    }
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

/* Where so many elements begin, and whether they have gaps. */
static bool has_gaps(const void *buffer, size_t count, const struct ompi_datatype_t *dtype, char **begin_p)
{
    *begin_p = (char *) (uintptr_t) buffer + dtype->super.true_lb;
    return !ompi_datatype_is_contiguous_memory_layout(dtype, count < 2 ? 1 : 2); /* more are as two */
}

/* Fills a list with blocks of bytes, from the lowest of them on, which is *begin_p. Displacements may be negative;
 * those of empty blocks mean nothing. Blocks with gaps lie end to end, since they are packed. Do they have gaps? */
static bool list_fill(gpuhier_counts_t counts, gpuhier_disps_t disps, const struct ompi_datatype_t *dtype, int nranks,
                      const void *buffer, gpuhier_block_t *list, uint64_t *longest_p, char **begin_p)
{
    const size_t size = dtype->super.size;
    const ptrdiff_t extent = dtype->super.ub - dtype->super.lb;
    ptrdiff_t least = PTRDIFF_MAX;
    uint64_t longest;
    (void) counts_sum(counts, nranks, &longest);
    const bool gaps = has_gaps(buffer, longest, dtype, begin_p) && longest > 0;
    uint64_t end = 0;
    *longest_p = longest * size;
    for (int i = 0; i < nranks && longest > 0; ++i) {
        const ptrdiff_t at = GPUHIER_DISPS_AT(disps, i) * extent;
        least = GPUHIER_COUNTS_AT(counts, i) > 0 && at < least ? at : least;
    }
    for (int i = 0; i < nranks; ++i) {
        list[i] = (gpuhier_block_t){.begin = (uint64_t) (GPUHIER_DISPS_AT(disps, i) * extent) - (uint64_t) least,
                                    .length = GPUHIER_COUNTS_AT(counts, i) * size};
        list[i].begin = gaps ? end : list[i].begin;
        end += list[i].length;
    }
    *begin_p += longest > 0 ? least : 0;
    return gaps;
}

/* -- reductions: the operation, the type and the counts are the same on all ranks ------------- */

static bool reduction(const gpuhier_coll_args_t *a, const gpuhier_collective_t *row, int kind, size_t blocks,
                      gpuhier_row_call_t *call)
{
    gpuhier_call_args_t *args = &call->args;
    const bool is_taker = GPUHIER_RANKS_ROOT != row->to || ompi_comm_rank(a->comm) == a->root;
    const void *in = MPI_IN_PLACE == a->sbuf ? a->rbuf : a->sbuf;
    *call = (gpuhier_row_call_t){
        .args = {.row = row, .root = a->root, .count = (uint64_t) a->rcount, .in = in, .dtype = a->rdtype}};
    args->out = is_taker ? a->rbuf : (void *) in;
    args->kernel = gpuhier_reduce_find(a->op, a->rdtype, &args->elem_bytes);
    call->key = (gpuhier_path_key_t){kind + args->kernel, (size_t) a->rcount * args->elem_bytes * blocks};
    return args->kernel >= 0 && args->count > 0;
}

bool gpuhier_row_reduce(const gpuhier_coll_args_t *a, gpuhier_row_call_t *call)
{
    static const gpuhier_collective_t row = {.name = "MPI_Reduce", .from = GPUHIER_RANKS_ALL, .to = GPUHIER_RANKS_ROOT};
    return reduction(a, &row, KIND_REDUCE, 1, call);
}

bool gpuhier_row_reduce_scatter_block(const gpuhier_coll_args_t *a, gpuhier_row_call_t *call)
{
    static const gpuhier_collective_t row = {
        .name = "MPI_Reduce_scatter_block", .from = GPUHIER_RANKS_ALL, .to = GPUHIER_RANKS_OWNER, .has_blocks = true};
    return reduction(a, &row, KIND_REDUCE_SCATTER, (size_t) ompi_comm_size(a->comm), call);
}

bool gpuhier_row_reduce_scatter(const gpuhier_coll_args_t *a, gpuhier_row_call_t *call)
{
    static const gpuhier_collective_t row = {.name = "MPI_Reduce_scatter",
                                             .from = GPUHIER_RANKS_ALL,
                                             .to = GPUHIER_RANKS_OWNER,
                                             .has_blocks = true,
                                             .has_lists = true};
    const int nranks = ompi_comm_size(a->comm);
    const void *in = MPI_IN_PLACE == a->sbuf ? a->rbuf : a->sbuf;
    gpuhier_call_args_t *args = &call->args;
    *call = (gpuhier_row_call_t){.args = {.row = &row, .in = in, .dtype = a->rdtype}};
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
    call->key = (gpuhier_path_key_t){KIND_REDUCE_SCATTER + args->kernel, all * args->elem_bytes};
    return true;
}

/* -- the others: the bytes of a block are the same on all ranks -------------------------------- */

/* A call that moves so many bytes of a block. */
static void moves(gpuhier_row_call_t *call, const gpuhier_collective_t *row, int kind, size_t bytes)
{
    *call = (gpuhier_row_call_t){
        .args = {.row = row, .kernel = BYTES_KERNEL, .elem_bytes = 1, .count = bytes, .dtype = &ompi_mpi_byte.dt},
        .key = {kind, bytes}};
}

/* As many bytes for each rank, or from each. */
static bool equal_blocks(const gpuhier_coll_args_t *a, const gpuhier_collective_t *row, int kind, size_t given,
                         gpuhier_row_call_t *call)
{
    const size_t bytes = (size_t) a->rcount * a->rdtype->super.size, nranks = (size_t) ompi_comm_size(a->comm);
    char *in, *out;
    moves(call, row, kind, bytes);
    call->key.bytes *= nranks;
    call->packs_out = has_gaps(a->rbuf, (size_t) a->rcount * nranks, a->rdtype, &out);
    call->in_place = MPI_IN_PLACE == a->sbuf;
    call->in_at = 1 == given ? (size_t) ompi_comm_rank(a->comm) * bytes : 0;
    in = out + call->in_at;
    call->packs_in = !call->in_place && has_gaps(a->sbuf, (size_t) a->scount * given, a->sdtype, &in);
    call->args.in = in;
    call->args.out = out;
    return bytes > 0;
}

bool gpuhier_row_allgather(const gpuhier_coll_args_t *a, gpuhier_row_call_t *call)
{
    static const gpuhier_collective_t row = {
        .name = "MPI_Allgather", .from = GPUHIER_RANKS_OWNER, .to = GPUHIER_RANKS_ALL, .has_blocks = true};
    return equal_blocks(a, &row, KIND_ALLGATHER, 1, call);
}

bool gpuhier_row_alltoall(const gpuhier_coll_args_t *a, gpuhier_row_call_t *call)
{
    static const gpuhier_collective_t row = {
        .name = "MPI_Alltoall", .from = GPUHIER_RANKS_PAIR, .to = GPUHIER_RANKS_PAIR, .has_blocks = true};
    return equal_blocks(a, &row, KIND_ALLTOALL, (size_t) ompi_comm_size(a->comm), call);
}

bool gpuhier_row_allgatherv(const gpuhier_coll_args_t *a, gpuhier_row_call_t *call)
{
    static const gpuhier_collective_t row = {.name = "MPI_Allgatherv",
                                             .from = GPUHIER_RANKS_OWNER,
                                             .to = GPUHIER_RANKS_ALL,
                                             .has_blocks = true,
                                             .has_lists = true};
    const int rank = ompi_comm_rank(a->comm), nranks = ompi_comm_size(a->comm);
    gpuhier_call_args_t *args = &call->args;
    uint64_t longest;
    const uint64_t all = counts_sum(a->rcounts, nranks, &longest) * a->rdtype->super.size;
    if (0 == all) {
        return false;
    }
    moves(call, &row, KIND_ALLGATHER, longest * a->rdtype->super.size);
    call->key.bytes = args->listed = all;
    args->in = args->out = a->rbuf;
    args->taken = lists_make(a, 1);
    args->declines = NULL == args->taken;
    if (NULL != args->taken) {
        char *in, *out;
        call->packs_out = list_fill(a->rcounts, a->rdisps, a->rdtype, nranks, a->rbuf, args->taken, &args->count, &out);
        const gpuhier_block_t *mine = &args->taken[rank];
        call->in_place = MPI_IN_PLACE == a->sbuf || 0 == mine->length;
        call->in_at = mine->length > 0 ? mine->begin : 0;
        in = out + call->in_at;
        call->packs_in = !call->in_place && has_gaps(a->sbuf, (size_t) a->scount, a->sdtype, &in);
        args->in = in;
        args->out = out;
    }
    return true;
}

/* A rank knows its own counts only, so all calls of a communicator are of one kind, and of one size, which no call that
 * Open MPI makes by itself has. */
bool gpuhier_row_alltoallv(const gpuhier_coll_args_t *a, gpuhier_row_call_t *call)
{
    static const gpuhier_collective_t row = {.name = "MPI_Alltoallv",
                                             .from = GPUHIER_RANKS_PAIR,
                                             .to = GPUHIER_RANKS_PAIR,
                                             .has_blocks = true,
                                             .has_lists = true};
    const int nranks = ompi_comm_size(a->comm);
    gpuhier_block_t *lists = lists_make(a, 3); /* the third is for what is heard */
    gpuhier_call_args_t *args = &call->args;
    moves(call, &row, KIND_ALLTOALLV, 0);
    call->key.bytes = GPUHIER_PATH_NONBLOCKING_BYTES + 1;
    args->in = args->out = a->rbuf;
    args->declines = NULL == lists;
    if (NULL != lists) {
        char *in, *out;
        uint64_t taken;
        args->given = lists;
        args->taken = lists + nranks;
        call->in_place = MPI_IN_PLACE == a->sbuf;
        call->packs_out = list_fill(a->rcounts, a->rdisps, a->rdtype, nranks, a->rbuf, args->taken, &taken, &out);
        if (call->in_place) {
            memcpy(args->given, args->taken, (size_t) nranks * sizeof(*lists));
            args->count = taken;
            in = out;
        } else {
            call->packs_in =
                list_fill(a->scounts, a->sdisps, a->sdtype, nranks, a->sbuf, args->given, &args->count, &in);
        }
        args->in = 0 == args->count ? out : in;
        args->out = 0 == taken ? (void *) (uintptr_t) args->in : out;
        args->is_idle = 0 == args->count && 0 == taken;
    }
    return true;
}

bool gpuhier_row_bcast(const gpuhier_coll_args_t *a, gpuhier_row_call_t *call)
{
    static const gpuhier_collective_t row = {.name = "MPI_Bcast", .from = GPUHIER_RANKS_ROOT, .to = GPUHIER_RANKS_ALL};
    char *begin;
    moves(call, &row, KIND_BCAST, (size_t) a->rcount * a->rdtype->super.size);
    call->packs_out = has_gaps(a->rbuf, (size_t) a->rcount, a->rdtype, &begin);
    call->in_place = true;
    call->args.root = a->root;
    call->args.in = call->args.out = begin;
    return call->args.count > 0;
}
