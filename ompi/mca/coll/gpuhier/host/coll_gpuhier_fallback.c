/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the path through the saved collective. Does not decide when it is used (path) nor how device buffers get to host
 * memory (staging).
 *
 * The saved collective sees the whole message in one call, since other ranks may pass host memory and call it once. So
 * a host copy is as long as the user's buffer.
 */
#include "ompi_config.h"

#include <stdatomic.h>

#include "base/coll_gpuhier_counters.h"
#include "base/coll_gpuhier_help.h"
#include "host/coll_gpuhier_fallback.h"
#include "ompi/runtime/mpiruntime.h"

#define STAGED_OFTEN 100 /* calls */

void gpuhier_staged_count(const gpuhier_staged_t *staged, struct ompi_communicator_t *comm, gpuhier_reason_t reason)
{
    static _Atomic unsigned calls[GPUHIER_REASON_COUNT];
    static atomic_flag told = ATOMIC_FLAG_INIT;
    if (!gpuhier_staged_any(staged)) {
        return;
    }
    gpuhier_count(&gpuhier_counters.calls_staged, 1);
    if (NULL == gpuhier_reason_remedy(reason) || (0 != ompi_comm_rank(comm) && GPUHIER_REASON_host_elsewhere != reason)
        || STAGED_OFTEN != 1 + atomic_fetch_add_explicit(&calls[reason], 1, memory_order_relaxed)
        || atomic_flag_test_and_set(&told)) {
        return;
    }
    gpuhier_help("staged often", ompi_process_info.nodename, ompi_comm_rank(comm), comm->c_name, STAGED_OFTEN,
                 gpuhier_staged_bytes(staged), gpuhier_reason_text(reason), gpuhier_reason_remedy(reason));
}

int gpuhier_staged_bring(const gpuhier_staged_t *staged, struct ompi_communicator_t *comm)
{
    const int rc = gpuhier_staged_read(staged);
    if (OMPI_SUCCESS != rc) {
        gpuhier_help("staging failed", ompi_process_info.nodename, NULL == comm ? -1 : ompi_comm_rank(comm),
                     gpuhier_staged_bytes(staged));
        gpuhier_staged_spoil(staged);
    }
    return rc;
}

void gpuhier_staged_abort(const gpuhier_staged_t *staged, struct ompi_communicator_t *comm)
{
    gpuhier_help("no memory", "A GPU buffer could not be copied to host memory", ompi_process_info.nodename,
                 ompi_comm_rank(comm), gpuhier_staged_bytes(staged));
    ompi_mpi_abort(comm, MPI_ERR_NO_MEM);
}
