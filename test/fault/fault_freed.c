/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A rank dies while a nonblocking call is pending on a communicator that the program has freed meanwhile. MPI_Wait must
 * return the error: the freed communicator's error handler says so.
 *
 *   fault_freed VICTIM
 *
 * Each rank that lives and gets an error prints "rank N is content"; the script `death` counts them.
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fault_lib.h"

#define COUNT 30000

int main(int argc, char **argv)
{
    suite_t suite;
    pair_t pair;
    MPI_Comm comm;
    MPI_Request request;
    pvars_t before, after;

    suite_begin(&suite, "fault_freed", &argc, &argv);
    pair_alloc(&pair, COUNT);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    pvars_read(&before);
    if (OUTCOME_RIGHT != pair_call(&suite, comm, &pair, COUNT, 1)) {
        suite_fail(&suite, "the call before the death failed");
    }
    pvars_read(&after);
    if (1 != after.accelerated - before.accelerated) {
        suite_fail(&suite, "the call before the death was not accelerated");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (argc > 1 && atoi(argv[1]) == suite.rank) {
        sleep(1); /* the others have posted and freed */
        raise(SIGKILL);
    }
    deadline(20, "in the call that is harmed");
    int rc = MPI_Iallreduce(pair.send.message, pair.recv.message, COUNT, MPI_DOUBLE, MPI_SUM, comm, &request);
    MPI_Comm_free(&comm);
    rc = MPI_SUCCESS != rc ? rc : MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (MPI_SUCCESS == rc) {
        suite_fail(&suite, "the call on the freed communicator ended without an error");
    }
    printf("rank %d is %s\n", suite.rank, 0 == suite.failures ? "content" : "not content");
    fflush(stdout);
    deadline(0, "");
    sleep(
        120); /* the others say their word first, and then the script ends all; MPI_Finalize would wait for the dead */
    MPI_Abort(MPI_COMM_WORLD, 5);
}
