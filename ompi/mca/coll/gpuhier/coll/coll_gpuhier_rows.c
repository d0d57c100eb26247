/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the collectives beside MPI_Allreduce that run on the GPUs: for each its row, and what all ranks know of a call.
 * That is the path's key: the operation, the type and the counts of a reduction; the bytes of blocks of the others,
 * whose ranks agree on no more. A rank whose type is not contiguous votes a call down. MPI_Allgatherv, MPI_Alltoall and
 * MPI_Reduce_scatter run on the GPUs of one group only.
 *
 * Called by the entry points in coll_gpuhier_family.c.
 */
#include "ompi_config.h"

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

/* Does this call run on the GPUs only if it is blocking, and all ranks are one group? */
static bool is_of_one_group(const gpuhier_call_args_t *args)
{
    return NULL != args->blocks || GPUHIER_RANKS_PAIR == args->row->from;
}

int gpuhier_row_run(gpuhier_module_t *module, const gpuhier_coll_args_t *a, gpuhier_row_fn *row)
{
    gpuhier_blocks_t blocks;
    gpuhier_call_args_t args = {.blocks = &blocks};
    gpuhier_path_key_t key;
    gpuhier_reason_t why;
    gpuhier_mode_entry_t *entry = NULL;
    if (!row(a, &args, &key)) {
        return GPUHIER_DECLINED;
    }
    if (is_open(module, a->comm, &args)) {
        if (module->team->ngroups > 1 && is_of_one_group(&args)) {
            return GPUHIER_DECLINED;
        }
        entry = gpuhier_path_blocking(module, a->comm, key, args.in, args.out, &why);
    }
    return NULL != entry                           ? gpuhier_path_run(module, entry, &args)
           : OMPI_SUCCESS != module->saved.failure ? module->saved.failure
                                                   : GPUHIER_DECLINED;
}

/* Data of any type move as bytes. A call that is voted down can only go on with types that all ranks know: so the
 * operation decides, which is the same on all ranks. */
int gpuhier_row_post(gpuhier_module_t *module, const gpuhier_coll_args_t *a, gpuhier_row_fn *row,
                     ompi_request_t **request_p)
{
    gpuhier_call_args_t args = {.blocks = NULL};
    gpuhier_path_key_t key;
    if (!row(a, &args, &key) || GPUHIER_RANKS_ALL != args.row->from || key.bytes <= GPUHIER_PATH_NONBLOCKING_BYTES) {
        return GPUHIER_DECLINED;
    }
    gpuhier_mode_entry_t *entry = gpuhier_path_nonblocking(module, key);
    if (NULL == entry) {
        gpuhier_path_note(module, NULL == module->team ? first : key, args.in, args.out);
        return GPUHIER_DECLINED;
    }
    return gpuhier_request_run(module->team, entry, &args, a->comm, NULL, request_p);
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
    gpuhier_call_args_t args = {.blocks = NULL};
    gpuhier_path_key_t key;
    gpuhier_reason_t why;
    if (!row(a, &args, &key) || is_of_one_group(&args)) {
        return GPUHIER_DECLINED;
    }
    gpuhier_request_t *request = gpuhier_request_get(a->comm, true);
    gpuhier_team_t *team =
        gpuhier_path_persistent(module, a->comm, args.in, args.out, key, NULL != request && !args.declines, &why);
    if (NULL == request) {
        gpuhier_request_abort(a->comm);
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    if (NULL == team) {
        gpuhier_request_drop(request);
        return OMPI_SUCCESS != module->saved.failure ? module->saved.failure : GPUHIER_DECLINED;
    }
    request->team = team;
    request->owns_team = true;
    request->args = args;
    request->args.tag = gpuhier_hostcall_tag(a->comm);
    request->base.super.req_start = start;
    *request_p = &request->base.super;
    return OMPI_SUCCESS;
}

/* The lengths of the blocks in rcounts, of which an element has `unit`; the longest one, and the length of all, 0 if
 * there are more than a group has ranks. */
static size_t lengths_find(const gpuhier_coll_args_t *a, size_t unit, gpuhier_blocks_t *blocks, uint64_t *longest_p)
{
    const int nranks = ompi_comm_size(a->comm);
    size_t all = 0;
    *longest_p = 0;
    for (int i = 0; i < nranks && nranks <= GPUHIER_KERNEL_MAX_PEERS; ++i) {
        blocks->length[i] = GPUHIER_COUNTS_AT(a->rcounts, i) * unit;
        *longest_p = blocks->length[i] > *longest_p ? blocks->length[i] : *longest_p;
        all += blocks->length[i];
    }
    return all;
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
    static const gpuhier_collective_t row = {
        .name = "MPI_Reduce_scatter", .from = GPUHIER_RANKS_ALL, .to = GPUHIER_RANKS_OWNER, .has_blocks = true};
    gpuhier_blocks_t *blocks = args->blocks;
    const void *in = MPI_IN_PLACE == a->sbuf ? a->rbuf : a->sbuf;
    *args = (gpuhier_call_args_t){.row = &row, .in = in, .blocks = blocks};
    args->kernel = gpuhier_reduce_find(a->op, a->rdtype, &args->elem_bytes);
    if (args->kernel < 0 || NULL == blocks) {
        return false;
    }
    const size_t all = lengths_find(a, 1, blocks, &args->count);
    for (int i = 0; i < ompi_comm_size(a->comm) && all > 0; ++i) {
        blocks->begin[i] = 0 == i ? 0 : blocks->begin[i - 1] + blocks->length[i - 1];
    }
    args->out = all > 0 && 0 == blocks->length[ompi_comm_rank(a->comm)] ? (void *) (uintptr_t) in : a->rbuf;
    *key = (gpuhier_path_key_t){KIND_REDUCE_SCATTER + args->kernel, all * args->elem_bytes};
    return all > 0;
}

/* -- the others: the bytes of a block are the same on all ranks -------------------------------- */

/* What a call that moves so many bytes of a block has in common with its like. */
#define BYTES_OF(row_, bytes_) \
    .row = &row_, .kernel = BYTES_KERNEL, .elem_bytes = 1, .count = bytes_, .dtype = &ompi_mpi_byte.dt

/* Where so many elements begin, and whether they are contiguous. */
static bool is_contiguous(const void *buffer, size_t count, const struct ompi_datatype_t *dtype, char **begin_p)
{
    *begin_p = (char *) (uintptr_t) buffer + dtype->super.true_lb;
    return ompi_datatype_is_contiguous_memory_layout(dtype, count < 2 ? 1 : 2); /* more are as two */
}

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
    static const gpuhier_collective_t row = {
        .name = "MPI_Allgatherv", .from = GPUHIER_RANKS_OWNER, .to = GPUHIER_RANKS_ALL, .has_blocks = true};
    const int rank = ompi_comm_rank(a->comm), nranks = ompi_comm_size(a->comm);
    const size_t size = a->rdtype->super.size;
    const ptrdiff_t extent = a->rdtype->super.ub - a->rdtype->super.lb;
    gpuhier_blocks_t *blocks = args->blocks;
    uint64_t longest = 0;
    const size_t all = NULL == blocks ? 0 : lengths_find(a, size, blocks, &longest);
    char *in, *out;
    if (0 == all) {
        return false;
    }
    bool fits = is_contiguous(a->rbuf, longest / size, a->rdtype, &out);
    ptrdiff_t least = PTRDIFF_MAX; /* displacements may be negative; those of empty blocks mean nothing */
    for (int i = 0; i < nranks; ++i) {
        const ptrdiff_t at = GPUHIER_DISPS_AT(a->rdisps, i) * extent;
        least = blocks->length[i] > 0 && at < least ? at : least;
    }
    for (int i = 0; i < nranks; ++i) {
        blocks->begin[i] = (uint64_t) (GPUHIER_DISPS_AT(a->rdisps, i) * extent - least);
    }
    in = out += least;
    if (blocks->length[rank] > 0 && MPI_IN_PLACE == a->sbuf) {
        in += blocks->begin[rank];
    } else if (blocks->length[rank] > 0) {
        fits = is_contiguous(a->sbuf, (size_t) a->scount, a->sdtype, &in) && fits;
    }
    *args = (gpuhier_call_args_t){BYTES_OF(row, longest), .blocks = blocks, .in = in, .out = out, .declines = !fits};
    *key = (gpuhier_path_key_t){KIND_ALLGATHER, all};
    return true;
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
