/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A program that forgets: MPI_Finalize with nonblocking calls in flight, on the GPUs and staged, with persistent
 * requests active, inactive and never started, and with communicators alive. MPI forbids most of that; it must
 * neither crash nor hang.
 *
 *   finalize_pending [gpu | waits]
 *
 * gpu: without the staged ones, which Open MPI itself does not survive everywhere. waits: as MPI allows it, a callback
 * of MPI_COMM_SELF, set before gpuhier has done anything, waits for the requests; their results must be right.
 */

#include "flight.h"

#include <stdio.h>
#include <string.h>

#define COUNT 30001

static flight_t engine[4], staged[2], persistent[3];

static int wait_for_all(MPI_Comm self, int key, void *value, void *extra)
{
    flight_t *const flights[] = {&engine[0], &engine[1], &engine[2],    &engine[3],
                                 &staged[0], &staged[1], &persistent[1]};
    suite_t *suite = extra;
    (void) self;
    (void) key;
    (void) value;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (size_t i = 0; i < sizeof(flights) / sizeof(flights[0]); ++i) {
        if (MPI_SUCCESS != MPI_Wait(&flights[i]->request, MPI_STATUS_IGNORE)) {
            suite_fail(suite, "request %zu ended with an error in a callback of MPI_Finalize", i);
        } else {
            flight_check(suite, flights[i], "waited for in a callback of MPI_Finalize");
        }
    }
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    suite_t suite;
    MPI_Comm accelerated, saved;

#if defined(__SANITIZE_ADDRESS__)
    printf("leaves memory behind, as what is in flight may still use it\n");
    return 77;
#endif
    suite_begin(&suite, "finalize_pending", &argc, &argv);
    const bool waits = argc > 1 && 0 == strcmp("waits", argv[1]);
    if (waits) {
        int key;
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, wait_for_all, &key, &suite);
        MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    }
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
        flight_fill(&suite, &engine[i]);
        flight_post(&suite, &engine[i]);
    }
    for (int i = 0; i < 2 && (argc < 2 || waits); ++i) {
        flight_fill(&suite, &staged[i]);
        flight_post(&suite, &staged[i]);
    }
    flight_fill(&suite, &persistent[1]);
    MPI_Start(&persistent[1].request);
    return suite_end(&suite);
}
