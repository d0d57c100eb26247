/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A rank that passes host memory fails in a call that the others have ended well. They leave calls of the kind to the
 * saved collective from then on, and the rank must do the same, or they wait for it there.
 *
 *   fault_late COUNT PLAN      doubles; PLAN is the saboteur's, for rank 0 in that call
 *   fault_late COUNT late=S    rank 0 comes S seconds late, when the others have given up
 *
 * Later calls of the kind are right on all ranks. With late=S, where no rank has ended the call, they are errors on
 * all. Calls of a kind that is still accelerated are errors on all.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault_lib.h"

#define VICTIM 0
#define WARM 3
#define LATER 3

static void expect(suite_t *suite, MPI_Comm comm, pair_t *pair, size_t count, char letter, const char *what)
{
    const char got = outcome_letter(pair_call(suite, comm, pair, count, ++suite->salt));
    ++suite->calls;
    if (letter != got) {
        suite_fail(suite, "%s of %zu ended with %c, not %c", what, count, got, letter);
    }
}

int main(int argc, char **argv)
{
    suite_t suite;
    saboteur_t saboteur;
    pvars_t before, after;
    pair_t device, mixed;
    MPI_Comm comm;

    suite_begin(&suite, "fault_late", &argc, &argv);
    if (argc != 3) {
        fprintf(stderr, "fault_late COUNT PLAN\n");
        return 2;
    }
    const size_t count = strtoul(argv[1], NULL, 0), other = 4 * count;
    const bool late = 0 == strncmp(argv[2], "late=", 5);
    saboteur_find(&saboteur);
    pair_alloc(&device, other);
    mixed.most = count;
    buffer_alloc(&mixed.send, VICTIM == suite.rank ? BUFFER_HOST : BUFFER_DEVICE, count * sizeof(double), 0);
    buffer_alloc(&mixed.recv, BUFFER_DEVICE, count * sizeof(double), 0);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    deadline(20, "in a call after one that failed late on a rank");

    pvars_read(&before);
    for (int i = 0; i < WARM; ++i) {
        expect(&suite, comm, &device, count, 'r', "a first call");
        expect(&suite, comm, &device, other, 'r', "a first call");
    }
    pvars_read(&after);
    if (2 * WARM != after.accelerated - before.accelerated) {
        suite_fail(&suite, "the first calls were not accelerated");
    }
    if (VICTIM == suite.rank && late) {
        sleep((unsigned) atoi(argv[2] + 5));
    }
    saboteur.arm(VICTIM == suite.rank && !late ? argv[2] : "");
    expect(&suite, comm, &mixed, count, VICTIM == suite.rank || late ? 'E' : 'r', "the call that failed");
    saboteur.arm("");
    const char letter = late ? 'E' : 'r';
    for (int i = 0; i < LATER; ++i) {
        expect(&suite, comm, &device, count, letter, "a later call");
    }
    expect(&suite, comm, &device, other, 'E', "a call of another kind");
    expect(&suite, comm, &device, count, letter, "the last call");
    pvars_read(&before);
    if ((late ? 0u : LATER + 1u) != before.saved - after.saved) {
        suite_fail(&suite, "%llu calls were left to the saved collective",
                   (unsigned long long) (before.saved - after.saved));
    }
    deadline(0, "");
    MPI_Comm_free(&comm);
    pair_free(&device);
    pair_free(&mixed);
    return suite_end(&suite);
}
