/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Whether the Open MPI that runs is of the release that the component was built for. Open MPI loads components of other
 * releases without asking, although its structs differ between releases.
 */
#ifndef GPUHIER_RELEASE_H
#define GPUHIER_RELEASE_H

#include <stdbool.h>
#include <stdio.h>

/*
 * text: what MPI_Get_library_version() gives ("Open MPI v4.1.4, package: ..."). False when it names another release
 * than major.minor; the third number does not count. A text that names no release of Open MPI is trusted: products that
 * derive from Open MPI have texts of their own.
 */
static inline bool gpuhier_release_matches(const char *text, int major, int minor)
{
    int running_major, running_minor;
    return 2 != sscanf(text, "Open MPI v%d.%d", &running_major, &running_minor)
           || (running_major == major && running_minor == minor);
}

#endif /* GPUHIER_RELEASE_H */
