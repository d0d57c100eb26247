/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Communicators of one rank: blocking, nonblocking and persistent calls, with device, host and mixed buffers, in place
 * and not. A persistent request is started twice. Device buffers never reach Open MPI's own collectives: the calls are
 * staged.
 *
 *   allreduce_alone [--stock]
 */
#include "flight.h"

#include <stdio.h>

static void must(suite_t *suite, int error, const char *what)
{
    if (MPI_SUCCESS != error) {
        suite_fail(suite, "%s returned %d", what, error);
    }
}

static void run(suite_t *suite, MPI_Comm comm, size_t count, buffer_kind_t send, buffer_kind_t recv, bool in_place)
{
    flight_t flight;
    pvars_t before;
    char what[96];
    snprintf(what, sizeof(what), "%zu from %s to %s%s", count, buffer_kind_name(send), buffer_kind_name(recv),
             in_place ? ", in place" : "");
    pvars_read(&before);
    flight_make(suite, &flight, comm, "double", "sum", count, send, recv, in_place);
    flight_reduce(suite, &flight);
    flight_check(suite, &flight, what);
    uint64_t staged = 1; /* blocking, nonblocking, starts */

    flight_fill(suite, &flight);
    flight_post(suite, &flight);
    must(suite, MPI_Wait(&flight.request, MPI_STATUS_IGNORE), "MPI_Wait");
    flight_check(suite, &flight, what);

    ++staged;
    if (flight_init(suite, &flight)) {
        for (int start = 0; start < 4; ++start, ++staged) {
            flight_fill(suite, &flight);
            ++suite->calls;
            must(suite, start < 2 ? MPI_Start(&flight.request) : MPI_Startall(1, &flight.request), "MPI_Start");
            must(suite, MPI_Wait(&flight.request, MPI_STATUS_IGNORE), "MPI_Wait of a persistent request");
            flight_check(suite, &flight, what);
        }
        must(suite, MPI_Request_free(&flight.request), "MPI_Request_free");
    }
    flight_free(&flight);
    const bool on_device = BUFFER_DEVICE == recv || (BUFFER_DEVICE == send && !in_place);
    suite_check_paths(suite, what, &before, 0, on_device ? staged : 0);
}

int main(int argc, char **argv)
{
    static const size_t counts[] = {1, 20000};
    suite_t suite;
    MPI_Comm split;
    suite_begin(&suite, "allreduce_alone", &argc, &argv);
    MPI_Comm_split(MPI_COMM_WORLD, suite.rank, 0, &split);
    for (int i = 0; i < 4; ++i) {
        const MPI_Comm comm = i < 2 ? MPI_COMM_SELF : split;
        for (int in_place = 0; in_place < 2; ++in_place) {
            run(&suite, comm, counts[i % 2], BUFFER_DEVICE, BUFFER_DEVICE, 1 == in_place);
            run(&suite, comm, counts[i % 2], BUFFER_HOST, BUFFER_DEVICE, 1 == in_place);
            run(&suite, comm, counts[i % 2], BUFFER_DEVICE, BUFFER_HOST, 1 == in_place);
            run(&suite, comm, counts[i % 2], BUFFER_HOST, BUFFER_HOST, 1 == in_place);
        }
    }
    MPI_Comm_free(&split);
    return suite_end(&suite);
}
