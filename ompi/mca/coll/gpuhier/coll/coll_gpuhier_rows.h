/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The collectives that run on the GPUs.
 */
#ifndef GPUHIER_ROWS_H
#define GPUHIER_ROWS_H

#include "coll/coll_gpuhier_path.h"
#include "host/coll_gpuhier_operand.h"
#include "ompi/request/request.h"

/* Kinds of the table of modes: MPI_Allreduce's are the numbers of the kernels. */
enum {
    GPUHIER_KIND_REDUCE = GPUHIER_REDUCE_COUNT,
    GPUHIER_KIND_REDUCE_SCATTER = 2 * GPUHIER_REDUCE_COUNT, /* and MPI_Reduce_scatter_block */
    GPUHIER_KIND_ALLGATHER = 3 * GPUHIER_REDUCE_COUNT,      /* and MPI_Allgatherv */
    GPUHIER_KIND_ALLTOALL,
    GPUHIER_KIND_ALLTOALLV,
    GPUHIER_KIND_BCAST,
    GPUHIER_KIND_FIRST,
    GPUHIER_KINDS
};
_Static_assert(GPUHIER_KINDS <= GPUHIER_MODE_KINDS, "each kind has a row in the table of modes");

/* The arguments of a collective, under one name each. A call sets those that it has. Each entry point clears this
 * struct, so it is short: what no collective has at once shares its place. */
typedef struct gpuhier_coll_args {
    const void *sbuf;
    void *rbuf;
    gpuhier_count_t scount, rcount;
    gpuhier_counts_t scounts, rcounts;
    union {
        gpuhier_disps_t sdisps;
        gpuhier_aints_t saints;
    };
    union {
        gpuhier_disps_t rdisps;
        gpuhier_aints_t raints;
    };
    union {
        struct ompi_datatype_t *sdtype;
        struct ompi_datatype_t *const *sdtypes;
    };
    union {
        struct ompi_datatype_t *rdtype; /* also of reductions */
        struct ompi_datatype_t *const *rdtypes;
    };
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
    bool stages; /* GPU buffers have host copies also on a CUDA-aware Open MPI */
} gpuhier_operands_of_t;

/* A call, as a row sees it. */
typedef struct gpuhier_row_call {
    gpuhier_call_args_t args;
    gpuhier_path_key_t key;
    bool packs_in, packs_out; /* elements have gaps there: the call works on a packed copy, to which the lists belong */
    bool in_place;            /* the input lies in the output */
    uint64_t in_at;           /* where it lies in a packed copy of the output */
} gpuhier_row_call_t;

/* What a call notes that the timeline or the report has. */
typedef struct gpuhier_watched {
    double begin;                 /* what gpuhier_report_begin() returned */
    gpuhier_trace_event_t *trace; /* `event`, or NULL: no timeline */
    gpuhier_trace_event_t event;
    const char *name; /* of the collective; NULL: the call is not noted */
    uint64_t bytes;   /* of the message, and times that what nccl-tests counts as moved by a GPU's links */
    double bus;
} gpuhier_watched_t;

static inline __attribute__((always_inline)) void gpuhier_watched_phase(const gpuhier_watched_t *watched,
                                                                        gpuhier_trace_phase_t phase)
{
    if (NULL != watched && NULL != watched->trace) {
        gpuhier_trace_phase(watched->trace, phase);
        watched->trace->is_staged = watched->trace->is_staged || GPUHIER_TRACE_READ == phase;
    }
}

/*
 * Says what a call is to do on the GPUs, and what all ranks know of it. False: there is nothing to do, or no kernel for
 * it, on all ranks alike; row, count, type are set nevertheless.
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

/* A call as it came in. */
typedef struct gpuhier_entry {
    gpuhier_module_t *module;
    gpuhier_coll_args_t *a;
    const gpuhier_operands_of_t *of;
    bool rests;                 /* gpuhier_rows_rest() said so */
    gpuhier_row_fn *row;        /* NULL: the collective does not run on the GPUs */
    gpuhier_watched_t *watched; /* NULL: the call is neither traced nor reported */
    gpuhier_reason_t why;       /* the call is left to Open MPI; GPUHIER_REASON_COUNT: it is not known yet */
} gpuhier_entry_t;

/* Calls the saved function of a collective. request_p: not of blocking calls. */
typedef int gpuhier_saved_fn(const gpuhier_saved_t *saved, const gpuhier_coll_args_t *a, ompi_request_t **request_p);

static inline int gpuhier_saved_call(gpuhier_saved_fn *call, const gpuhier_saved_t *saved, const gpuhier_coll_args_t *a,
                                     ompi_request_t **request_p)
{
    ++gpuhier_inside_saved;
    int rc = call(saved, a, request_p);
    --gpuhier_inside_saved;
    return rc;
}

/* Has the host copies stand for the buffers. */
static inline void gpuhier_use_copies(gpuhier_coll_args_t *a, const gpuhier_staged_t *staged)
{
    a->sbuf = gpuhier_hosted_address(&staged->send, a->sbuf);
    a->rbuf = gpuhier_hosted_address(&staged->recv, a->rbuf);
}

/*
 * A blocking, a nonblocking and a persistent call. Return an Open MPI code; or GPUHIER_DECLINED, if the call does not
 * run on the GPUs on any rank, and entry->why is set.
 */
int gpuhier_row_run(gpuhier_entry_t *entry);
int gpuhier_row_post(gpuhier_entry_t *entry, ompi_request_t **request_p);
int gpuhier_row_init(gpuhier_entry_t *entry, ompi_request_t **request_p);

/* Why a call that asks nobody does not run on the GPUs. */
gpuhier_reason_t gpuhier_rows_reason(const gpuhier_module_t *module);

gpuhier_row_fn gpuhier_row_allgather, gpuhier_row_allgatherv, gpuhier_row_allreduce, gpuhier_row_alltoall,
    gpuhier_row_alltoallv, gpuhier_row_bcast, gpuhier_row_reduce, gpuhier_row_reduce_scatter,
    gpuhier_row_reduce_scatter_block;

#endif /* GPUHIER_ROWS_H */
