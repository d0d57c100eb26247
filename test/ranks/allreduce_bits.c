/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The accelerated path gives the same bits on all ranks and on every repetition, whatever the
 * timing and wherever the buffers lie.
 *
 *   allreduce_bits [--stock]
 */
#include "calls.h"

#include <stdlib.h>
#include <string.h>

#define REPETITIONS 8

static void one(suite_t *suite, const char *type_name, const char *op_name, size_t count)
{
    value_case_t c = {value_type_find(type_name), value_op_find(op_name), suite->nranks, ++suite->salt, false, false};
    size_t bytes = count * c.type->extent;
    unsigned char *input = malloc(bytes), *first = malloc(bytes), *again = malloc(bytes);

    value_fill(&c, suite->rank, 0, count, input);
    for (int i = 0; i < REPETITIONS; ++i) {
        buffer_t send, recv;
        buffer_alloc(&send, BUFFER_DEVICE, bytes, (size_t) ((i + suite->rank) % 4) * c.type->extent);
        buffer_alloc(&recv, BUFFER_DEVICE, bytes, (size_t) (i % 3) * c.type->extent);
        buffer_write(&send, input, bytes);
        pvars_t before, after;
        pvars_read(&before);
        MPI_Allreduce(send.message, recv.message, (int) count, c.type->type, c.op->op, MPI_COMM_WORLD);
        pvars_read(&after);
        ++suite->calls;
        if (PATH_ACCELERATED == suite->default_path && 1 != after.accelerated - before.accelerated) {
            suite_fail(suite, "%s %s count %zu was not accelerated", type_name, op_name, count);
        }
        buffer_read(&recv, 0 == i ? first : again, bytes);
        if (i > 0 && 0 != memcmp(first, again, bytes)) {
            suite_fail(suite, "%s %s count %zu: repetition %d has other bits", type_name, op_name, count, i);
        }
        buffer_free(&send);
        buffer_free(&recv);
    }
    /* Rank 0's bits, by the host, to everyone. */
    memcpy(again, first, bytes);
    MPI_Bcast(again, (int) bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (0 != memcmp(first, again, bytes)) {
        suite_fail(suite, "%s %s count %zu: other bits than rank 0", type_name, op_name, count);
    }
    free(input);
    free(first);
    free(again);
}

int main(int argc, char **argv)
{
    static const size_t counts[] = {1, 61, 4099, 200003};
    suite_t suite;

    suite_begin(&suite, "allreduce_bits", &argc, &argv);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); ++i) {
        one(&suite, "double", "sum", counts[i]);
        one(&suite, "float", "sum", counts[i]);
        one(&suite, "float", "prod", counts[i]);
        one(&suite, "c_double_complex", "prod", counts[i]);
        one(&suite, "c_float_complex", "sum", counts[i]);
    }
    return suite_end(&suite);
}
