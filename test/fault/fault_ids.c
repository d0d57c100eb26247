/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages of two communicators do not cross, also when both draw the same random words (GPUHIER_SABOTAGE_RANDOM): the
 * ranks of odd nodes post nonblocking calls on the two in another order than the others, call for call of one length.
 *
 *   fault_ids      (with libsaboteur.so preloaded)
 */
#include <stdio.h>

#include "fault_lib.h"
#include "flight.h"

#define NCOMMS 4
#define ROUNDS 5

int main(int argc, char **argv)
{
    static const size_t counts[] = {100, 3000, 30000};
    suite_t suite;
    MPI_Comm comms[NCOMMS];
    pvars_t before, after;

    deadline(50, "fault_ids");
    suite_begin(&suite, "fault_ids", &argc, &argv);
    for (int i = 0; i < NCOMMS; ++i) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    }
    for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); ++k) {
        for (int i = 0; i < NCOMMS; ++i) { /* calls of this kind run on the GPUs from now on */
            call_t call = {.comm = comms[i],
                           .type = value_type_find("double"),
                           .op = value_op_find("sum"),
                           .count = counts[k],
                           .path = PATH_ACCELERATED};
            suite_call(&suite, &call);
        }
        pvars_read(&before);
        for (int round = 0; round < ROUNDS; ++round) {
            flight_t flights[NCOMMS];
            for (int i = 0; i < NCOMMS; ++i) {
                flight_make(&suite, &flights[i], comms[i], "double", "sum", counts[k], BUFFER_DEVICE, BUFFER_DEVICE,
                            false);
                flight_fill(&suite, &flights[i]);
            }
            for (int i = 0; i < NCOMMS; ++i) {
                flight_post(&suite, &flights[0 == suite.rank % 2 ? i : NCOMMS - 1 - i]);
            }
            for (int i = 0; i < NCOMMS; ++i) {
                MPI_Wait(&flights[i].request, MPI_STATUS_IGNORE);
                flight_check(&suite, &flights[i], "a call among those of other communicators");
                flight_free(&flights[i]);
            }
        }
        pvars_read(&after);
        if (after.nonblocking - before.nonblocking != NCOMMS * ROUNDS) {
            suite_fail(&suite, "only %llu nonblocking calls of %zu were accelerated",
                       (unsigned long long) (after.nonblocking - before.nonblocking), counts[k]);
        }
    }
    for (int i = 0; i < NCOMMS; ++i) {
        MPI_Comm_free(&comms[i]);
    }
    return suite_end(&suite);
}
