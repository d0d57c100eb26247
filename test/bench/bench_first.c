/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the first accelerated call of a communicator costs. On MPI_COMM_WORLD, and then on each of many duplicates of
 * it: a barrier, the calls, the end; the median time of the first and the second call on a duplicate.
 *
 *   bench_first [communicators [calls on each]]       (default 41 and 2)
 *
 * MPI_COMM_WORLD is told apart: there the devices and the network are opened, too. How many messages a first call needs
 * is the difference of what Open MPI's monitoring counts with calls and without: bench/first_messages.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "buffers.h"
#include "calls.h"

#define COMMS_MAX 1000
#define COUNT 1000

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e6 * (double) time.tv_sec + 1e-3 * (double) time.tv_nsec;
}

static double call(MPI_Comm comm, buffer_t *send, buffer_t *recv)
{
    double begin = now();
    MPI_Allreduce(send->message, recv->message, COUNT, MPI_DOUBLE, MPI_SUM, comm);
    return now() - begin;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static double first[COMMS_MAX], second[COMMS_MAX];
    suite_t suite;
    buffer_t send, recv;
    pvars_t before, after;

    suite_begin(&suite, "bench_first", &argc, &argv);
    const int ncomms = argc > 1 ? atoi(argv[1]) : 41, ncalls = argc > 2 ? atoi(argv[2]) : 2;
    if (ncomms < 2 || ncomms > COMMS_MAX) {
        return 2;
    }
    pvars_read(&before);
    buffer_alloc(&send, BUFFER_DEVICE, COUNT * sizeof(double), 0);
    buffer_alloc(&recv, BUFFER_DEVICE, COUNT * sizeof(double), 0);
    for (int i = 0; i < ncomms; ++i) {
        MPI_Comm comm = MPI_COMM_WORLD;
        if (i > 0) {
            MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        first[i] = ncalls > 0 ? call(comm, &send, &recv) : 0;
        MPI_Barrier(MPI_COMM_WORLD);
        second[i] = ncalls > 1 ? call(comm, &send, &recv) : 0;
        if (i > 0) {
            MPI_Comm_free(&comm);
        }
    }
    suite.calls = (unsigned long) (ncalls * ncomms) + 1;
    pvars_read(&after);
    if (PATH_ANY != suite.default_path
        && after.accelerated - before.accelerated != (uint64_t) ncalls * (uint64_t) ncomms) {
        suite_fail(&suite, "only %llu of %d calls were accelerated",
                   (unsigned long long) (after.accelerated - before.accelerated), ncalls * ncomms);
    }
    double in_process = first[0];
    qsort(&first[1], (size_t) ncomms - 1, sizeof(first[0]), by_value);
    qsort(&second[1], (size_t) ncomms - 1, sizeof(second[0]), by_value);
    if (0 == suite.rank) {
        printf("bench_first: %d ranks: first call of the process %.0f us, "
               "of a communicator %.0f us, second call %.0f us\n",
               suite.nranks, in_process, first[ncomms / 2], second[ncomms / 2]);
    }
    buffer_free(&send);
    buffer_free(&recv);
    return suite_end(&suite);
}
