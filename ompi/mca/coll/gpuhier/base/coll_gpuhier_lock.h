/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The engine's lock. It guards teams, calls, connections and lanes: several threads may call collectives on
 * different communicators.
 *
 * A thread that has work of its own, such as posting a call, waits for the lock. A thread that returns again and again,
 * such as one that drives pending calls, only tries. A try also fails while another thread waits, so the waiting thread
 * gets the lock next.
 */
#ifndef GPUHIER_LOCK_H
#define GPUHIER_LOCK_H

#include <stdbool.h>

void gpuhier_engine_lock(void);
bool gpuhier_engine_trylock(void); /* true: the lock is held */
void gpuhier_engine_unlock(void);

#endif /* GPUHIER_LOCK_H */
