/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What a staged call costs, and what it hands to the saved collective. A message is one transfer from each buffer on
 * the device that is read, and one to each that is written. The saved collective gets MPI_IN_PLACE on all ranks or on
 * none, as the program gave it, whatever memory each rank has.
 *
 *   staging [--stock]     for emulated GPUs only, whose copies are counted; with coll_gpuhier_probe 0, 16 MiB as
 *                         coll_gpuhier_stage_bytes, and coll/tuned told to take recursive doubling
 */
#include "flight.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHORTER ((size_t) 6 << 20) /* two of it fit into coll_gpuhier_stage_bytes */
#define LONGER ((size_t) 10 << 20) /* one does */

/* -- the saved collective, watched --------------------------------------------------- */

typedef int (*saved_t)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm, void *);

int ompi_coll_base_allreduce_intra_recursivedoubling(const void *sbuf, void *rbuf, int count, MPI_Datatype type,
                                                     MPI_Op op, MPI_Comm comm, void *module);

static struct {
    unsigned apart, in_place;
} seen;

/* Found before Open MPI's function of that name, which coll/tuned calls. */
int ompi_coll_base_allreduce_intra_recursivedoubling(const void *sbuf, void *rbuf, int count, MPI_Datatype type,
                                                     MPI_Op op, MPI_Comm comm, void *module)
{
    saved_t next;
    void *place = dlsym(RTLD_NEXT, "ompi_coll_base_allreduce_intra_recursivedoubling");
    memcpy(&next, &place, sizeof(next));
    if (MPI_IN_PLACE == sbuf) {
        ++seen.in_place;
    } else {
        ++seen.apart;
    }
    return next(sbuf, rbuf, count, type, op, comm, module);
}

/* -- one call ----------------------------------------------------------------------- */

typedef struct staged_call {
    const char *name;
    MPI_Comm comm;
    size_t bytes;
    buffer_kind_t send_kind, recv_kind; /* of this rank */
    bool in_place, nonblocking;
    bool watched; /* comes to the function above */
} staged_call_t;

static unsigned long long count(const char *name)
{
    unsigned long long value = 0;
    if (!buffer_emulator_count(name, &value)) {
        fprintf(stderr, "staging: these GPUs are not emulated\n");
        exit(2);
    }
    return value;
}

/* Makes the call and checks its result, the number of its copies and events, and what the saved collective got. */
static void run(suite_t *suite, const staged_call_t *c, unsigned long long copies, unsigned long long events)
{
    flight_t flight;
    flight_make(suite, &flight, c->comm, "double", "sum", c->bytes / sizeof(double), c->send_kind, c->recv_kind,
                c->in_place);
    CUDA_MUST(cudaDeviceSynchronize());
    seen.apart = seen.in_place = 0;
    const unsigned long long copies_before = count("copies"), events_before = count("event_records");
    if (c->nonblocking) {
        flight_post(suite, &flight);
        MPI_Wait(&flight.request, MPI_STATUS_IGNORE);
    } else {
        ++suite->calls;
        const void *send = c->in_place ? MPI_IN_PLACE : flight.send.message;
        if (MPI_SUCCESS
            != MPI_Allreduce(send, flight.recv.message, (int) flight.count, flight.values.type->type,
                             flight.values.op->op, c->comm)) {
            suite_fail(suite, "%s: an error", c->name);
        }
    }
    const unsigned long long copied = count("copies") - copies_before;
    const unsigned long long recorded = count("event_records") - events_before;
    flight_check(suite, &flight, c->name);
    flight_free(&flight);
    if (PATH_ANY == suite->default_path) {
        return;
    }
    if (copies != copied || events != recorded) {
        suite_fail(suite, "%s: took %llu copies and %llu events, and not %llu and %llu", c->name, copied, recorded,
                   copies, events);
    }
    if (c->watched && ((c->in_place ? 1 : 0) != seen.in_place || (c->in_place ? 0 : 1) != seen.apart)) {
        suite_fail(suite, "%s: the saved collective got %u calls in place and %u with the buffers apart", c->name,
                   seen.in_place, seen.apart);
    }
}

/* Every call on device memory, on all ranks or on one, apart and in place. */
static void run_forms(suite_t *suite, bool nonblocking)
{
    const bool mine = 0 == suite->rank;
    const buffer_kind_t here = mine ? BUFFER_DEVICE : BUFFER_HOST;
    staged_call_t c = {.comm = MPI_COMM_WORLD, .bytes = SHORTER, .nonblocking = nonblocking, .watched = !nonblocking};
    c.send_kind = c.recv_kind = BUFFER_DEVICE;
    c.name = nonblocking ? "nonblocking, apart" : "apart";
    run(suite, &c, 2, 0);
    c.in_place = true;
    c.name = nonblocking ? "nonblocking, in place" : "in place";
    run(suite, &c, 2, 0);
    c.send_kind = c.recv_kind = here;
    c.name = nonblocking ? "nonblocking, in place, on rank 0's device" : "in place, on rank 0's device";
    run(suite, &c, mine ? 2 : 0, 0);
    c.in_place = false;
    c.name = nonblocking ? "nonblocking, apart, on rank 0's device" : "apart, on rank 0's device";
    run(suite, &c, mine ? 2 : 0, 0);
    c.recv_kind = BUFFER_HOST;
    c.name = nonblocking ? "nonblocking, rank 0 sends from device memory" : "rank 0 sends from device memory";
    run(suite, &c, mine ? 1 : 0, 0);
    c.send_kind = BUFFER_HOST;
    c.recv_kind = here;
    c.name = nonblocking ? "nonblocking, rank 0 receives in device memory" : "rank 0 receives in device memory";
    run(suite, &c, mine ? 1 : 0, 0);
}

static void run_other_communicators(suite_t *suite)
{
    const int side = suite->rank % 2;
    MPI_Comm half, between;
    staged_call_t c = {.name = "one rank", .comm = MPI_COMM_SELF, .bytes = SHORTER};
    c.send_kind = c.recv_kind = BUFFER_DEVICE;
    run(suite, &c, 2, 0);
    MPI_Comm_split(MPI_COMM_WORLD, side, suite->rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - side, 3, &between);
    MPI_Comm_free(&half);
    /* The result is that of the other side's ranks, which the checks of one communicator do not know. */
    const size_t n = SHORTER / sizeof(double);
    const int theirs = 0 == side ? suite->nranks / 2 : (suite->nranks + 1) / 2;
    buffer_t send, recv;
    buffer_alloc(&send, BUFFER_DEVICE, SHORTER, 0);
    buffer_alloc(&recv, BUFFER_DEVICE, SHORTER, 0);
    double *host = calloc(n, sizeof(*host));
    for (size_t i = 0; i < n; ++i) {
        host[i] = (double) (i % 8191 + (size_t) side);
    }
    buffer_write(&send, host, SHORTER);
    const unsigned long long copies_before = count("copies"), events_before = count("event_records");
    ++suite->calls;
    if (MPI_SUCCESS != MPI_Allreduce(send.message, recv.message, (int) n, MPI_DOUBLE, MPI_SUM, between)) {
        suite_fail(suite, "an intercommunicator: an error");
    }
    const unsigned long long copied = count("copies") - copies_before;
    const unsigned long long recorded = count("event_records") - events_before;
    buffer_read(&recv, host, SHORTER);
    for (size_t i = 0; i < n; ++i) {
        if (host[i] != theirs * (double) (i % 8191 + (size_t) (1 - side))) {
            suite_fail(suite, "an intercommunicator: element %zu is wrong", i);
            break;
        }
    }
    if (PATH_ANY != suite->default_path && (2 != copied || 0 != recorded)) {
        suite_fail(suite, "an intercommunicator: took %llu copies and %llu events, and not 2 and 0", copied, recorded);
    }
    free(host);
    buffer_free(&send);
    buffer_free(&recv);
    MPI_Comm_free(&between);
}

int main(int argc, char **argv)
{
    suite_t suite;

    suite_begin(&suite, "staging", &argc, &argv);
    run_forms(&suite, false);
    run_forms(&suite, true);
    run_other_communicators(&suite);
    /* One of two host copies is page-locked. */
    staged_call_t c = {.name = "apart, longer", .comm = MPI_COMM_WORLD, .bytes = LONGER, .watched = true};
    c.send_kind = c.recv_kind = BUFFER_DEVICE;
    run(&suite, &c, 2, 0);
    c.in_place = true;
    c.name = "in place, longer";
    run(&suite, &c, 2, 0);
    return suite_end(&suite);
}
