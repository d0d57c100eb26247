/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A collective's row: what the engine must know of it. There is one axis of elements. It is one block, or a block for
 * each rank, or for each pair of ranks; a row says who gives an element of it, and who takes it. No MPI, no CUDA.
 */
#ifndef GPUHIER_COLLECTIVE_H
#define GPUHIER_COLLECTIVE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum gpuhier_ranks {
    GPUHIER_RANKS_ALL,
    GPUHIER_RANKS_OWNER, /* the rank whose block it is */
    GPUHIER_RANKS_PAIR,  /* each rank gives a block to each, and so takes one from each */
    GPUHIER_RANKS_ROOT
} gpuhier_ranks_t;

typedef struct gpuhier_collective {
    const char *name; /* "MPI_Allreduce" */
    gpuhier_ranks_t from, to;
    bool has_blocks; /* a block for each rank, or pair; else one block */
    bool has_lists;  /* blocks are of unequal length */
} gpuhier_collective_t;

/*
 * A block of unequal length, in elements from the begin of the buffer. A call has a list of them, one for each rank,
 * for the side where a rank has those of all ranks: the input of MPI_Reduce_scatter, the output of MPI_Allgatherv, both
 * of MPI_Alltoallv. Lengths are those of all ranks but in pairs, of which each rank knows its own only. Where blocks
 * begin, all ranks know of MPI_Reduce_scatter.
 */
typedef struct gpuhier_block {
    uint64_t begin, length;
} gpuhier_block_t;

/* Blocks in a rank's input, or in its output, of the ranks' number that they have in all. */
static inline int gpuhier_collective_blocks(const gpuhier_collective_t *row, gpuhier_ranks_t side, int nranks)
{
    return row->has_blocks && GPUHIER_RANKS_OWNER != side ? nranks : 1;
}

/* Does every rank give every element and take every result? Blocks have owners, so there is one block. */
static inline bool gpuhier_collective_is_all_to_all(const gpuhier_collective_t *row)
{
    return GPUHIER_RANKS_ALL == row->from && GPUHIER_RANKS_ALL == row->to;
}

/* Does a rank give elements, and does it take any? A root that gives to all has what it would take. */
static inline bool gpuhier_collective_gives(const gpuhier_collective_t *row, bool is_root)
{
    return GPUHIER_RANKS_ROOT != row->from || is_root;
}

static inline bool gpuhier_collective_takes(const gpuhier_collective_t *row, bool is_root)
{
    return GPUHIER_RANKS_ROOT == row->from ? !is_root : GPUHIER_RANKS_ROOT != row->to || is_root;
}

#endif /* GPUHIER_COLLECTIVE_H */
