/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Start, verdict and messages of a test program, without any CUDA; see calls.h.
 */
#include "calls.h"

#include <mpi-ext.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SHOWN 20

void suite_begin_host(suite_t *suite, const char *name, int *argc_p, char ***argv_p)
{
    const char *expect = getenv("GPUHIER_EXPECT_COMPONENT");
    const char *full = getenv("GPUHIER_CHECK_FULL");
    int is_running = 0;

    memset(suite, 0, sizeof(*suite));
    suite->name = name;
    suite->default_path = NULL != expect && 0 == strcmp(expect, "0") ? PATH_ANY : PATH_ACCELERATED;
    suite->full = NULL != full && 0 != strcmp(full, "0");
    if (*argc_p > 1 && 0 == strcmp((*argv_p)[1], "--stock")) {
        suite->default_path = PATH_ANY;
        (*argv_p)[1] = (*argv_p)[0];
        ++*argv_p;
        --*argc_p;
    }
    MPI_Initialized(&is_running);
    if (!is_running) {
        MPI_Init(argc_p, argv_p);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
#if defined(MPIX_CUDA_AWARE_SUPPORT)
    suite->cuda_aware = 1 == MPIX_Query_cuda_support();
#endif
    MPI_Comm_rank(MPI_COMM_WORLD, &suite->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &suite->nranks);
    /* Counters count from their first reading. */
    pvars_t start;
    pvars_read(&start);
}

bool suite_is_wide(const suite_t *suite, int *argc_p, char ***argv_p)
{
    if (*argc_p < 2 || 0 != strcmp((*argv_p)[1], "wide")) {
        return false;
    }
    if (!HAS_WIDE) {
        if (0 == suite->rank) {
            printf("%s: this MPI has no functions with large counts\n", suite->name);
        }
        pvars_close();
        MPI_Finalize();
        exit(77);
    }
    (*argv_p)[1] = (*argv_p)[0];
    --*argc_p;
    ++*argv_p;
    return true;
}

void suite_fail(suite_t *suite, const char *format, ...)
{
    va_list args;
    char text[1024];

    if (++suite->failures > MAX_SHOWN) {
        return;
    }
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "%s: rank %d: %s\n", suite->name, suite->rank, text);
}

int suite_end(suite_t *suite)
{
    if (suite->failures > MAX_SHOWN) {
        fprintf(stderr, "%s: rank %d: %lu failures in all\n", suite->name, suite->rank, suite->failures);
    }
    if (0 == suite->calls) {
        suite_fail(suite, "made no call at all");
    }
    if (0 == suite->rank) {
        printf("%s: %lu calls on %d ranks\n", suite->name, suite->calls, suite->nranks);
        fflush(stdout);
    }
    pvars_close();
    MPI_Finalize();
    return 0 == suite->failures ? 0 : 1;
}
