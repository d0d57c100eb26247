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

/*
 * A process and the node that it runs on, as it tells the others. Two processes
 * are on one node when they see the same kernel, the same /dev/shm and the same
 * IPC namespace: containers and namespaces make nodes within a machine, and
 * equal host names say nothing.
 */
typedef struct gpuhier_place {
    uint64_t boot;        /* hash of the kernel's boot id */
    uint64_t shm_device;  /* st_dev and st_ino of /dev/shm */
    uint64_t shm_inode;
    uint64_t ipc_inode;   /* of the IPC namespace */
    int64_t pid;
    uint64_t start_time;  /* of the process, clock ticks since boot: tells a later process with the same pid */
} gpuhier_place_t;

/* Never fails: what the system does not tell stays 0, alike on all ranks of that system. */
void gpuhier_place_get(gpuhier_place_t *place_p);

bool gpuhier_place_same_node(const gpuhier_place_t *a, const gpuhier_place_t *b);

/* Does the process still live, as far as this one can see? True when in doubt (another pid namespace). */
bool gpuhier_process_lives(int64_t pid, uint64_t start_time);

/* Serialises the engine: several threads may call collectives on different communicators. */
void gpuhier_engine_lock(void);
void gpuhier_engine_unlock(void);

/* The process's connections; NULL before gpuhier_process_net_open(). */
gpuhier_net_t *gpuhier_process_net(void);

/* Opens UCX on this rank's rails, once; the CUDA context that later calls will use is current. Returns an Open MPI code. */
int gpuhier_process_net_open(void);

/* Adds what UCX has sent since the last call to the counters net_bytes_sent. */
void gpuhier_process_net_count(void);

/* Has everything released when MPI_Finalize begins, once some of it exists. Returns an Open MPI code. */
int gpuhier_process_finalize_register(void);

#endif /* GPUHIER_PROCESS_H */
