/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_Allreduce_init: decides, once for all starts, which path a request takes.
 *
 * MPI lets each rank start its persistent requests in another order; only making them is
 * ordered. So a request that runs on the GPUs has a team of its own, with its own control
 * block, numbers and tags: it cannot be in the queue of the communicator's calls. A request's
 * buffers are known from the beginning, so there is no mode either: device memory on all
 * ranks means the GPUs, for good.
 */
#include "ompi_config.h"

#include "base/coll_gpuhier_counters.h"
#include "base/coll_gpuhier_end.h"
#include "coll/coll_gpuhier_path.h"
#include "coll/coll_gpuhier_persistent.h"
#include "coll/coll_gpuhier_request.h"

/* MPI_Start, MPI_Startall. */
static int start(size_t count, ompi_request_t **requests)
{
    for (size_t i = 0; i < count; ++i) {
        gpuhier_request_t *request = (gpuhier_request_t *) requests[i];
        if (NULL != request->team) {
            if (gpuhier_end_has_come()) {
                return OMPI_ERR_NOT_AVAILABLE; /* no collective of Open MPI may be started in another order on each
                                                  rank, as these may */
            }
            gpuhier_request_post(request);
            continue;
        }
        int rc = gpuhier_staged_read(&request->staged);
        if (OMPI_SUCCESS != rc) {
            gpuhier_staged_abort(&request->staged, request->comm, rc);
            return rc;
        }
        gpuhier_count(&gpuhier_counters.calls_saved, 1);
        gpuhier_count(&gpuhier_counters.calls_staged, 1);
        /* A communicator of one rank may get a request that does nothing, always complete and without a req_start:
         * MPI_Start itself knows it by its type. */
        if (OMPI_REQUEST_NOOP != request->saved->req_type) {
            rc = request->saved->req_start(1, &request->saved);
        }
        if (OMPI_SUCCESS != rc) {
            return rc;
        }
        gpuhier_request_await_saved(request);
    }
    return OMPI_SUCCESS;
}

/* Hands the user the saved collective's own request when all is host memory here, else `request` around it. */
static int saved(gpuhier_module_t *module, gpuhier_request_t *request, const void *sbuf, void *rbuf,
                 gpuhier_count_t count, struct ompi_datatype_t *dtype, struct ompi_op_t *op,
                 struct ompi_communicator_t *comm, struct ompi_info_t *info, ompi_request_t **request_p)
{
    gpuhier_staged_t *staged = &request->staged;
    int rc = gpuhier_staged_open(staged, sbuf, rbuf, (size_t) count, dtype);
    if (OMPI_SUCCESS != rc) {
        gpuhier_staged_abort(staged, comm, rc);
    } else {
        rc = module->saved.allreduce_init(gpuhier_staged_sbuf(staged, sbuf), gpuhier_staged_rbuf(staged, rbuf), count,
                                          dtype, op, comm, info, &request->saved, module->saved.allreduce_init_module);
    }
    if (OMPI_SUCCESS == rc && gpuhier_staged_any(staged)) {
        gpuhier_request_retain(request, dtype);
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
    gpuhier_call_args_t args = {
        .in = MPI_IN_PLACE == sbuf ? rbuf : sbuf, .out = rbuf, .count = (uint64_t) count, .op = op, .dtype = dtype};
    gpuhier_request_t *request = gpuhier_request_get(comm, true);
    args.kernel = 0 == count ? -1 : gpuhier_path_find(module, op, dtype, &args.elem_bytes);
    gpuhier_team_t *team =
        args.kernel < 0 ? NULL : gpuhier_path_persistent(module, comm, args.in, args.out, NULL != request);
    if (NULL == request) {
        gpuhier_request_abort(comm);
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    if (NULL == team) {
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
