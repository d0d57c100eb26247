/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Who serves MPI_COMM_WORLD: read from the communicator itself, so that it is known where gpuhier is not loaded, too.
 * The structs are those of the Open MPI that this program was built with, and are left alone where another one runs.
 */
#include "ompi_config.h"

#include "job_serving.h"

#include <stdio.h>
#include <string.h>

#include "base/coll_gpuhier_compat.h"

bool job_serving(const gpuhier_description_t *described, gpuhier_served_t served_p[GPUHIER_SERVED_COUNT], char *why_p,
                 size_t room)
{
    char running[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    why_p[0] = '\0';
    memset(served_p, 0, GPUHIER_SERVED_COUNT * sizeof(served_p[0]));
    MPI_Get_library_version(running, &length);
    if (!gpuhier_release_matches(running, OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION)) {
        snprintf(why_p, room, "gpuhier was built for Open MPI %d.%d, which is another release than the one that runs",
                 OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION);
        return false;
    }
    if (NULL != described) {
        memcpy(served_p, described->served, sizeof(described->served));
        if (!described->serves) {
            gpuhier_served_why_not(&served_p[0], described->enable, described->priority, why_p, room);
        }
        return described->serves;
    }
    gpuhier_served_find(MPI_COMM_WORLD, served_p);
    const char *list = ompi_coll_base_framework.framework_selection;
    if (NULL != list && ('^' == list[0]) == (NULL != strstr(list, "gpuhier"))) {
        snprintf(why_p, room, "it is not loaded, since the parameter coll is '%s'", list);
    } else {
        snprintf(why_p, room,
                 "it is not loaded: ompi_info --param coll gpuhier --level 9 says whether Open MPI finds it, and "
                 "--mca mca_base_component_show_load_errors 1 why it does not load it");
    }
    return false;
}
