/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The collectives beside MPI_Allreduce that run on the GPUs. Each function returns the code of the call, or
 * GPUHIER_DECLINED: the call is for Open MPI, on all ranks, and no user's buffer was written.
 */
#ifndef GPUHIER_ROWS_H
#define GPUHIER_ROWS_H

#include "coll/coll_gpuhier_path.h"
#include "host/coll_gpuhier_operand.h"
#include "ompi/request/request.h"

/* The arguments of a collective, under one name each. A call sets those that it has. */
typedef struct gpuhier_coll_args {
    const void *sbuf;
    void *rbuf;
    gpuhier_count_t scount, rcount;
    gpuhier_counts_t scounts, rcounts;
    gpuhier_disps_t sdisps, rdisps;
    gpuhier_aints_t saints, raints;
    struct ompi_datatype_t *sdtype, *rdtype; /* of reductions: rdtype */
    struct ompi_datatype_t *const *sdtypes, *const *rdtypes;
    struct ompi_op_t *op;
    int root;
    struct ompi_communicator_t *comm; /* NULL: MPI_Reduce_local */
    struct ompi_info_t *info;         /* of persistent calls */
} gpuhier_coll_args_t;

typedef struct gpuhier_operands {
    gpuhier_operand_t send, recv;
} gpuhier_operands_t;

/* How a collective finds its operands, which depend on how blocks lie in its buffers. */
typedef struct gpuhier_operands_of {
    gpuhier_operands_t (*find)(const gpuhier_coll_args_t *a, gpuhier_layout_t sbuf_is, gpuhier_layout_t rbuf_is);
    gpuhier_layout_t sbuf_is, rbuf_is;
} gpuhier_operands_of_t;

/* A call, as a row sees it. */
typedef struct gpuhier_row_call {
    gpuhier_call_args_t args;
    gpuhier_path_key_t key;
    bool packs_in, packs_out; /* elements have gaps there: the call works on a packed copy, to which the lists belong */
    bool in_place;            /* the input lies in the output */
    uint64_t in_at;           /* where it lies in a packed copy of the output */
} gpuhier_row_call_t;

/*
 * Says what a call is to do on the GPUs, and what all ranks know of it. False: there is nothing to do, or no kernel for
 * it, on all ranks alike.
 * The caller frees the lists of blocks.
 */
typedef bool gpuhier_row_fn(const gpuhier_coll_args_t *a, gpuhier_row_call_t *call);

/*
 * Does a call ask nobody? A host program's calls pass here in a few instructions: between two probes the answer is
 * known. It is the same on all ranks, but for those that know of a failure, and return that.
 */
static inline bool gpuhier_rows_rest(gpuhier_module_t *module)
{
    if (0 == module->rest || 0 != module->nnotes || OMPI_SUCCESS != module->saved.failure) {
        return false;
    }
    --module->rest;
    return true;
}

/*
 * A blocking, a nonblocking and a persistent call. Return an Open MPI code, or GPUHIER_DECLINED: the call does not run
 * on the GPUs, on any rank.
 */
int gpuhier_row_run(gpuhier_module_t *module, const gpuhier_coll_args_t *a, const gpuhier_operands_of_t *of,
                    gpuhier_row_fn *row);
int gpuhier_row_post(gpuhier_module_t *module, const gpuhier_coll_args_t *a, const gpuhier_operands_of_t *of,
                     gpuhier_row_fn *row, ompi_request_t **request_p);
int gpuhier_row_init(gpuhier_module_t *module, const gpuhier_coll_args_t *a, const gpuhier_operands_of_t *of,
                     gpuhier_row_fn *row, ompi_request_t **request_p);

gpuhier_row_fn gpuhier_row_allgather, gpuhier_row_allgatherv, gpuhier_row_alltoall, gpuhier_row_alltoallv,
    gpuhier_row_bcast, gpuhier_row_reduce, gpuhier_row_reduce_scatter, gpuhier_row_reduce_scatter_block;

#endif /* GPUHIER_ROWS_H */
