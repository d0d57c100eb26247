/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Sessions: communicators made from a group, without MPI_Init and beside it, in sessions that come
 * and go. Skipped where Open MPI has none.
 *
 *   sessions alone    one session and nothing else: when the last one ends, Open MPI 5.0.7 with CUDA closes
 *                     down, and crashes by itself in the next MPI_Session_init
 *   sessions beside   three, one after the other, in a program that has called MPI_Init
 *   sessions last     as alone; the GPU of the last rank is slow, and the others end their session while it still is in
 *                     the last call
 *   sessions after     a session outlives MPI_Finalize, and only ranks 0 and 1 have used their GPUs before that
 *
 * At the end the component has released its GPU memory and unmapped others', and UCX's thread is gone.
 */
#include "calls.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if OMPI_MAJOR_VERSION >= 5

#    define ROUNDS 3
#    define CALLS 5

/* Longest delay of one piece of GPU work, far more than others need to leave and a waiting rank to notice that. */
#    define SLOW_US "150000"

#    define UCX_THREAD "async\n"

static void be_slow_if_last(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *size = getenv("OMPI_COMM_WORLD_SIZE");
    if (NULL != rank && NULL != size && atoi(rank) + 1 == atoi(size)) {
        setenv("CUDASIM_ASYNC", "thread", 1);
        setenv("CUDASIM_MAX_DELAY_US", SLOW_US, 1);
    }
}

/* By the emulator's count, of this process; 0 where the GPUs are not emulated. */
static unsigned long long gauge(const char *name)
{
    unsigned long long value = 0;
    return buffer_emulator_count(name, &value) ? value : 0;
}

static bool has_ucx_thread(void)
{
    DIR *tasks = opendir("/proc/self/task");
    bool found = false;

    for (struct dirent *task = NULL == tasks ? NULL : readdir(tasks); NULL != task; task = readdir(tasks)) {
        char path[300], name[32] = "";
        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", task->d_name);
        FILE *file = '.' == task->d_name[0] ? NULL : fopen(path, "r");
        if (NULL != file) {
            found = found || (NULL != fgets(name, sizeof(name), file) && 0 == strcmp(UCX_THREAD, name));
            fclose(file);
        }
    }
    if (NULL != tasks) {
        closedir(tasks);
    }
    return found;
}

/* A session with a communicator of all. */
static bool session_begin(suite_t *suite, int round, MPI_Session *session, MPI_Comm *comm)
{
    MPI_Group group;

    if (MPI_SUCCESS != MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, session)) {
        suite_fail(suite, "round %d: MPI_Session_init failed", round);
        return false;
    }
    MPI_Group_from_session_pset(*session, "mpi://WORLD", &group);
    if (MPI_SUCCESS != MPI_Comm_create_from_group(group, "gpuhier.test", MPI_INFO_NULL, MPI_ERRORS_RETURN, comm)) {
        suite_fail(suite, "round %d: MPI_Comm_create_from_group failed", round);
        return false;
    }
    MPI_Group_free(&group);
    MPI_Comm_rank(*comm, &suite->rank);
    MPI_Comm_size(*comm, &suite->nranks);
    return true;
}

static void make_calls(suite_t *suite, MPI_Comm comm, size_t count)
{
    for (int i = 0; i < CALLS; ++i) {
        call_t call = {.comm = comm,
                       .type = value_type_find("double"),
                       .op = value_op_find("sum"),
                       .count = count,
                       .in_place = 1 == i % 2,
                       .path = PATH_ANY};
        suite_call(suite, &call);
    }
}

static void use(suite_t *suite, int round, size_t count)
{
    MPI_Session session;
    MPI_Comm comm;
    pvars_t before, after;

    if (!session_begin(suite, round, &session, &comm)) {
        return;
    }
    pvars_read(&before);
    make_calls(suite, comm, count);
    pvars_read(&after);
    if (after.accelerated - before.accelerated != CALLS) {
        suite_fail(suite, "round %d: only %llu calls were accelerated", round,
                   (unsigned long long) (after.accelerated - before.accelerated));
    }
    MPI_Comm_free(&comm);
    pvars_close(); /* its handles end with the session */
    MPI_Session_finalize(&session);
}

static void use_after(suite_t *suite)
{
    MPI_Session session;
    MPI_Comm comm, two;

    if (!session_begin(suite, 0, &session, &comm)) {
        return;
    }
    MPI_Comm_split(comm, suite->rank < 2, 0, &two);
    if (suite->rank < 2) {
        make_calls(suite, two, 1000);
    }
    MPI_Comm_free(&two);
    MPI_Finalize();
    suite->salt = 1000; /* the same on all ranks */
    make_calls(suite, comm, 1000);
    MPI_Comm_free(&comm);
    MPI_Session_finalize(&session);
}

/* Neither sessions nor MPI_Init are left. */
static void check_end(suite_t *suite, unsigned long long allocs_before)
{
    const unsigned long long allocs = gauge("allocs_live"), mapped = gauge("ipc_live");
    if (allocs != allocs_before) {
        suite_fail(suite, "at the end there are %llu allocations of GPU memory, and %llu before", allocs,
                   allocs_before);
    }
    if (0 != mapped) {
        suite_fail(suite, "at the end %llu pieces of others' memory are mapped", mapped);
    }
    if (has_ucx_thread()) {
        suite_fail(suite, "UCX's thread still runs at the end");
    }
}

int main(int argc, char **argv)
{
    const bool beside = argc > 1 && 0 == strcmp(argv[1], "beside"), last = argc > 1 && 0 == strcmp(argv[1], "last");
    const bool after = argc > 1 && 0 == strcmp(argv[1], "after");
    suite_t suite = {.name = "sessions", .default_path = PATH_ANY};

    if (last) {
        be_slow_if_last();
    }
    suite_choose_gpu();
    const unsigned long long allocs_before = gauge("allocs_live");
    if (beside || after) {
        MPI_Init(&argc, &argv);
    }
    if (after) {
        use_after(&suite);
    }
    for (int round = 0; round < (beside ? ROUNDS : 1) && !after; ++round) {
        use(&suite, round, last ? 30000 : 1000);
    }
    if (beside) {
        MPI_Finalize();
    }
    check_end(&suite, allocs_before);
    printf("sessions: rank %d: %lu calls\n", suite.rank, suite.calls);
    return 0 == suite.failures && suite.calls > 0 ? 0 : 1;
}

#else

int main(void)
{
    printf("this Open MPI has no sessions\n");
    return 77;
}

#endif
