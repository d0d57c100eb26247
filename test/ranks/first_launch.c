/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The first launch of a kernel beside work of the program that ends only after the calls: no call waits for it. A
 * driver that loads kernels lazily may wait for the whole context at a kernel's first launch (CUDASIM_LOAD=launch), so
 * the component must have loaded each of its kernels before.
 *
 *   first_launch
 *
 * Each call is the first one of its operation and type, of a length that each form takes, blocking and nonblocking.
 * Meanwhile a host function on a stream that blocks no other one does not return, as a kernel does not that waits for a
 * peer. A call that waits for that stream waits for ever.
 */
#include "calls.h"
#include "flight.h"

#include <cuda_runtime_api.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SECONDS 60 /* for all calls */

static const struct kind {
    const char *type, *op;
    size_t count;
    bool nonblocking;
} kinds[] = {
    {"double", "sum", 100, false},   {"float", "sum", 100000, false}, {"int32", "max", 4000, true},
    {"int64", "min", 40000, false},  {"2int", "minloc", 500, false},  {"uint32", "sum", 100000, true},
    {"uint64", "sum", 40000, false}, {"uint8", "bxor", 1000, false},  {"float", "prod", 20000, false},
};
#define NKINDS (sizeof(kinds) / sizeof(kinds[0]))

static atomic_bool is_over;

static void CUDART_CB hold(void *unused)
{
    (void) unused;
    while (!atomic_load(&is_over)) {
        usleep(1000);
    }
}

static void one_kind(suite_t *suite, const struct kind *kind, flight_t *flight)
{
    pvars_t before;
    char text[64];
    snprintf(text, sizeof(text), "%s of %zu %s", kind->op, kind->count, kind->type);
    pvars_read(&before);
    flight_reduce(suite, flight); /* its probe lets nonblocking calls of the kind run on the GPUs, too */
    if (kind->nonblocking) {
        flight_post(suite, flight);
        MPI_Wait(&flight->request, MPI_STATUS_IGNORE);
    }
    flight_check_path(suite, text, &before, kind->nonblocking ? 2 : 1, kind->nonblocking ? 1 : 0);
}

int main(int argc, char **argv)
{
    suite_t suite;
    flight_t warm, flights[NKINDS];
    cudaStream_t aside;

    MPI_Init(&argc, &argv);
    suite_begin(&suite, "first_launch", &argc, &argv);
    flight_make(&suite, &warm, MPI_COMM_WORLD, "int16", "max", 200000, BUFFER_DEVICE, BUFFER_DEVICE, false);
    for (size_t i = 0; i < NKINDS; ++i) {
        flight_make(&suite, &flights[i], MPI_COMM_WORLD, kinds[i].type, kinds[i].op, kinds[i].count, BUFFER_DEVICE,
                    BUFFER_DEVICE, false);
    }
    flight_reduce(&suite, &warm); /* sets the communicator up */
    CUDA_MUST(cudaStreamCreateWithFlags(&aside, cudaStreamNonBlocking));
    CUDA_MUST(cudaLaunchHostFunc(aside, hold, NULL));
    alarm(SECONDS);
    for (size_t i = 0; i < NKINDS; ++i) {
        one_kind(&suite, &kinds[i], &flights[i]);
    }
    alarm(0);
    atomic_store(&is_over, true);
    CUDA_MUST(cudaStreamSynchronize(aside));
    CUDA_MUST(cudaStreamDestroy(aside));
    for (size_t i = 0; i < NKINDS; ++i) {
        flight_check(&suite, &flights[i], kinds[i].type); /* waits for all work of the GPU */
        flight_free(&flights[i]);
    }
    flight_free(&warm);
    return suite_end(&suite);
}
