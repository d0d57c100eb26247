/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the order in which things end: connections first, since other ranks may still need them; then calls and requests
 * that the program left pending; then the memory that UCX and the GPU have used.
 * Called at the end of the process's life in MPI, see base/coll_gpuhier_end.h.
 */
#include "ompi_config.h"

#include "base/coll_gpuhier_kept.h"
#include "base/coll_gpuhier_lock.h"
#include "coll/coll_gpuhier_request.h"
#include "coll_gpuhier_component.h"
#include "engine/coll_gpuhier_queue.h"
#include "gpu/coll_gpuhier_device.h"
#include "gpu/coll_gpuhier_gdr.h"
#include "gpu/coll_gpuhier_ipc_cache.h"
#include "host/coll_gpuhier_locked.h"
#include "team/coll_gpuhier_process.h"

void gpuhier_finalize(void)
{
    gpuhier_call_t *calls = NULL;
    gpuhier_requests_leave_comms();
    gpuhier_process_leave();
    gpuhier_engine_lock();
    gpuhier_devices_check();
    gpuhier_queue_quiesce(&calls);
    gpuhier_requests_quiesce();
    gpuhier_process_close();
    gpuhier_kept_finalize();
    gpuhier_ipc_finalize();
    gpuhier_gdr_finalize();
    gpuhier_device_finalize();
    gpuhier_locked_finalize();
    gpuhier_engine_unlock();
    gpuhier_queue_tell(calls);
}
