/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The checks themselves: for every type and operation the comparison takes the right result and
 * finds a single wrong element, an element of another index, and a contribution left out. One rank.
 */
#include "calls.h"

#include <stdlib.h>
#include <string.h>

#define COUNT 300
#define NRANKS 5

/* The sum (say) of ranks 0 .. n-1, made by other means than the check's own. */
static void reduce_all(const value_case_t *c, int nranks, unsigned char *out)
{
    unsigned char *input = calloc(COUNT, c->type->extent);
    value_fill(c, 0, 0, COUNT, out);
    for (int rank = 1; rank < nranks; ++rank) {
        value_fill(c, rank, 0, COUNT, input);
        MPI_Reduce_local(input, out, COUNT, c->type->type, c->op->op);
    }
    free(input);
}

static void check_pair(suite_t *suite, const value_type_t *type, const value_op_t *op)
{
    value_case_t c = {type, op, NRANKS, ++suite->salt, true, false};
    unsigned char *right = calloc(COUNT, type->extent), *wrong = calloc(COUNT, type->extent);
    size_t first = COUNT;

    ++suite->calls;
    reduce_all(&c, NRANKS, right);
    if (0 != value_check(&c, 0, COUNT, right, &first)) {
        suite_fail(suite, "%s %s: a right result is taken for wrong", type->name, op->name);
    }
    memcpy(wrong, right, COUNT * type->extent);
    for (size_t b = 0; b < type->bytes; ++b) {
        wrong[17 * type->extent + b] ^= 0x40;
    }
    if (1 != value_check(&c, 0, COUNT, wrong, &first) || 17 != first) {
        suite_fail(suite, "%s %s: one wrong element is not found", type->name, op->name);
    }
    /* One contribution missing changes at least some of so many elements, for any operation. */
    reduce_all(&c, NRANKS - 1, wrong);
    if (0 == value_check(&c, 0, COUNT, wrong, &first)) {
        suite_fail(suite, "%s %s: a missing contribution is not found", type->name, op->name);
    }
    if (0 == value_check(&c, 1, COUNT, right, &first)) {
        suite_fail(suite, "%s %s: a result shifted by one element is not found", type->name, op->name);
    }
    free(right);
    free(wrong);
}

int main(int argc, char **argv)
{
    suite_t suite;

    suite_begin_host(&suite, "checks", &argc, &argv);
    for (int t = 0; t < value_ntypes; ++t) {
        for (int o = 0; o < value_nops; ++o) {
            if (value_is_accepted(&value_types[t], value_ops[o].op)) {
                check_pair(&suite, &value_types[t], &value_ops[o]);
            }
        }
    }
    return suite_end(&suite);
}
