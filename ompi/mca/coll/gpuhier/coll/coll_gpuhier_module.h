/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * One module per communicator: the collectives that were there before gpuhier, what the members agreed on, and the
 * table of modes (HOST or ACC) of the communicator's calls.
 */
#ifndef GPUHIER_MODULE_H
#define GPUHIER_MODULE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/coll_gpuhier_counters.h"
#include "base/coll_gpuhier_saved.h"
#include "coll/coll_gpuhier_modes.h"

struct gpuhier_team;

/* The last successful answer of gpuhier_reduce_find(). */
typedef struct gpuhier_found {
    const struct ompi_op_t *op;
    const struct ompi_datatype_t *dtype; /* NULL: there is none yet */
    int kernel;
    size_t elem_bytes;
} gpuhier_found_t;

/* A kind of nonblocking call that the saved collective has served since the last meeting; see gpuhier_path_meet(). */
typedef struct gpuhier_note {
    int kind;             /* as in gpuhier_path_key_t */
    int size;             /* log2 of the bytes */
    const void *in, *out; /* this rank's buffers in the last such call; never read or written */
} gpuhier_note_t;

#define GPUHIER_NOTES 8 /* further kinds between two meetings are noted after the next one */

/*
 * Made by comm_query, destroyed with the communicator. One thread at a time
 * calls collectives on a communicator (MPI's rule), so nothing here is locked.
 */
typedef struct gpuhier_module {
    mca_coll_base_module_t super;
    gpuhier_saved_t saved;
    enum { GPUHIER_AGREE_UNKNOWN, GPUHIER_AGREE_NO, GPUHIER_AGREE_YES } agree;
    gpuhier_found_t last;
    struct gpuhier_team *team; /* the engine's side of this communicator; NULL until the first accelerated call */
    gpuhier_reason_t why;      /* where agree is no */
    _Atomic uint32_t told;     /* reasons that print_info has printed, by bit */
    bool team_failed;          /* set-up failed on some rank: it is not tried again */
    bool has_pairs;            /* MPI_Alltoall(v) has passed GPU memory: teams have partners in all groups */
    bool is_watched;           /* calls are traced or reported; constant */
    uint64_t rest;             /* calls of coll_gpuhier_rows.h that ask nobody, as long as there is no team */
    int nnotes;                /* kinds and sizes are the same on all ranks, in the same order */
    gpuhier_note_t notes[GPUHIER_NOTES];
    _Atomic bool enabled;  /* stored last when the communicator is made, by any thread that drives Open MPI's
                              progress */
    gpuhier_modes_t modes; /* last, because it is long */
} gpuhier_module_t;

OBJ_CLASS_DECLARATION(gpuhier_module_t);

/* Makes the module of a new communicator; NULL when gpuhier does not serve it. */
mca_coll_base_module_t *gpuhier_comm_query(struct ompi_communicator_t *comm, int *priority);

/* The module that Open MPI hands to a collective. Everything that the module's maker has written is visible. */
static inline gpuhier_module_t *gpuhier_module_of(mca_coll_base_module_t *base)
{
    gpuhier_module_t *module = (gpuhier_module_t *) base;
    (void) atomic_load_explicit(&module->enabled, memory_order_acquire);
    return module;
}

/* Offers the collectives that need it in this process, before the module is enabled: where there is no CUDA driver,
 * MPI_Allreduce and MPI_Barrier. */
void gpuhier_family_offer(mca_coll_base_module_t *module);

#endif /* GPUHIER_MODULE_H */
