/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_Iallreduce: decides which path a call takes, when it is posted.
 *
 *   more than 64 bytes, and calls of this kind are in mode ACC?  the engine, whatever the buffers are
 *   else: the saved collective; device buffers staged, also on a CUDA-aware Open MPI, whose
 *   nonblocking reductions touch them on the host
 *
 * Small calls stay away from the engine since Open MPI itself posts such ones on
 * the parent while it makes communicators, at times that differ between ranks.
 */
#include "ompi_config.h"

#include "base/coll_gpuhier_end.h"
#include "base/coll_gpuhier_counters.h"
#include "coll/coll_gpuhier_nonblocking.h"
#include "gpu/coll_gpuhier_reduce.h"
#include "coll/coll_gpuhier_request.h"
#include "ompi/datatype/ompi_datatype.h"

#define SAVED_BYTES 64 /* calls up to this size are left to the saved collective, and not counted */

static int accelerate(gpuhier_module_t *module, gpuhier_mode_entry_t *entry, const gpuhier_call_args_t *args,
                      struct ompi_communicator_t *comm, ompi_request_t **request_p)
{
    gpuhier_request_t *request = gpuhier_request_get(comm, false);
    if (NULL == request) {
        gpuhier_request_abort(comm);
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    request->team = module->team;
    request->args = *args;
    request->args.outcome_p = &entry->outcome;
    request->args.tag = gpuhier_hostcall_tag(comm);
    *request_p = &request->base.super;
    gpuhier_request_post(request);
    return OMPI_SUCCESS;
}

static int saved(gpuhier_module_t *module, const void *sbuf, void *rbuf, gpuhier_count_t count,
                 struct ompi_datatype_t *dtype, struct ompi_op_t *op, struct ompi_communicator_t *comm,
                 ompi_request_t **request_p)
{
    gpuhier_staged_t staged;
    int rc = gpuhier_staged_open(&staged, sbuf, rbuf, (size_t) count, dtype);
    if (OMPI_SUCCESS == rc && !gpuhier_staged_any(&staged)) {
        return module->saved.iallreduce(sbuf, rbuf, count, dtype, op, comm, request_p, module->saved.iallreduce_module);
    }
    rc = OMPI_SUCCESS != rc ? rc : gpuhier_staged_read(&staged);
    gpuhier_request_t *request = OMPI_SUCCESS != rc ? NULL : gpuhier_request_get(comm, false);
    if (NULL == request) {
        gpuhier_staged_abort(&staged, comm, OMPI_SUCCESS != rc ? rc : OMPI_ERR_OUT_OF_RESOURCE);
        gpuhier_staged_close(&staged);
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    gpuhier_count(&gpuhier_counters.calls_staged, 1);
    request->staged = staged;
    gpuhier_request_retain(request, dtype);
    rc = module->saved.iallreduce(gpuhier_staged_sbuf(&staged, sbuf), gpuhier_staged_rbuf(&staged, rbuf), count, dtype,
                                  op, comm, &request->saved, module->saved.iallreduce_module);
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
    gpuhier_call_args_t args = {
        .in = MPI_IN_PLACE == sbuf ? rbuf : sbuf, .out = rbuf, .count = (uint64_t) count, .op = op, .dtype = dtype};
    args.kernel = NULL == module->team || 0 == count || gpuhier_end_has_come()
                      ? -1
                      : gpuhier_reduce_find(op, dtype, &args.elem_bytes);
    if (args.kernel >= 0 && args.count * args.elem_bytes > SAVED_BYTES) {
        const int kind = gpuhier_reduce_class(args.kernel);
        const size_t bytes = args.count * args.elem_bytes;
        if (GPUHIER_MODE_ACC == gpuhier_modes_mode(&module->modes, kind, bytes)) {
            return accelerate(module, gpuhier_modes_entry(&module->modes, kind, bytes), &args, comm, request_p);
        }
    }
    size_t size = 0;
    ompi_datatype_type_size(dtype, &size);
    gpuhier_count(&gpuhier_counters.calls_saved, size * (size_t) count > SAVED_BYTES);
    return saved(module, sbuf, rbuf, count, dtype, op, comm, request_p);
}
