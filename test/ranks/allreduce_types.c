/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Every predefined type with every operation that MPI defines for it, on device memory, against
 * a reference in plain C; the promised ones must take the accelerated path, from the first call on.
 *
 *   allreduce_types [--stock]
 */
#include "calls.h"

int main(int argc, char **argv)
{
    /* One element, fewer than ranks, odd, and more than a vector of each rank's shard. */
    static const size_t counts[] = {1, 3, 61, 1031, 4099};
    const int ncounts = (int) (sizeof(counts) / sizeof(counts[0]));
    suite_t suite;
    int turn = 0;

    suite_begin(&suite, "allreduce_types", &argc, &argv);
    for (int t = 0; t < value_ntypes; ++t) {
        for (int o = 0; o < value_nops; ++o) {
            if (!value_is_defined(&value_types[t], &value_ops[o])) {
                continue;
            }
            /* Pairwise: two counts for each pair, one of them in place; --full takes all. */
            int tries = suite.full ? 2 * ncounts : 2;
            for (int i = 0; i < tries; ++i, ++turn) {
                call_t call = {.comm = MPI_COMM_NULL,
                               .type = &value_types[t],
                               .op = &value_ops[o],
                               .count = counts[suite.full ? i / 2 : turn % ncounts],
                               .in_place = 1 == i % 2,
                               .path = value_types[t].accelerated ? PATH_ACCELERATED : PATH_ANY};
                suite_call(&suite, &call);
            }
        }
    }
    return suite_end(&suite);
}
