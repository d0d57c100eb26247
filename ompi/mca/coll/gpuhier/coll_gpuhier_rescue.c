/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the support of `mpirun --mca coll gpuhier`. That list excludes every other coll component, and MPI_Init would
 * abort for lack of the collectives that gpuhier does not have. So when gpuhier is the only name on the list, this file
 * drops the list, has Open MPI find all components again, and removes gpuhier's second entry. Lists with other names or
 * with ^ stay as the user typed them.
 *
 * Compiled only where the component is built beside an installed Open MPI: in Open MPI's own source tree a component
 * must not change what the user selects.
 *
 * Called while the MCA system registers gpuhier's parameters. In MPI_Init the framework's list holds only gpuhier at
 * that time, so the system's walk of the list ends after gpuhier, whatever is appended here. MPI_T_init_thread and
 * ompi_info register all components that there are, whatever is selected, and nothing is missing then.
 */
#include "ompi_config.h"

#include <stdlib.h>
#include <string.h>

#include "base/coll_gpuhier_compat.h"
#include "coll_gpuhier_component.h"
#include "opal/mca/base/base.h"
#include "opal/mca/base/mca_base_component_repository.h"

static bool rescuing; /* finding all components registers gpuhier again, and must not end up here again */

int gpuhier_rescue_framework(void)
{
    mca_base_framework_t *framework = &ompi_coll_base_framework;
    if (rescuing || NULL == framework->framework_selection || 0 != strcmp("gpuhier", framework->framework_selection)) {
        return OMPI_SUCCESS;
    }
    framework->framework_selection = NULL; /* the MCA variable owns the string */
    if (opal_list_get_size(&framework->framework_components) > 1) {
        return OMPI_SUCCESS;
    }
    rescuing = true;
    int rc = mca_base_framework_components_register(framework, MCA_BASE_REGISTER_DEFAULT);

    bool seen = false;
    mca_base_component_list_item_t *item, *next;
    OPAL_LIST_FOREACH_SAFE (item, next, &framework->framework_components, mca_base_component_list_item_t) {
        if (0 != strcmp("gpuhier", item->cli_component->mca_component_name)) {
            continue;
        }
        if (seen) {
            opal_list_remove_item(&framework->framework_components, &item->super);
            OBJ_RELEASE(item);
        }
        seen = true;
    }
    rescuing = false;
    return rc;
}
