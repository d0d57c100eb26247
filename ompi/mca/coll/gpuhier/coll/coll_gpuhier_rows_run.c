/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns how a collective runs on the GPUs once its row has said what it does: blocking, nonblocking, persistent; traced
 * or reported. A rank whose type has gaps works on a packed copy in host memory, of which no other rank knows.
 *
 * Called by the entry points in coll_gpuhier_family.c.
 */
#include "ompi_config.h"

#include <stdlib.h>
#include <string.h>

#include "base/coll_gpuhier_report.h"
#include "coll/coll_gpuhier_path.h"
#include "coll/coll_gpuhier_request.h"
#include "coll/coll_gpuhier_rows.h"
#include "engine/coll_gpuhier_queue.h"
#include "team/coll_gpuhier_team.h"
#include "ompi/datatype/ompi_datatype.h"

/* Key of all calls, as long as the communicator has no team. */
static const gpuhier_path_key_t first = {GPUHIER_KIND_FIRST, 1};

/*
 * May calls run on the GPUs of the communicator? Where it has no team yet, host programs make many calls of many kinds:
 * they share one entry of the table, and so its few probes, and rest until the next one is due.
 */
static bool is_open(gpuhier_module_t *module, struct ompi_communicator_t *comm, const gpuhier_call_args_t *args,
                    gpuhier_reason_t *why_p)
{
    if (NULL != module->team || NULL != gpuhier_path_blocking(module, comm, first, args->in, args->out, why_p)
        || NULL != module->team) {
        return true; /* a meeting may have made the team */
    }
    gpuhier_mode_entry_t *entry = gpuhier_modes_entry(&module->modes, first.kind, first.bytes);
    if (GPUHIER_AGREE_NO == module->agree || module->team_failed || NULL == entry
        || GPUHIER_MODE_NEVER == entry->mode) {
        module->rest = UINT64_MAX;
    } else if (entry->probe > entry->calls + 1) {
        module->rest = entry->probe - entry->calls - 1;
        entry->calls += module->rest;
    }
    return false;
}

/* For a rank that gives and takes nothing any GPU memory will do: its buffers do not keep the others from the GPUs. */
static void idle_fill(const gpuhier_team_t *team, gpuhier_call_args_t *args)
{
    if (args->is_idle && NULL != team) {
        args->in = args->out = (void *) (uintptr_t) team->device->witness;
    }
}

/* Pairs with lists, between groups? */
static bool must_hear(const gpuhier_team_t *team, const gpuhier_collective_t *row)
{
    return team->ngroups > 1 && gpuhier_collective_lists_pairs(row);
}

/*
 * In such calls all ranks tell all how much they give to each. So a rank knows how long the chunks are that come,
 * whatever it expects, and how many slices the call has. Returns the lengths of blocks, [giver][taker], those that this
 * rank gives filled in; or ends the job if there is no memory.
 */
static uint64_t *lengths_make(const gpuhier_team_t *team, const gpuhier_call_args_t *args)
{
    const size_t n = (size_t) team->nranks;
    uint64_t *lengths = calloc(n * n, sizeof(*lengths));
    if (NULL == lengths) {
        gpuhier_request_abort(team->comm);
        return NULL;
    }
    for (size_t i = 0; i < n && NULL != args->given; ++i) {
        lengths[(size_t) team->rank * n + i] = args->given[i].length;
    }
    return lengths;
}

/* Takes the lengths of all ranks into a call. taken: this rank's lists, of which the next one is for what is heard. */
static void lengths_take(const uint64_t *lengths, const gpuhier_team_t *team, gpuhier_block_t *taken, uint64_t *count_p,
                         bool *is_cut_short_p)
{
    const size_t n = (size_t) team->nranks;
    *count_p = 1;
    for (size_t i = 0; i < n * n; ++i) {
        *count_p = lengths[i] > *count_p ? lengths[i] : *count_p;
    }
    for (size_t i = 0; i < n && NULL != taken; ++i) {
        const uint64_t heard = lengths[i * n + (size_t) team->rank];
        taken[n + i].length = heard;
        taken[i].length = gpuhier_watch_cut(team, (int) i, heard, taken[i].length, is_cut_short_p);
    }
}

/* Blocking and persistent calls hear at once. Collective; returns an Open MPI code. */
static int lists_hear(gpuhier_module_t *module, const gpuhier_team_t *team, gpuhier_call_args_t *args)
{
    uint64_t *lengths = must_hear(team, args->row) ? lengths_make(team, args) : NULL;
    if (NULL == lengths) {
        return OMPI_SUCCESS;
    }
    const size_t n = (size_t) team->nranks;
    const int rc = gpuhier_saved_gather(&module->saved, team->comm, MPI_IN_PLACE, lengths, n * sizeof(*lengths));
    lengths_take(lengths, team, args->taken, &args->count, &args->is_cut_short);
    args->heard = NULL == args->taken ? NULL : args->taken + n;
    free(lengths);
    return rc;
}

/* A nonblocking call keeps its place in the queue, and begins when the saved MPI_Iallgather is complete. */
static int lists_heard(gpuhier_call_t *call)
{
    gpuhier_request_t *request = gpuhier_request_of(call);
    if (!REQUEST_COMPLETE(request->saved)) {
        return 0;
    }
    opal_atomic_rmb();
    if (MPI_SUCCESS != request->saved->req_status.MPI_ERROR) {
        return OMPI_ERROR;
    }
    lengths_take(request->lengths, call->team, call->taken, &call->count, &call->is_cut_short);
    call->heard = NULL == call->taken ? NULL : call->taken + call->team->nranks;
    return 1;
}

static int lists_ask(gpuhier_request_t *request, gpuhier_saved_t *saved, const gpuhier_team_t *team)
{
    const gpuhier_count_t bytes = (gpuhier_count_t) ((size_t) team->nranks * sizeof(*request->lengths));
    request->lengths = lengths_make(team, &request->args);
    request->args.hear = lists_heard;
    if (NULL == request->lengths || OMPI_SUCCESS != saved->failure) {
        return OMPI_SUCCESS != saved->failure ? saved->failure : OMPI_ERR_OUT_OF_RESOURCE;
    }
    ++gpuhier_inside_saved;
    saved->failure = saved->iallgather(MPI_IN_PLACE, bytes, MPI_BYTE, request->lengths, bytes, MPI_BYTE, team->comm,
                                       &request->saved, saved->iallgather_module);
    --gpuhier_inside_saved;
    return saved->failure;
}

/*
 * Types with gaps: makes the packed copies on which the call works. Ends the job if there is no memory, since other
 * ranks are in the call.
 */
static int packed_open(const gpuhier_entry_t *entry, gpuhier_row_call_t *call, gpuhier_staged_t *packed)
{
    const gpuhier_operands_of_t *of = entry->of;
    const gpuhier_coll_args_t *a = entry->a;
    gpuhier_call_args_t *args = &call->args;
    if (!call->packs_in && !call->packs_out) {
        return OMPI_SUCCESS;
    }
    const gpuhier_operands_t o = of->find(a, of->sbuf_is, of->rbuf_is);
    const int rc = gpuhier_staged_pack(packed, call->packs_in ? &o.send : NULL, call->packs_out ? &o.recv : NULL);
    if (OMPI_SUCCESS != rc) {
        gpuhier_staged_abort(packed, a->comm);
        return rc;
    }
    args->is_packed = gpuhier_address_on_device(args->in) && gpuhier_address_on_device(args->out);
    if (call->packs_out) {
        args->out = packed->recv.whole.host;
        args->in = call->in_place ? packed->recv.whole.host + call->in_at : args->in;
    }
    if (call->packs_in) {
        args->in = packed->send.whole.host;
    }
    return OMPI_SUCCESS;
}

/* Bytes of the message, which nccl-tests calls the size; of pairs with lists, what this rank gives. */
static uint64_t message_bytes(const gpuhier_row_call_t *call, int nranks)
{
    const gpuhier_call_args_t *args = &call->args;
    uint64_t bytes = 0;
    if (args->kernel < 0 || 0 == args->count) {
        return args->count * args->dtype->super.size;
    }
    if (!gpuhier_collective_lists_pairs(args->row)) {
        return call->key.bytes;
    }
    for (int i = 0; i < nranks && NULL != args->given; ++i) {
        bytes += args->given[i].length;
    }
    return bytes;
}

/* What nccl-tests counts as moved by a GPU's links: times the bytes of the message. */
static double bus(const gpuhier_collective_t *row, double nranks)
{
    return gpuhier_collective_is_all_to_all(row) ? 2 * (nranks - 1) / nranks
           : row->has_blocks                     ? (nranks - 1) / nranks
                                                 : 1;
}

static void watched_begin(const gpuhier_entry_t *entry, gpuhier_trace_way_t way, const gpuhier_row_call_t *call)
{
    gpuhier_watched_t *watched = entry->watched;
    const gpuhier_coll_args_t *a = entry->a;
    watched->name = call->args.row->name;
    watched->bytes = message_bytes(call, ompi_comm_size(a->comm));
    watched->bus = bus(call->args.row, ompi_comm_size(a->comm));
    if (gpuhier_trace_is_on()) {
        watched->trace = &watched->event;
        gpuhier_trace_begin(watched->trace, way, watched->name, a->comm, call->args.dtype, a->op, call->args.count);
        watched->event.bytes = watched->bytes;
    }
}

/* A call is left to Open MPI. Those of MPI_Allreduce are counted here, others where they are staged. */
static int leave(gpuhier_entry_t *entry, gpuhier_reason_t why, const gpuhier_call_args_t *args)
{
    entry->why = why;
    if (gpuhier_collective_is_all_to_all(args->row)) {
        gpuhier_path_saved(entry->module, entry->a->comm, args->row->name, args->dtype, args->count, why);
    }
    return GPUHIER_DECLINED;
}

/* The row has found nothing to do on the GPUs. */
static gpuhier_reason_t why_empty(const gpuhier_call_args_t *args)
{
    return 0 == args->count ? GPUHIER_REASON_empty : GPUHIER_REASON_type;
}

/* A blocking call on the GPUs. */
static int run_here(const gpuhier_entry_t *entry, gpuhier_mode_entry_t *mode, gpuhier_row_call_t *call)
{
    const gpuhier_watched_t *watched = entry->watched;
    call->args.trace = NULL == watched ? NULL : watched->trace;
    gpuhier_watched_phase(watched, GPUHIER_TRACE_QUEUED);
    const int rc = gpuhier_path_run(entry->module, mode, &call->args);
    if (NULL != watched && GPUHIER_DECLINED != rc) {
        gpuhier_report_end(watched->name, GPUHIER_REPORT_GPUS, watched->bytes, watched->bus, watched->begin);
        if (NULL != watched->trace) {
            gpuhier_trace_end(watched->trace);
        }
    }
    return rc;
}

/* The same with packed copies of this rank's data. A rank that cannot read its input votes the call down. */
static int run_packed(const gpuhier_entry_t *entry, gpuhier_mode_entry_t *mode, gpuhier_row_call_t *call)
{
    gpuhier_staged_t packed;
    memset(&packed, 0, sizeof(packed));
    int rc = packed_open(entry, call, &packed);
    if (OMPI_SUCCESS == rc) {
        call->args.declines = call->args.declines || OMPI_SUCCESS != gpuhier_staged_read(&packed);
        rc = gpuhier_staged_end(&packed, run_here(entry, mode, call));
    }
    gpuhier_staged_close(&packed);
    return rc;
}

static int run(gpuhier_entry_t *entry, gpuhier_row_call_t *call)
{
    gpuhier_module_t *module = entry->module;
    struct ompi_communicator_t *comm = entry->a->comm;
    gpuhier_call_args_t *args = &call->args;
    gpuhier_reason_t why = GPUHIER_REASON_not_tried;
    gpuhier_mode_entry_t *mode = NULL;
    if (gpuhier_collective_is_all_to_all(args->row) || is_open(module, comm, args, &why)) {
        idle_fill(module->team, args);
        mode = gpuhier_path_blocking(module, comm, call->key, args->in, args->out, &why);
    }
    if (NULL == mode) {
        return OMPI_SUCCESS != module->saved.failure ? module->saved.failure : leave(entry, why, args);
    }
    int rc = lists_hear(module, module->team, args);
    if (OMPI_SUCCESS == rc) {
        rc = call->packs_in || call->packs_out ? run_packed(entry, mode, call) : run_here(entry, mode, call);
    }
    return GPUHIER_DECLINED == rc ? leave(entry, GPUHIER_REASON_declined, args) : rc;
}

int gpuhier_row_run(gpuhier_entry_t *entry)
{
    gpuhier_row_call_t call;
    const bool may = entry->row(entry->a, &call);
    if (NULL != entry->watched) {
        watched_begin(entry, GPUHIER_TRACE_BLOCKING, &call);
    }
    if (!may && !entry->rests) {
        return leave(entry, why_empty(&call.args), &call.args);
    }
    const int rc = entry->rests ? GPUHIER_DECLINED : run(entry, &call);
    gpuhier_call_lists_free(&call.args);
    return rc;
}

gpuhier_reason_t gpuhier_rows_reason(const gpuhier_module_t *module)
{
    return gpuhier_path_reason(module, &first);
}

/* Gives the request what it needs to run the call, but no team: lists, packed copies, a tag, an event. */
static int request_fill(gpuhier_request_t *request, const gpuhier_entry_t *entry, gpuhier_row_call_t *call)
{
    const int rc = packed_open(entry, call, &request->staged);
    request->args = call->args;
    request->args.tag = gpuhier_hostcall_tag(entry->a->comm);
    gpuhier_request_trace(request, NULL == entry->watched ? NULL : entry->watched->trace);
    return rc;
}

int gpuhier_row_post(gpuhier_entry_t *entry, ompi_request_t **request_p)
{
    gpuhier_module_t *module = entry->module;
    gpuhier_team_t *team = module->team;
    gpuhier_row_call_t call;
    const bool may = entry->row(entry->a, &call);
    gpuhier_call_args_t *args = &call.args;
    if ((may ? call.key.bytes : message_bytes(&call, 0)) <= GPUHIER_PATH_NONBLOCKING_BYTES) {
        gpuhier_call_lists_free(args);
        entry->why =
            GPUHIER_REASON_collective; /* Open MPI posts such calls of its own, from any thread: nothing is noted */
        return GPUHIER_DECLINED;
    }
    if (NULL != entry->watched) {
        watched_begin(entry, GPUHIER_TRACE_NONBLOCKING, &call);
    }
    if (!may) {
        return leave(entry, why_empty(args), args);
    }
    gpuhier_mode_entry_t *mode = gpuhier_path_nonblocking(module, call.key);
    if (NULL == mode) {
        const gpuhier_path_key_t key = NULL == team && !gpuhier_collective_is_all_to_all(args->row) ? first : call.key;
        const gpuhier_reason_t why = gpuhier_path_reason(module, &key);
        idle_fill(team, args);
        gpuhier_path_note(module, key, args->in, args->out);
        gpuhier_call_lists_free(args);
        return leave(entry, why, args);
    }
    gpuhier_request_t *request = gpuhier_request_get(entry->a->comm, false);
    if (NULL == request) {
        gpuhier_request_abort(entry->a->comm);
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    idle_fill(team, args);
    args->outcome_p = &mode->outcome;
    int rc = request_fill(request, entry, &call);
    rc = OMPI_SUCCESS == rc && must_hear(team, args->row) ? lists_ask(request, &module->saved, team) : rc;
    if (OMPI_SUCCESS != rc) {
        gpuhier_request_drop(request);
        return rc;
    }
    request->team = team;
    *request_p = &request->base.super;
    gpuhier_request_post(request);
    return OMPI_SUCCESS;
}

/*
 * MPI orders the making of persistent requests, but each rank may start them in an order of its own. So a request on
 * the GPUs cannot be in the queue of the communicator's calls: it has a team of its own, with its own control block,
 * numbers and tags. It needs no mode either, since its buffers never change: when all ranks pass device memory, every
 * start runs on the GPUs.
 */
int gpuhier_row_init(gpuhier_entry_t *entry, ompi_request_t **request_p)
{
    gpuhier_module_t *module = entry->module;
    struct ompi_communicator_t *comm = entry->a->comm;
    gpuhier_row_call_t call;
    const bool may = entry->row(entry->a, &call);
    gpuhier_call_args_t *args = &call.args;
    if (NULL != entry->watched) {
        watched_begin(entry, GPUHIER_TRACE_PERSISTENT, &call);
    }
    if (!may) {
        entry->why = why_empty(args);
        return GPUHIER_DECLINED;
    }
    idle_fill(module->team, args);
    gpuhier_request_t *request = gpuhier_request_get(comm, true);
    gpuhier_team_t *team = gpuhier_path_persistent(module, comm, args->in, args->out, call.key,
                                                   NULL != request && !args->declines, &entry->why);
    if (NULL == request) {
        gpuhier_request_abort(comm);
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    request->team = team;
    request->owns_team = NULL != team;
    request->args = *args; /* whose lists it owns */
    if (NULL == team) {
        gpuhier_request_drop(request);
        return OMPI_SUCCESS != module->saved.failure ? module->saved.failure : GPUHIER_DECLINED;
    }
    idle_fill(team, args);
    int rc = lists_hear(module, team, args);
    rc = OMPI_SUCCESS != rc ? rc : request_fill(request, entry, &call);
    if (OMPI_SUCCESS != rc) {
        gpuhier_request_drop(request);
        return rc;
    }
    *request_p = &request->base.super;
    return OMPI_SUCCESS;
}
