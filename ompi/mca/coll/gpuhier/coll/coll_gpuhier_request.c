/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the life of requests and their progress.
 *
 *            post                                  the call has ended
 *   inactive ----> active, in its team's queue  ------------------------------------------> complete
 *            await                                 the saved request is complete; copy back
 *            ----> active, in the list of those that wait ---------------------------------> complete
 *
 * A call that ends while a kernel that waits for other ranks is on the default stream waits in that list, too: the copy
 * would wait for the kernel, and only this thread can end that one when a rank dies.
 *
 * Requests are completed without the engine's lock: completing a request runs Open MPI's callbacks, and its owner may
 * free it at once.
 *
 * Called by rows and family, and by Open MPI through a request's functions.
 */
#include "ompi_config.h"

#include <string.h>

#include "base/coll_gpuhier_help.h"
#include "base/coll_gpuhier_lock.h"
#include "base/coll_gpuhier_counters.h"
#include "base/coll_gpuhier_end.h"
#include "engine/coll_gpuhier_form.h"
#include "engine/coll_gpuhier_queue.h"
#include "coll/coll_gpuhier_request.h"
#include "ompi/errhandler/errcode-internal.h"
#include "ompi/runtime/mpiruntime.h"
#include "opal/runtime/opal_progress.h"

#if __has_include("ompi/mpi/fortran/base/fint_2_int.h")
#    include "ompi/mca/coll/base/coll_base_util.h"
_Static_assert(sizeof(ompi_coll_base_nbc_request_t) <= sizeof(gpuhier_request_base_t),
               "Open MPI writes beyond its part of a request");
#endif

/*
 * Free requests, linked by `next`. Open MPI may look at a request just after it was freed, so its memory stays. Open
 * MPI's own free lists cannot be used: their inline code needs an instruction that older processors lack.
 */
static gpuhier_request_t *unused;
static opal_mutex_t unused_lock = OPAL_MUTEX_STATIC_INIT;
static gpuhier_request_t *waiting; /* active requests whose result is not copied yet; under the engine's lock */
static bool registered;            /* progress() is registered with Open MPI; under the engine's lock */

static void complete(gpuhier_request_t *request, int code)
{
    request->base.super.req_status.MPI_ERROR = ompi_errcode_get_mpi_code(code);
    atomic_store_explicit(&request->ended, true, memory_order_release);
    ompi_request_complete(&request->base.super, true);
}

static void phase(gpuhier_request_t *request, gpuhier_trace_phase_t begins)
{
    if (request->is_traced) {
        gpuhier_trace_phase(&request->trace, begins);
    }
}

/* Takes the requests whose result can be copied back out of the list, and returns them. */
static gpuhier_request_t *waiting_collect(void)
{
    gpuhier_request_t *through = NULL;
    for (gpuhier_request_t **place = &waiting; NULL != *place && !gpuhier_default_waits;) {
        gpuhier_request_t *request = *place;
        if (NULL != request->saved && !REQUEST_COMPLETE(request->saved)) {
            place = &request->next;
            continue;
        }
        *place = request->next;
        request->next = through;
        through = request;
    }
    opal_atomic_rmb();
    return through;
}

static int saved_end(gpuhier_request_t *request)
{
    const int rc = request->saved->req_status.MPI_ERROR;
    if (request->base.super.req_persistent) {
        request->saved->req_state = OMPI_REQUEST_INACTIVE;
    } else {
        (void) ompi_request_free(&request->saved);
        request->saved = NULL;
    }
    phase(request, GPUHIER_TRACE_WRITE);
    return rc;
}

static int finish(gpuhier_request_t *through)
{
    int events = 0;
    while (NULL != through) {
        gpuhier_request_t *request = through;
        through = request->next;
        const bool is_left = NULL == request->team;
        const int rc = gpuhier_staged_end(&request->staged, is_left ? saved_end(request) : request->code);
        if (is_left && request->is_traced) {
            gpuhier_trace_end_left(&request->trace, request->why);
        }
        complete(request, OMPI_SUCCESS != request->failure ? request->failure : rc);
        ++events;
    }
    return events;
}

static int progress(void);

static void progress_need(void)
{
    if (!registered) {
        registered = OPAL_SUCCESS == opal_progress_register(progress);
    }
}

static void await(gpuhier_request_t *request)
{
    gpuhier_engine_lock();
    request->next = waiting;
    waiting = request;
    progress_need();
    gpuhier_engine_unlock();
}

static void call_ended(gpuhier_call_t *call)
{
    gpuhier_request_t *request = gpuhier_request_of(call);
    if (OMPI_SUCCESS == call->status) {
        gpuhier_count(call->on_host ? &gpuhier_counters.calls_on_host : &gpuhier_counters.calls_accelerated, 1);
        gpuhier_count(&gpuhier_counters.calls_nonblocking, !call->on_host);
        if (!call->on_host) {
            gpuhier_form_count(call);
        }
    }
    if (NULL != call->trace) {
        gpuhier_trace_end(call->trace);
    }
    request->code = gpuhier_watch_code(call);
    if (gpuhier_default_waits && NULL != request->staged.recv.whole.host) {
        await(request);
    } else {
        request->next = NULL;
        (void) finish(request);
    }
}

static int progress(void)
{
    gpuhier_call_t *ended = NULL;
    if (!gpuhier_engine_trylock()) {
        return 0; /* another thread has the lock, or this one has it in an outer call */
    }
    int events = gpuhier_queue_drive_all(&ended);
    gpuhier_request_t *through = waiting_collect();
    if (registered && NULL == waiting && !gpuhier_queue_is_busy()) {
        opal_progress_unregister(progress);
        registered = false;
    }
    gpuhier_engine_unlock();
    gpuhier_queue_tell(ended);
    return events + finish(through);
}

static void activate(gpuhier_request_t *request)
{
    (void) atomic_exchange_explicit(&request->ended, false, memory_order_acquire);
    ompi_request_t *base = &request->base.super;
    base->req_status.MPI_ERROR = MPI_SUCCESS;
    base->req_complete = REQUEST_PENDING;
    base->req_state = OMPI_REQUEST_ACTIVE;
}

void gpuhier_request_post(gpuhier_request_t *request)
{
    gpuhier_call_t *ended = NULL;
    request->failure = gpuhier_staged_bring(&request->staged, request->comm);
    activate(request);
    request->args.ended = call_ended;
    phase(request, GPUHIER_TRACE_QUEUED);
    request->args.trace = request->is_traced ? &request->trace : NULL;
    gpuhier_engine_lock();
    gpuhier_queue_post(&request->call, request->team, &request->args, &ended);
    if (NULL != request->call.form->offer) {
        gpuhier_device_trim(request->team->device); /* must not run inside progress */
    }
    if (gpuhier_queue_is_busy()) {
        progress_need();
    }
    gpuhier_engine_unlock();
    gpuhier_queue_tell(ended);
}

void gpuhier_request_trace(gpuhier_request_t *request, const gpuhier_trace_event_t *trace)
{
    request->is_traced = NULL != trace;
    if (NULL != trace) {
        request->trace = *trace;
    }
}

/* Reads the input of a staged request, and counts it. */
static void staged_read(gpuhier_request_t *request)
{
    request->trace.is_staged = true;
    phase(request, GPUHIER_TRACE_READ);
    request->failure = gpuhier_staged_bring(&request->staged, request->comm);
    gpuhier_staged_count(&request->staged, request->comm, request->why);
    phase(request, GPUHIER_TRACE_OPEN_MPI);
}

static int start_saved(gpuhier_request_t *request)
{
    int rc = OMPI_SUCCESS;
    gpuhier_count(&gpuhier_counters.saved_because[request->why], 1);
    staged_read(request);
    /* On a communicator of one rank, Open MPI may give a request that does nothing: it is always complete, and has no
     * req_start. */
    if (OMPI_REQUEST_NOOP != request->saved->req_type) {
        ++gpuhier_inside_saved;
        rc = request->saved->req_start(1, &request->saved);
        --gpuhier_inside_saved;
    }
    if (OMPI_SUCCESS == rc) {
        activate(request);
        await(request);
    }
    return rc;
}

static int request_start(size_t count, ompi_request_t **requests)
{
    int rc = OMPI_SUCCESS;
    for (size_t i = 0; i < count && OMPI_SUCCESS == rc; ++i) {
        gpuhier_request_t *request = (gpuhier_request_t *) requests[i];
        if (request->is_traced) {
            gpuhier_trace_again(&request->trace);
        }
        if (NULL == request->team) {
            rc = start_saved(request);
        } else if (gpuhier_end_has_begun()) {
            rc =
                OMPI_ERR_NOT_AVAILABLE; /* ranks start requests in different orders, which no saved collective serves */
        } else {
            gpuhier_request_post(request);
        }
    }
    return rc;
}

void gpuhier_requests_quiesce(void)
{
    waiting = NULL; /* these stay incomplete: the saved collective still uses their buffers */
    if (registered) {
        opal_progress_unregister(progress);
        registered = false;
    }
}

static void comm_release(gpuhier_request_t *request)
{
    struct ompi_communicator_t *comm = request->comm;
    request->comm = NULL;
    if (NULL != comm) {
        OBJ_RELEASE(comm);
    }
}

/*
 * Releases everything that the request holds. After an error Open MPI frees the request first, and then asks the
 * communicator for its error handler: this request keeps the communicator until it is used again.
 */
static void resources_free(gpuhier_request_t *request)
{
    if (request->owns_team) {
        gpuhier_engine_lock();
        gpuhier_team_destroy(request->team);
        gpuhier_engine_unlock();
    }
    if (NULL == request->lengths || NULL == request->saved
        || REQUEST_COMPLETE(request->saved)) { /* else Open MPI still writes there */
        free(request->lengths);
        if (NULL != request->saved) {
            (void) ompi_request_free(&request->saved);
            request->saved = NULL;
        }
    }
    gpuhier_staged_close(&request->staged);
    gpuhier_call_lists_free(&request->args);
    if (NULL != request->op) {
        OBJ_RELEASE(request->op);
    }
    if (MPI_SUCCESS == request->base.super.req_status.MPI_ERROR) {
        comm_release(request);
    }
}

void gpuhier_requests_leave_comms(void)
{
    for (gpuhier_request_t *request = unused; NULL != request; request = request->next) {
        comm_release(request);
    }
}

static int request_free(ompi_request_t **request_p)
{
    gpuhier_request_t *request = (gpuhier_request_t *) *request_p;
    (void) atomic_load_explicit(&request->ended, memory_order_acquire);
    if (!REQUEST_COMPLETE(&request->base.super)) {
        return MPI_ERR_REQUEST; /* MPI forbids it for collectives */
    }
    gpuhier_request_drop(request);
    *request_p = MPI_REQUEST_NULL;
    return OMPI_SUCCESS;
}

static int request_cancel(ompi_request_t *request, int flag)
{
    (void) request;
    (void) flag;
    return MPI_ERR_REQUEST; /* MPI forbids it for collectives */
}

static void request_construct(gpuhier_request_t *request)
{
    request->base.super.req_type = OMPI_REQUEST_COLL;
    request->base.super.req_cancel = request_cancel;
    request->comm = NULL;
}
OBJ_CLASS_INSTANCE(gpuhier_request_t, ompi_request_t, request_construct, NULL);

void gpuhier_requests_close(void)
{
    gpuhier_requests_quiesce(); /* finalize() of the component does not run in every process */
    while (NULL != unused) {
        gpuhier_request_t *request = unused;
        unused = request->next;
        OBJ_RELEASE(request);
    }
}

gpuhier_request_t *gpuhier_request_get(struct ompi_communicator_t *comm, bool persistent)
{
    opal_mutex_lock(&unused_lock);
    gpuhier_request_t *request = unused;
    unused = NULL != request ? request->next : NULL;
    opal_mutex_unlock(&unused_lock);
    request = NULL != request ? request : OBJ_NEW(gpuhier_request_t);
    if (NULL == request) {
        return NULL;
    }
    comm_release(request);
    OMPI_REQUEST_INIT(&request->base.super, persistent);
    request->base.super.req_free = request_free; /* set for each use: Open MPI may replace it */
    request->base.super.req_start = persistent ? request_start : NULL;
    request->base.super.req_status = ompi_status_empty;
    request->base.super.req_mpi_object.comm = comm; /* its error handler serves the request */
    memset(request->base.of_mpi, 0, sizeof(request->base.of_mpi));
    memset((char *) request + offsetof(gpuhier_request_t, team), 0,
           offsetof(gpuhier_request_t, call) - offsetof(gpuhier_request_t, team));
    OBJ_RETAIN(comm);
    request->comm = comm;
    return request;
}

void gpuhier_request_abort(struct ompi_communicator_t *comm)
{
    gpuhier_help("no memory", "A nonblocking or persistent collective could not start", ompi_process_info.nodename,
                 ompi_comm_rank(comm), sizeof(gpuhier_request_t));
    ompi_mpi_abort(comm, MPI_ERR_NO_MEM);
}

int gpuhier_request_stage(const gpuhier_entry_t *entry, gpuhier_saved_fn *call, const gpuhier_operands_t *operands,
                          bool persistent, ompi_request_t **request_p)
{
    gpuhier_coll_args_t *a = entry->a;
    gpuhier_request_t *request = gpuhier_request_get(a->comm, persistent);
    if (NULL == request) {
        gpuhier_request_abort(a->comm);
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    int rc = gpuhier_staged_open(&request->staged, &operands->send, &operands->recv);
    if (OMPI_SUCCESS != rc) {
        gpuhier_staged_abort(&request->staged, a->comm);
        gpuhier_request_drop(request);
        return rc;
    }
    gpuhier_request_trace(request, NULL == entry->watched ? NULL : entry->watched->trace);
    request->why = entry->why;
    if (!persistent) {
        staged_read(request);
    }
    gpuhier_use_copies(a, &request->staged);
    request->op = (opal_object_t *) a->op; /* its own type is in a header that Open MPI does not install */
    if (NULL != request->op) {
        OBJ_RETAIN(request->op);
    }
    rc = gpuhier_saved_call(call, &entry->module->saved, a, &request->saved);
    if (OMPI_SUCCESS != rc) {
        request->saved = NULL;
        gpuhier_request_drop(request);
        return rc;
    }
    *request_p = &request->base.super;
    if (!persistent) {
        activate(request);
        await(request);
    }
    return OMPI_SUCCESS;
}

void gpuhier_request_drop(gpuhier_request_t *request)
{
    resources_free(request);
    OMPI_REQUEST_FINI(&request->base.super);
    opal_mutex_lock(&unused_lock);
    request->next = unused;
    unused = request;
    opal_mutex_unlock(&unused_lock);
}
