/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A call of MPI_Iallreduce, or the start of a persistent one, from its making to the check of its result.
 *
 * Owns: a flight's buffers and values. Called by the tests of nonblocking and persistent calls.
 */
#ifndef GPUHIER_TEST_FLIGHT_H
#define GPUHIER_TEST_FLIGHT_H

#include "calls.h"

/* Owned by the caller, from flight_make() to flight_free(). */
typedef struct flight {
    value_case_t values;
    MPI_Comm comm;
    int rank; /* in comm */
    size_t count;
    bool in_place;
    bool on_engine; /* the component itself completes the call: gaps of host memory are checked, too */
    buffer_t send, recv;
    MPI_Request request;
} flight_t;

/* Allocates buffers of these kinds, and fills them with values that no other flight has. Ranks may differ in kinds. */
void flight_make(suite_t *suite, flight_t *flight, MPI_Comm comm, const char *type, const char *op, size_t count,
                 buffer_kind_t send_kind, buffer_kind_t recv_kind, bool in_place);
void flight_free(flight_t *flight);

/* New values; poison in the receive buffer unless in place. */
void flight_fill(suite_t *suite, flight_t *flight);

/*
 * New values in two steps, not in place: first they are put into `pinned` (page-locked, as long as the message); then
 * a copy is queued on the legacy default stream, and may be under way when this returns.
 */
void flight_fill_pinned(suite_t *suite, flight_t *flight, buffer_t *pinned);
void flight_fill_queue(flight_t *flight, const buffer_t *pinned);

/* MPI_Iallreduce. */
void flight_post(suite_t *suite, flight_t *flight);

/* MPI_Allreduce: returns when the flight is over. */
void flight_reduce(suite_t *suite, flight_t *flight);

/* A persistent request of the buffers; it survives MPI_Wait. False when this Open MPI has no such calls. */
bool flight_init(suite_t *suite, flight_t *flight);

/* After the request has completed: result, gaps, guards and, unless in place, the input. */
void flight_check(suite_t *suite, flight_t *flight, const char *what);

/* Between two readings of the counters: so many calls ended on the GPUs, of them so many nonblocking or persistent. */
void flight_check_path(suite_t *suite, const char *what, const pvars_t *before, uint64_t accelerated,
                       uint64_t nonblocking);

#endif /* GPUHIER_TEST_FLIGHT_H */
