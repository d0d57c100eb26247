/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Pairs with gaps: bytes of a receive buffer that belong to no field keep what the rank had put there, which is
 * something else on each rank and in each buffer. Blocking, nonblocking and persistent calls, in every kind of memory,
 * on all ranks or one, at odd addresses, in place and not; and buffers that end with the last field.
 *
 *   allreduce_gaps [--stock]
 */
#include "flight.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>

static const char *const types[] = {"double_int", "long_int", "short_int", "long_double_int"};
#define NTYPES ((int) (sizeof(types) / sizeof(types[0])))

/* One element, short messages, less than a slice of the tests', and many slices; each of a key of its own. */
static const size_t counts[] = {1, 67, 401, 3001, 20011};
#define NCOUNTS ((int) (sizeof(counts) / sizeof(counts[0])))

static const value_op_t *op_of(int turn)
{
    return value_op_find(0 == turn % 2 ? "maxloc" : "minloc");
}

/* Device memory on all ranks, then one kind of memory on one rank, which an accelerated call takes once. */
static void run_blocking(suite_t *suite, const char *type, int turn)
{
    call_t call = {.type = value_type_find(type), .op = op_of(turn)};
    const buffer_kind_t kind = (buffer_kind_t) (turn % BUFFER_NKINDS);

    MPI_Comm_dup(MPI_COMM_WORLD, &call.comm);
    for (int i = 0; i < 2 * NCOUNTS; ++i) {
        call.count = counts[i / 2];
        call.in_place = 1 == i % 2;
        call.path = call.type->accelerated ? PATH_ACCELERATED : PATH_SAVED;
        call.send_kind = call.recv_kind = BUFFER_DEVICE;
        suite_call(suite, &call);
        if (suite->rank == (i + turn) % suite->nranks) {
            call.send_kind = 0 == turn % 3 ? BUFFER_DEVICE : kind;
            call.recv_kind = kind;
            call.recv_offset = call.type->accelerated ? 4 * (size_t) (turn % 4) : 0;
        }
        suite_call(suite, &call);
        call.recv_offset = 0;
    }
    MPI_Comm_free(&call.comm);
}

/* Calls in flight: as many as there are kinds of memory, each rank's kind another one. Short, and with slices. */
static void run_nonblocking(suite_t *suite, const char *type, int turn)
{
    flight_t flights[BUFFER_NKINDS];
    call_t call = {.type = value_type_find(type), .op = op_of(turn), .count = counts[1 + turn % (NCOUNTS - 1)]};
    pvars_t before;

    call.path = call.type->accelerated ? PATH_ACCELERATED : PATH_SAVED;
    MPI_Comm_dup(MPI_COMM_WORLD, &call.comm);
    for (int staged = 1; staged >= 0; --staged) { /* at first no probe has taken place */
        for (int i = 0; i < BUFFER_NKINDS; ++i) {
            const buffer_kind_t kind = (buffer_kind_t) ((i + suite->rank) % BUFFER_NKINDS);
            flight_make(suite, &flights[i], call.comm, type, call.op->name, call.count, kind, kind, 0 == i % 3);
            flights[i].on_engine = !staged && call.type->accelerated;
        }
        pvars_read(&before);
        for (int i = 0; i < BUFFER_NKINDS; ++i) {
            flight_post(suite, &flights[i]);
        }
        for (int i = BUFFER_NKINDS - 1; i >= 0; --i) {
            MPI_Wait(&flights[i].request, MPI_STATUS_IGNORE);
            flight_check(suite, &flights[i], staged ? "a staged call" : "a call in flight");
            flight_free(&flights[i]);
        }
        const uint64_t engine = !staged && call.type->accelerated ? BUFFER_NKINDS : 0;
        flight_check_path(suite, "calls in flight", &before, engine, engine);
        if (staged) {
            suite_call(suite, &call);
        }
    }
    MPI_Comm_free(&call.comm);
}

static void run_persistent(suite_t *suite, const char *type, int turn)
{
    for (int i = 0; i < 2; ++i) {
        flight_t flight;
        flight_make(suite, &flight, MPI_COMM_WORLD, type, op_of(turn + i)->name, counts[(turn + i) % NCOUNTS],
                    BUFFER_DEVICE, BUFFER_DEVICE, 1 == i);
        if (flight_init(suite, &flight)) {
            for (int start = 0; start < 3; ++start) {
                ++suite->calls;
                MPI_Start(&flight.request);
                MPI_Wait(&flight.request, MPI_STATUS_IGNORE);
                flight_check(suite, &flight, "a persistent call");
                flight_fill(suite, &flight);
            }
            MPI_Request_free(&flight.request);
        }
        flight_free(&flight);
    }
}

/*
 * One rank's memory ends where the last field does. It is not its own GPU's: the emulator counts whole elements of a
 * kernel, and would take the last gap for a fault.
 */
static void run_tight(suite_t *suite, const char *type, int turn)
{
    call_t call = {.type = value_type_find(type),
                   .op = op_of(turn),
                   .count = counts[1 + turn % (NCOUNTS - 1)],
                   .path = PATH_ACCELERATED};
    const size_t bytes = call.count * call.type->extent;
    const size_t gap = call.type->extent - call.type->index_offset - sizeof(int);
    const bool tight = suite->rank == turn % suite->nranks;
    value_case_t c = {.type = call.type, .op = call.op, .nranks = suite->nranks};
    unsigned char *host = calloc(1, bytes);
    void *buffers[2] = {NULL, NULL};
    size_t first_wrong = 0;
    int here = 0, ngpus = 0;
    pvars_t before;

    MPI_Comm_dup(MPI_COMM_WORLD, &call.comm);
    suite_call(suite, &call); /* the key is accelerated */
    CUDA_MUST(cudaGetDevice(&here));
    CUDA_MUST(cudaGetDeviceCount(&ngpus));
    const bool other = tight && ngpus > 1 && 0 == turn / 2 % 2;
    CUDA_MUST(cudaSetDevice(other ? (here + 1) % ngpus : here));
    for (int i = 0; i < 2; ++i) {
        if (tight && !other) {
            CUDA_MUST(cudaMallocHost(&buffers[i], bytes - gap));
        } else {
            CUDA_MUST(cudaMalloc(&buffers[i], tight ? bytes - gap : bytes));
        }
    }
    c.salt = ++suite->salt;
    value_fill(&c, suite->rank, 0, call.count, host);
    CUDA_MUST(cudaMemcpy(buffers[0], host, bytes - gap, cudaMemcpyDefault));
    CUDA_MUST(cudaDeviceSynchronize());
    CUDA_MUST(cudaSetDevice(here));
    pvars_read(&before);
    ++suite->calls;
    if (MPI_SUCCESS != MPI_Allreduce(buffers[0], buffers[1], (int) call.count, c.type->type, c.op->op, call.comm)) {
        suite_fail(suite, "%s without its last gap: an error", type);
    }
    suite_check_paths(suite, "a buffer without its last gap", &before, 1, 0);
    CUDA_MUST(cudaMemcpy(host, buffers[1], bytes - gap, cudaMemcpyDefault));
    CUDA_MUST(cudaDeviceSynchronize());
    const size_t wrong = value_check(&c, 0, call.count, host, &first_wrong);
    if (wrong > 0) {
        suite_fail(suite, "%s without its last gap: %zu of %zu elements are wrong, first %zu", type, wrong, call.count,
                   first_wrong);
    }
    for (int i = 0; i < 2; ++i) {
        CUDA_MUST(tight && !other ? cudaFreeHost(buffers[i]) : cudaFree(buffers[i]));
    }
    free(host);
    MPI_Comm_free(&call.comm);
}

int main(int argc, char **argv)
{
    suite_t suite;

    suite_begin(&suite, "allreduce_gaps", &argc, &argv);
    for (int turn = 0; turn < 2 * NTYPES; ++turn) {
        const char *type = types[turn % NTYPES];
        run_blocking(&suite, type, turn);
        run_nonblocking(&suite, type, turn);
        run_persistent(&suite, type, turn);
        if (value_type_find(type)->accelerated) {
            run_tight(&suite, type, turn);
        }
    }
    return suite_end(&suite);
}
