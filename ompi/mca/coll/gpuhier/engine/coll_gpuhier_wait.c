/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "ompi_config.h"

#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/coll_gpuhier_clock.h"
#include "base/coll_gpuhier_compat.h"
#include "engine/coll_gpuhier_wait.h"
#include "opal/runtime/opal_progress.h"

/* The kernel's usual timer slack, 50 us, would be most of a nap. */
#define NAP_MIN_US 25u
#define NAP_MAX_US 400u
#define NAP_SLACK_NS 1000ul

/* Did Open MPI find, or the user say, that processes share cores? (mpi_yield_when_idle) */
static bool shares_cores(void)
{
    static opal_mutex_t lock = OPAL_MUTEX_STATIC_INIT;
    static _Atomic int shares = -1;
    if (shares < 0) {
        opal_mutex_lock(&lock); /* a second thread would see the value that the first one sets */
        /* Open MPI tells the value only to a caller that sets a new one. It is final by the end of MPI_Init. */
        const bool yields = opal_progress_set_yield_when_idle(true);
        if (!yields) {
            opal_progress_set_yield_when_idle(false);
        }
        shares = yields;
        opal_mutex_unlock(&lock);
    }
    return 0 != shares;
}

static void nap(unsigned us)
{
    const int slack = prctl(PR_GET_TIMERSLACK);
    prctl(PR_SET_TIMERSLACK, NAP_SLACK_NS);
    usleep(us);
    if (slack > 0) {
        prctl(PR_SET_TIMERSLACK, (unsigned long) slack);
    }
}

void gpuhier_wait_pause(gpuhier_wait_t *wait, bool progressed, gpuhier_patience_t patience)
{
    if (!shares_cores()) {
        return;
    }
    if (1 == wait->polls) {
        wait->since_us = gpuhier_clock_us();
    }
    if (!progressed && 0 == wait->nap_us) {
        sched_yield();
    }
    if (wait->nap_us > 0) {
        nap(wait->nap_us);
        wait->nap_us += wait->nap_us < NAP_MAX_US ? wait->nap_us / 16 : 0;
    } else if (wait->polls > patience.polls && gpuhier_clock_us() - wait->since_us > patience.us) {
        wait->nap_us = NAP_MIN_US;
    }
}

void gpuhier_rest(gpuhier_rest_t *rest)
{
    if (shares_cores() && gpuhier_rest_is_due(rest, gpuhier_clock_us())) {
        nap(NAP_MIN_US);
    }
}
