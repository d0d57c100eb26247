/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A call fails on one communicator between nodes, by time-out, with its vote under way; calls on another communicator
 * of the same ranks go on, accelerated and right, before the failed one's last rank has come and after. With
 * GPUHIER_UCX_RNDV_THRESH=1 not even a vote is sent before there is a receive for it, so those of the first
 * communicator stay pending.
 *
 *   fault_apart [COUNT]   doubles of the call that fails (default 60000)
 */
#include <stdio.h>
#include <stdlib.h>

#include "fault_lib.h"
#include "pvars.h"

#define ROUNDS 3
#define CALLS 6
#define OTHER_COUNT 20000
#define FAILING_SALT 1000000

/* Calls that all ranks make, the first of which may be that which sets the communicator up. */
static void go_on(suite_t *suite, MPI_Comm comm, pair_t *pair, size_t count, const char *when)
{
    pvars_t begin, end;
    pvars_read(&begin);
    for (int i = 0; i < CALLS; ++i) {
        outcome_t outcome = pair_call(suite, comm, pair, count, ++suite->salt);
        if (OUTCOME_RIGHT != outcome) {
            suite_fail(suite, "%s, a call on the other communicator ended with %c", when, outcome_letter(outcome));
        }
        ++suite->calls;
    }
    pvars_read(&end);
    if (CALLS != end.accelerated - begin.accelerated) {
        suite_fail(suite, "%s, %llu of %d calls on the other communicator were accelerated", when,
                   (unsigned long long) (end.accelerated - begin.accelerated), CALLS);
    }
}

int main(int argc, char **argv)
{
    suite_t suite;
    pair_t pair, other_pair;
    MPI_Comm other;

    suite_begin(&suite, "fault_apart", &argc, &argv);
    const size_t count = argc > 1 ? (size_t) atol(argv[1]) : 60000;
    const bool late = suite.nranks - 1 == suite.rank;
    pair_alloc(&pair, count);
    pair_alloc(&other_pair, OTHER_COUNT);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    deadline(60, "in a call before any harm");
    go_on(&suite, other, &other_pair, OTHER_COUNT, "before any harm");
    for (int round = 0; round < ROUNDS; ++round) {
        MPI_Comm comm;
        deadline(60, "in a call that fails, or beside it");
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        go_on(&suite, comm, &pair, count, "before the failure");
        if (!late && OUTCOME_ERROR != pair_call(&suite, comm, &pair, count, FAILING_SALT)) {
            suite_fail(&suite, "a call ended well that the last rank stays away from");
        }
        MPI_Barrier(MPI_COMM_WORLD); /* a rank that waits too long in a call has it fail */
        go_on(&suite, other, &other_pair, OTHER_COUNT, "after the failure");
        if (late && OUTCOME_WRONG == pair_call(&suite, comm, &pair, count, FAILING_SALT)) {
            suite_fail(&suite, "a wrong result");
        }
        MPI_Barrier(MPI_COMM_WORLD);
        go_on(&suite, other, &other_pair, OTHER_COUNT, "after the last rank's call");
        MPI_Comm_free(&comm);
    }
    deadline(60, "at the end");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_free(&other);
    pair_free(&pair);
    pair_free(&other_pair);
    return suite_end(&suite);
}
