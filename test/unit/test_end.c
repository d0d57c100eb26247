/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The end of a process's life in MPI. One process (a singleton), no GPU.
 *
 *   test_end            it comes once, at the beginning of MPI_Finalize, and for good
 *   test_end unarmed    it comes as well where nothing was made that must be released
 *   test_end session    without MPI_Init it comes with the end of the last session, and what is opened again after it
 *                       begins anew. Open MPI 5.0.7 crashes in the second session of a process by itself, so this is
 *                       what can be shown of a component that is opened twice. Skipped where Open MPI has no sessions.
 */
#include "base/coll_gpuhier_end.h"

#include <stdio.h>
#include <string.h>

#include <mpi.h>

static int failures, ends;
static bool is_session;

static void expect(bool holds, const char *what)
{
    if (!holds) {
        printf("failed: %s\n", what);
        ++failures;
    }
}

static void at_end(void)
{
    int flag = 0;
    ++ends;
    expect(gpuhier_end_has_come(), "at the end it has come");
    expect(MPI_SUCCESS == MPI_Initialized(&flag) && (0 != flag || is_session), "MPI still works at the end");
}

static void world(int *argc, char ***argv, bool armed)
{
    MPI_Init(argc, argv);
    expect(!gpuhier_end_has_come(), "the end has not come after MPI_Init");
    expect(!armed || (0 == gpuhier_end_arm() && 0 == gpuhier_end_arm()), "the end can be armed, again and again");
    expect(0 == ends, "arming is not the end");
    MPI_Finalize();
    expect(armed == ends, "MPI_Finalize is the end, once");
    expect(gpuhier_end_has_come(), "it has come for good");
    gpuhier_end_open(at_end);
    expect(gpuhier_end_has_come(), "no session that comes later changes that");
    expect(armed == ends, "opening is not the end");
}

#if OMPI_MAJOR_VERSION >= 5

static bool session(void)
{
    MPI_Session session;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    expect(!gpuhier_end_has_come(), "the end has not come in a session");
    expect(0 == gpuhier_end_arm() && 0 == gpuhier_end_arm(), "the end can be armed in a session");
    MPI_Session_finalize(&session);
    expect(1 == ends, "the end of the last session is the end, once");
    expect(gpuhier_end_has_come(), "it has come until the component is opened again");
    gpuhier_end_open(at_end);
    expect(!gpuhier_end_has_come(), "what is opened again begins anew");
    return true;
}

#else

static bool session(void)
{
    printf("this Open MPI has no sessions\n");
    return false;
}

#endif

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    is_session = 0 == strcmp(how, "session");
    gpuhier_end_open(at_end);
    if (!is_session) {
        world(&argc, &argv, 0 != strcmp(how, "unarmed"));
    } else if (!session()) {
        return 77;
    }
    printf("%d failures\n", failures);
    return 0 != failures;
}
