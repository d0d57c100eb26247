/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns one thing: `mpirun --mca coll gpuhier`. That list filters every other
 * coll component out, and MPI_Init would then abort because nobody offers the
 * collectives that we do not. So when we are the only name on the list, the
 * list is dropped, all components are found again, and our own second entry is
 * taken out. Lists with other names or with ^ stay as the user typed them.
 *
 * Compiled only where the component is built beside an installed Open MPI: in
 * Open MPI's own source tree no component bends what the user selects.
 *
 * Called while the MCA system registers our parameters: the framework's list
 * holds just us, so its walk ends after us whatever is appended here.
 */
#include "ompi_config.h"

#include <stdlib.h>
#include <string.h>

#include "base/coll_gpuhier_compat.h"
#include "coll_gpuhier_component.h"
#include "opal/mca/base/base.h"
#include "opal/mca/base/mca_base_component_repository.h"

static bool rescuing; /* the second look at the framework registers us again */

int gpuhier_rescue_framework(void)
{
    mca_base_framework_t *framework = &ompi_coll_base_framework;
    if (rescuing || NULL == framework->framework_selection || 0 != strcmp("gpuhier", framework->framework_selection)) {
        return OMPI_SUCCESS;
    }
    rescuing = true;
    framework->framework_selection = NULL; /* the MCA variable owns the string */
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
    return rc;
}
