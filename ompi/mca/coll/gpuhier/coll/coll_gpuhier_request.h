/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The requests of nonblocking and persistent calls, and the progress that completes them. There is no thread: one
 * callback is registered with Open MPI while requests are pending.
 */
#ifndef GPUHIER_REQUEST_H
#define GPUHIER_REQUEST_H

#include "engine/coll_gpuhier_engine.h"
#include "host/coll_gpuhier_fallback.h"
#include "coll/coll_gpuhier_rows.h"
#include "ompi/request/request.h"

/*
 * Open MPI treats every request of a nonblocking collective as an ompi_coll_base_nbc_request_t, and keeps in it the
 * operation and the type that it retains. This struct reserves the room, since the header with that type includes one
 * that Open MPI does not install. The largest known version of the type has 12 words more than ompi_request_t.
 */
#define GPUHIER_REQUEST_WORDS 16
typedef struct gpuhier_request_base {
    ompi_request_t super;
    void *of_mpi[GPUHIER_REQUEST_WORDS];
} gpuhier_request_base_t;

/*
 * One request, of one of two kinds. A request on the engine has a team, and runs `args` there, whose lists it owns. A
 * request on the saved path has a request of the saved collective, and device buffers that are staged around it. The
 * user owns a request until MPI_Wait or MPI_Request_free; while it is active, the queue or progress does.
 */
typedef struct gpuhier_request {
    gpuhier_request_base_t base;
    struct ompi_communicator_t *comm; /* retained, which keeps its module, too. NULL: an unused request */
    _Atomic bool ended;               /* stored before Open MPI is told, by the thread that drove the call to its end */
    struct gpuhier_request *next;     /* in the list of those that wait, or of free ones */

    /* From here up to `call` a request begins with zeros. */
    gpuhier_team_t *team;
    bool owns_team; /* a persistent request: see gpuhier_row_init() */
    gpuhier_call_args_t args;
    gpuhier_reason_t why;    /* on the saved path: the reason */
    bool is_traced;          /* `trace` is the event of the call under way */
    ompi_request_t *saved;   /* the saved collective's; a persistent request keeps it for all starts */
    gpuhier_staged_t staged; /* of a request on the engine: packed, what args work on */
    int failure;             /* OMPI_SUCCESS, or why the input of the staged call under way could not be read */
    int code;                /* with which the call on the engine has ended */
    uint64_t *lengths;       /* that `saved` gathers for a call on the engine, see lists_ask(); or NULL */
    opal_object_t *op;       /* of staged buffers, retained, or NULL */

    gpuhier_call_t call;
    gpuhier_trace_event_t trace;
} gpuhier_request_t;

OBJ_CLASS_DECLARATION(gpuhier_request_t);

/* Forgets pending requests and frees unused ones, when the component closes. */
void gpuhier_requests_close(void);

/* In MPI_Finalize: releases the communicators that unused requests keep after errors. The engine's lock is not held. */
void gpuhier_requests_leave_comms(void);

/* Makes an inactive request, of neither kind yet; NULL when memory ran out. gpuhier_request_drop() releases what the
 * request holds, and keeps its memory for another request. */
gpuhier_request_t *gpuhier_request_get(struct ompi_communicator_t *comm, bool persistent);
void gpuhier_request_drop(gpuhier_request_t *request);

/* The request whose call this is. */
static inline gpuhier_request_t *gpuhier_request_of(gpuhier_call_t *call)
{
    return (gpuhier_request_t *) (void *) ((char *) call - offsetof(gpuhier_request_t, call));
}

/* Ends the job when there is no memory for a request: the other ranks take part in its call, and would wait for this
 * rank forever. */
void gpuhier_request_abort(struct ompi_communicator_t *comm);

/* trace: the event that the request goes on with, or NULL. */
void gpuhier_request_trace(gpuhier_request_t *request, const gpuhier_trace_event_t *trace);

/*
 * Reads the packed input, and runs request->args on request->team. A rank that cannot read its input takes part with
 * ones, and MPI_Wait returns the error.
 */
void gpuhier_request_post(gpuhier_request_t *request);

/* Gives the user a request of a nonblocking or persistent call that is staged: `call` makes the saved collective's.
 * Returns an Open MPI code. */
int gpuhier_request_stage(const gpuhier_entry_t *entry, gpuhier_saved_fn *call, const gpuhier_operands_t *operands,
                          bool persistent, ompi_request_t **request_p);

/* In MPI_Finalize: forgets the requests that the program left pending, and ends progress. The engine's lock is held. */
void gpuhier_requests_quiesce(void);

#endif /* GPUHIER_REQUEST_H */
