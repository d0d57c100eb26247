/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the shape of the tree. Called by agree and by the host form (hostcall).
 */
#include "plan/coll_gpuhier_tree.h"

/* The number of children. They are rank + 1, 2, 4 .. below the rank's lowest set bit, as far as there are ranks. */
static int children_of(int rank, int nranks)
{
    int children = 0;
    while ((1L << children) < nranks - rank && 0 == (rank >> children & 1)) {
        ++children;
    }
    return children;
}

bool gpuhier_tree_move(int rank, int nranks, int number, gpuhier_tree_move_t *move_p, int *peer_p)
{
    const int children = children_of(rank, nranks), upward = 0 == rank ? 0 : 2, last = 2 * children + upward - 1;
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
