/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Each rank holds all file descriptors that it may open but a few when a communicator between nodes is set up. Calls on
 * that communicator end with the right result, before and after there are descriptors again, and so do calls on a
 * communicator that was set up before.
 *
 *   fault_files FREE [later]
 *
 * later: ranks 0 and 1 already have a communicator of their own. They are on two nodes.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "fault_lib.h"

#define LIMIT 256
#define NCALLS 20

static int held[LIMIT], nheld;

/* Leaves so many descriptors free. */
static void descriptors_take(suite_t *suite, int spare)
{
    struct rlimit limit;
    int file;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = LIMIT;
    if (0 != setrlimit(RLIMIT_NOFILE, &limit)) {
        suite_fail(suite, "could not set the number of descriptors");
    }
    while (nheld < LIMIT && (file = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0) {
        held[nheld++] = file;
    }
    for (; spare > 0 && nheld > 0; --spare) {
        close(held[--nheld]);
    }
}

static void descriptors_give(void)
{
    while (nheld > 0) {
        close(held[--nheld]);
    }
}

static void sums(suite_t *suite, MPI_Comm comm, pair_t *pair, const char *what)
{
    static const size_t counts[] = {30000, 10, 3000, 300001};
    if (MPI_COMM_NULL == comm) {
        suite->salt += NCALLS; /* as on the ranks that call */
        return;
    }
    for (int i = 0; i < NCALLS; ++i) {
        const size_t count = counts[i % 4];
        ++suite->calls;
        if (OUTCOME_RIGHT != pair_call(suite, comm, pair, count, ++suite->salt)) {
            suite_fail(suite, "%s: a call with %zu elements failed", what, count);
        }
    }
}

int main(int argc, char **argv)
{
    suite_t suite;
    pair_t pair;
    MPI_Comm two, after;

    deadline(50, "fault_files");
    suite_begin(&suite, "fault_files", &argc, &argv);
    pair_alloc(&pair, 300001);
    const bool later = argc > 2 && 0 == strcmp("later", argv[2]);
    MPI_Comm_split(MPI_COMM_WORLD, later && suite.rank < 2 ? 0 : MPI_UNDEFINED, suite.rank, &two);
    sums(&suite, two, &pair, "a communicator made before");
    /* Open MPI connects here: it has no descriptors for that later. */
    int *words = calloc(2 * (size_t) suite.nranks, sizeof(*words));
    MPI_Alltoall(words, 1, MPI_INT, words + suite.nranks, 1, MPI_INT, MPI_COMM_WORLD);
    free(words);
    descriptors_take(&suite, argc > 1 ? atoi(argv[1]) : 0);
    sums(&suite, MPI_COMM_WORLD, &pair, "few descriptors");
    descriptors_give();
    sums(&suite, MPI_COMM_WORLD, &pair, "descriptors again");
    sums(&suite, two, &pair, "a communicator made before");
    if (MPI_COMM_NULL != two) {
        MPI_Comm_free(&two);
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &after);
    sums(&suite, after, &pair, "a communicator made after");
    MPI_Comm_free(&after);
    pair_free(&pair);
    return suite_end(&suite);
}
