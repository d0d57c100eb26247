/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Prints the form that warm calls take, a line for each kind of memory and way to call, as rank 0 sees it from outside:
 * by the component's counters, and the emulator's counts of kernels (k) and copies (c). The last result is checked.
 * unit/forms compares the lines with a golden file. The calls are those of MPI_Allreduce, or of a collective with
 * blocks of unlike length: the first rank's has half as many bytes as there are for each, the last rank's has the rest.
 *
 *   forms MEMORY[,MEMORY...] BYTES...      MEMORY: or allgatherv, reduce_scatter
 *
 *   device blocking: 8 one-shot 1k 0c, 16384 slices 1k 0c
 */
#include "calls.h"
#include "flight.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WARM 6 /* calls before the one that is looked at: by then buffers are mapped, and probes have been answered */

static const struct memory {
    const char *key;
    const char *name;
    buffer_kind_t kind;  /* of rank 0 */
    buffer_kind_t other; /* of the other ranks */
    const char *type;    /* of which a sum is made */
    enum { ALLREDUCE, ALLGATHERV, REDUCE_SCATTER } call;
} memories[] = {
    {"device", "device", BUFFER_DEVICE, BUFFER_DEVICE, "int64", ALLREDUCE},
    {"doubles", "device, doubles,", BUFFER_DEVICE, BUFFER_DEVICE, "double", ALLREDUCE},
    {"pool", "pool on rank 0,", BUFFER_POOL, BUFFER_DEVICE, "int64", ALLREDUCE},
    {"host", "host", BUFFER_HOST, BUFFER_HOST, "int64", ALLREDUCE},
    {"allgatherv", "MPI_Allgatherv", BUFFER_DEVICE, BUFFER_DEVICE, "int64", ALLGATHERV},
    {"reduce_scatter", "MPI_Reduce_scatter", BUFFER_DEVICE, BUFFER_DEVICE, "int64", REDUCE_SCATTER},
};
#define NMEMORIES (sizeof(memories) / sizeof(memories[0]))

/* What one call added to all that is counted. */
typedef struct counts {
    pvars_t pvars;
    uint64_t in_switch, linked;
    unsigned long long kernels, copies;
} counts_t;

static counts_t counts_read(void)
{
    counts_t counts = {0};
    pvars_read(&counts.pvars);
    (void) pvars_counter("coll_gpuhier_calls_switch", &counts.in_switch);
    (void) pvars_counter("coll_gpuhier_link_bytes", &counts.linked);
    (void) buffer_emulator_count("launches", &counts.kernels);
    (void) buffer_emulator_count("copies", &counts.copies);
    return counts;
}

static const char *form_of(const counts_t *a, const counts_t *b)
{
    if (b->pvars.saved > a->pvars.saved) {
        return b->pvars.staged > a->pvars.staged ? "staged" : "saved";
    }
    if (b->pvars.on_host > a->pvars.on_host) {
        return "declined";
    }
    if (b->pvars.accelerated == a->pvars.accelerated) {
        return "uncounted";
    }
    if (b->pvars.small > a->pvars.small) {
        return b->pvars.mapped > a->pvars.mapped ? "words by the host" : "words by copies";
    }
    return b->pvars.oneshot > a->pvars.oneshot ? "one-shot" : b->in_switch > a->in_switch ? "switched" : "slices";
}

static void one(suite_t *suite, flight_t *flight, bool blocking)
{
    if (blocking) {
        flight_reduce(suite, flight);
    } else {
        flight_post(suite, flight);
        MPI_Wait(&flight->request, MPI_STATUS_IGNORE);
    }
}

/* Where the block of a rank begins; of nranks: the end of all. */
static int place_of(const suite_t *suite, const flight_t *flight, int rank)
{
    const int each = (int) flight->count / suite->nranks;
    return 0 == rank ? 0 : rank == suite->nranks ? (int) flight->count : each / 2 + (rank - 1) * each;
}

static void lists_one(suite_t *suite, flight_t *flight, bool gathers, bool blocking)
{
    const int n = suite->nranks, me = suite->rank;
    const int64_t *in = (const int64_t *) (const void *) flight->send.message;
    int64_t *out = (int64_t *) (void *) flight->recv.message;
    int counts[n], places[n];
    for (int i = 0; i < n; ++i) {
        places[i] = place_of(suite, flight, i);
        counts[i] = place_of(suite, flight, i + 1) - places[i];
    }
    if (gathers && blocking) {
        MPI_Allgatherv(in + places[me], counts[me], MPI_INT64_T, out, counts, places, MPI_INT64_T, MPI_COMM_WORLD);
    } else if (gathers) {
        MPI_Iallgatherv(in + places[me], counts[me], MPI_INT64_T, out, counts, places, MPI_INT64_T, MPI_COMM_WORLD,
                        &flight->request);
    } else if (blocking) {
        MPI_Reduce_scatter(in, out, counts, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    } else {
        MPI_Ireduce_scatter(in, out, counts, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD, &flight->request);
    }
    MPI_Wait(&flight->request, MPI_STATUS_IGNORE);
    ++suite->calls;
}

static void lists_check(suite_t *suite, const flight_t *flight, bool gathers)
{
    const int n = suite->nranks, me = suite->rank, first = place_of(suite, flight, me);
    int64_t *got = malloc(2 * flight->count * sizeof(*got)), *want = got + flight->count;
    size_t wrong = 0, at = 0;
    buffer_read(&flight->recv, got, flight->count * sizeof(*got));
    for (int rank = 0; gathers && rank < n; ++rank) {
        const int begin = place_of(suite, flight, rank), end = place_of(suite, flight, rank + 1);
        value_fill(&flight->values, rank, (size_t) begin, (size_t) (end - begin), want + begin);
    }
    wrong = gathers ? 0 != memcmp(got, want, flight->count * sizeof(*got))
                    : value_check(&flight->values, (size_t) first, (size_t) (place_of(suite, flight, me + 1) - first),
                                  got, &at);
    if (0 != wrong) {
        suite_fail(suite, "%s of %zu ints: wrong", gathers ? "MPI_Allgatherv" : "MPI_Reduce_scatter", flight->count);
    }
    free(got);
}

static void show(suite_t *suite, const struct memory *memory, bool blocking, size_t bytes)
{
    const buffer_kind_t kind = 0 == suite->rank ? memory->kind : memory->other;
    flight_t flight;
    counts_t before = {0}, after = {0};

    flight_make(suite, &flight, MPI_COMM_WORLD, memory->type, "sum", bytes / 8, kind, kind, false);
    for (int i = 0; i <= WARM; ++i) {
        if (WARM == i) {
            flight_fill(suite, &flight);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        const bool waits = blocking || i < WARM / 2; /* a nonblocking call finds what blocking ones have learned */
        before = counts_read();
        if (ALLREDUCE == memory->call) {
            one(suite, &flight, waits);
        } else {
            lists_one(suite, &flight, ALLGATHERV == memory->call, waits);
        }
        after = counts_read();
    }
    if (ALLREDUCE == memory->call) {
        flight_check(suite, &flight, memory->name);
    } else {
        lists_check(suite, &flight, ALLGATHERV == memory->call);
    }
    flight_free(&flight);
    if (0 == suite->rank) {
        printf(" %zu %s %lluk %lluc", bytes, form_of(&before, &after), after.kernels - before.kernels,
               after.copies - before.copies);
        if (after.pvars.net_steps_sent > before.pvars.net_steps_sent) {
            printf(" %llu steps", (unsigned long long) (after.pvars.net_steps_sent - before.pvars.net_steps_sent));
        }
        printf("%s%s", after.pvars.in_long_slices > before.pvars.in_long_slices ? " long" : "",
               after.linked > before.linked ? " linked" : "");
    }
}

static void show_line(suite_t *suite, const struct memory *memory, bool blocking, int nsizes, char **sizes)
{
    if (0 == suite->rank) {
        printf("%s %s:", memory->name, blocking ? "blocking" : "nonblocking");
    }
    for (int i = 0; i < nsizes; ++i) {
        show(suite, memory, blocking, strtoul(sizes[i], NULL, 0));
        if (0 == suite->rank) {
            printf("%s", i + 1 < nsizes ? "," : "\n");
        }
    }
}

int main(int argc, char **argv)
{
    suite_t suite;
    suite_begin(&suite, "forms", &argc, &argv);
    for (char *rest = NULL, *key = argc > 1 ? strtok_r(argv[1], ",", &rest) : NULL; NULL != key;
         key = strtok_r(NULL, ",", &rest)) {
        size_t m = 0;
        while (m < NMEMORIES && 0 != strcmp(key, memories[m].key)) {
            ++m;
        }
        if (NMEMORIES == m) {
            suite_fail(&suite, "there is no kind of memory '%s'", key);
            break;
        }
        show_line(&suite, &memories[m], true, argc - 2, argv + 2);
        show_line(&suite, &memories[m], false, argc - 2, argv + 2);
    }
    return suite_end(&suite);
}
