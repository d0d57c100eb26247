/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The checks themselves: for every type and operation the comparison takes the right result and
 * finds a single wrong element, an element of another index, a contribution left out, and a gap that was written.
 * One rank.
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

/* Filling leaves gaps alone; a changed byte of one is found, and so are the gaps of another rank, side or call. */
static void check_gaps(suite_t *suite, const value_type_t *type)
{
    value_case_t c = {type, value_op_find("maxloc"), NRANKS, ++suite->salt, true, false}, other = c;
    unsigned char *bytes = calloc(COUNT, type->extent);
    size_t first = COUNT, changed = 0;

    ++suite->calls;
    ++other.salt;
    value_gaps_fill(&c, 1, VALUE_RECEIVE, COUNT, bytes);
    value_fill(&c, 0, 0, COUNT, bytes);
    if (0 != value_gaps_check(&c, 1, VALUE_RECEIVE, COUNT, bytes, &first)) {
        suite_fail(suite, "%s: gaps that were kept are taken for written", type->name);
    }
    if (0 == value_gaps_check(&c, 0, VALUE_RECEIVE, COUNT, bytes, &first)
        || 0 == value_gaps_check(&c, 1, VALUE_SEND, COUNT, bytes, &first)
        || 0 == value_gaps_check(&other, 1, VALUE_RECEIVE, COUNT, bytes, &first)) {
        suite_fail(suite, "%s: another rank's, side's or call's gaps are not found", type->name);
    }
    for (size_t b = 0; b < type->extent; ++b) {
        bytes[17 * type->extent + b] ^= 0x40;
        const size_t wrong = value_gaps_check(&c, 1, VALUE_RECEIVE, COUNT, bytes, &first);
        bytes[17 * type->extent + b] ^= 0x40;
        changed += wrong;
        if (wrong > 1 || (1 == wrong && 17 != first)) {
            suite_fail(suite, "%s: one changed byte is taken for another element's", type->name);
        }
    }
    if (changed != type->extent - type->bytes - sizeof(int)) {
        suite_fail(suite, "%s: %zu bytes of an element are checked as its gaps", type->name, changed);
    }
    free(bytes);
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
        if (value_has_gaps(&value_types[t])) {
            check_gaps(&suite, &value_types[t]);
        }
    }
    return suite_end(&suite);
}
