/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Long messages between nodes take more and longer slices, in scratch that is made when the first one comes: right
 * results up and down the sizes, as many slices as the formula says, GPU memory grows once, and not by messages that
 * are not long; it is all given back by MPI_Finalize.
 *
 *   long_slices [cramped]
 *
 * Two nodes of equally many ranks. cramped: some rank cannot have that scratch; then all take short slices, on the GPUs
 * as before.
 */
#include "flight.h"

#include <cuda_runtime_api.h>
#include <string.h>

static uint64_t slice_bytes, slice_bytes_max, ipc;
static const uint64_t slices_in_flight = 4; /* the default; twice as many in long scratch */

#define IPC_SCRATCH 1
#define GRANULE ((uint64_t) 2 << 20) /* the driver's, of allocations */

/* By the emulator; 0 on a real GPU. */
static unsigned long long gauge(const char *name)
{
    unsigned long long value = 0;
    return buffer_emulator_count(name, &value) ? value : 0;
}

/* What is in use between calls, when there are no buffers. */
typedef struct memory {
    unsigned long long allocations; /* live ones, of the GPU and of pinned host memory */
    unsigned long long pinned;      /* those of pinned host memory */
    size_t gpu_bytes;               /* where peers map no user buffers: such a mapping outlives the buffer */
} memory_t;

static memory_t memory_now(void)
{
    size_t free_bytes = 0, all_bytes = 0;
    (void) cudaMemGetInfo(&free_bytes, &all_bytes);
    const unsigned long long pinned = gauge("host_allocs_live");
    return (memory_t){gauge("allocs_live") + pinned, pinned, IPC_SCRATCH == ipc ? all_bytes - free_bytes : 0};
}

static void expect_same(suite_t *suite, const char *when, memory_t before)
{
    const memory_t now = memory_now();
    if (now.allocations != before.allocations || now.gpu_bytes != before.gpu_bytes) {
        suite_fail(suite, "%s: %llu allocations and %zu bytes, there were %llu and %zu", when, now.allocations,
                   now.gpu_bytes, before.allocations, before.gpu_bytes);
    }
}

/* One call of so many doubles; its slices are counted, since with two nodes a rank sends its shard once for each. */
static void run(suite_t *suite, MPI_Comm comm, size_t count, bool in_place, bool may_be_long)
{
    const call_t call = {.comm = comm,
                         .type = value_type_find("double"),
                         .op = value_op_find("sum"),
                         .count = count,
                         .in_place = in_place,
                         .path = suite->default_path};
    const uint64_t bytes = count * sizeof(double);
    const uint64_t most = may_be_long ? slice_bytes_max : slice_bytes;
    const uint64_t slice = bytes / 8 < slice_bytes ? slice_bytes : bytes / 8 < most ? bytes / 8 : most;
    const uint64_t units = (bytes + 127) / 128, slices = (units + slice / 128 - 1) / (slice / 128);
    pvars_t before, after;

    pvars_read(&before);
    suite_call(suite, &call);
    pvars_read(&after);
    const uint64_t is_long = after.in_long_slices - before.in_long_slices,
                   sent = after.net_steps_sent - before.net_steps_sent;
    if (is_long != (may_be_long && bytes > slices_in_flight * slice_bytes)) {
        suite_fail(suite, "%zu doubles: %llu long calls", count, (unsigned long long) is_long);
    }
    if (sent != slices) {
        suite_fail(suite, "%zu doubles: %llu slices, expected %llu", count, (unsigned long long) sent,
                   (unsigned long long) slices);
    }
}

/* Up and down the sizes; beyond 4 slices of slice_bytes they are long, and beyond 8 their slices are longer. */
static void sizes_run(suite_t *suite, MPI_Comm comm, bool may_be_long)
{
    const size_t some = 8 * slice_bytes / sizeof(double);
    const size_t counts[] = {4 * some + 37, some / 4, 2 * some, some, some + 999, some / 9 + 1, 3 * some + 1, 5 * some};

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); ++i) {
        run(suite, comm, counts[i], 1 == i % 3, may_be_long);
    }
}

/* Scratch for as many slices on either side, which the other ranks of the node map, and two buffers of a shard for
 * each, which UCX may want on the GPU. The emulator counts a mapping by a descriptor as an allocation. */
static void expect_lane(suite_t *suite, memory_t before)
{
    const memory_t now = memory_now();
    const uint64_t shards =
        now.pinned > before.pinned ? 0 : 4 * slices_in_flight * slice_bytes_max / ((uint64_t) suite->nranks / 2);
    const uint64_t scratch = 4 * slices_in_flight * slice_bytes_max, grown = now.gpu_bytes - before.gpu_bytes;
    const uint64_t scratches = (uint64_t) suite->nranks / 2; /* this rank's, and those of its neighbours */
    if (0 != now.allocations && now.allocations - before.allocations != scratches + 4 * slices_in_flight) {
        suite_fail(suite, "long slices: %llu allocations, there were %llu", now.allocations, before.allocations);
    }
    if (IPC_SCRATCH == ipc && (grown < scratch || grown > scratch + shards + 2 * GRANULE)) {
        suite_fail(suite, "long slices: %llu bytes more of GPU memory, scratch has %llu, shards on the GPU %llu",
                   (unsigned long long) grown, (unsigned long long) scratch, (unsigned long long) shards);
    }
}

/* A nonblocking call on a communicator that has had none with long slices: it may have to begin again, too. */
static void run_in_flight(suite_t *suite, MPI_Comm comm)
{
    flight_t flight;
    buffer_t more;
    pvars_t before;

    run(suite, comm, slice_bytes / 2, false, false); /* the longest that is not long; of the same kind as the next */
    buffer_alloc(&more, BUFFER_DEVICE, GRANULE, 0);  /* nor is there more room than before */
    flight_make(suite, &flight, comm, "double", "sum", slice_bytes / 2 + 999, BUFFER_DEVICE, BUFFER_DEVICE, false);
    flight_fill(suite, &flight);
    pvars_read(&before);
    flight_post(suite, &flight);
    MPI_Wait(&flight.request, MPI_STATUS_IGNORE);
    flight_check(suite, &flight, "in flight");
    flight_check_path(suite, "in flight", &before, 1, 1);
    flight_free(&flight);
    buffer_free(&more);
}

int main(int argc, char **argv)
{
    suite_t suite;
    MPI_Comm copy;
    const unsigned long long allocations = memory_now().allocations, opened = gauge("ipc_live");

    suite_begin(&suite, "long_slices", &argc, &argv);
    const bool cramped = argc > 1 && 0 == strcmp(argv[1], "cramped");
    suite.default_path = PATH_ACCELERATED;
    if (!pvars_number("coll_gpuhier_slice_bytes", &slice_bytes)
        || !pvars_number("coll_gpuhier_slice_bytes_max", &slice_bytes_max) || !pvars_number("coll_gpuhier_ipc", &ipc)) {
        suite_fail(&suite, "no component");
        return suite_end(&suite);
    }
    const size_t some = 8 * slice_bytes / sizeof(double);
    run(&suite, MPI_COMM_WORLD, 4096, false, false);
    const memory_t first = memory_now();
    run(&suite, MPI_COMM_WORLD, some / 3, false, false);
    run(&suite, MPI_COMM_WORLD, some / 2, true, false);
    expect_same(&suite, "messages that are not long", first);

    sizes_run(&suite, MPI_COMM_WORLD, !cramped);
    if (!cramped) {
        expect_lane(&suite, first);
    }
    const memory_t grown = memory_now();
    sizes_run(&suite, MPI_COMM_WORLD, !cramped);
    expect_same(&suite, "more of them", grown);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    run_in_flight(&suite, copy);
    if (!cramped) {
        sizes_run(&suite, copy, true);
        expect_same(&suite, "another communicator", grown);
    }
    MPI_Comm_free(&copy);
    int rc = suite_end(&suite);
    if (memory_now().allocations != allocations || gauge("ipc_live") != opened) {
        suite_fail(&suite, "%llu allocations and %llu mappings are left", memory_now().allocations, gauge("ipc_live"));
        rc = 1;
    }
    return rc;
}
