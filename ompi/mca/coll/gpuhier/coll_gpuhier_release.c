/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the comparison of releases. Pure: no MPI. Called by the component before anything else.
 */
#include "coll_gpuhier_release.h"

#include <stdio.h>

bool gpuhier_release_matches(const char *text, int major, int minor)
{
    int running_major, running_minor;
    return 2 != sscanf(text, "Open MPI v%d.%d", &running_major, &running_minor)
           || (running_major == major && running_minor == minor);
}
