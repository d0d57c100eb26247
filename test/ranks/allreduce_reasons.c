/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Every call that is left to Open MPI has a reason, and the counter of that reason says so: each kind of call here is
 * made with a length of its own, so that no earlier call has decided its path.
 *
 *   allreduce_reasons [off]          off: is run with coll_gpuhier_probe 0
 *   allreduce_reasons often REASON   150 calls that are staged for that reason, on odd ranks at least
 */
#include "flight.h"

#include <stdio.h>
#include <string.h>

static const char *const reasons[] = {"not_tried", "empty", "type", "host_here", "host_elsewhere", "declined",
                                      "members",   "alone", "off",  "set_up",    "memory",         "end"};
enum { REASONS = sizeof(reasons) / sizeof(reasons[0]) };

static void read_reasons(suite_t *suite, uint64_t value[REASONS], uint64_t *saved_p)
{
    char name[64];
    for (int i = 0; i < REASONS; ++i) {
        snprintf(name, sizeof(name), "coll_gpuhier_saved_%s", reasons[i]);
        if (!pvars_counter(name, &value[i])) {
            suite_fail(suite, "there is no counter %s", name);
        }
    }
    if (!pvars_counter("coll_gpuhier_calls_saved", saved_p)) {
        suite_fail(suite, "there is no counter of saved calls");
    }
}

typedef enum way { BLOCKING, NONBLOCKING, PERSISTENT } way_t;

/* One call; exactly the counter of `reason` grows by one, or none for NULL. */
static void run(suite_t *suite, MPI_Comm comm, way_t way, const char *type, size_t count, buffer_kind_t kind,
                const char *reason)
{
    flight_t flight;
    uint64_t before[REASONS], after[REASONS], saved_before, saved;
    char what[96];
    snprintf(what, sizeof(what), "way %d: %zu of %s from %s", (int) way, count, type, buffer_kind_name(kind));
    read_reasons(suite, before, &saved_before);
    flight_make(suite, &flight, comm, type, "sum", count, kind, kind, false);
    if (BLOCKING == way) {
        flight_reduce(suite, &flight);
    } else if (NONBLOCKING == way) {
        flight_post(suite, &flight);
        MPI_Wait(&flight.request, MPI_STATUS_IGNORE);
    } else if (flight_init(suite, &flight)) {
        ++suite->calls;
        MPI_Start(&flight.request);
        MPI_Wait(&flight.request, MPI_STATUS_IGNORE);
        MPI_Request_free(&flight.request);
    } else {
        flight_free(&flight);
        return; /* this Open MPI has no persistent collectives */
    }
    flight_check(suite, &flight, what);
    flight_free(&flight);
    read_reasons(suite, after, &saved);
    for (int i = 0; i < REASONS; ++i) {
        const uint64_t expected = NULL != reason && 0 == strcmp(reason, reasons[i]) ? 1 : 0;
        if (expected != after[i] - before[i]) {
            suite_fail(suite, "%s: the counter %s grew by %llu, not %llu", what, reasons[i],
                       (unsigned long long) (after[i] - before[i]), (unsigned long long) expected);
        }
    }
    if ((NULL == reason ? 0u : 1u) != saved - saved_before) {
        suite_fail(suite, "%s: %llu calls were left to Open MPI", what, (unsigned long long) (saved - saved_before));
    }
}

/* Calls that are staged again and again: nonblocking ones are, whether or not Open MPI takes GPU memory. */
static void often(suite_t *suite, bool odd, const char *reason)
{
    if (0 == strcmp(reason, "type")) {
        run(suite, MPI_COMM_WORLD, BLOCKING, "double", 100, BUFFER_DEVICE, NULL);
    } else if (0 == strcmp(reason, "host_elsewhere")) {
        run(suite, MPI_COMM_WORLD, BLOCKING, "double", 100, BUFFER_DEVICE, NULL);
        run(suite, MPI_COMM_WORLD, BLOCKING, "double", 30000, odd ? BUFFER_DEVICE : BUFFER_HOST,
            odd ? reason : "host_here");
    }
    for (int i = 0; i < 150; ++i) {
        if (0 == strcmp(reason, "type")) {
            run(suite, MPI_COMM_WORLD, NONBLOCKING, "long_double", 100, BUFFER_DEVICE, reason);
        } else if (0 == strcmp(reason, "host_elsewhere")) {
            run(suite, MPI_COMM_WORLD, NONBLOCKING, "double", 30000, odd ? BUFFER_DEVICE : BUFFER_HOST,
                odd ? reason : "host_here");
        } else {
            run(suite, MPI_COMM_WORLD, NONBLOCKING, "double", 100, BUFFER_DEVICE, reason);
        }
    }
}

int main(int argc, char **argv)
{
    suite_t suite;
    suite_begin(&suite, "allreduce_reasons", &argc, &argv);
    const bool odd = 1 == suite.rank % 2;
    if (argc > 2 && 0 == strcmp(argv[1], "often")) {
        often(&suite, odd, argv[2]);
    } else if (argc > 1 && 0 == strcmp(argv[1], "off")) {
        run(&suite, MPI_COMM_WORLD, BLOCKING, "double", 100, BUFFER_DEVICE, "off");
        run(&suite, MPI_COMM_WORLD, NONBLOCKING, "double", 100, BUFFER_DEVICE, "off");
        run(&suite, MPI_COMM_WORLD, PERSISTENT, "double", 100, BUFFER_DEVICE, "off");
    } else {
        run(&suite, MPI_COMM_WORLD, NONBLOCKING, "double", 100, BUFFER_DEVICE, "not_tried");
        run(&suite, MPI_COMM_WORLD, BLOCKING, "double", 100, BUFFER_DEVICE, NULL);
        run(&suite, MPI_COMM_WORLD, NONBLOCKING, "double", 100, BUFFER_DEVICE, NULL);
        run(&suite, MPI_COMM_WORLD, NONBLOCKING, "double", 1000, BUFFER_DEVICE, "not_tried");
        run(&suite, MPI_COMM_WORLD, BLOCKING, "double", 10000, BUFFER_HOST, "host_here");
        run(&suite, MPI_COMM_WORLD, BLOCKING, "double", 30000, odd ? BUFFER_DEVICE : BUFFER_HOST,
            odd ? "host_elsewhere" : "host_here");
        run(&suite, MPI_COMM_WORLD, NONBLOCKING, "double", 30000, BUFFER_DEVICE, odd ? "host_elsewhere" : "host_here");
        run(&suite, MPI_COMM_WORLD, BLOCKING, "long_double", 100, BUFFER_DEVICE, "type");
        run(&suite, MPI_COMM_WORLD, PERSISTENT, "long_double", 100, BUFFER_DEVICE, "type");
        run(&suite, MPI_COMM_SELF, BLOCKING, "double", 100, BUFFER_DEVICE, "alone");
        run(&suite, MPI_COMM_SELF, NONBLOCKING, "double", 100, BUFFER_DEVICE, "alone");
    }
    return suite_end(&suite);
}
