/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A program that forgets: MPI_Finalize with nonblocking calls in flight, on the GPUs and staged, with persistent
 * requests active, inactive and never started, and with communicators alive. MPI forbids most of that; it must
 * neither crash nor hang.
 *
 *   finalize_pending [gpu]      gpu: without the staged ones, which Open MPI itself does not survive everywhere
 */

#include "flight.h"

#include <stdio.h>

#define COUNT 30001

int main(int argc, char **argv)
{
    static flight_t engine[4], staged[2], persistent[3];
    suite_t suite;
    MPI_Comm accelerated, saved;

#if defined(__SANITIZE_ADDRESS__)
    printf("leaves memory behind, as what is in flight may still use it\n");
    return 77;
#endif
    suite_begin(&suite, "finalize_pending", &argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &accelerated);
    MPI_Comm_dup(MPI_COMM_WORLD, &saved);
    call_t call = {.comm = accelerated,
                   .type = value_type_find("double"),
                   .op = value_op_find("sum"),
                   .count = COUNT,
                   .path = PATH_ACCELERATED};
    suite_call(&suite, &call);
    for (int i = 0; i < 3; ++i) {
        flight_make(&suite, &persistent[i], MPI_COMM_WORLD, "double", "sum", COUNT, BUFFER_DEVICE, BUFFER_DEVICE,
                    false);
        flight_init(&suite, &persistent[i]);
    }
    MPI_Start(&persistent[0].request);
    MPI_Wait(&persistent[0].request, MPI_STATUS_IGNORE);
    for (int i = 0; i < 2; ++i) {
        flight_make(&suite, &staged[i], saved, "double", "sum", COUNT, BUFFER_DEVICE, BUFFER_DEVICE, false);
    }
    for (int i = 0; i < 4; ++i) {
        flight_make(&suite, &engine[i], accelerated, "double", "sum", COUNT, BUFFER_DEVICE, BUFFER_DEVICE, false);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 4; ++i) {
        flight_post(&suite, &engine[i]);
    }
    for (int i = 0; i < 2 && argc < 2; ++i) {
        flight_post(&suite, &staged[i]);
    }
    MPI_Start(&persistent[1].request);
    return suite_end(&suite);
}
