/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fault tolerance (Open MPI 5, with mpi_ft_enable): a rank that never calls revokes the communicator, or dies, while
 * the others wait in a call on it.
 *
 *   fault_revoke COUNT revoke | pending | dead | late | beside
 *   fault_revoke            status 77 where Open MPI has no MPIX_Comm_revoke, else 0; no MPI call
 *
 * revoke: all others must get MPIX_ERR_REVOKED, from MPI_Allreduce; pending: from MPI_Wait for MPI_Iallreduce; dead:
 * MPIX_ERR_PROC_FAILED; late: the same, where all living ranks but rank 2 know of the death before they call, so that
 * Open MPI gives them the error and gpuhier hears nothing from them. Then the living ranks shrink the communicator, and
 * a call on the new one must be right, and accelerated. beside: a rank dies that is not in the communicator of the
 * others, whose calls must stay right, although Open MPI serves them. A rank on which all of that holds prints "rank N
 * is content".
 */
#include <mpi.h>
#include <mpi-ext.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault_lib.h"

#if defined(OMPI_HAVE_MPI_EXT_FTMPI)

/* The error class with which one sum of device buffers ends. */
static int error_of_call(MPI_Comm comm, pair_t *pair, size_t count, bool nonblocking)
{
    MPI_Request request;
    int error_class, code;

    if (nonblocking) {
        code = MPI_Iallreduce(pair->send.message, pair->recv.message, (int) count, MPI_DOUBLE, MPI_SUM, comm, &request);
        code = MPI_SUCCESS != code ? code : MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        code = MPI_Allreduce(pair->send.message, pair->recv.message, (int) count, MPI_DOUBLE, MPI_SUM, comm);
    }
    MPI_Error_class(code, &error_class);
    return error_class;
}

static void expect_right(suite_t *suite, MPI_Comm comm, pair_t *pair, size_t count, const char *when)
{
    ++suite->calls;
    if (OUTCOME_RIGHT != pair_call(suite, comm, pair, count, ++suite->salt)) {
        suite_fail(suite, "a call %s failed", when);
    }
}

static void expect_error(suite_t *suite, MPI_Comm comm, pair_t *pair, size_t count, bool nonblocking, int wanted)
{
    const int got = error_of_call(comm, pair, count, nonblocking);
    if (wanted != got) {
        suite_fail(suite, "the call ended with error class %d and not %d", got, wanted);
    }
}

/* Returns when Open MPI knows here that a member has died. */
static void await_death(MPI_Comm comm)
{
    MPI_Group dead;
    int ndead = 0, flag;

    while (0 == ndead) {
        MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE); /* for its progress */
        MPIX_Comm_failure_ack(comm);
        MPIX_Comm_failure_get_acked(comm, &dead);
        MPI_Group_size(dead, &ndead);
        MPI_Group_free(&dead);
        usleep(10000);
    }
}

int main(int argc, char **argv)
{
    suite_t suite;
    pair_t pair;
    MPI_Comm comm, shrunk;
    pvars_t before;

    if (argc < 3) {
        return 0;
    }
    suite_begin(&suite, "fault_revoke", &argc, &argv);
    const size_t count = strtoul(argv[1], NULL, 0);
    const char *how = argv[2];
    const bool beside = 0 == strcmp(how, "beside"), late = 0 == strcmp(how, "late"),
               dies = beside || late || 0 == strcmp(how, "dead");
    pair_alloc(&pair, count);
    MPI_Comm_split(MPI_COMM_WORLD, beside && 1 == suite.rank, 0, &comm);
    pvars_read(&before);
    expect_right(&suite, comm, &pair, count, "before any harm");
    suite_check_paths(&suite, "before any harm", &before, beside ? 0 : 1, beside ? 1 : 0);
    MPI_Barrier(MPI_COMM_WORLD);
    deadline(20, "in the call that is harmed");
    if (1 != suite.rank && beside) {
        for (int i = 0; i < 30; ++i) { /* before Open MPI knows of the death, and after */
            usleep(100000);
            expect_right(&suite, comm, &pair, count, "beside a death");
        }
    } else if (1 != suite.rank) {
        if (late && 2 != suite.rank) {
            await_death(comm);
        }
        expect_error(&suite, comm, &pair, count, 0 == strcmp(how, "pending"),
                     dies ? MPIX_ERR_PROC_FAILED : MPIX_ERR_REVOKED);
        expect_error(&suite, comm, &pair, count, false, dies ? MPIX_ERR_PROC_FAILED : MPIX_ERR_REVOKED);
    } else {
        sleep(1);
        if (dies) {
            raise(SIGKILL);
        }
        MPIX_Comm_revoke(comm);
    }
    if (!beside) {
        MPIX_Comm_shrink(comm, &shrunk);
        pvars_read(&before);
        expect_right(&suite, shrunk, &pair, count, "on what is left");
        suite_check_paths(&suite, "on what is left", &before, 1, 0);
        MPI_Comm_free(&shrunk);
    }
    MPI_Comm_free(&comm);
    printf("rank %d is %s\n", suite.rank, 0 == suite.failures ? "content" : "not content");
    fflush(stdout);
    deadline(0, "");
    if (dies) {
        sleep(120); /* the others say their word first, and then the script ends all; MPI_Finalize would wait for the
                       dead */
        MPI_Abort(MPI_COMM_WORLD, 5);
    }
    pair_free(&pair);
    return suite_end(&suite);
}

#else

int main(void)
{
    printf("this Open MPI has no MPIX_Comm_revoke\n");
    return 77;
}

#endif
