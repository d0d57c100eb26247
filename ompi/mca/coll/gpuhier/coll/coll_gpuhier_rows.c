/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the collectives beside MPI_Allreduce that run on the GPUs: for each its row, and what all ranks know of a call.
 * That is the path's key: the operation, the type and the count of a reduction; the bytes of a block of the others,
 * whose ranks agree on no more. A rank whose type is not contiguous votes a call down.
 *
 * Called by the entry points in coll_gpuhier_family.c.
 */
#include "ompi_config.h"

#include "coll/coll_gpuhier_path.h"
#include "coll/coll_gpuhier_rows.h"
#include "team/coll_gpuhier_team.h"
#include "ompi/datatype/ompi_datatype.h"

/* Kinds of the table of modes: MPI_Allreduce's are the numbers of the kernels. */
enum {
    KIND_REDUCE = GPUHIER_REDUCE_COUNT,
    KIND_REDUCE_SCATTER_BLOCK = 2 * GPUHIER_REDUCE_COUNT,
    KIND_ALLGATHER = 3 * GPUHIER_REDUCE_COUNT,
    KIND_BCAST,
    KIND_FIRST, /* of all calls, as long as the communicator has no team */
    KINDS
};
_Static_assert(KINDS <= GPUHIER_MODE_KINDS, "each kind has a row in the table of modes");

#define BYTES_KERNEL \
    GPUHIER_REDUCE_bor_uint8 /* knows elements of one byte, which collectives that do not reduce move */

/*
 * May calls run on the GPUs of the communicator? Where it has no team yet, host programs make many calls of many kinds:
 * they share one entry of the table, and so its few probes, and rest until the next one is due.
 */
static bool is_open(gpuhier_module_t *module, struct ompi_communicator_t *comm, const gpuhier_call_args_t *args)
{
    static const gpuhier_path_key_t first = {KIND_FIRST, 1};
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

/* Runs a call on the GPUs if its kind does. */
static int run(gpuhier_module_t *module, struct ompi_communicator_t *comm, gpuhier_path_key_t key,
               const gpuhier_call_args_t *args)
{
    gpuhier_reason_t why;
    gpuhier_mode_entry_t *entry = NULL;
    if (0 == args->count) {
        return GPUHIER_DECLINED;
    }
    if (is_open(module, comm, args)) {
        entry = gpuhier_path_blocking(module, comm, key, args->in, args->out, &why);
    }
    return NULL != entry                           ? gpuhier_path_run(module, entry, args)
           : OMPI_SUCCESS != module->saved.failure ? module->saved.failure
                                                   : GPUHIER_DECLINED;
}

/* -- reductions: the operation, the type and the count are the same on all ranks -------------- */

static int reduction(gpuhier_module_t *module, const gpuhier_coll_args_t *a, const gpuhier_collective_t *row, int kind,
                     size_t blocks)
{
    const bool is_taker = GPUHIER_RANKS_ROOT != row->to || ompi_comm_rank(a->comm) == a->root;
    const void *in = MPI_IN_PLACE == a->sbuf ? a->rbuf : a->sbuf;
    gpuhier_call_args_t args = {.row = row, .root = a->root, .count = (uint64_t) a->rcount, .in = in};
    args.out = is_taker ? a->rbuf : (void *) in;
    args.kernel = gpuhier_reduce_find(a->op, a->rdtype, &args.elem_bytes);
    const gpuhier_path_key_t key = {kind + args.kernel, (size_t) a->rcount * args.elem_bytes * blocks};
    return args.kernel < 0 ? GPUHIER_DECLINED : run(module, a->comm, key, &args);
}

int gpuhier_row_reduce(gpuhier_module_t *module, const gpuhier_coll_args_t *a)
{
    static const gpuhier_collective_t row = {.name = "MPI_Reduce", .from = GPUHIER_RANKS_ALL, .to = GPUHIER_RANKS_ROOT};
    return reduction(module, a, &row, KIND_REDUCE, 1);
}

int gpuhier_row_reduce_scatter_block(gpuhier_module_t *module, const gpuhier_coll_args_t *a)
{
    static const gpuhier_collective_t row = {
        .name = "MPI_Reduce_scatter_block", .from = GPUHIER_RANKS_ALL, .to = GPUHIER_RANKS_OWNER, .has_blocks = true};
    return reduction(module, a, &row, KIND_REDUCE_SCATTER_BLOCK, (size_t) ompi_comm_size(a->comm));
}

/* -- the others: the bytes of a block are the same on all ranks -------------------------------- */

/* Where so many elements begin, and whether they are contiguous. */
static bool is_contiguous(const void *buffer, size_t count, const struct ompi_datatype_t *dtype, char **begin_p)
{
    *begin_p = (char *) (uintptr_t) buffer + dtype->super.true_lb;
    return ompi_datatype_is_contiguous_memory_layout(dtype, count < 2 ? 1 : 2); /* more are as two */
}

int gpuhier_row_allgather(gpuhier_module_t *module, const gpuhier_coll_args_t *a)
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
    const gpuhier_call_args_t args = {
        .row = &row, .kernel = BYTES_KERNEL, .elem_bytes = 1, .count = bytes, .in = in, .out = out, .declines = !fits};
    return run(module, a->comm, (gpuhier_path_key_t){KIND_ALLGATHER, bytes * nranks}, &args);
}

int gpuhier_row_bcast(gpuhier_module_t *module, const gpuhier_coll_args_t *a)
{
    static const gpuhier_collective_t row = {.name = "MPI_Bcast", .from = GPUHIER_RANKS_ROOT, .to = GPUHIER_RANKS_ALL};
    const size_t bytes = (size_t) a->rcount * a->rdtype->super.size;
    char *begin;
    const bool fits = is_contiguous(a->rbuf, (size_t) a->rcount, a->rdtype, &begin);
    const gpuhier_call_args_t args = {.row = &row,
                                      .root = a->root,
                                      .kernel = BYTES_KERNEL,
                                      .elem_bytes = 1,
                                      .count = bytes,
                                      .in = begin,
                                      .out = begin,
                                      .declines = !fits};
    return run(module, a->comm, (gpuhier_path_key_t){KIND_BCAST, bytes}, &args);
}
