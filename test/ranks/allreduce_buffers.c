/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Every kind of memory as send and receive buffer: the same on all ranks, different on each, and
 * changing from call to call, so that a communicator's mode flips back and forth. Whatever one rank
 * passes, nobody may hang and everybody must get the right result.
 *
 *   allreduce_buffers [--stock]
 */
#include "calls.h"

static const size_t counts[] = {3, 1021, 200003};
#define NCOUNTS ((int) (sizeof(counts) / sizeof(counts[0])))

static call_t make_call(size_t count)
{
    call_t call = {.comm = MPI_COMM_NULL,
                   .type = value_type_find("double"),
                   .op = value_op_find("sum"),
                   .count = count,
                   .path = PATH_ANY};
    return call;
}

static void run_uniform(suite_t *suite)
{
    for (int i = 0; i < NCOUNTS; ++i) {
        for (int send = 0; send < BUFFER_NKINDS; ++send) {
            for (int recv = 0; recv < BUFFER_NKINDS; ++recv) {
                call_t call = make_call(counts[i]);
                call.send_kind = (buffer_kind_t) send;
                call.recv_kind = (buffer_kind_t) recv;
                call.in_place = send == recv && 1 == i % 2;
                suite_call(suite, &call);
            }
        }
    }
}

/* A communicator of its own, whose every call is on device memory: never anything but accelerated. */
static void run_device_only(suite_t *suite, buffer_kind_t kind)
{
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int i = 0; i < 3 * NCOUNTS; ++i) {
        call_t call = make_call(counts[i % NCOUNTS]);
        call.comm = comm;
        call.op = value_op_find("max"); /* a key that the calls above have not used */
        call.send_kind = call.recv_kind = kind;
        call.path = PATH_ACCELERATED;
        suite_call(suite, &call);
    }
    MPI_Comm_free(&comm);
}

static void run_mixed(suite_t *suite)
{
    for (int i = 0; i < NCOUNTS; ++i) {
        for (int turn = 0; turn < BUFFER_NKINDS; ++turn) {
            call_t call = make_call(counts[i]);
            call.send_kind = (buffer_kind_t) ((suite->rank + turn) % BUFFER_NKINDS);
            call.recv_kind = (buffer_kind_t) ((suite->rank * 2 + turn + i) % BUFFER_NKINDS);
            suite_call(suite, &call);
            /* One rank alone has host memory; then one alone passes MPI_IN_PLACE. */
            call.send_kind = call.recv_kind = turn % suite->nranks == suite->rank ? BUFFER_HOST : BUFFER_DEVICE;
            suite_call(suite, &call);
            call.send_kind = call.recv_kind = BUFFER_DEVICE;
            call.in_place = turn % suite->nranks == suite->rank;
            suite_call(suite, &call);
        }
    }
}

/* One key, many calls: runs of device memory, of host memory, and of both at once. */
static void run_flips(suite_t *suite)
{
    for (int i = 0; i < 150; ++i) {
        call_t call = make_call(65);
        int phase = (i / 10) % 3;
        bool host = 1 == phase || (2 == phase && i % suite->nranks == suite->rank);
        call.op = value_op_find("min");
        call.send_kind = call.recv_kind = host ? BUFFER_HOST : BUFFER_DEVICE;
        suite_call(suite, &call);
    }
}

int main(int argc, char **argv)
{
    suite_t suite;

    suite_begin(&suite, "allreduce_buffers", &argc, &argv);
    run_device_only(&suite, BUFFER_DEVICE);
    run_device_only(&suite, BUFFER_POOL);
    run_uniform(&suite);
    run_mixed(&suite);
    run_flips(&suite);
    return suite_end(&suite);
}
