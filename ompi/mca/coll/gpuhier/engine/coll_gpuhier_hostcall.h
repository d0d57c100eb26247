/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The end of a nonblocking call that was voted down: a plain all-reduce in host
 * memory, over Open MPI's point-to-point layer.
 *
 * The saved collective is no way out for such a call: it gives each nonblocking
 * collective the next tag, at the time at which it is called, and by now other ranks may
 * have called others. Here the tag is taken when the call is posted, or the persistent
 * request made, which MPI puts in the same order on all ranks.
 *
 * Messages go up and down a binomial tree (coll_gpuhier_tree.h) with rank 0 as its root, twice:
 *
 *   verdict   up: OR of "my input cannot be had"      down: the outcome for all
 *   data      up: the tree's partial results          down: the result
 */
#ifndef GPUHIER_HOSTCALL_H
#define GPUHIER_HOSTCALL_H

#include "base/coll_gpuhier_compat.h"

#include <stddef.h>
#include <stdint.h>

struct gpuhier_call;

/* In the verdict round: not 0: somebody's input cannot be had. */
typedef struct gpuhier_verdicts {
    uint32_t mine, heard; /* heard: a child's */
} gpuhier_verdicts_t;

/* Part of the call. What messages go to and come from is not: it is freed when the call ends, unless a message still
 * uses it. */
typedef struct gpuhier_hostcall {
    bool on_data;                   /* the verdict is known: data moves */
    int move;                       /* of this round, see coll_gpuhier_tree.h */
    bool receiving;                 /* what `message` is, from a child: to be reduced */
    struct ompi_request_t *message; /* in flight; NULL: none */
    gpuhier_verdicts_t *verdicts;   /* NULL: there was no memory even for that */
    char *data, *heard_data;        /* the same for the data round: mine, a child's */
} gpuhier_hostcall_t;

/* Reserves a tag for one call: not local in effect, all ranks reserve in the same order. */
int gpuhier_hostcall_tag(struct ompi_communicator_t *comm);

/* Reads my input. Whatever goes wrong is in the verdict. */
void gpuhier_hostcall_begin(struct gpuhier_call *call);

/*
 * Moves what can move now. *done_p: the call is over, with *status_p, which is an error on all ranks when
 * anybody's input could not be had. Returns the number of events, or an Open MPI error code (< 0).
 */
int gpuhier_hostcall_step(struct gpuhier_call *call, bool *done_p, int *status_p);

/* Lets go of buffers; those that a message is still using stay for good. */
void gpuhier_hostcall_end(struct gpuhier_call *call);

#endif /* GPUHIER_HOSTCALL_H */
