/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the list of kept objects; see coll_gpuhier_kept.h. The engine, the exchanges and the lanes keep their objects
 * here. The process's progress and its end look at the list.
 */
#include "ompi_config.h"

#include "base/coll_gpuhier_kept.h"

#define POLL_EVERY 16 /* calls of progress between two looks at the list, which query the GPU and every message */

gpuhier_kept_t *gpuhier_kept_list;

void gpuhier_keep(gpuhier_kept_t *kept, bool (*give_back)(gpuhier_kept_t *kept))
{
    kept->give_back = give_back;
    if (!give_back(kept)) {
        kept->next = gpuhier_kept_list;
        gpuhier_kept_list = kept;
    }
}

void gpuhier_kept_poll_all(void)
{
    gpuhier_kept_t *asked = gpuhier_kept_list;
    gpuhier_kept_list = NULL; /* give_back() may keep another object */
    while (NULL != asked) {
        gpuhier_kept_t *next = asked->next;
        gpuhier_keep(asked, asked->give_back);
        asked = next;
    }
}

void gpuhier_kept_poll_at_times(void)
{
    static unsigned calls;
    if (NULL != gpuhier_kept_list && 0 == ++calls % POLL_EVERY) {
        gpuhier_kept_poll_all();
    }
}

void gpuhier_kept_finalize(void)
{
    gpuhier_kept_poll_all();
    gpuhier_kept_list = NULL;
}
