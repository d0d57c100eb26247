/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_Allreduce_init: a request gets its path when it is made, for all starts.
 *
 * MPI orders the making of persistent requests, but each rank may start them in an order of its own. So a request on
 * the GPUs cannot be in the queue of the communicator's calls: it has a team of its own, with its own control block,
 * numbers and tags. It needs no mode either, since its buffers never change: when all ranks pass device memory, every
 * start runs on the GPUs.
 *
 * Called by Open MPI.
 */
#include "ompi_config.h"

#include "base/coll_gpuhier_counters.h"
#include "base/coll_gpuhier_end.h"
#include "coll/coll_gpuhier_path.h"
#include "coll/coll_gpuhier_allreduce.h"
#include "coll/coll_gpuhier_request.h"

/* MPI_Start, MPI_Startall. */
static int start(size_t count, ompi_request_t **requests)
{
    for (size_t i = 0; i < count; ++i) {
        gpuhier_request_t *request = (gpuhier_request_t *) requests[i];
        if (gpuhier_trace_is_on()) {
            gpuhier_trace_again(&request->trace);
        }
        if (NULL != request->team) {
            if (gpuhier_end_has_come()) {
                /* Ranks start requests in different orders, which no saved collective can serve. */
                return OMPI_ERR_NOT_AVAILABLE;
            }
            gpuhier_request_post(request);
            continue;
        }
        if (gpuhier_trace_is_on()) {
            request->is_traced = true;
            request->trace.is_staged = true;
            gpuhier_trace_phase(&request->trace, GPUHIER_TRACE_READ);
        }
        int rc = gpuhier_staged_read(&request->staged);
        if (OMPI_SUCCESS != rc) {
            gpuhier_staged_abort(&request->staged, request->comm, rc);
            return rc;
        }
        if (gpuhier_trace_is_on()) {
            gpuhier_trace_phase(&request->trace, GPUHIER_TRACE_OPEN_MPI);
        }
        gpuhier_count(&gpuhier_counters.saved_because[request->why], 1);
        gpuhier_staged_count(&request->staged, request->comm, request->why);
        rc = gpuhier_request_start_saved(request);
        if (OMPI_SUCCESS != rc) {
            return rc;
        }
    }
    return OMPI_SUCCESS;
}

/* Gives the user `request`, which wraps the saved collective's request and stages; or, when this rank's buffers are
 * host memory, the saved collective's request itself. */
static int saved(gpuhier_module_t *module, gpuhier_request_t *request, const void *sbuf, void *rbuf,
                 gpuhier_count_t count, struct ompi_datatype_t *dtype, struct ompi_op_t *op,
                 struct ompi_communicator_t *comm, struct ompi_info_t *info, ompi_request_t **request_p)
{
    gpuhier_staged_t *staged = &request->staged;
    int rc = gpuhier_staged_allreduce(staged, sbuf, rbuf, (size_t) count, dtype);
    if (OMPI_SUCCESS != rc) {
        gpuhier_staged_abort(staged, comm, rc);
    } else {
        ++gpuhier_inside_saved;
        rc = module->saved.allreduce_init(gpuhier_hosted_address(&staged->send, sbuf),
                                          gpuhier_hosted_address(&staged->recv, rbuf), count, dtype, op, comm, info,
                                          &request->saved, module->saved.allreduce_init_module);
        --gpuhier_inside_saved;
    }
    if (OMPI_SUCCESS == rc && gpuhier_staged_any(staged)) {
        gpuhier_request_retain(request, dtype, op);
        request->base.super.req_start = start;
        *request_p = &request->base.super;
        return OMPI_SUCCESS;
    }
    *request_p = request->saved;
    request->saved = NULL;
    gpuhier_request_drop(request);
    return rc;
}

int gpuhier_allreduce_init(const void *sbuf, void *rbuf, gpuhier_count_t count, struct ompi_datatype_t *dtype,
                           struct ompi_op_t *op, struct ompi_communicator_t *comm, struct ompi_info_t *info,
                           ompi_request_t **request_p, mca_coll_base_module_t *base)
{
    gpuhier_module_t *module = gpuhier_module_of(base);
    if (gpuhier_inside_saved > 0) {
        return module->saved.allreduce_init(sbuf, rbuf, count, dtype, op, comm, info, request_p,
                                            module->saved.allreduce_init_module);
    }
    gpuhier_call_args_t args = {.row = &gpuhier_allreduce_row,
                                .in = MPI_IN_PLACE == sbuf ? rbuf : sbuf,
                                .out = rbuf,
                                .count = (uint64_t) count,
                                .dtype = dtype};
    gpuhier_request_t *request = gpuhier_request_get(comm, true);
    args.kernel = 0 == count ? -1 : gpuhier_path_find(module, op, dtype, &args.elem_bytes);
    gpuhier_reason_t why = 0 == count ? GPUHIER_REASON_empty : GPUHIER_REASON_type;
    const gpuhier_path_key_t key = {args.kernel, (size_t) count * args.elem_bytes};
    gpuhier_team_t *team =
        args.kernel < 0 ? NULL : gpuhier_path_persistent(module, comm, args.in, args.out, key, NULL != request, &why);
    if (NULL == request) {
        gpuhier_request_abort(comm);
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    if (args.kernel >= 0 && OMPI_SUCCESS != module->saved.failure) {
        gpuhier_request_drop(request);
        return module->saved.failure;
    }
    if (gpuhier_trace_is_on()) {
        request->is_traced = true;
        gpuhier_trace_begin(&request->trace, GPUHIER_TRACE_PERSISTENT, gpuhier_allreduce_row.name, comm, dtype, op,
                            (size_t) count);
    }
    if (NULL == team) {
        request->why = why;
        return saved(module, request, sbuf, rbuf, count, dtype, op, comm, info, request_p);
    }
    request->team = team;
    request->owns_team = true;
    request->args = args;
    request->args.tag = gpuhier_hostcall_tag(comm);
    request->base.super.req_start = start;
    *request_p = &request->base.super;
    return OMPI_SUCCESS;
}
