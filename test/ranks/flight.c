/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Calls in flight; see flight.h.
 */
#include "flight.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#if OMPI_MAJOR_VERSION < 5
#    include <mpi-ext.h>
#endif

static size_t bytes_of(const flight_t *flight)
{
    return flight->count * flight->values.type->extent;
}

static unsigned char *host_bytes(const flight_t *flight)
{
    unsigned char *bytes = calloc(1, bytes_of(flight) + 1); /* so that the padding of long doubles is defined */
    if (NULL == bytes) {
        abort();
    }
    return bytes;
}

/* The input as the rank's own buffer holds it. */
static void input_fill(const flight_t *flight, void *out)
{
    value_fill(&flight->values, flight->rank, 0, flight->count, out);
    value_gaps_fill(&flight->values, flight->rank, flight->in_place ? VALUE_RECEIVE : VALUE_SEND, flight->count, out);
}

/* Poison where the result will be, but for the gaps. */
static void receive_poison(flight_t *flight)
{
    buffer_poison(&flight->recv);
    if (value_has_gaps(flight->values.type)) {
        unsigned char *bytes = host_bytes(flight);
        buffer_read(&flight->recv, bytes, bytes_of(flight));
        value_gaps_fill(&flight->values, flight->rank, VALUE_RECEIVE, flight->count, bytes);
        buffer_write(&flight->recv, bytes, bytes_of(flight));
        free(bytes);
    }
}

void flight_make(suite_t *suite, flight_t *flight, MPI_Comm comm, const char *type, const char *op, size_t count,
                 buffer_kind_t send_kind, buffer_kind_t recv_kind, bool in_place)
{
    memset(flight, 0, sizeof(*flight));
    flight->values = (value_case_t){.type = value_type_find(type), .op = value_op_find(op), .by_open_mpi = true};
    flight->comm = comm;
    flight->count = count;
    flight->in_place = in_place;
    flight->request = MPI_REQUEST_NULL;
    MPI_Comm_size(comm, &flight->values.nranks);
    MPI_Comm_rank(comm, &flight->rank);
    buffer_alloc(&flight->recv, recv_kind, bytes_of(flight), 0);
    if (!in_place) {
        buffer_alloc(&flight->send, send_kind, bytes_of(flight), 0);
    }
    flight_fill(suite, flight);
}

void flight_free(flight_t *flight)
{
    buffer_free(&flight->recv);
    if (!flight->in_place) {
        buffer_free(&flight->send);
    }
}

void flight_fill(suite_t *suite, flight_t *flight)
{
    unsigned char *input = host_bytes(flight);
    flight->values.salt = ++suite->salt;
    input_fill(flight, input);
    receive_poison(flight);
    buffer_write(flight->in_place ? &flight->recv : &flight->send, input, bytes_of(flight));
    free(input);
}

void flight_fill_pinned(suite_t *suite, flight_t *flight, buffer_t *pinned)
{
    flight->values.salt = ++suite->salt;
    input_fill(flight, pinned->message);
    receive_poison(flight);
    buffer_poison(&flight->send);
}

void flight_fill_queue(flight_t *flight, const buffer_t *pinned)
{
    CUDA_MUST(cudaMemcpyAsync(flight->send.message, pinned->message, bytes_of(flight), cudaMemcpyDefault, 0));
}

static const void *input_of(const flight_t *flight)
{
    return flight->in_place ? MPI_IN_PLACE : flight->send.message;
}

void flight_post(suite_t *suite, flight_t *flight)
{
    ++suite->calls;
    int error = MPI_Iallreduce(input_of(flight), flight->recv.message, (int) flight->count, flight->values.type->type,
                               flight->values.op->op, flight->comm, &flight->request);
    if (MPI_SUCCESS != error) {
        suite_fail(suite, "MPI_Iallreduce of %zu returned %d", flight->count, error);
        flight->request = MPI_REQUEST_NULL;
    }
}

void flight_reduce(suite_t *suite, flight_t *flight)
{
    ++suite->calls;
    int error = MPI_Allreduce(input_of(flight), flight->recv.message, (int) flight->count, flight->values.type->type,
                              flight->values.op->op, flight->comm);
    if (MPI_SUCCESS != error) {
        suite_fail(suite, "MPI_Allreduce of %zu returned %d", flight->count, error);
    }
}

bool flight_init(suite_t *suite, flight_t *flight)
{
#if OMPI_MAJOR_VERSION >= 5
    int error =
        MPI_Allreduce_init(input_of(flight), flight->recv.message, (int) flight->count, flight->values.type->type,
                           flight->values.op->op, flight->comm, MPI_INFO_NULL, &flight->request);
#elif defined(OMPI_HAVE_MPI_EXT_PCOLLREQ) && OMPI_HAVE_MPI_EXT_PCOLLREQ
    int error =
        MPIX_Allreduce_init(input_of(flight), flight->recv.message, (int) flight->count, flight->values.type->type,
                            flight->values.op->op, flight->comm, MPI_INFO_NULL, &flight->request);
#else
    int error = MPI_ERR_UNSUPPORTED_OPERATION;
    (void) flight;
    (void) suite;
    return false;
#endif
    if (MPI_SUCCESS != error) {
        suite_fail(suite, "MPI_Allreduce_init of %zu returned %d", flight->count, error);
    }
    return true;
}

/* What Open MPI's own collectives do to gaps of host memory is their business. */
static void gaps_check(suite_t *suite, const flight_t *flight, const char *what, const unsigned char *got)
{
    size_t first_wrong = 0;
    const bool staged = buffer_kind_on_device(flight->recv.kind);
    if (PATH_ANY == suite->default_path || !(flight->on_engine || staged)) {
        return;
    }
    size_t wrong = value_gaps_check(&flight->values, flight->rank, VALUE_RECEIVE, flight->count, got, &first_wrong);
    if (wrong > 0) {
        suite_fail(suite, "%s: gaps of %zu of %zu elements were written, first of element %zu", what, wrong,
                   flight->count, first_wrong);
    }
}

void flight_check(suite_t *suite, flight_t *flight, const char *what)
{
    unsigned char *got = host_bytes(flight), *input = host_bytes(flight);
    size_t first_wrong = 0;
    buffer_read(&flight->recv, got, bytes_of(flight));
    size_t wrong = value_check(&flight->values, 0, flight->count, got, &first_wrong);
    if (wrong > 0) {
        char line[256];
        value_describe(&flight->values, first_wrong, got + first_wrong * flight->values.type->extent, line,
                       sizeof(line));
        suite_fail(suite, "%s: %zu of %zu elements are wrong; %s", what, wrong, flight->count, line);
    }
    gaps_check(suite, flight, what, got);
    if (0 != buffer_check_guards(&flight->recv) || (!flight->in_place && 0 != buffer_check_guards(&flight->send))) {
        suite_fail(suite, "%s: bytes around a buffer of %zu elements were overwritten", what, flight->count);
    }
    if (!flight->in_place) {
        input_fill(flight, input);
        memset(got, 0, bytes_of(flight));
        buffer_read(&flight->send, got, bytes_of(flight));
        if (0 != memcmp(input, got, bytes_of(flight))) {
            suite_fail(suite, "%s: the send buffer was changed", what);
        }
    }
    free(got);
    free(input);
}

void flight_check_path(suite_t *suite, const char *what, const pvars_t *before, uint64_t accelerated,
                       uint64_t nonblocking)
{
    pvars_t after;
    if (PATH_ANY == suite->default_path) {
        return;
    }
    pvars_read(&after);
    if (after.accelerated - before->accelerated != accelerated
        || after.nonblocking - before->nonblocking != nonblocking) {
        suite_fail(suite, "%s: %llu calls were accelerated, %llu of them nonblocking, and not %llu and %llu", what,
                   (unsigned long long) (after.accelerated - before->accelerated),
                   (unsigned long long) (after.nonblocking - before->nonblocking), (unsigned long long) accelerated,
                   (unsigned long long) nonblocking);
    }
}
