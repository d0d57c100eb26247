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
 */
#include "calls.h"

#include <stdio.h>
#include <string.h>

#if OMPI_MAJOR_VERSION >= 5

#define ROUNDS 3
#define CALLS 5

static void use(suite_t *suite, int round)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    pvars_t before, after;

    if (MPI_SUCCESS != MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session)) {
        suite_fail(suite, "round %d: MPI_Session_init failed", round);
        return;
    }
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    if (MPI_SUCCESS != MPI_Comm_create_from_group(group, "gpuhier.test", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm)) {
        suite_fail(suite, "round %d: MPI_Comm_create_from_group failed", round);
        return;
    }
    MPI_Group_free(&group);
    MPI_Comm_rank(comm, &suite->rank);
    MPI_Comm_size(comm, &suite->nranks);
    pvars_read(&before);
    for (int i = 0; i < CALLS; ++i) {
        call_t call = {.comm = comm,
                       .type = value_type_find("double"),
                       .op = value_op_find("sum"),
                       .count = 1000,
                       .in_place = 1 == i % 2,
                       .path = PATH_ANY};
        suite_call(suite, &call);
    }
    pvars_read(&after);
    if (after.accelerated - before.accelerated != CALLS) {
        suite_fail(suite, "round %d: only %llu calls were accelerated", round, (unsigned long long) (after.accelerated - before.accelerated));
    }
    MPI_Comm_free(&comm);
    pvars_close(); /* its handles end with the session */
    MPI_Session_finalize(&session);
}

int main(int argc, char **argv)
{
    const bool beside = argc > 1 && 0 == strcmp(argv[1], "beside");
    suite_t suite = {.name = "sessions", .default_path = PATH_ANY};

    suite_choose_gpu();
    if (beside) {
        MPI_Init(&argc, &argv);
    }
    for (int round = 0; round < (beside ? ROUNDS : 1); ++round) {
        use(&suite, round);
    }
    if (beside) {
        MPI_Finalize();
    }
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
