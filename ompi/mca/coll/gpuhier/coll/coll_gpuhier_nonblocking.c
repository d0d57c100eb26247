/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_Iallreduce: a call gets its path when it is posted. A call that is left to the saved collective is noted, so that
 * the ranks ask each other at their next meeting. On the saved path, device buffers are staged on a CUDA-aware
 * Open MPI, too, since its nonblocking reductions access them from the host.
 *
 * MPI_Barrier: a meeting if one is due (coll_gpuhier_path.h), then the saved barrier. A barrier waits for all ranks in
 * any case, so a program that calls only MPI_Iallreduce and MPI_Barrier is accelerated from here on.
 *
 * Called by Open MPI.
 */
#include "ompi_config.h"

#include "base/coll_gpuhier_counters.h"
#include "coll/coll_gpuhier_allreduce.h"
#include "coll/coll_gpuhier_path.h"
#include "coll/coll_gpuhier_request.h"
#include "ompi/datatype/ompi_datatype.h"

static int saved(gpuhier_module_t *module, const void *sbuf, void *rbuf, gpuhier_count_t count,
                 struct ompi_datatype_t *dtype, struct ompi_op_t *op, struct ompi_communicator_t *comm,
                 gpuhier_reason_t reason, gpuhier_trace_event_t *trace, ompi_request_t **request_p)
{
    gpuhier_staged_t staged;
    int rc = gpuhier_staged_allreduce(&staged, sbuf, rbuf, (size_t) count, dtype);
    if (OMPI_SUCCESS == rc && !gpuhier_staged_any(&staged)) {
        ++gpuhier_inside_saved;
        rc = module->saved.iallreduce(sbuf, rbuf, count, dtype, op, comm, request_p, module->saved.iallreduce_module);
        --gpuhier_inside_saved;
        if (NULL != trace) {
            trace->is_posted_only = true;
            gpuhier_trace_end_left(trace, reason);
        }
        return rc;
    }
    if (NULL != trace) {
        gpuhier_trace_phase(trace, GPUHIER_TRACE_READ);
    }
    rc = OMPI_SUCCESS != rc ? rc : gpuhier_staged_read(&staged);
    gpuhier_request_t *request = OMPI_SUCCESS != rc ? NULL : gpuhier_request_get(comm, false);
    if (NULL == request) {
        gpuhier_staged_abort(&staged, comm, OMPI_SUCCESS != rc ? rc : OMPI_ERR_OUT_OF_RESOURCE);
        gpuhier_staged_close(&staged);
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    gpuhier_staged_count(&staged, comm, reason);
    request->staged = staged;
    request->why = reason;
    request->is_traced = NULL != trace;
    if (NULL != trace) {
        request->trace = *trace;
        request->trace.is_staged = true;
        gpuhier_trace_phase(&request->trace, GPUHIER_TRACE_OPEN_MPI);
    }
    gpuhier_request_retain(request, dtype, op);
    ++gpuhier_inside_saved;
    rc =
        module->saved.iallreduce(gpuhier_hosted_address(&staged.send, sbuf), gpuhier_hosted_address(&staged.recv, rbuf),
                                 count, dtype, op, comm, &request->saved, module->saved.iallreduce_module);
    --gpuhier_inside_saved;
    if (OMPI_SUCCESS != rc) {
        request->saved = NULL;
        gpuhier_request_drop(request);
        return rc;
    }
    *request_p = &request->base.super;
    gpuhier_request_await_saved(request);
    return OMPI_SUCCESS;
}

int gpuhier_iallreduce(const void *sbuf, void *rbuf, gpuhier_count_t count, struct ompi_datatype_t *dtype,
                       struct ompi_op_t *op, struct ompi_communicator_t *comm, ompi_request_t **request_p,
                       mca_coll_base_module_t *base)
{
    gpuhier_module_t *module = gpuhier_module_of(base);
    if (gpuhier_inside_saved > 0) {
        return module->saved.iallreduce(sbuf, rbuf, count, dtype, op, comm, request_p, module->saved.iallreduce_module);
    }
    gpuhier_call_args_t args = {.row = &gpuhier_allreduce_row,
                                .in = MPI_IN_PLACE == sbuf ? rbuf : sbuf,
                                .out = rbuf,
                                .count = (uint64_t) count,
                                .dtype = dtype};
    gpuhier_trace_event_t event, *trace = NULL;
    if (gpuhier_trace_is_on() && dtype->super.size * (size_t) count > GPUHIER_PATH_NONBLOCKING_BYTES) {
        trace = &event;
        gpuhier_trace_begin(trace, GPUHIER_TRACE_NONBLOCKING, args.row->name, comm, dtype, op, (size_t) count);
    }
    /* No cache here, and no note of short calls: Open MPI posts such calls of its own, from any thread. */
    gpuhier_reason_t reason = 0 == count ? GPUHIER_REASON_empty : GPUHIER_REASON_type;
    if (NULL == module->team && 0 != count) {
        reason = gpuhier_path_reason(module, NULL);
    }
    args.kernel = 0 == count || dtype->super.size * (size_t) count <= GPUHIER_PATH_NONBLOCKING_BYTES
                      ? -1
                      : gpuhier_reduce_find(op, dtype, &args.elem_bytes);
    if (args.kernel >= 0) {
        const gpuhier_path_key_t key = {args.kernel, args.count * args.elem_bytes};
        gpuhier_mode_entry_t *entry = gpuhier_path_nonblocking(module, key);
        if (NULL != entry) {
            return gpuhier_request_run(module->team, entry, &args, comm, trace, request_p);
        }
        reason = gpuhier_path_reason(module, &key);
        gpuhier_path_note(module, key, args.in, args.out);
    }
    size_t size = 0;
    ompi_datatype_type_size(dtype, &size);
    if (size * (size_t) count > GPUHIER_PATH_NONBLOCKING_BYTES) {
        gpuhier_path_saved(module, comm, dtype, (size_t) count, reason);
    }
    return saved(module, sbuf, rbuf, count, dtype, op, comm, reason, trace, request_p);
}

int gpuhier_barrier(struct ompi_communicator_t *comm, mca_coll_base_module_t *base)
{
    gpuhier_module_t *module = gpuhier_module_of(base);
    if (0 == gpuhier_inside_saved && !gpuhier_path_meet(module, comm)) {
        return module->saved.failure;
    }
    ++gpuhier_inside_saved;
    int rc = module->saved.barrier(comm, module->saved.barrier_module);
    --gpuhier_inside_saved;
    return rc;
}
