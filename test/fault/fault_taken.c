/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A partner that is about to copy from another rank's memory stops, and the other rank's call fails meanwhile. That
 * rank goes on with other calls, which want exchange buffers as well. When the partner wakes up, its call must be right
 * or an error, never a success with what those calls have written.
 *
 *   fault_taken SECONDS     three ranks, each a group of its own; coll_gpuhier_timeout is shorter than SECONDS
 *
 * Of three groups the second one hands its contribution to the first, which later gives it the result. So rank 1 copies
 * once: what it takes in the last step.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fault_lib.h"
#include "pvars.h"

#define COUNT 8000 /* doubles: one slice, so that rank 1 needs nothing more after it was stopped */
#define CALLS 12
#define STOPPED_SALT 1000000

/* Calls on the communicator, all of which must be right and accelerated. */
static void go_on(suite_t *suite, MPI_Comm comm, pair_t *pair, const char *when)
{
    pvars_t begin, end;
    pvars_read(&begin);
    for (int i = 0; i < CALLS; ++i) {
        const outcome_t outcome = pair_call(suite, comm, pair, COUNT, ++suite->salt);
        if (OUTCOME_RIGHT != outcome) {
            suite_fail(suite, "%s, a call ended with %c", when, outcome_letter(outcome));
        }
        ++suite->calls;
    }
    pvars_read(&end);
    if (CALLS != end.accelerated - begin.accelerated) {
        suite_fail(suite, "%s, %llu of %d calls were accelerated", when,
                   (unsigned long long) (end.accelerated - begin.accelerated), CALLS);
    }
}

int main(int argc, char **argv)
{
    suite_t suite;
    saboteur_t saboteur;
    pair_t pair;
    MPI_Comm all, apart;
    char plan[64];

    suite_begin(&suite, "fault_taken", &argc, &argv);
    saboteur_find(&saboteur);
    const bool stops = 1 == suite.rank;
    snprintf(plan, sizeof(plan), "cuMemcpyAsync:1:stop=%s", argc > 1 ? argv[1] : "5");
    pair_alloc(&pair, COUNT);
    MPI_Comm_dup(MPI_COMM_WORLD, &all);
    MPI_Comm_split(MPI_COMM_WORLD, stops, suite.rank, &apart);
    deadline(60, "in a call before any harm");
    go_on(&suite, all, &pair, "before any harm");
    if (!stops) {
        go_on(&suite, apart, &pair, "before any harm, without rank 1");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    deadline(60, "in the call that is stopped, or beside it");
    if (stops && 0 != saboteur.arm(plan)) {
        _exit(2);
    }
    const outcome_t outcome = pair_call(&suite, all, &pair, COUNT, STOPPED_SALT);
    if (OUTCOME_WRONG == outcome) {
        suite_fail(&suite, "a wrong result");
    }
    if (0 == suite.rank && OUTCOME_ERROR != outcome) {
        suite_fail(&suite, "the call ended with %c, though rank 1 has not taken the result", outcome_letter(outcome));
    }
    if (stops && 1 != saboteur.strikes()) {
        suite_fail(&suite, "rank 1 was stopped %ld times", saboteur.strikes());
    }
    if (!stops) {
        MPI_Barrier(apart); /* rank 2, whose call has ended well, would wait too long in a call */
        go_on(&suite, apart, &pair, "while rank 1 is stopped");
    }
    deadline(60, "at the end");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_free(&all);
    MPI_Comm_free(&apart);
    pair_free(&pair);
    return suite_end(&suite);
}
