/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * `gpuhier_info job`: becomes gpuhier_job, a program of its own, since this one must work on machines and in moments
 * where MPI does not: it is not linked with MPI, and no other verb starts it.
 *
 * gpuhier_job lies beside this program in a build tree, and in libexec/gpuhier once installed.
 */
#include "gpuhier_info.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int info_job(const info_options_t *options)
{
    char folder[PATH_MAX], program[PATH_MAX + 64], name[256];
    char *arguments[] = {program, options->json ? "--json" : NULL, NULL};

    for (int i = 0; i < options->mca.options; ++i) {
        snprintf(name, sizeof(name), "OMPI_MCA_%s", options->mca.option[i][0]);
        if (0 != setenv(name, options->mca.option[i][1], 1)) {
            return info_fail(INFO_FAILED, "cannot set %s: %s", name, strerror(errno));
        }
    }
    info_own_folder(folder);
    for (int place = 0; place < 3; ++place) {
        if (0 == place) {
            snprintf(program, sizeof(program), "%s/gpuhier_job", folder);
        } else if (1 == place) {
            snprintf(program, sizeof(program), "%s/../libexec/gpuhier/gpuhier_job", folder); /* moved as a whole */
        } else {
            snprintf(program, sizeof(program), "%s", GPUHIER_JOB);
        }
        if (0 == access(program, X_OK)) {
            execv(program, arguments);
        }
    }
    return info_fail(INFO_FAILED, "cannot start %s: %s", GPUHIER_JOB, strerror(errno));
}
