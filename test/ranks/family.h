/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A call of any collective, and what it must do to its buffers: see family.c.
 */
#ifndef GPUHIER_TEST_FAMILY_H
#define GPUHIER_TEST_FAMILY_H

#include "calls.h"

typedef enum way { BLOCKING, NONBLOCKING, PERSISTENT, WAYS } way_t;

typedef enum coll {
    ALLGATHER,
    ALLGATHERV,
    ALLREDUCE,
    ALLTOALL,
    ALLTOALLV,
    ALLTOALLW,
    BCAST,
    EXSCAN,
    GATHER,
    GATHERV,
    REDUCE,
    REDUCE_SCATTER,
    REDUCE_SCATTER_BLOCK,
    SCAN,
    SCATTER,
    SCATTERV,
    COLLS,
    NEIGHBOR_ALLGATHER = COLLS,
    NEIGHBOR_ALLGATHERV,
    NEIGHBOR_ALLTOALL,
    NEIGHBOR_ALLTOALLV,
    NEIGHBOR_ALLTOALLW,
    ALL_COLLS
} coll_t;

#define BLOCKS_MAX 16
#define ALL (-1) /* the destination of a block that is for all */

/* Elements of a buffer: those that one rank has for another. */
typedef struct block {
    int from, to; /* numbers of ranks; from: ALL, the sum over `first` to `last` */
    int first, last;
    size_t skip;   /* the block is the part of the message behind so many elements */
    int at, count; /* elements */
} block_t;

/* Lists of counts and displacements, in elements and in bytes, as ints and as MPI 4's large counts. Each ends where its
 * page ends, and the next page cannot be read. */
typedef struct lists {
    int *counts, *disps, *bytes;
} lists_t;
typedef struct wide_lists {
    MPI_Count *counts;
    MPI_Aint *disps, *bytes;
} wide_lists_t;

/* One buffer of a call, and its image in host memory. */
typedef struct side {
    block_t blocks[BLOCKS_MAX];
    int nblocks, elements;                              /* blocks that carry data; the buffer's length */
    int counts[BLOCKS_MAX], disps[BLOCKS_MAX], nlisted; /* in elements; the length of the lists */
    buffer_t memory;
    int32_t *image; /* what it must hold */
    lists_t lists;
    wide_lists_t wide;
    MPI_Datatype types[BLOCKS_MAX];
    void *address; /* what the call gets */
} side_t;

/* Who is where. Numbers of ranks tell apart the members of all communicators. */
typedef struct place {
    MPI_Comm comm;
    const char *name;
    bool inter, in_second; /* one of two groups; the second one */
    int rank, size,
        peers; /* in its group; members of the group, and of the other one, which is the same without groups */
    int number, first,
        first_peer; /* of this rank, of rank 0 of its group and of the other one; they follow each other */
    int nin, nout;  /* neighbours */
    int in[BLOCKS_MAX], out[BLOCKS_MAX]; /* their ranks; MPI_PROC_NULL: there is none */
} place_t;

typedef struct shape {
    coll_t coll;
    way_t way;
    buffer_kind_t send_kind, recv_kind;
    MPI_Datatype type;
    MPI_Op op;
    int ints, step; /* of an element that carry data, at distances of 2; and from one element to the next */
    bool in_place;
    int count, root;
    uint32_t salt;
} shape_t;

/* Whose part a rank has; collectives without a root have both. root: as the call gets it. */
typedef struct part {
    bool is_root, is_other;
    int root;
} part_t;

bool family_is_rooted(coll_t coll);
bool family_reduces(coll_t coll);

part_t family_part(const shape_t *shape, const place_t *at);

/* Lays out the blocks that the rank sends and receives. */
void family_plan(const shape_t *shape, const place_t *at, side_t *send, side_t *recv);

/* The elements of the result that rank i of the group gets from MPI_Reduce_scatter(_block). */
int family_share(const shape_t *shape, const place_t *at, int i);

/* Writes the block's values into an image. */
void family_paint(const shape_t *shape, int32_t *image, const block_t *block);

#endif /* GPUHIER_TEST_FAMILY_H */
