/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The accelerated path gives the same bits on all ranks and on every repetition, whatever the
 * timing and wherever the buffers lie; also for sums that another order of the operands would change. In
 * one group the order is that of the ranks, or in levels that of the ranks of a socket and then of the sockets: exactly
 * that result is wanted. BITS_PART in the environment: the number of ranks on a socket; with two
 * nodes, the sums of the nodes are added last. BITS_HALVES: BITS_PART counts the ranks below a switch, and the sums of
 * two sockets are added last.
 *
 * BITS_OF_PARTS: MPI_Reduce, MPI_Reduce_scatter_block and MPI_Reduce_scatter, too.
 *
 *   allreduce_bits [--stock]
 *
 * Prints a digest of all results: what bits_test.sh compares between runs.
 */
#include "calls.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPETITIONS 8

static uint64_t digest = UINT64_C(14695981039346656037); /* FNV-1a of all results */

static void digest_add(const unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; ++i) {
        digest = (digest ^ bytes[i]) * UINT64_C(1099511628211);
    }
}

/* Rank 0's bits, by the host, to all ranks. */
static void compare_ranks(suite_t *suite, const unsigned char *mine, size_t bytes, const char *what)
{
    unsigned char *theirs = malloc(bytes);
    memcpy(theirs, mine, bytes);
    MPI_Bcast(theirs, (int) bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (0 != memcmp(mine, theirs, bytes)) {
        suite_fail(suite, "%s: other bits than rank 0", what);
    }
    free(theirs);
    digest_add(mine, bytes);
}

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
    char what[96];
    snprintf(what, sizeof(what), "%s %s count %zu", type_name, op_name, count);
    compare_ranks(suite, first, bytes, what);
    free(input);
    free(first);
    free(again);
}

/*
 * Terms of very different size that nearly cancel: even ranks bring a large number, odd ones about the same
 * with the other sign, so that what is left of the sum is rounding, and the order decides.
 */
static double ill_conditioned(int rank, uint64_t i)
{
    uint64_t x = i * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t) (rank / 2) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 31)) * UINT64_C(0x94d049bb133111eb);
    const double large = ldexp(1.0 + (double) (x >> 40) * 0x1p-24, (int) (x % 60));
    const double small = 0.1 * (double) (1 + rank) + (double) (i % 1000) * 0.01;
    return 0 == rank % 2 ? large + small : -large + small;
}

static int nodes_of_run(void)
{
    const char *nodes = getenv("VCLUSTER_NODES");
    return NULL == nodes ? 0 : atoi(nodes);
}

/* The sum over some ranks in the order of the parts. */
static double parts_sum(int begin, int end, int part_size, uint64_t i)
{
    double sum = 0.0;
    for (int first = begin; first < end; first += part_size) {
        double part = ill_conditioned(first, i);
        for (int k = 1; k < part_size; ++k) {
            part += ill_conditioned(first + k, i);
        }
        sum = first == begin ? part : sum + part;
    }
    return sum;
}

/* The sum in the order of the ranks, or, where the test says how many ranks a part has, in that of the parts and of two
 * nodes or sockets; or the other way round. */
static double ordered_sum(int nranks, uint64_t i, bool backwards)
{
    const char *text = getenv("BITS_PART");
    if (backwards) {
        double sum = ill_conditioned(nranks - 1, i);
        for (int k = nranks - 2; k >= 0; --k) {
            sum += ill_conditioned(k, i);
        }
        return sum;
    }
    if (NULL == text) {
        return parts_sum(0, nranks, nranks, i);
    }
    return 2 == nodes_of_run() || NULL != getenv("BITS_HALVES")
               ? parts_sum(0, nranks / 2, atoi(text), i) + parts_sum(nranks / 2, nranks, atoi(text), i)
               : parts_sum(0, nranks, atoi(text), i);
}

/* The same buffers again and again: with ipc=auto the peers map them at some point, and kernels work on them, in one
 * slice. */
static void ill_conditioned_sums(suite_t *suite, size_t count)
{
    const size_t bytes = count * sizeof(double);
    const bool order_known = 1 == nodes_of_run() || (2 == nodes_of_run() && NULL != getenv("BITS_PART"));
    double *input = malloc(bytes), *first = malloc(bytes), *again = malloc(bytes);
    buffer_t send, recv;
    size_t sensitive = 0;

    buffer_alloc(&send, BUFFER_DEVICE, bytes, 0);
    buffer_alloc(&recv, BUFFER_DEVICE, bytes, 0);
    for (size_t i = 0; i < count; ++i) {
        input[i] = ill_conditioned(suite->rank, i);
        sensitive += ordered_sum(suite->nranks, i, false) != ordered_sum(suite->nranks, i, true);
    }
    if (suite->nranks > 2 && sensitive < count / 4) {
        suite_fail(suite, "the order of the operands changes %zu of %zu sums only", sensitive, count);
    }
    buffer_write(&send, input, bytes);
    pvars_t before;
    pvars_read(&before);
    for (int i = 0; i < REPETITIONS; ++i) {
        buffer_poison(&recv);
        MPI_Allreduce(send.message, recv.message, (int) count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        ++suite->calls;
        buffer_read(&recv, 0 == i ? first : again, bytes);
        if (i > 0 && 0 != memcmp(first, again, bytes)) {
            suite_fail(suite, "ill-conditioned sum, count %zu: repetition %d has other bits", count, i);
        }
    }
    suite_check_paths(suite, "ill-conditioned sums", &before, REPETITIONS, 0);
    for (size_t i = 0; i < count && PATH_ACCELERATED == suite->default_path && order_known; ++i) {
        if (first[i] != ordered_sum(suite->nranks, i, false)) {
            suite_fail(suite, "ill-conditioned sum, count %zu: element %zu was not added in the right order", count, i);
            break;
        }
    }
    compare_ranks(suite, (unsigned char *) first, bytes, "ill-conditioned sum");
    buffer_free(&send);
    buffer_free(&recv);
    free(input);
    free(first);
    free(again);
}

/*
 * MPI_Reduce and MPI_Reduce_scatter(_block) add in the order of MPI_Allreduce: the same buffers give the same bits, on
 * the GPUs. Not in levels, which only MPI_Allreduce has, nor in a ring, whose order depends on how a message is cut.
 */
static void parts_have_its_bits(suite_t *suite, size_t count)
{
    const size_t n = (size_t) suite->nranks, bytes = n * count * sizeof(double);
    double *all = malloc(bytes), *part = malloc(bytes);
    int counts[suite->nranks];
    size_t begin = 0; /* of this rank's part, where they are of unequal length */
    buffer_t send, recv;
    pvars_t before;

    for (int i = 0; i < suite->nranks; ++i) {
        const int shift = (i | 1) < suite->nranks ? (int) count / 3 : 0; /* from each even rank to the next one */
        counts[i] = (int) count + (0 == i % 2 ? -shift : shift);
        begin += i < suite->rank ? (size_t) counts[i] : 0;
    }

    buffer_alloc(&send, BUFFER_DEVICE, bytes, 0);
    buffer_alloc(&recv, BUFFER_DEVICE, bytes, 0);
    for (size_t i = 0; i < n * count; ++i) {
        all[i] = ill_conditioned(suite->rank, i);
    }
    buffer_write(&send, all, bytes);
    for (int i = 0; i < REPETITIONS; ++i) {
        MPI_Allreduce(send.message, recv.message, (int) (n * count), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        buffer_read(&recv, all, bytes);
        pvars_read(&before);
        MPI_Reduce(send.message, recv.message, (int) (n * count), MPI_DOUBLE, MPI_SUM, i % (int) n, MPI_COMM_WORLD);
        buffer_read(&recv, part, bytes);
        if (suite->rank == i % (int) n && 0 != memcmp(part, all, bytes)) {
            suite_fail(suite, "MPI_Reduce, count %zu, root %d: other bits than MPI_Allreduce", count, suite->rank);
        }
        MPI_Reduce_scatter_block(send.message, recv.message, (int) count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        buffer_read(&recv, part, count * sizeof(double));
        if (0 != memcmp(part, all + (size_t) suite->rank * count, count * sizeof(double))) {
            suite_fail(suite, "MPI_Reduce_scatter_block, count %zu: other bits than MPI_Allreduce", count);
        }
        MPI_Reduce_scatter(send.message, recv.message, counts, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        buffer_read(&recv, part, (size_t) counts[suite->rank] * sizeof(double));
        if (0 != memcmp(part, all + begin, (size_t) counts[suite->rank] * sizeof(double))) {
            suite_fail(suite, "MPI_Reduce_scatter, count %zu: other bits than MPI_Allreduce", count);
        }
        suite->calls += 4;
    }
    suite_check_paths(suite, "the parts of an all-reduce", &before, 3, 0); /* of the last repetition */
    buffer_free(&send);
    buffer_free(&recv);
    free(all);
    free(part);
}

int main(int argc, char **argv)
{
    static const size_t counts[] = {1, 61, 4099, 16411, 200003};
    suite_t suite;

    suite_begin(&suite, "allreduce_bits", &argc, &argv);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); ++i) {
        one(&suite, "double", "sum", counts[i]);
        one(&suite, "float", "sum", counts[i]);
        one(&suite, "float", "prod", counts[i]);
        one(&suite, "c_double_complex", "prod", counts[i]);
        one(&suite, "c_float_complex", "sum", counts[i]);
        ill_conditioned_sums(&suite, counts[i]);
        if (PATH_ACCELERATED == suite.default_path && NULL != getenv("BITS_OF_PARTS")) {
            parts_have_its_bits(&suite, counts[i]);
        }
    }
    if (0 == suite.rank) {
        printf("allreduce_bits: digest %016llx\n", (unsigned long long) digest);
    }
    return suite_end(&suite);
}
