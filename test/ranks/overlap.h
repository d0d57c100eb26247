/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Communicators that overlap. Those of one kind part the ranks of their parent: each rank is in one of each kind, so
 * that ranks that use the kinds in the same order cannot wait for each other in a circle.
 */
#ifndef GPUHIER_TEST_OVERLAP_H
#define GPUHIER_TEST_OVERLAP_H

#include <mpi.h>

typedef enum overlap {
    OVERLAP_ALL,    /* a dup */
    OVERLAP_NODE,   /* the ranks of a node */
    OVERLAP_ACROSS, /* those that are the n-th on their nodes */
    OVERLAP_PAIR,   /* 0 and 1, 2 and 3 ..; the last one alone if there is an odd number */
    OVERLAP_ENDS,   /* the first and the last, the second and the last but one .. */
    OVERLAP_NKINDS
} overlap_t;

/* Collective. Owned by the caller, until overlap_free(). */
void overlap_make(MPI_Comm parent, MPI_Comm comms[OVERLAP_NKINDS]);
void overlap_free(MPI_Comm comms[OVERLAP_NKINDS]);

#endif /* GPUHIER_TEST_OVERLAP_H */
