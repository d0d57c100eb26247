/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_Allreduce: decides which path a call takes.
 *
 *   eligible (predefined operation and type that have a kernel)?  else: fallback
 *   all members agree (version, parameters, a driver)?            else: fallback
 *   mode of this kind of call: HOST -> probe when due, fallback;  ACC -> engine
 *
 * What is decided here follows from what all ranks know (count, operation, type,
 * the modes), never from a rank's own buffer; so no rank waits for another that
 * went elsewhere.
 */
#include "ompi_config.h"

#include "base/coll_gpuhier_lock.h"
#include "base/coll_gpuhier_end.h"
#include "base/coll_gpuhier_counters.h"
#include "base/coll_gpuhier_params.h"
#include "gpu/coll_gpuhier_cuda.h"
#include "host/coll_gpuhier_fallback.h"
#include "coll/coll_gpuhier_module.h"
#include "engine/coll_gpuhier_queue.h"
#include "gpu/coll_gpuhier_reduce.h"
#include "engine/coll_gpuhier_watch.h"
#include "team/coll_gpuhier_setup.h"
#include "opal/util/output.h"

bool gpuhier_members_agree(gpuhier_module_t *module, struct ompi_communicator_t *comm)
{
    if (GPUHIER_AGREE_UNKNOWN == module->agree) {
        bool yes = gpuhier_params.probe && gpuhier_cuda_present() && gpuhier_agree(comm);
        module->agree = yes ? GPUHIER_AGREE_YES : GPUHIER_AGREE_NO;
        if (!yes && gpuhier_params.print_info && 0 == ompi_comm_rank(comm)) {
            opal_output(0,
                        "coll:gpuhier: communicator %s is left to Open MPI: not all members have gpuhier, the same "
                        "parameters and a CUDA driver",
                        comm->c_name);
        }
    }
    return GPUHIER_AGREE_YES == module->agree;
}

/* What a rank says to a probe; the least of all counts. */
enum { PROBE_NEVER /* no memory to remember the answer */, PROBE_NO, PROBE_SET_UP, PROBE_READY };

/* This rank's answer: with device memory, a team that is as good as ever, or a new one, when there is none or its CUDA
 * context is gone. */
static int probe_answer(const gpuhier_module_t *module, const gpuhier_buffer_t *from, const gpuhier_buffer_t *to)
{
    gpuhier_team_t *team = module->team;
    if (!gpuhier_buffer_on_device(from) || !gpuhier_buffer_on_device(to)
        || (NULL != team && OMPI_SUCCESS != team->torn)) {
        return PROBE_NO;
    }
    gpuhier_engine_lock();
    bool ready = NULL != team && gpuhier_team_check(team);
    gpuhier_engine_unlock();
    return ready ? PROBE_READY : NULL != from->context || NULL != to->context ? PROBE_SET_UP : PROBE_NO;
}

/*
 * Asks all ranks whether they pass device memory, through the saved allreduce;
 * if all do, sets the team up, anew if need be. True on all ranks alike. kind: the class, which has its row here, or
 * has_row is false.
 */
__attribute__((noinline)) static bool probe(gpuhier_module_t *module, struct ompi_communicator_t *comm, const void *in,
                                            const void *out, int kind, bool has_row)
{
    gpuhier_buffer_t from, to;
    gpuhier_buffer_inspect(in, &from);
    gpuhier_buffer_inspect(out, &to);
    const gpuhier_buffer_t *owner = NULL != from.context ? &from : &to;
    int mine = has_row ? probe_answer(module, &from, &to) : PROBE_NEVER, all = PROBE_NO;
    gpuhier_count(&gpuhier_counters.probes, 1);
    int rc = module->saved.allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, comm, module->saved.allreduce_module);
    if (OMPI_SUCCESS == rc && PROBE_NEVER == all) {
        gpuhier_modes_never(&module->modes, kind);
    }
    if (OMPI_SUCCESS != rc || all <= PROBE_NO) {
        return false;
    }
    if (PROBE_SET_UP == all) {
        if (NULL != module->team) {
            gpuhier_queue_drain(module->team);
            gpuhier_engine_lock();
            gpuhier_team_outlived(module->team);
            gpuhier_team_destroy(module->team);
            gpuhier_engine_unlock();
            module->team = NULL;
        }
        rc = gpuhier_team_create(&module->saved, comm, owner, &module->team);
        module->team_failed = OMPI_SUCCESS != rc;
    }
    return NULL != module->team;
}

#define TRIM_EVERY 64 /* short messages, which map nothing */

/* Runs the call on the GPUs. GPUHIER_DECLINED: no user's buffer was written, use the saved collective. */
static int accelerate(gpuhier_module_t *module, gpuhier_mode_entry_t *entry, int kernel, size_t elem_bytes,
                      const void *in, void *out, gpuhier_count_t count)
{
    gpuhier_call_t call, *ended = NULL;
    const gpuhier_call_args_t args = {
        .kernel = kernel, .elem_bytes = elem_bytes, .count = (uint64_t) count, .in = in, .out = out};
    gpuhier_engine_lock();
    gpuhier_queue_post(&call, module->team, &args, &ended);
    gpuhier_engine_unlock();
    gpuhier_queue_tell(ended);
    int rc = gpuhier_queue_wait(&call);
    if (!call.is_small || 0 == call.sequence % TRIM_EVERY) {
        gpuhier_engine_lock();
        gpuhier_device_trim(module->team->device);
        gpuhier_engine_unlock();
    }
    /* Nonblocking calls that were posted before have ended before, on all ranks. */
    const uint32_t mask = call.mask | entry->outcome;
    /* An error changes no mode, since modes must be equal. But others may have ended a call that failed here, and go by
     * its mask. */
    if (0 != mask && (rc >= 0 || call.outcome_known)) {
        entry->outcome = 0;
        gpuhier_modes_to_host(entry);
    }
    if (OMPI_SUCCESS == rc) {
        gpuhier_count(&gpuhier_counters.calls_accelerated, 1);
        gpuhier_count(&gpuhier_counters.calls_small, call.is_small);
        gpuhier_count(&gpuhier_counters.calls_long, call.is_long);
    }
    return gpuhier_watch_code(&call);
}

/* gpuhier_reduce_find(), which is not asked the same twice in a row. With a kernel both are predefined, and so live for
 * ever. */
static int find(gpuhier_module_t *module, const struct ompi_op_t *op, const struct ompi_datatype_t *dtype,
                size_t *elem_bytes_p)
{
    gpuhier_found_t *last = &module->last;
    if (op != last->op || dtype != last->dtype) {
        size_t elem_bytes = 0;
        int kernel = gpuhier_reduce_find(op, dtype, &elem_bytes);
        if (kernel < 0) {
            return kernel;
        }
        *last = (gpuhier_found_t){op, dtype, kernel, elem_bytes};
    }
    *elem_bytes_p = last->elem_bytes;
    return last->kernel;
}

int gpuhier_allreduce(const void *sbuf, void *rbuf, gpuhier_count_t count, struct ompi_datatype_t *dtype,
                      struct ompi_op_t *op, struct ompi_communicator_t *comm, mca_coll_base_module_t *base)
{
    gpuhier_module_t *module = gpuhier_module_of(base);
    size_t elem_bytes = 0;
    int kernel = 0 == count ? -1 : find(module, op, dtype, &elem_bytes);
    if (kernel < 0 || module->team_failed || gpuhier_end_has_come() || !gpuhier_members_agree(module, comm)) {
        return gpuhier_fallback_allreduce(sbuf, rbuf, count, dtype, op, comm, &module->saved);
    }
    const int kind = gpuhier_reduce_class(kernel);
    gpuhier_mode_entry_t *entry = gpuhier_modes_entry(&module->modes, kind, (size_t) count * elem_bytes);
    const void *in = MPI_IN_PLACE == sbuf ? rbuf : sbuf;
    if (NULL == entry) {
        (void) probe(module, comm, in, rbuf, kind,
                     false); /* the others probe, too: it is the first call of its class */
        return gpuhier_fallback_allreduce(sbuf, rbuf, count, dtype, op, comm, &module->saved);
    }
    if (GPUHIER_MODE_HOST == entry->mode && gpuhier_modes_probe_due(entry)) {
        if (!probe(module, comm, in, rbuf, kind, true)) {
            return gpuhier_fallback_allreduce(sbuf, rbuf, count, dtype, op, comm,
                                              &module->saved); /* the entry may be gone */
        }
        gpuhier_modes_to_acc(entry);
    }
    if (GPUHIER_MODE_ACC == entry->mode) {
        int rc = accelerate(module, entry, kernel, elem_bytes, in, rbuf, count);
        if (GPUHIER_DECLINED != rc) {
            return rc;
        }
    }
    return gpuhier_fallback_allreduce(sbuf, rbuf, count, dtype, op, comm, &module->saved);
}
