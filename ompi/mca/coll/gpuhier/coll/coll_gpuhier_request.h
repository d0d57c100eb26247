/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The requests of nonblocking and persistent calls, and the progress that
 * completes them without a thread of our own: one callback, registered with Open MPI
 * only while requests are pending.
 */
#ifndef GPUHIER_REQUEST_H
#define GPUHIER_REQUEST_H

#include "engine/coll_gpuhier_engine.h"
#include "host/coll_gpuhier_fallback.h"
#include "coll/coll_gpuhier_module.h"
#include "ompi/request/request.h"

/*
 * What Open MPI takes a request of a collective for: it keeps there the operation and the type that it retains. The
 * header that describes it includes one that Open MPI does not install. Its newest form has 12 words.
 */
#define GPUHIER_REQUEST_WORDS 16
typedef struct gpuhier_request_base {
    ompi_request_t super;
    void *of_mpi[GPUHIER_REQUEST_WORDS];
} gpuhier_request_base_t;

/*
 * One request, of one of two kinds. On the engine it has a team, and runs `args` there. With the
 * saved collective it has a request of that one, and device buffers staged around it.
 * Owned by the user from its making to MPI_Wait or MPI_Request_free; by the queue or by
 * progress while it is active.
 */
typedef struct gpuhier_request {
    gpuhier_request_base_t base;
    struct ompi_communicator_t *comm; /* retained, and its module with it */
    _Atomic bool ended; /* published before Open MPI hears of it, by whichever thread drove the call to its end */
    struct gpuhier_request *next; /* among those that wait for the saved collective, or free ones */

    gpuhier_team_t *team;
    bool owns_team; /* persistent: see coll_gpuhier_persistent.c */
    gpuhier_call_args_t args;
    gpuhier_call_t call;

    ompi_request_t *saved; /* persistent: as long as the request itself */
    gpuhier_staged_t staged;
    struct ompi_datatype_t *dtype; /* of what is staged, retained; NULL: none, or a predefined one */
} gpuhier_request_t;

OBJ_CLASS_DECLARATION(gpuhier_request_t);

/* Frees all, when the component is closed. */
void gpuhier_requests_close(void);

/* An inactive request of neither kind yet, NULL when memory ran out. Not yet the user's: gpuhier_request_drop() takes
 * it back. */
gpuhier_request_t *gpuhier_request_get(struct ompi_communicator_t *comm, bool persistent);
void gpuhier_request_drop(gpuhier_request_t *request);

/* Ends the job where there is none for a call that the others have begun, or will: they would wait for this rank for
 * ever. */
void gpuhier_request_abort(struct ompi_communicator_t *comm);

/* Keeps the type for as long as the request. */
void gpuhier_request_retain(gpuhier_request_t *request, struct ompi_datatype_t *dtype);

/* Makes the request active and runs it: request->args on request->team; or waits for request->saved, which is active.
 */
void gpuhier_request_post(gpuhier_request_t *request);
void gpuhier_request_await_saved(gpuhier_request_t *request);

/* Forgets what the program left pending, and ends progress, in MPI_Finalize. The engine's lock is held. */
void gpuhier_requests_quiesce(void);

#endif /* GPUHIER_REQUEST_H */
