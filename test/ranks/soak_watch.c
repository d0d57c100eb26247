/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The clock and the notes of a soak by time. Owns when ranks note and stop, what they note, and the verdict on it.
 * Makes no call that is tested.
 *
 * How: rank 0 looks at its clock and tells all. Of the notes, the largest numbers of the last quarter are compared with
 * those of the second: the first fills caches and pools.
 * Called by: soak.c.
 */
#include "soak_watch.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * By how much a resource may grow. Pools of GPU memory, mappings of it and their descriptors and events stay until
 * MPI_Finalize, and grow when more calls meet on the GPUs than before, which may happen late: this is room for two
 * lanes (38 MB each), and for those of other ranks. Staging memory and Open MPI's lists of requests and fragments grow
 * in the same way, in steps of up to 1 MiB. What leaks a little in each communicator exceeds this within an hour.
 */
static const long growth[RESOURCES] = {
    [RESOURCE_DESCRIPTORS] = 8,      [RESOURCE_MAPPINGS] = 8,        [RESOURCE_SHM_FILES] = 4,
    [RESOURCE_GPU_BYTES] = 80 << 20, [RESOURCE_GPU_ALLOCATIONS] = 8, [RESOURCE_IPC_OPEN] = 8,
    [RESOURCE_GPU_EVENTS] = 64,      [RESOURCE_PRIVATE_KIB] = 8192};

void watch_begin(watch_t *watch, MPI_Comm comm, double seconds)
{
    watch->comm = comm;
    watch->begin = MPI_Wtime();
    watch->seconds = seconds;
    watch->nnotes = 0;
}

watch_word_t watch_ask(const watch_t *watch)
{
    const double passed = MPI_Wtime() - watch->begin;
    const bool is_end = passed >= watch->seconds;
    int word = WATCH_GO_ON;
    if (is_end && watch->nnotes + 1 >= WATCH_NOTES_LEAST) {
        word = WATCH_NOTE_AND_STOP;
    } else if (is_end || passed * WATCH_NOTES >= watch->seconds * (watch->nnotes + 1)) {
        word = WATCH_NOTE;
    }
    MPI_Bcast(&word, 1, MPI_INT, 0, watch->comm);
    return (watch_word_t) word;
}

void watch_note(watch_t *watch)
{
    MPI_Barrier(watch->comm);
    malloc_trim(0); /* what is free is not held */
    resources_read(watch->notes[watch->nnotes++]);
    MPI_Barrier(watch->comm);
}

/* The largest numbers of one quarter of the notes: 1 is the second, 3 the last. */
static void quarter_most(const watch_t *watch, int quarter, long most[RESOURCES])
{
    for (int kind = 0; kind < RESOURCES; ++kind) {
        most[kind] = 0;
        for (int i = watch->nnotes * quarter / 4; i < watch->nnotes * (quarter + 1) / 4; ++i) {
            most[kind] = watch->notes[i][kind] > most[kind] ? watch->notes[i][kind] : most[kind];
        }
    }
}

void watch_end(const watch_t *watch, suite_t *suite, uint64_t on_gpus)
{
    long mine[2][RESOURCES];
    long(*all)[2][RESOURCES] = malloc(sizeof(*all) * (size_t) suite->nranks);
    quarter_most(watch, 1, mine[0]);
    quarter_most(watch, 3, mine[1]);
    for (int kind = 0; kind < RESOURCES; ++kind) {
        if (mine[1][kind] > mine[0][kind] + growth[kind]) {
            suite_fail(suite, "%ld %s in the last quarter, %ld in the second", mine[1][kind], resource_names[kind],
                       mine[0][kind]);
        }
    }
    MPI_Gather(mine, 2 * RESOURCES, MPI_LONG, all, 2 * RESOURCES, MPI_LONG, 0, watch->comm);
    if (0 == suite->rank) {
        printf("soak: %lu calls in %.0f s, %llu on the GPUs; most in the second and in the last quarter", suite->calls,
               MPI_Wtime() - watch->begin, (unsigned long long) on_gpus);
        for (int rank = 0; rank < suite->nranks; ++rank) {
            printf("; rank %d:", rank);
            for (int kind = 0; kind < RESOURCES; ++kind) {
                printf("%s %ld %ld %s", 0 == kind ? "" : ",", all[rank][0][kind], all[rank][1][kind],
                       resource_names[kind]);
            }
        }
        printf("\n");
    }
    free(all);
}
