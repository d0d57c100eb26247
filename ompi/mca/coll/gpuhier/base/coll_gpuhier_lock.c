/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the engine's lock.
 */
#include "ompi_config.h"

#include <stdatomic.h>

#include "base/coll_gpuhier_compat.h"
#include "base/coll_gpuhier_lock.h"

static opal_mutex_t lock = OPAL_MUTEX_STATIC_INIT;
static _Atomic unsigned waiting; /* threads that wait for the lock */

void gpuhier_engine_lock(void)
{
    if (0 != opal_mutex_trylock(&lock)) {
        atomic_fetch_add_explicit(&waiting, 1, memory_order_relaxed);
        opal_mutex_lock(&lock);
        atomic_fetch_sub_explicit(&waiting, 1, memory_order_relaxed);
    }
}

bool gpuhier_engine_trylock(void)
{
    return 0 == atomic_load_explicit(&waiting, memory_order_relaxed) && 0 == opal_mutex_trylock(&lock);
}

void gpuhier_engine_unlock(void)
{
    opal_mutex_unlock(&lock);
}
