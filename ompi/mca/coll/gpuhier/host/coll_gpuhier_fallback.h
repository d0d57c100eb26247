/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The path of a call that does not run on the GPUs: the saved collective, with host copies of device buffers where it
 * needs them.
 *
 * This folder owns that path (fallback), the copies between device buffers and host memory (staging), and the
 * page-locked memory that these copies use (locked). "Staged" means: through a host copy.
 *
 * It uses base and gpu. The engine's host form, coll and the top of the component use it. Any thread may call it: a
 * call's host copies belong to the call, the page-locked blocks have a lock of their own, and the engine's lock is not
 * needed.
 */
#ifndef GPUHIER_FALLBACK_H
#define GPUHIER_FALLBACK_H

#include "base/coll_gpuhier_reasons.h"
#include "base/coll_gpuhier_saved.h"
#include "base/coll_gpuhier_trace.h"
#include "host/coll_gpuhier_staging.h"

/* The host copies of one call. Owned by its caller; zeroed, or made by gpuhier_staged_open(). */
typedef struct gpuhier_staged {
    gpuhier_staging_t send, recv;
    bool send_on_device, recv_on_device;
    bool in_place; /* the program passed MPI_IN_PLACE, which it does on all ranks or on none */
} gpuhier_staged_t;

/*
 * Finds out which buffers are device memory, and makes host copies for them, still without contents. Each buffer has
 * its own copy. With one copy for both, this rank would reduce in place, and other ranks, which may pass host memory,
 * would not. Returns an Open MPI code; the caller calls gpuhier_staged_close() in any case.
 */
int gpuhier_staged_open(gpuhier_staged_t *staged, const void *sbuf, const void *rbuf, size_t count,
                        struct ompi_datatype_t *dtype);
void gpuhier_staged_close(gpuhier_staged_t *staged);

static inline bool gpuhier_staged_any(const gpuhier_staged_t *staged)
{
    return staged->send_on_device || staged->recv_on_device;
}

/* The addresses to pass to the collective in place of the user's buffers. */
const void *gpuhier_staged_sbuf(const gpuhier_staged_t *staged, const void *sbuf);
void *gpuhier_staged_rbuf(const gpuhier_staged_t *staged, void *rbuf);

/* Brings the input to the host copies, and the result back from them. Return Open MPI codes. */
int gpuhier_staged_read(const gpuhier_staged_t *staged);
int gpuhier_staged_write(const gpuhier_staged_t *staged);

/*
 * Counts a call that is staged and left to Open MPI for this reason. A process with many such calls says so once, with
 * a remedy: see GPUHIER_REASONS. Only rank 0 does, unless the reason is that another rank passes host memory, which may
 * be rank 0.
 */
void gpuhier_staged_count(const gpuhier_staged_t *staged, struct ompi_communicator_t *comm, gpuhier_reason_t reason);

/* Ends the job after a failure to stage. The other ranks are in the collective or will enter it, and no error code
 * returned here would reach them. */
void gpuhier_staged_abort(const gpuhier_staged_t *staged, struct ompi_communicator_t *comm, int code);

/*
 * Runs the saved allreduce. Any type, operation and count; sbuf or rbuf may be device memory on any subset of ranks.
 * Device buffers that this Open MPI cannot take are copied to host memory first, and the result is copied back; gaps of
 * a derived type in rbuf keep what they held. reason: why the call is not on the GPUs. trace: the call's event, or
 * NULL. Returns the collective's code, or that of a failed copy or allocation.
 */
int gpuhier_fallback_allreduce(const void *sbuf, void *rbuf, gpuhier_count_t count, struct ompi_datatype_t *dtype,
                               struct ompi_op_t *op, struct ompi_communicator_t *comm, const gpuhier_saved_t *saved,
                               gpuhier_reason_t reason, gpuhier_trace_event_t *trace);

#endif /* GPUHIER_FALLBACK_H */
