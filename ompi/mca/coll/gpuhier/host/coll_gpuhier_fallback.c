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
#include <string.h>

#include "base/coll_gpuhier_counters.h"
#include "gpu/coll_gpuhier_cuda.h"
#include "gpu/coll_gpuhier_device.h"
#include "host/coll_gpuhier_fallback.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/runtime/mpiruntime.h"
#include "opal/util/show_help.h"

int gpuhier_staged_allreduce(gpuhier_staged_t *staged, const void *sbuf, const void *rbuf, size_t count,
                             struct ompi_datatype_t *dtype)
{
    const bool in_place = MPI_IN_PLACE == sbuf;
    const gpuhier_operand_t send = {.user = sbuf, .count = count, .dtype = dtype, .read_end = in_place ? 0 : 1};
    const gpuhier_operand_t recv = {
        .user = rbuf, .count = count, .dtype = dtype, .read_end = in_place ? 1 : 0, .write_end = 1};
    return gpuhier_staged_open(staged, &send, &recv);
}

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
    opal_show_help("help-coll-gpuhier.txt", "staged often", true, ompi_process_info.nodename, ompi_comm_rank(comm),
                   comm->c_name, STAGED_OFTEN, gpuhier_staged_bytes(staged), gpuhier_reason_text(reason),
                   gpuhier_reason_remedy(reason));
}

void gpuhier_staged_abort(const gpuhier_staged_t *staged, struct ompi_communicator_t *comm, int code)
{
    opal_show_help("help-coll-gpuhier.txt", "staging failed", true, ompi_process_info.nodename, ompi_comm_rank(comm),
                   gpuhier_staged_bytes(staged),
                   OMPI_ERR_OUT_OF_RESOURCE == code ? "out of memory" : "the CUDA driver refused the copy");
    ompi_mpi_abort(comm, MPI_ERR_OTHER);
}

/* Classifies the buffer by the first byte that its datatype touches. */
static bool on_device(const void *user, const struct ompi_datatype_t *dtype)
{
    return MPI_IN_PLACE != user && gpuhier_address_on_device((const char *) user + dtype->super.true_lb);
}

/*
 * Can this Open MPI take device buffers as they are? A CUDA-aware one can, except for derived types: coll/cuda
 * takes element 0 for the first byte, which is wrong with a negative lower bound, and it writes into gaps.
 */
static bool open_mpi_takes(struct ompi_datatype_t *dtype)
{
    return gpuhier_cuda_answers() && gpuhier_ompi_is_cuda_aware() && 0 == gpuhier_devices_lost()
           && ompi_datatype_is_predefined(dtype);
}

static void note(gpuhier_trace_event_t *trace, gpuhier_trace_phase_t phase)
{
    if (NULL != trace) {
        gpuhier_trace_phase(trace, phase);
        trace->is_staged = trace->is_staged || GPUHIER_TRACE_READ == phase;
    }
}

static int staged_allreduce(const void *sbuf, void *rbuf, gpuhier_count_t count, struct ompi_datatype_t *dtype,
                            struct ompi_op_t *op, struct ompi_communicator_t *comm, const gpuhier_saved_t *saved,
                            gpuhier_reason_t reason, gpuhier_trace_event_t *trace)
{
    gpuhier_staged_t staged;
    note(trace, GPUHIER_TRACE_READ);
    int rc = gpuhier_staged_allreduce(&staged, sbuf, rbuf, (size_t) count, dtype);
    rc = OMPI_SUCCESS != rc ? rc : gpuhier_staged_read(&staged);
    if (OMPI_SUCCESS != rc) {
        gpuhier_staged_abort(&staged, comm, rc);
    } else {
        gpuhier_staged_count(&staged, comm, reason);
        note(trace, GPUHIER_TRACE_OPEN_MPI);
        ++gpuhier_inside_saved;
        rc = saved->allreduce(gpuhier_hosted_address(&staged.send, sbuf), gpuhier_hosted_address(&staged.recv, rbuf),
                              count, dtype, op, comm, saved->allreduce_module);
        --gpuhier_inside_saved;
        note(trace, GPUHIER_TRACE_WRITE);
    }
    rc = OMPI_SUCCESS != rc ? rc : gpuhier_staged_write(&staged);
    gpuhier_staged_close(&staged);
    return rc;
}

int gpuhier_fallback_allreduce(const void *sbuf, void *rbuf, gpuhier_count_t count, struct ompi_datatype_t *dtype,
                               struct ompi_op_t *op, struct ompi_communicator_t *comm, const gpuhier_saved_t *saved,
                               gpuhier_reason_t reason, gpuhier_trace_event_t *trace)
{
    if ((!on_device(rbuf, dtype) && !on_device(sbuf, dtype)) || open_mpi_takes(dtype)) {
        note(trace, GPUHIER_TRACE_OPEN_MPI);
        ++gpuhier_inside_saved;
        int rc = saved->allreduce(sbuf, rbuf, count, dtype, op, comm, saved->allreduce_module);
        --gpuhier_inside_saved;
        return rc;
    }
    return staged_allreduce(sbuf, rbuf, count, dtype, op, comm, saved, reason, trace);
}
