/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The host form of a nonblocking call that the ranks voted down: a plain collective in host
 * memory, over Open MPI's point-to-point layer.
 *
 * Such a call cannot go to the saved collective, which gives each nonblocking collective the
 * next tag when it is called: other ranks may have called more collectives by then. Here the
 * call takes its tag when it is posted, or when the persistent request is made, which MPI
 * puts in the same order on all ranks.
 *
 * Messages go up and down a binomial tree (coll_gpuhier_tree.h) with rank 0 as its root, twice:
 *
 *   verdict   up: OR of "this input cannot be read"   down: the outcome for all
 *   data      up: the tree's partial results          down: the result
 *
 * In the data round of a collective other than all-reduce, each rank gives the block that another one takes to that
 * rank itself, to one rank after the other.
 */
#ifndef GPUHIER_HOSTCALL_H
#define GPUHIER_HOSTCALL_H

#include "base/coll_gpuhier_compat.h"

#include <stdint.h>

struct gpuhier_call;

/* In the verdict round; not 0: a rank's input cannot be read. */
typedef struct gpuhier_verdicts {
    uint32_t mine, heard; /* heard: a child's */
} gpuhier_verdicts_t;

/* Part of the call. The messages' memory is not: it is freed when the call ends, unless a message still uses it. */
typedef struct gpuhier_hostcall {
    bool on_data;                   /* the verdict is known: data moves */
    int move;                       /* of this round, see coll_gpuhier_tree.h; or the distance to a peer */
    bool receiving;                 /* `message` comes from a child, and must be reduced */
    struct ompi_request_t *message; /* in flight; NULL: none */
    struct ompi_request_t *sent;    /* the same, of a step with a peer */
    gpuhier_verdicts_t *verdicts;   /* NULL: there was no memory even for that */
    char *data, *heard_data;        /* in the data round: this rank's partial result, and a child's; or its input, and a
                                       peer's block */
    char *result;                   /* of a collective other than all-reduce; else NULL */
    bool has_result;                /* a block has come, with which the next one is reduced */
} gpuhier_hostcall_t;

/* Reserves a tag for one call. All ranks reserve tags in the same order. */
int gpuhier_hostcall_tag(struct ompi_communicator_t *comm);

/* Reads this rank's input. A failure becomes its verdict. */
void gpuhier_hostcall_begin(struct gpuhier_call *call);

/*
 * Takes the steps that are possible now. *done_p: the call is over, with *status_p, which is an error on all ranks
 * when any rank's input could not be read. Returns the number of events, or an Open MPI error code (< 0).
 */
int gpuhier_hostcall_step(struct gpuhier_call *call, bool *done_p, int *status_p);

/* Frees the buffers. Those that a message still uses are never freed. */
void gpuhier_hostcall_end(struct gpuhier_call *call);

#endif /* GPUHIER_HOSTCALL_H */
