/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What crosses the link between two sockets of PCIe GPUs, by the emulator's count, for results that are right. Of a
 * message of B bytes, B cross it each way in levels, and P B/2 in a flat call of P ranks on the node.
 *
 *   levels GPUS levels|flat|after [NODES [HALVES]]
 *
 * GPUS: how many are on the first socket. With HALVES: how many are below the first PCI switch; then HALVES B/2 pass
 * above it. levels or flat: what is wanted of messages of 512 KiB and more; shorter ones are flat. A node has a rank on
 * each of its GPUs. The bits of a sum that is not exact are the same on all ranks, and in calls through scratch and on
 * mapped buffers. after: long calls in levels on buffers that other collectives, which are flat, have used before.
 */
#include "calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALLS 6 /* the first through scratch, the last on mapped buffers, unless coll_gpuhier_ipc says otherwise */

static int gpus, nodes, halves; /* GPUs of the first socket, or switch, of each node */

/* Bytes that this rank's kernels and copies have moved from these GPUs to the others, or back. */
static unsigned long long crossed(const suite_t *suite, bool from_first)
{
    unsigned long long bytes = 0;

    for (int i = 0; i < gpus; ++i) {
        for (int j = gpus; j < suite->nranks / nodes; ++j) {
            unsigned long long value = 0;
            char name[32];
            snprintf(name, sizeof(name), "link.%d.%d", from_first ? i : j, from_first ? j : i);
            if (!buffer_emulator_count(name, &value)) {
                fprintf(stderr, "levels: these GPUs are not emulated\n");
                exit(2);
            }
            bytes += value;
        }
    }
    return bytes;
}

/* The bytes that crossed in one call, of all ranks. */
static unsigned long long one_call(suite_t *suite, const call_t *call, bool from_first)
{
    const unsigned long long before = crossed(suite, from_first);
    unsigned long long mine, all = 0;

    (void) suite_call(suite, call);
    MPI_Barrier(MPI_COMM_WORLD); /* the peers' kernels have ended */
    mine = crossed(suite, from_first) - before;
    MPI_Allreduce(&mine, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

static void count_bytes(suite_t *suite, size_t count, bool in_levels)
{
    call_t call = {.comm = MPI_COMM_NULL,
                   .type = value_type_find("float"),
                   .op = value_op_find("sum"),
                   .count = count,
                   .send_kind = BUFFER_DEVICE,
                   .recv_kind = BUFFER_DEVICE,
                   .path = suite->default_path};
    const unsigned long long bytes = count * sizeof(float);
    const unsigned long long wanted = bytes * (unsigned long long) (in_levels ? halves * nodes : suite->nranks) / 2;

    for (int i = 0; i < 4; ++i) {
        call.in_place = i % 2;
        call.recv_offset = i > 1 ? sizeof(float) : 0;
        const unsigned long long all = one_call(suite, &call, i > 1);
        const unsigned long long least =
            2 == halves ? wanted : wanted - wanted / 100; /* a switch's shards may be short */
        if (all < least || all > wanted + wanted / 100) {
            suite_fail(suite, "%zu floats: %llu bytes crossed the links %s, and not %llu", count, all,
                       i > 1 ? "from the first GPUs" : "to the first GPUs", wanted);
        }
    }
}

/* Sums whose rounding depends on the order of the operands, on the same buffers again and again. */
static void same_bits(suite_t *suite, size_t count)
{
    const size_t bytes = count * sizeof(float);
    float *input = malloc(bytes), *first = malloc(bytes), *again = malloc(bytes);
    buffer_t send, recv;

    for (size_t i = 0; i < count; ++i) {
        input[i] = (float) (0 == suite->rank % 3 ? 1e7 : -3e6) + 1.0f / (float) (1 + i % 97 + (size_t) suite->rank);
    }
    buffer_alloc(&send, BUFFER_DEVICE, bytes, 0);
    buffer_alloc(&recv, BUFFER_DEVICE, bytes, 0);
    for (int i = 0; i < CALLS; ++i) {
        buffer_write(&send, (const unsigned char *) input, bytes);
        MPI_Allreduce(send.message, recv.message, (int) count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        ++suite->calls;
        buffer_read(&recv, (unsigned char *) (0 == i ? first : again), bytes);
        if (i > 0 && 0 != memcmp(first, again, bytes)) {
            suite_fail(suite, "%zu floats: call %d has other bits than the first", count, i);
        }
    }
    memcpy(again, first, bytes);
    MPI_Bcast(again, (int) bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (0 != memcmp(first, again, bytes)) {
        suite_fail(suite, "%zu floats: other bits than rank 0", count);
    }
    buffer_free(&send);
    buffer_free(&recv);
    free(input);
    free(first);
    free(again);
}

/* Byte i of what a rank gives: a sum over eight ranks fits. */
static signed char given(int rank, size_t i)
{
    return (signed char) ((i * 7 + (size_t) rank * 5) % 16);
}

/* Returns how many kernels this rank has launched for it. */
static unsigned long long sum_in_place(const buffer_t *buffer, size_t bytes)
{
    unsigned long long before = 0, after = 0;

    (void) buffer_emulator_count("launches", &before);
    MPI_Allreduce(MPI_IN_PLACE, buffer->message, (int) bytes, MPI_INT8_T, MPI_SUM, MPI_COMM_WORLD);
    (void) buffer_emulator_count("launches", &after);
    return after - before;
}

/* Calls that the ranks agree to do directly on a buffer, and then one in levels of as many bytes on the same buffer. */
static void after_flat(suite_t *suite, size_t bytes, bool reduces)
{
    signed char *image = malloc(bytes);
    size_t wrong = 0;
    buffer_t buffer;

    buffer_alloc(&buffer, BUFFER_DEVICE, bytes, 0);
    for (int i = 0; i < CALLS && !reduces; ++i) {
        MPI_Bcast(buffer.message, (int) bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    }
    for (int i = 0; i < CALLS && reduces; ++i) {
        MPI_Reduce(0 == suite->rank ? MPI_IN_PLACE : buffer.message, 0 == suite->rank ? buffer.message : NULL,
                   (int) bytes, MPI_INT8_T, MPI_MAX, 0, MPI_COMM_WORLD);
    }
    for (size_t i = 0; i < bytes; ++i) {
        image[i] = given(suite->rank, i);
    }
    buffer_write(&buffer, (const unsigned char *) image, bytes);
    const unsigned long long launches = sum_in_place(&buffer, bytes);
    suite->calls += CALLS + 1;
    buffer_read(&buffer, (unsigned char *) image, bytes);
    for (size_t i = 0; i < bytes; ++i) {
        int sum = 0;
        for (int rank = 0; rank < suite->nranks; ++rank) {
            sum += given(rank, i);
        }
        wrong += sum != image[i];
    }
    if (wrong > 0) {
        suite_fail(suite, "MPI_Allreduce in levels after %s: %zu of %zu bytes are wrong",
                   reduces ? "MPI_Reduce" : "MPI_Bcast", wrong, bytes);
    }
    buffer_free(&buffer);
    free(image);
    buffer_alloc(&buffer, BUFFER_DEVICE, bytes, 0);
    unsigned long long others = 0;
    for (int i = 0; i < CALLS; ++i) {
        others = sum_in_place(&buffer, bytes);
    }
    if (launches != others) { /* fewer slices are longer than the scratch */
        suite_fail(suite, "MPI_Allreduce in levels after %s: %llu launches, and %llu on a buffer of its own",
                   reduces ? "MPI_Reduce" : "MPI_Bcast", launches, others);
    }
    buffer_free(&buffer);
}

int main(int argc, char **argv)
{
    suite_t suite;

    suite_begin(&suite, "levels", &argc, &argv);
    if (argc < 3 || argc > 5) {
        fprintf(stderr, "levels: expects GPUs_OF_THE_FIRST_SOCKET levels|flat|after [NODES [HALVES]]\n");
        return 2;
    }
    gpus = atoi(argv[1]);
    nodes = argc > 3 ? atoi(argv[3]) : 1;
    halves = argc > 4 ? atoi(argv[4]) : 2;
    if (0 == strcmp(argv[2], "after")) {
        after_flat(&suite, 3 << 20, false);
        after_flat(&suite, 4 << 20, true);
        return suite_end(&suite);
    }
    const bool in_levels = 0 == strcmp(argv[2], "levels");
    (void) one_call(&suite,
                    &(call_t){.comm = MPI_COMM_NULL,
                              .type = value_type_find("float"),
                              .op = value_op_find("sum"),
                              .count = 1 << 16,
                              .send_kind = BUFFER_DEVICE,
                              .recv_kind = BUFFER_DEVICE,
                              .path = suite.default_path},
                    true); /* set-up moves bytes, too */
    count_bytes(&suite, 300007 * 5 + 3, in_levels);
    count_bytes(&suite, (512 << 10) / sizeof(float), in_levels);
    if (2 == halves) {
        count_bytes(&suite, (400 << 10) / sizeof(float), false);
    }
    same_bits(&suite, 200003);
    same_bits(&suite, 1 << 20);
    return suite_end(&suite);
}
