/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns what all ranks know of a call of a collective that runs on the GPUs. That is the path's key: the
 * operation, the type and the counts of a reduction; the bytes of blocks of the others, whose ranks agree on no more.
 *
 * Called by coll_gpuhier_rows_run.c.
 */
#include "ompi_config.h"

#include <stdlib.h>
#include <string.h>

#include "coll/coll_gpuhier_rows.h"
#include "ompi/datatype/ompi_datatype.h"

#define BYTES_KERNEL \
    GPUHIER_REDUCE_bor_uint8 /* knows elements of one byte, which collectives that do not reduce move */

/* -- lists of blocks -------------------------------------------------------------------------- */

/* NULL also on an inter-communicator, where lists are as long as the other group and no call runs on the GPUs. */
static gpuhier_block_t *lists_make(const gpuhier_coll_args_t *a, int lists)
{
    return OMPI_COMM_IS_INTER(a->comm) ? NULL
                                       : malloc((size_t) (lists * ompi_comm_size(a->comm)) * sizeof(gpuhier_block_t));
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

bool gpuhier_row_allreduce(const gpuhier_coll_args_t *a, gpuhier_row_call_t *call)
{
    return reduction(a, &gpuhier_collectives[GPUHIER_ALLREDUCE], 0, 1, call);
}

bool gpuhier_row_reduce(const gpuhier_coll_args_t *a, gpuhier_row_call_t *call)
{
    return reduction(a, &gpuhier_collectives[GPUHIER_REDUCE], GPUHIER_KIND_REDUCE, 1, call);
}

bool gpuhier_row_reduce_scatter_block(const gpuhier_coll_args_t *a, gpuhier_row_call_t *call)
{
    return reduction(a, &gpuhier_collectives[GPUHIER_REDUCE_SCATTER_BLOCK], GPUHIER_KIND_REDUCE_SCATTER,
                     (size_t) ompi_comm_size(a->comm), call);
}

bool gpuhier_row_reduce_scatter(const gpuhier_coll_args_t *a, gpuhier_row_call_t *call)
{
    const int nranks = ompi_comm_size(a->comm);
    const void *in = MPI_IN_PLACE == a->sbuf ? a->rbuf : a->sbuf;
    gpuhier_call_args_t *args = &call->args;
    *call = (gpuhier_row_call_t){
        .args = {.row = &gpuhier_collectives[GPUHIER_REDUCE_SCATTER], .in = in, .dtype = a->rdtype}};
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
    call->key = (gpuhier_path_key_t){GPUHIER_KIND_REDUCE_SCATTER + args->kernel, all * args->elem_bytes};
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
    return equal_blocks(a, &gpuhier_collectives[GPUHIER_ALLGATHER], GPUHIER_KIND_ALLGATHER, 1, call);
}

bool gpuhier_row_alltoall(const gpuhier_coll_args_t *a, gpuhier_row_call_t *call)
{
    return equal_blocks(a, &gpuhier_collectives[GPUHIER_ALLTOALL], GPUHIER_KIND_ALLTOALL,
                        (size_t) ompi_comm_size(a->comm), call);
}

bool gpuhier_row_allgatherv(const gpuhier_coll_args_t *a, gpuhier_row_call_t *call)
{
    const int rank = ompi_comm_rank(a->comm);
    const int nranks = OMPI_COMM_IS_INTER(a->comm) ? ompi_comm_remote_size(a->comm) : ompi_comm_size(a->comm);
    gpuhier_call_args_t *args = &call->args;
    uint64_t longest;
    const uint64_t all = counts_sum(a->rcounts, nranks, &longest) * a->rdtype->super.size;
    moves(call, &gpuhier_collectives[GPUHIER_ALLGATHERV], GPUHIER_KIND_ALLGATHER, longest * a->rdtype->super.size);
    if (0 == all) {
        return false;
    }
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
    const int nranks = ompi_comm_size(a->comm);
    gpuhier_block_t *lists = lists_make(a, 3); /* the third is for what is heard */
    gpuhier_call_args_t *args = &call->args;
    moves(call, &gpuhier_collectives[GPUHIER_ALLTOALLV], GPUHIER_KIND_ALLTOALLV, 0);
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
    char *begin;
    moves(call, &gpuhier_collectives[GPUHIER_BCAST], GPUHIER_KIND_BCAST, (size_t) a->rcount * a->rdtype->super.size);
    call->packs_out = has_gaps(a->rbuf, (size_t) a->rcount, a->rdtype, &begin);
    call->in_place = true;
    call->args.root = a->root;
    call->args.in = call->args.out = begin;
    return call->args.count > 0;
}
