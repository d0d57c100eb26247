/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the trials of all ranks have shown: a table that set-up gathers.
 */
#ifndef GPUHIER_VERDICTS_H
#define GPUHIER_VERDICTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "team/coll_gpuhier_trial.h"
#include "topology/coll_gpuhier_topology.h"

/* What one rank has found about one rank of its node. Ranks exchange verdicts. */
typedef struct gpuhier_verdict {
    uint16_t value; /* mapped: the rate of reads in units of 10 MB/s, 0 where it is not known; else CUDA's error */
    uint8_t flags;
    uint8_t reserved;
} gpuhier_verdict_t;

_Static_assert(4 == sizeof(gpuhier_verdict_t), "a verdict is exchanged between processes");

/* Owned by the set-up. There is a row for each rank, and all rows are of one length. The first cell says whether the
 * rank has attached its node's control block. A cell for each rank of its node follows, by the place there. */
typedef struct gpuhier_verdicts {
    int nranks;
    int widest;               /* ranks on the fullest node */
    const int *places;        /* [nranks] the set-up's */
    gpuhier_verdict_t *cells; /* [nranks + 1][1 + widest]; the last row is for this rank to send from */
} gpuhier_verdicts_t;

/* Returns an Open MPI code. fini also takes a table that is all zero. */
int gpuhier_verdicts_init(gpuhier_verdicts_t *verdicts, int nranks, int widest, const int *places);
void gpuhier_verdicts_fini(gpuhier_verdicts_t *verdicts);

/* The row to send, and its length. It says that this rank has failed until its n neighbours are noted. */
void *gpuhier_verdicts_mine(const gpuhier_verdicts_t *verdicts);
size_t gpuhier_verdicts_row_bytes(const gpuhier_verdicts_t *verdicts);
void gpuhier_verdicts_note(const gpuhier_verdicts_t *verdicts, const gpuhier_neighbour_t *neighbours, int n);

/* This and the functions below need all rows. Has no rank failed? */
bool gpuhier_verdicts_complete(const gpuhier_verdicts_t *verdicts);

/* Do kernels of a rank read and write memory of another rank of its node, as both have seen? */
bool gpuhier_verdicts_reach(const gpuhier_verdicts_t *verdicts, int rank, int other);

/* CUDA's error of the first neighbour that the rank could not map. 0: there is none. */
unsigned gpuhier_verdicts_error(const gpuhier_verdicts_t *verdicts, int rank);

/* The error with which a rank failed to map another rank of its node, or GPUHIER_NO_DESCRIPTOR. 0: it did not. */
unsigned gpuhier_verdicts_pair_error(const gpuhier_verdicts_t *verdicts, int rank, int other);

/*
 * Tells the user, once a process, of mappings among the ranks of this node that lie: they were opened, but kernels read
 * or write other memory by them. The first rank that has one says so. records: [nranks]; local: this node's ranks,
 * rising.
 */
void gpuhier_verdicts_tell(const gpuhier_verdicts_t *verdicts, const gpuhier_record_t *records, const int *local,
                           int nlocal, int rank);

/* Prints how fast kernels read among the ranks of this node. No path follows from it: other programs disturb a rate. */
void gpuhier_verdicts_print(const gpuhier_verdicts_t *verdicts, const int *local, int nlocal);

#endif /* GPUHIER_VERDICTS_H */
