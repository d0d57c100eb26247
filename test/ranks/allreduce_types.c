/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Every predefined type with every predefined operation, on device memory. A pair that Open MPI takes is
 * compared with a reference in plain C, and with MPI_Reduce_local where that is known to be right; the
 * promised ones must take the accelerated path, from the first call on, and the others must not. A pair
 * that Open MPI refuses must be refused with device memory too.
 *
 *   allreduce_types [--stock]
 */
#include "calls.h"

/* One element, fewer than ranks, odd, and more than a vector of each rank's shard. */
static const size_t counts[] = {1, 3, 61, 1031, 4099};
#define NCOUNTS ((int) (sizeof(counts) / sizeof(counts[0])))

static void run_pair(suite_t *suite, const value_type_t *type, const value_op_t *op)
{
    /* Pairwise: two counts for each pair, one of them in place; --full takes all. */
    static int turn;
    const int tries = suite->full ? 2 * NCOUNTS : 2;

    for (int i = 0; i < tries; ++i, ++turn) {
        call_t call = {.comm = MPI_COMM_NULL,
                       .type = type,
                       .op = op,
                       .count = counts[suite->full ? i / 2 : turn % NCOUNTS],
                       .in_place = 1 == i % 2,
                       .twice = true,
                       .path = type->accelerated ? PATH_ACCELERATED : PATH_SAVED};
        suite_call(suite, &call);
    }
}

static void check_refused(suite_t *suite, const value_type_t *type, MPI_Op op, const char *op_name, buffer_t *buffers)
{
    int class = MPI_SUCCESS;
    int error = MPI_Allreduce(buffers[0].message, buffers[1].message, 1, type->type, op, MPI_COMM_WORLD);

    ++suite->calls;
    MPI_Error_class(error, &class);
    if (MPI_ERR_OP != class) {
        suite_fail(suite, "%s %s: MPI_Reduce_local refuses it, MPI_Allreduce ends with class %d", type->mpi_name,
                   op_name, class);
    }
}

/* All operations on one type. */
static void run_type(suite_t *suite, const value_type_t *type, buffer_t *buffers)
{
    for (int o = 0; o < value_nops; ++o) {
        const bool taken = value_is_accepted(type, value_ops[o].op);
        if (taken && !value_is_defined(type, &value_ops[o])) {
            suite_fail(suite, "%s %s: Open MPI takes it, but the table has no reference for it", type->mpi_name,
                       value_ops[o].name);
        } else if (taken) {
            run_pair(suite, type, &value_ops[o]);
        } else {
            check_refused(suite, type, value_ops[o].op, value_ops[o].name, buffers);
        }
    }
    check_refused(suite, type, MPI_REPLACE, "replace", buffers);
    check_refused(suite, type, MPI_NO_OP, "no_op", buffers);
}

int main(int argc, char **argv)
{
    suite_t suite;
    buffer_t buffers[2];

    suite_begin(&suite, "allreduce_types", &argc, &argv);
    buffer_alloc(&buffers[0], BUFFER_DEVICE, 64, 0);
    buffer_alloc(&buffers[1], BUFFER_DEVICE, 64, 0);
    for (int t = 0; t < value_ntypes; ++t) {
        run_type(&suite, &value_types[t], buffers);
    }
    for (int t = 0; t < value_nrefused; ++t) {
        run_type(&suite, &value_refused[t], buffers);
    }
    buffer_free(&buffers[0]);
    buffer_free(&buffers[1]);
    return suite_end(&suite);
}
