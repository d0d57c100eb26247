/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the moment at which everything is released.
 *
 * MPI_Finalize begins by deleting the attributes of MPI_COMM_SELF, while all of Open MPI still works; an attribute of
 * gpuhier's there has a callback. It is set at the end of MPI_Init, since the attribute that was set first is deleted
 * last: the program's own callbacks may wait for calls in flight. The closing of components would be too late: other
 * ranks and CUDA may be gone by then. A program that has sessions and no MPI_Init has no MPI_COMM_SELF. Its last
 * MPI_Session_finalize calls a function that gpuhier registers with Open MPI instead.
 */
#include "ompi_config.h"

#include <stdatomic.h>

#include "base/coll_gpuhier_compat.h"
#include "base/coll_gpuhier_end.h"
#include "ompi/attribute/attribute.h"
#include "ompi/runtime/params.h"

static opal_mutex_t lock = OPAL_MUTEX_STATIC_INIT; /* guards the registration; staging lacks the engine's lock */
static void (*at_end)(void);
static int keyval = MPI_KEYVAL_INVALID;
static bool ends_with_session; /* end() is registered with Open MPI */
_Atomic bool gpuhier_ended;

bool gpuhier_end_is_finalizing(void)
{
    const int state = ompi_mpi_state;
    return state >= OMPI_MPI_STATE_FINALIZE_STARTED && state < OMPI_MPI_STATE_FINALIZE_COMPLETED;
}

/*
 * Only a rank that has something to release sets `gpuhier_ended`. Open MPI's state serves all ranks: no process leaves
 * MPI_Finalize before all processes of its job have begun it, unless it was told not to wait (async_mpi_finalize).
 */
bool gpuhier_end_has_reached(int first)
{
    const int state = ompi_mpi_state;
    return (state >= first && (state < OMPI_MPI_STATE_FINALIZE_COMPLETED || !ompi_async_mpi_finalize))
           || atomic_load_explicit(&gpuhier_ended, memory_order_relaxed);
}

bool gpuhier_end_has_come(void)
{
    return gpuhier_end_has_reached(OMPI_MPI_STATE_FINALIZE_PAST_COMM_SELF_DESTRUCT);
}

/* May be called twice: at the end of the sessions, then in MPI_Finalize. */
static void end(void *unused)
{
    (void) unused;
    if (!atomic_exchange_explicit(&gpuhier_ended, true, memory_order_relaxed)) {
        at_end();
    }
}

static int attribute_deleted(MPI_Comm comm, int key, void *value, void *extra)
{
    (void) comm;
    (void) key;
    (void) value;
    end(extra);
    return MPI_SUCCESS;
}

void gpuhier_end_open(void (*function)(void))
{
    at_end = function;
    keyval = MPI_KEYVAL_INVALID;
    ends_with_session = false;
    atomic_store_explicit(&gpuhier_ended, false, memory_order_relaxed);
}

int gpuhier_end_arm(void)
{
    int rc = MPI_SUCCESS;
    opal_mutex_lock(&lock);
    if (!gpuhier_comm_self_lives()) {
        if (!ends_with_session) {
            gpuhier_at_last_session_end(end);
            ends_with_session = true;
        }
    } else if (MPI_KEYVAL_INVALID == keyval) {
        rc = PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, attribute_deleted, &keyval, NULL);
        rc = MPI_SUCCESS != rc ? rc : PMPI_Comm_set_attr(MPI_COMM_SELF, keyval, &keyval);
        if (MPI_SUCCESS != rc && MPI_KEYVAL_INVALID != keyval) {
            /* This sets it to MPI_KEYVAL_INVALID: the next caller tries again. */
            (void) PMPI_Comm_free_keyval(&keyval);
        }
    }
    opal_mutex_unlock(&lock);
    return MPI_SUCCESS == rc ? OMPI_SUCCESS : OMPI_ERROR;
}
