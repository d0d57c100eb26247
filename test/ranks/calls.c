/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * One checked call of MPI_Allreduce with its CUDA buffers; see calls.h.
 */
#include "calls.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void suite_choose_gpu(void)
{
    const char *local = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
    int ngpus = 0;

    CUDA_MUST(cudaGetDeviceCount(&ngpus));
    CUDA_MUST(cudaSetDevice((NULL == local ? 0 : atoi(local)) % ngpus));
    /* Makes the context now: the component must not make it. */
    CUDA_MUST(cudaFree(NULL));
}

void suite_begin(suite_t *suite, const char *name, int *argc_p, char ***argv_p)
{
    suite_begin_host(suite, name, argc_p, argv_p);
    suite_choose_gpu();
}

/* The host's copies of one call's data. */
typedef struct host_copy {
    unsigned char *input;
    unsigned char *output;
} host_copy_t;

static void check_output(suite_t *suite, const call_t *call, const value_case_t *c, const char *what,
                         const buffer_t *recv, unsigned char *host)
{
    size_t first_wrong = 0;

    buffer_read(recv, host, recv->bytes);
    size_t wrong = value_check(c, 0, call->count, host, &first_wrong);
    if (wrong > 0) {
        char line[256];
        value_describe(c, first_wrong, host + first_wrong * call->type->extent, line, sizeof(line));
        suite_fail(suite, "%s: %zu of %zu elements are wrong; %s", what, wrong, call->count, line);
    }
}

/* What Open MPI's own collectives do to gaps of host memory is their business. */
static bool keeps_gaps(const suite_t *suite, const call_t *call, const pvars_t *before)
{
    pvars_t after;

    pvars_read(&after);
    return PATH_ANY != suite->default_path
           && (after.accelerated != before->accelerated || buffer_kind_on_device(call->recv_kind));
}

static void check_gaps(suite_t *suite, const call_t *call, const value_case_t *c, int rank, const char *what,
                       const unsigned char *output)
{
    size_t first_wrong = 0;
    size_t wrong = value_gaps_check(c, rank, VALUE_RECEIVE, call->count, output, &first_wrong);

    if (wrong > 0) {
        suite_fail(suite, "%s: gaps of %zu of %zu elements were written, first of element %zu", what, wrong,
                   call->count, first_wrong);
    }
}

static void check_path(suite_t *suite, const call_t *call, const char *what, const pvars_t *before)
{
    pvars_t after;

    if (PATH_ANY == call->path || PATH_ANY == suite->default_path) {
        return;
    }
    pvars_read(&after);
    if (!after.present) {
        suite_fail(suite, "%s: the component's counters are missing: is it loaded?", what);
        return;
    }
    uint64_t accelerated = after.accelerated - before->accelerated;
    if (PATH_ACCELERATED == call->path && 1 != accelerated) {
        suite_fail(suite, "%s: was not accelerated (saved %llu, staged %llu)", what,
                   (unsigned long long) (after.saved - before->saved),
                   (unsigned long long) (after.staged - before->staged));
    }
    uint64_t small_bytes = 0;
    if (1 == accelerated && pvars_number("coll_gpuhier_small_bytes", &small_bytes)) {
        uint64_t wanted = call->count * call->type->extent <= small_bytes ? 1 : 0;
        const uint64_t oneshot =
            after.oneshot - before->oneshot; /* on GPUs of their own the ranks leave the host out */
        const char *least = getenv("GPUHIER_EXPECT_ONESHOT");
        if (NULL != least && call->count * call->type->extent <= strtoull(least, NULL, 10) && 1 != oneshot) {
            suite_fail(suite, "%s: did not take the one-shot form", what);
        }
        const char *most = getenv("GPUHIER_MOST_ONESHOT");
        if (NULL != most && call->count * call->type->extent > strtoull(most, NULL, 10) && 0 != oneshot) {
            suite_fail(suite, "%s: took the one-shot form", what);
        }
        const char *mapped = getenv("GPUHIER_EXPECT_MAPPED"); /* the host reads and writes plain memory of its GPU */
        const bool plain = BUFFER_DEVICE == call->recv_kind && (call->in_place || BUFFER_DEVICE == call->send_kind);
        if (NULL != mapped && plain && !value_has_gaps(call->type)
            && call->count * call->type->extent <= strtoull(mapped, NULL, 10) && 1 != after.mapped - before->mapped) {
            suite_fail(suite, "%s: was not read and written by the host", what);
        }
        if (wanted != after.small - before->small && !(1 == wanted && 1 == oneshot)) {
            suite_fail(suite, "%s: was %sreduced by the host", what, 1 == wanted ? "not " : "");
        }
    }
    if (PATH_SAVED == call->path) {
        const bool on_device =
            buffer_kind_on_device(call->recv_kind) || (!call->in_place && buffer_kind_on_device(call->send_kind));
        const uint64_t staged = on_device ? 1 : 0;
        if (0 != accelerated) {
            suite_fail(suite, "%s: was accelerated, but should not be", what);
        } else if (staged != after.staged - before->staged) {
            suite_fail(suite, "%s: was %sstaged", what, 0 == staged ? "" : "not ");
        }
    }
}

void suite_check_paths(suite_t *suite, const char *what, const pvars_t *before, uint64_t accelerated, uint64_t staged)
{
    pvars_t after;

    if (PATH_ANY == suite->default_path) {
        return;
    }
    pvars_read(&after);
    if (accelerated != after.accelerated - before->accelerated || staged != after.staged - before->staged) {
        suite_fail(suite, "%s: %llu calls were accelerated and %llu staged, and not %llu and %llu", what,
                   (unsigned long long) (after.accelerated - before->accelerated),
                   (unsigned long long) (after.staged - before->staged), (unsigned long long) accelerated,
                   (unsigned long long) staged);
    }
}

bool suite_call(suite_t *suite, const call_t *call)
{
    MPI_Comm comm = MPI_COMM_NULL == call->comm ? MPI_COMM_WORLD : call->comm;
    value_case_t c = {call->type, call->op, 0, ++suite->salt, PATH_ACCELERATED != call->path, call->twice};
    unsigned long failures = suite->failures;
    size_t bytes = call->count * call->type->extent;
    buffer_t send = {0}, recv;
    char what[192];
    int rank;
    pvars_t before;

    MPI_Comm_size(comm, &c.nranks);
    MPI_Comm_rank(comm, &rank);
    snprintf(what, sizeof(what), "%s %s count %zu, %s+%zu to %s+%zu%s, %d ranks", call->type->name, call->op->name,
             call->count, buffer_kind_name(call->send_kind), call->send_offset, buffer_kind_name(call->recv_kind),
             call->recv_offset, call->in_place ? " in place" : "", c.nranks);

    /* calloc, so that the padding of long doubles is defined. */
    unsigned char *input = calloc(1, bytes + 1);
    unsigned char *output = calloc(1, bytes + 1);
    if (NULL == input || NULL == output) {
        suite_fail(suite, "%s: no memory", what);
        free(input);
        free(output);
        return false;
    }
    value_fill(&c, rank, 0, call->count, input);
    value_gaps_fill(&c, rank, call->in_place ? VALUE_RECEIVE : VALUE_SEND, call->count, input);
    buffer_alloc(&recv, call->recv_kind, bytes, call->recv_offset);
    if (call->in_place) {
        buffer_write(&recv, input, bytes);
    } else {
        buffer_alloc(&send, call->send_kind, bytes, call->send_offset);
        buffer_write(&send, input, bytes);
    }
    if (!call->in_place && value_has_gaps(c.type)) {
        buffer_read(&recv, output, bytes);
        value_gaps_fill(&c, rank, VALUE_RECEIVE, call->count, output);
        buffer_write(&recv, output, bytes);
    }

    pvars_read(&before);
    int error = MPI_Allreduce(call->in_place ? MPI_IN_PLACE : send.message, recv.message, (int) call->count,
                              call->type->type, call->op->op, comm);
    ++suite->calls;
    if (MPI_SUCCESS != error) {
        char text[MPI_MAX_ERROR_STRING];
        int length;
        MPI_Error_string(error, text, &length);
        suite_fail(suite, "%s: %s", what, text);
    } else {
        check_output(suite, call, &c, what, &recv, output);
        if (keeps_gaps(suite, call, &before)) {
            check_gaps(suite, call, &c, rank, what, output);
        }
    }
    check_path(suite, call, what, &before);
    if (0 != buffer_check_guards(&recv)) {
        suite_fail(suite, "%s: %zu bytes around the receive buffer were overwritten", what, buffer_check_guards(&recv));
    }
    if (!call->in_place) {
        if (0 != buffer_check_guards(&send)) {
            suite_fail(suite, "%s: %zu bytes around the send buffer were overwritten", what,
                       buffer_check_guards(&send));
        }
        buffer_read(&send, output, bytes);
        if (0 != memcmp(input, output, bytes)) {
            suite_fail(suite, "%s: the send buffer was changed", what);
        }
        buffer_free(&send);
    }
    buffer_free(&recv);
    free(input);
    free(output);
    return failures == suite->failures;
}
