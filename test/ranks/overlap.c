/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Communicators that overlap; see overlap.h.
 */
#include "overlap.h"

void overlap_make(MPI_Comm parent, MPI_Comm comms[OVERLAP_NKINDS])
{
    int rank, nranks, place;
    MPI_Comm_rank(parent, &rank);
    MPI_Comm_size(parent, &nranks);
    MPI_Comm_dup(parent, &comms[OVERLAP_ALL]);
    MPI_Comm_split_type(parent, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &comms[OVERLAP_NODE]);
    MPI_Comm_rank(comms[OVERLAP_NODE], &place);
    MPI_Comm_split(parent, place, rank, &comms[OVERLAP_ACROSS]);
    MPI_Comm_split(parent, rank / 2, rank, &comms[OVERLAP_PAIR]);
    MPI_Comm_split(parent, rank < nranks - 1 - rank ? rank : nranks - 1 - rank, rank, &comms[OVERLAP_ENDS]);
}

void overlap_free(MPI_Comm comms[OVERLAP_NKINDS])
{
    for (int kind = 0; kind < OVERLAP_NKINDS; ++kind) {
        MPI_Comm_free(&comms[kind]);
    }
}
