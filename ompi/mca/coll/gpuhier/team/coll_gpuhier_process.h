/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What belongs to the process and not to a communicator: its record and its connections.
 */
#ifndef GPUHIER_PROCESS_H
#define GPUHIER_PROCESS_H

#include <stdbool.h>

#include "gpu/coll_gpuhier_device.h"
#include "net/coll_gpuhier_net.h"
#include "topology/coll_gpuhier_topology.h"

/*
 * Which network devices carry what a team sends between its groups. Each way has a record and connections of its own,
 * made when a team first needs them.
 */
typedef enum gpuhier_way {
    GPUHIER_WAY_BEST = 0, /* the best ones of the machine, which are RDMA ports if there are any */
    GPUHIER_WAY_TCP,      /* interfaces only, where UCX cannot use the RDMA ports of some rank */
    GPUHIER_WAY_MPI,      /* Open MPI's own messages, where UCX cannot use a rank's interfaces, either, or where these
                             messages have a fabric and UCX has TCP only */
    GPUHIER_WAY_COUNT
} gpuhier_way_t;

/* The way that this process asks for: from the first fall on, the last way to which it had to fall back. */
gpuhier_way_t gpuhier_process_way(void);

/*
 * Do Open MPI's own messages go over a fabric that UCX may not know, such as Slingshot or EFA by libfabric? Open MPI
 * chooses the PML cm by itself only where one of its transports has a fabric; TCP does not count there. False in a
 * program without MPI_COMM_WORLD, which has no such messages.
 */
bool gpuhier_pml_has_fabric(void);

/* Notes that this process has to fall back to that way. reason: in one line; NULL: UCX's reason for the connection that
 * failed last. */
void gpuhier_process_fall(gpuhier_way_t to, const char *reason);

/* Tells the user that this process has had to fall back to that way, and why. */
void gpuhier_process_fall_tell(gpuhier_way_t to);

/* Tells the user, once, that there is no way between groups, and why neither UCX nor Open MPI's own messages can serve.
 * reason: why the latter cannot; NULL: the reason why the last connection failed. */
void gpuhier_process_no_way_tell(const char *reason);

/*
 * This process's record: where it is, its GPU (by CUDA's ordinal) and its network devices of that way. Made once for a
 * GPU. Returns an Open MPI code: OMPI_ERR_NOT_FOUND if a device that the user names cannot be used.
 */
int gpuhier_process_record(int ordinal, gpuhier_way_t way, gpuhier_record_t *record_p);

/* Prints the record's network devices, and why each one is a rail or not. Once for each record. */
void gpuhier_process_record_tell(gpuhier_way_t way);

/* The process's connections; NULL before gpuhier_process_net_open(). */
gpuhier_net_t *gpuhier_process_net(gpuhier_way_t way);

/* Drives all connections. Returns the number of events. */
int gpuhier_process_net_progress(void);

/* Are there connections? */
bool gpuhier_process_has_net(void);

/*
 * Opens UCX for those of the rails that are not open yet (bits, by their numbers), and for rail 0. There is a rail for
 * each network device of this process's record. *error_p becomes one line that says what is wrong, or "". Returns an
 * Open MPI code.
 */
int gpuhier_process_net_open(const gpuhier_record_t *mine, gpuhier_way_t way, unsigned rails, const char **error_p);

/*
 * Can UCX still be given GPU memory? Not after a context is gone that UCX may have worked in: UCX keeps streams there,
 * and UCX 1.13 does not report a copy that fails in one. Each rank decides for itself. Looks at all contexts.
 */
bool gpuhier_process_net_on_device(gpuhier_way_t way);

/* Can UCX be given memory of this device? Returns the answer with its reason. The connections are open. */
gpuhier_net_gpu_t gpuhier_process_net_gpu(gpuhier_way_t way, const gpuhier_device_t *device);

/* Tells all partners, once, that this process needs nothing more from them. The engine's lock is held, and the
 * connections are open. */
void gpuhier_process_leave_begin(void);

/*
 * Does the same, and waits until the partners have said so as well. They may still be in their last call with this
 * rank, so Open MPI's progress goes on. The lock is not held.
 */
void gpuhier_process_leave(void);

/* Closes the connections, and forgets the record. The lock is held. */
void gpuhier_process_close(void);

struct gpuhier_team;

/* The functions of the engine that a team calls. The engine stands above this folder, so it registers them. */
typedef struct gpuhier_team_engine {
    /* Of a slot in the control block, of an area without data, and of each rank's block in the data. */
    size_t slot_bytes, area_bytes, block_bytes;
    /* Makes the engine's part of a team with several groups. The engine's lock is held. Returns an Open MPI code. */
    int (*make)(struct gpuhier_team *team);
    /* Releases that part; harmless when there is none. The lock is held. */
    void (*release)(struct gpuhier_team *team);
    /* Drives all pending calls and UCX while set-up waits. The lock is not held. Returns the number of events. */
    int (*drive)(bool thorough);
    /* The callback for Open MPI's progress that drives the connections, once they exist. */
    int (*net_progress)(void);
} gpuhier_team_engine_t;

/* Set before the first team is made. */
extern const gpuhier_team_engine_t *gpuhier_team_engine;

#endif /* GPUHIER_PROCESS_H */
