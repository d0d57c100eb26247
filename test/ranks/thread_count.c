/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The component has no thread of its own: calls move when the program is inside MPI. So a process has as many threads
 * as before its first accelerated call, after that and while many nonblocking and persistent calls are in flight.
 * Between nodes one comes with UCX, which has its connections taken by it.
 *
 *   thread_count     for emulated GPUs that do all work at once; others have threads of their own
 */
#include "flight.h"

#include <cuda_runtime_api.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NFLIGHTS 32
#define COUNT 30001

#define UCX_THREAD "async"

/* Writes the threads' names, one after the other, to names. Between nodes UCX's own is not counted. */
static int count_threads(char *names, size_t room)
{
    const char *nodes = getenv("VCLUSTER_NODES");
    const bool one_node = NULL != nodes && 1 == atoi(nodes);
    DIR *tasks = opendir("/proc/self/task");
    int count = 0;

    names[0] = '\0';
    for (struct dirent *task = NULL == tasks ? NULL : readdir(tasks); NULL != task; task = readdir(tasks)) {
        char path[300], name[32] = "?\n";
        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", task->d_name);
        FILE *file = '.' == task->d_name[0] ? NULL : fopen(path, "r");
        if (NULL == file) {
            continue;
        }
        if (NULL != fgets(name, sizeof(name), file)) {
            name[strcspn(name, "\n")] = '\0';
        }
        fclose(file);
        snprintf(names + strlen(names), room - strlen(names), " %s", name);
        count += one_node || 0 != strcmp(name, UCX_THREAD);
    }
    if (NULL != tasks) {
        closedir(tasks);
    }
    return count;
}

static void expect_threads(suite_t *suite, int wanted, const char *when)
{
    char names[1024];
    const int count = count_threads(names, sizeof(names));

    if (count != wanted && 0 == suite->failures) { /* once is enough */
        suite_fail(suite, "%s there are %d threads and not %d:%s", when, count, wanted, names);
    }
}

/* What a program without accelerated calls does: a stream of its own, and collectives of Open MPI's. */
static int threads_without(MPI_Comm *comm_p)
{
    char names[1024];
    int sum = 0, one = 1;
    cudaStream_t stream;
    MPI_Request request;
    buffer_t buffer;

    buffer_alloc(&buffer, BUFFER_DEVICE, 1 << 20, 0);
    CUDA_MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA_MUST(cudaMemsetAsync(buffer.message, 0, buffer.bytes, stream));
    CUDA_MUST(cudaStreamSynchronize(stream));
    CUDA_MUST(cudaStreamDestroy(stream));
    buffer_free(&buffer);
    MPI_Comm_dup(MPI_COMM_WORLD, comm_p);
    MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, *comm_p, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Barrier(*comm_p);
    return count_threads(names, sizeof(names));
}

static void fly(suite_t *suite, MPI_Comm comm, int wanted)
{
    static flight_t flights[NFLIGHTS];
    MPI_Request requests[NFLIGHTS];
    pvars_t before;
    int done = 0;

    for (int i = 0; i < NFLIGHTS; ++i) {
        flight_make(suite, &flights[i], comm, "double", "sum", COUNT, BUFFER_DEVICE, BUFFER_DEVICE, 0 == i % 3);
    }
    MPI_Barrier(comm);
    pvars_read(&before);
    for (int i = 0; i < NFLIGHTS; ++i) {
        flight_post(suite, &flights[i]);
        requests[i] = flights[i].request;
        expect_threads(suite, wanted, "with calls in flight");
    }
    while (!done && MPI_SUCCESS == MPI_Testall(NFLIGHTS, requests, &done, MPI_STATUSES_IGNORE)) {
        expect_threads(suite, wanted, "while calls move");
    }
    for (int i = 0; i < NFLIGHTS; ++i) {
        flight_check(suite, &flights[i], "a call whose threads were counted");
        flight_free(&flights[i]);
    }
    flight_check_path(suite, "calls whose threads were counted", &before, NFLIGHTS, NFLIGHTS);
}

static void start_persistent(suite_t *suite, MPI_Comm comm, int wanted)
{
    flight_t flight;

    flight_make(suite, &flight, comm, "double", "sum", COUNT, BUFFER_DEVICE, BUFFER_DEVICE, false);
    if (flight_init(suite, &flight)) {
        ++suite->calls;
        MPI_Start(&flight.request);
        expect_threads(suite, wanted, "with a persistent request started");
        MPI_Wait(&flight.request, MPI_STATUS_IGNORE);
        flight_check(suite, &flight, "a persistent request");
        MPI_Request_free(&flight.request);
    }
    flight_free(&flight);
}

int main(int argc, char **argv)
{
    const char *async = getenv("CUDASIM_ASYNC");
    unsigned long long opens;
    suite_t suite;
    MPI_Comm comm;

    suite_begin(&suite, "thread_count", &argc, &argv);
    if (!buffer_emulator_count("ipc_opens", &opens) || (NULL != async && 0 != strcmp(async, "eager"))) {
        printf("thread_count: these GPUs may have threads of their own\n");
        pvars_close();
        MPI_Finalize();
        return 77;
    }
    const int wanted = threads_without(&comm);
    call_t call = {.comm = comm,
                   .type = value_type_find("double"),
                   .op = value_op_find("sum"),
                   .count = COUNT,
                   .path = PATH_ACCELERATED};
    suite_call(&suite, &call);
    expect_threads(&suite, wanted, "after the first accelerated call");
    fly(&suite, comm, wanted);
    start_persistent(&suite, comm, wanted);
    MPI_Comm_free(&comm);
    return suite_end(&suite);
}
