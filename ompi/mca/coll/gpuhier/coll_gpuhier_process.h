/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What belongs to the process and not to a communicator: who and where it is,
 * its connections, the engine's lock, and its end.
 */
#ifndef GPUHIER_PROCESS_H
#define GPUHIER_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "coll_gpuhier_net.h"

/* Does the process still live, as far as this one can see? True when in doubt (another pid namespace). */
bool gpuhier_process_lives(int64_t pid, uint64_t start_time);

/* Serialises the engine: several threads may call collectives on different communicators. */
void gpuhier_engine_lock(void);
void gpuhier_engine_unlock(void);

/* The process's connections; NULL before gpuhier_process_net_open(). */
gpuhier_net_t *gpuhier_process_net(void);

/*
 * Opens UCX on this rank's rails (see gpuhier_net_open), once: later communicators use the same. The CUDA context that
 * later calls will use is current. Returns an Open MPI code.
 */
int gpuhier_process_net_open(const char *const *rails, int nrails);

/* Adds what UCX has sent since the last call to the counters net_bytes_sent. */
void gpuhier_process_net_count(void);

/* Has everything released when MPI_Finalize begins, once some of it exists. Returns an Open MPI code. */
int gpuhier_process_finalize_register(void);

#endif /* GPUHIER_PROCESS_H */
