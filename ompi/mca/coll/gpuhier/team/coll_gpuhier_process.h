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

#include "gpu/coll_gpuhier_device.h"
#include "net/coll_gpuhier_net.h"
#include "topology/coll_gpuhier_topology.h"

/*
 * This process's record: where it is, its GPU (by CUDA's ordinal) and its network
 * devices. Made once for a GPU. Returns an Open MPI code.
 */
int gpuhier_process_record(int ordinal, gpuhier_record_t *record_p);

/*
 * Serialises the engine: several threads may call collectives on different communicators. Whoever has something of its own to do,
 * as to post a call, takes the lock, and waits for it. Whoever comes again and again, as to drive what is pending, only tries: in
 * vain also while another thread waits for the lock, which so gets it next.
 */
void gpuhier_engine_lock(void);
bool gpuhier_engine_trylock(void); /* true: the lock is held */
void gpuhier_engine_unlock(void);

/* The process's connections; NULL before gpuhier_process_net_open(). */
gpuhier_net_t *gpuhier_process_net(void);

/*
 * Opens UCX, once, with a rail for each network device of this process's record,
 * in order of rail numbers. Returns an Open MPI code.
 */
int gpuhier_process_net_open(const gpuhier_record_t *mine);

/* Did Open MPI find, or the user say, that processes share cores? (mpi_yield_when_idle) */
bool gpuhier_process_shares_cores(void);

/*
 * Is UCX given GPU memory? Not once a context is gone that it may have worked in: it keeps streams there, and UCX 1.13
 * says nothing to us when a copy in one fails. A rank's own business, its partners need not do alike. Looks at all contexts.
 */
bool gpuhier_process_net_on_device(void);

/* Begins anew: the component is opened, perhaps not for the first time, as its memory stays where it is built in or kept by somebody. */
void gpuhier_process_open(void);

/* Has everything released when MPI_Finalize begins, or the end of the last session, once some of it exists. Returns an Open MPI code. */
int gpuhier_process_finalize_register(void);

/*
 * Has MPI_Finalize begun? Callbacks of the program on MPI_COMM_SELF may make calls, before or after all is released, which
 * may differ between ranks, as the order does in which attributes were set: the saved collectives serve them all.
 */
bool gpuhier_process_ended(void);

#endif /* GPUHIER_PROCESS_H */
