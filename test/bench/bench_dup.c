/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the component adds to MPI_Comm_dup: with it and without, in turn, each first as often as the other.
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>

#define DUPS 200

static double one(const bench_place_t *place, bool enabled)
{
    MPI_Comm copy;
    pvars_enable(enabled);
    MPI_Barrier(place->control);
    double began = MPI_Wtime();
    MPI_Comm_dup(place->control, &copy);
    double seconds = MPI_Wtime() - began;
    MPI_Comm_free(&copy);
    return seconds;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

/* The median over samples of the slowest rank's time. */
static double median(double *samples, MPI_Comm comm)
{
    MPI_Allreduce(MPI_IN_PLACE, samples, DUPS, MPI_DOUBLE, MPI_MAX, comm);
    qsort(samples, DUPS, sizeof(double), compare);
    return samples[DUPS / 2];
}

void bench_dup_report(const bench_place_t *place)
{
    static double with[DUPS], without[DUPS];

    for (int i = 0; i < DUPS; ++i) {
        for (int turn = 0; turn < 2; ++turn) {
            if (turn == i % 2) {
                with[i] = one(place, true);
            } else {
                without[i] = one(place, false);
            }
        }
    }
    pvars_enable(true);
    double mine = median(with, place->control), stock = median(without, place->control);
    if (0 == place->rank) {
        printf("# MPI_Comm_dup: %.1f us with the component, %.1f us without it, x %.2f\n", mine * 1e6, stock * 1e6,
               stock / mine);
    }
}
