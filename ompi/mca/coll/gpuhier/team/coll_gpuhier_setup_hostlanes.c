/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the steps in which ranks of a node make the host memory that they share; a vote of the whole communicator
 * follows each. Called by setup_groups and setup_relay.
 */
#include "ompi_config.h"

#include <string.h>

#include "base/coll_gpuhier_compat.h"
#include "base/coll_gpuhier_lock.h"
#include "team/coll_gpuhier_setup_internal.h"
#include "opal/util/show_help.h"

enum { STEP_CREATE, STEP_ATTACH, STEP_REGISTER, STEP_PROVE, STEPS };

static int step_take(const gpuhier_hostlanes_t *lanes, int step, char *reason)
{
    gpuhier_hostmem_t *hostmem = lanes->hostmem;
    int rc = OMPI_SUCCESS;
    switch (step) {
    case STEP_CREATE:
        return 0 == lanes->index ? gpuhier_hostmem_create(hostmem, lanes->word, &lanes->size, reason) : rc;
    case STEP_ATTACH:
        rc = 0 == lanes->index ? rc : gpuhier_hostmem_attach(hostmem, lanes->word, &lanes->size, reason);
        return OMPI_SUCCESS != rc ? rc : gpuhier_hostmem_reserve(hostmem, lanes->index, reason);
    case STEP_REGISTER:
        return gpuhier_hostmem_register(hostmem, lanes->word, lanes->index, lanes->lane, reason);
    default:
        return gpuhier_hostmem_prove(hostmem, lanes->word, lanes->size.nlanes, lanes->lane, reason);
    }
}

int gpuhier_setup_hostlanes_make(const gpuhier_setup_t *setup, const gpuhier_hostlanes_t *lanes)
{
    char reason[GPUHIER_HOSTMEM_REASON_BYTES] = "";
    bool ok = true;
    for (int step = STEP_CREATE; step < STEPS && ok; ++step) {
        gpuhier_engine_lock();
        int rc = lanes->mine ? step_take(lanes, step, reason) : OMPI_SUCCESS;
        gpuhier_engine_unlock();
        if (OMPI_SUCCESS != rc) {
            opal_show_help("help-coll-gpuhier.txt", lanes->topic, true, ompi_process_info.nodename,
                           lanes->hostmem->bytes, reason);
        }
        ok = gpuhier_setup_vote(setup, OMPI_SUCCESS == rc);
        if (lanes->mine && 0 == lanes->index && (STEP_ATTACH == step || !ok)) {
            gpuhier_hostmem_unlink(lanes->word);
        }
    }
    if (!ok) {
        gpuhier_engine_lock();
        gpuhier_hostmem_close(lanes->hostmem, setup->team->device->context);
        gpuhier_engine_unlock();
    }
    return ok ? OMPI_SUCCESS : OMPI_ERR_NOT_AVAILABLE;
}
