/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Counts (none, one, primes, more than any slice) and alignments, the same and different on each rank.
 *
 *   allreduce_counts [--stock]
 */
#include "calls.h"

static const size_t counts[] = {0, 1, 2, 3, 5, 7, 8, 13, 31, 127, 1009, 4093, 65537, 1048573};
static const char *const types[] = {"double", "float", "signed_char", "short", "c_double_complex", "short_int"};

static void run_counts(suite_t *suite)
{
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); ++i) {
        for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); ++t) {
            const value_type_t *type = value_type_find(types[t]);
            const value_op_t *op = value_op_find(VALUE_PAIR_INT == type->kind ? "minloc" : "sum");
            if (counts[i] * type->extent > 4000000 && 0 != t && !suite->full) {
                continue;
            }
            for (int in_place = 0; in_place < 2; ++in_place) {
                call_t call = {.comm = MPI_COMM_NULL,
                               .type = type,
                               .op = op,
                               .count = counts[i],
                               .in_place = 1 == in_place,
                               /* Nothing to do may take either path. */
                               .path = 0 == counts[i] ? PATH_ANY : PATH_ACCELERATED};
                suite_call(suite, &call);
            }
        }
    }
}

/* Addresses that are aligned for one element, but not for a vector, and other ones on other ranks. */
static void run_offsets(suite_t *suite)
{
    for (size_t shift = 0; shift < 4; ++shift) {
        for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); ++t) {
            const value_type_t *type = value_type_find(types[t]);
            size_t step = 2 == type->extent || 1 == type->extent ? type->extent : type->bytes;
            call_t call = {.comm = MPI_COMM_NULL,
                           .type = type,
                           .op = value_op_find(VALUE_PAIR_INT == type->kind ? "maxloc" : "sum"),
                           .count = 1009 + 64 * shift,
                           .path = PATH_ACCELERATED};
            if (VALUE_PAIR_INT == type->kind) {
                step = type->extent;
            }
            /* First one rank only, then every rank another one. */
            call.send_offset = 0 == suite->rank ? shift * step : 0;
            call.recv_offset = suite->nranks - 1 == suite->rank ? shift * step : 0;
            suite_call(suite, &call);
            call.send_offset = ((size_t) suite->rank + shift) % 7 * step;
            call.recv_offset = ((size_t) suite->rank * 3 + shift) % 5 * step;
            suite_call(suite, &call);
            call.in_place = true;
            suite_call(suite, &call);
        }
    }
}

/* A message of several slices that is no multiple of anything, and one with every rank out of step. */
static void run_large(suite_t *suite)
{
    call_t call = {.comm = MPI_COMM_NULL,
                   .type = value_type_find("double"),
                   .op = value_op_find("sum"),
                   .count = 3000017,
                   .path = PATH_ACCELERATED};
    suite_call(suite, &call);
    call.recv_offset = (size_t) (suite->rank % 2) * 8;
    call.in_place = true;
    suite_call(suite, &call);
}

int main(int argc, char **argv)
{
    suite_t suite;

    suite_begin(&suite, "allreduce_counts", &argc, &argv);
    run_counts(&suite);
    run_offsets(&suite);
    run_large(&suite);
    return suite_end(&suite);
}
