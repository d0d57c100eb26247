/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_Allreduce: asks for the path of each call, see coll_gpuhier_path.h, and runs it there.
 *
 * Called by Open MPI.
 */
#include "ompi_config.h"

#include "base/coll_gpuhier_report.h"
#include "coll/coll_gpuhier_allreduce.h"
#include "coll/coll_gpuhier_path.h"
#include "host/coll_gpuhier_fallback.h"
#include "ompi/datatype/ompi_datatype.h"

const gpuhier_collective_t gpuhier_allreduce_row = {
    .name = "MPI_Allreduce", .from = GPUHIER_RANKS_ALL, .to = GPUHIER_RANKS_ALL};

/* Times its bytes an all-reduce moves, by the count of nccl-tests. */
static __attribute__((noinline, pure)) double bus(struct ompi_communicator_t *comm)
{
    const double nranks = ompi_comm_size(comm);
    return 2 * (nranks - 1) / nranks;
}

/* trace: the call's event, or NULL. begin: what gpuhier_report_begin() returned, or 0. */
static inline __attribute__((always_inline)) int run(const void *sbuf, void *rbuf, gpuhier_count_t count,
                                                     struct ompi_datatype_t *dtype, struct ompi_op_t *op,
                                                     struct ompi_communicator_t *comm, gpuhier_module_t *module,
                                                     gpuhier_trace_event_t *trace, double begin)
{
    const void *in = MPI_IN_PLACE == sbuf ? rbuf : sbuf;
    gpuhier_reason_t reason = 0 == count ? GPUHIER_REASON_empty : GPUHIER_REASON_type;
    size_t elem_bytes = 0;
    const int kernel = 0 == count ? -1 : gpuhier_path_find(module, op, dtype, &elem_bytes);
    int rc = GPUHIER_DECLINED;
    if (kernel >= 0) {
        const gpuhier_path_key_t key = {kernel, (size_t) count * elem_bytes};
        gpuhier_mode_entry_t *entry = gpuhier_path_blocking(module, comm, key, in, rbuf, &reason);
        if (NULL != entry) {
            const gpuhier_call_args_t args = {.row = &gpuhier_allreduce_row,
                                              .kernel = kernel,
                                              .elem_bytes = elem_bytes,
                                              .count = (uint64_t) count,
                                              .in = in,
                                              .out = rbuf,
                                              .trace = trace};
            if (NULL != trace) {
                gpuhier_trace_phase(trace, GPUHIER_TRACE_QUEUED);
            }
            rc = gpuhier_path_run(module, entry, &args);
            reason = GPUHIER_REASON_declined;
        } else if (OMPI_SUCCESS != module->saved.failure) {
            rc = module->saved.failure;
        }
        if (GPUHIER_DECLINED != rc) {
            gpuhier_report_end(gpuhier_allreduce_row.name, GPUHIER_REPORT_GPUS, key.bytes, bus(comm), begin);
            if (NULL != trace) {
                gpuhier_trace_end(trace);
            }
            return rc;
        }
    }
    gpuhier_path_saved(module, comm, dtype, (size_t) count, reason);
    rc = gpuhier_fallback_allreduce(sbuf, rbuf, count, dtype, op, comm, &module->saved, reason, trace);
    gpuhier_report_end(gpuhier_allreduce_row.name, GPUHIER_REPORT_SAVED, dtype->super.size * (size_t) count, bus(comm),
                       begin);
    if (NULL != trace) {
        gpuhier_trace_end_left(trace, reason);
    }
    return rc;
}

/* A traced call, or a reported one. This is a function of its own, so that other calls need no event and do not read
 * the clock. */
static __attribute__((noinline)) int run_watched(const void *sbuf, void *rbuf, gpuhier_count_t count,
                                                 struct ompi_datatype_t *dtype, struct ompi_op_t *op,
                                                 struct ompi_communicator_t *comm, gpuhier_module_t *module)
{
    const double begin = gpuhier_report_begin();
    gpuhier_trace_event_t event, *trace = NULL;
    if (gpuhier_trace_is_on()) {
        trace = &event;
        gpuhier_trace_begin(trace, GPUHIER_TRACE_BLOCKING, gpuhier_allreduce_row.name, comm, dtype, op, (size_t) count);
    }
    return run(sbuf, rbuf, count, dtype, op, comm, module, trace, begin);
}

int gpuhier_allreduce(const void *sbuf, void *rbuf, gpuhier_count_t count, struct ompi_datatype_t *dtype,
                      struct ompi_op_t *op, struct ompi_communicator_t *comm, mca_coll_base_module_t *base)
{
    gpuhier_module_t *module = gpuhier_module_of(base);
    if (gpuhier_inside_saved > 0) {
        return module->saved.allreduce(sbuf, rbuf, count, dtype, op, comm, module->saved.allreduce_module);
    }
    if (gpuhier_trace_is_on() || __builtin_expect(gpuhier_params.report, 0)) {
        return run_watched(sbuf, rbuf, count, dtype, op, comm, module);
    }
    return run(sbuf, rbuf, count, dtype, op, comm, module, NULL, 0);
}
