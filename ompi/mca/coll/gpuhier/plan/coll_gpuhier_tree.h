/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A binomial tree of ranks, up and down. Pure: no MPI, no CUDA.
 *
 *   0 <-- 1      0 <-- 4 <-- 5      children are received from, and later sent to, in
 *   0 <-- 2 <-- 3      4 <-- 6 ..   order of their distance: 1, 2, 4 .. and 4, 2, 1
 */
#ifndef GPUHIER_TREE_H
#define GPUHIER_TREE_H

#include <stdbool.h>

typedef enum gpuhier_tree_move {
    GPUHIER_TREE_FROM_CHILD,  /* its subtree's partial result */
    GPUHIER_TREE_TO_PARENT,   /* this rank's */
    GPUHIER_TREE_FROM_PARENT, /* the result */
    GPUHIER_TREE_TO_CHILD
} gpuhier_tree_move_t;

/*
 * Move number 0, 1, .. of a rank: *move_p says what it is, *peer_p is the rank on the other side. Returns false after
 * the last move, and sets nothing then.
 */
static inline bool gpuhier_tree_move(int rank, int nranks, int number, gpuhier_tree_move_t *move_p, int *peer_p)
{
    int children = 0; /* they are rank + 1, 2, 4 .. below the rank's lowest set bit, as far as there are ranks */
    while ((1L << children) < nranks - rank && 0 == (rank >> children & 1)) {
        ++children;
    }
    const int upward = 0 == rank ? 0 : 2, last = 2 * children + upward - 1;
    if (number < 0 || number > last) {
        return false;
    }
    if (number < children) {
        *move_p = GPUHIER_TREE_FROM_CHILD;
        *peer_p = rank + (1 << number);
    } else if (number < children + upward) {
        *move_p = number == children ? GPUHIER_TREE_TO_PARENT : GPUHIER_TREE_FROM_PARENT;
        *peer_p = rank & (rank - 1);
    } else {
        *move_p = GPUHIER_TREE_TO_CHILD;
        *peer_p = rank + (1 << (last - number));
    }
    return true;
}

#endif /* GPUHIER_TREE_H */
