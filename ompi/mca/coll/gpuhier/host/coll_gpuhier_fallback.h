/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The path of a call that does not run on the GPUs: the saved collective, with host copies of device buffers where it
 * needs them.
 *
 * This folder owns that path (fallback), which parts of a collective's buffers have host copies (operand), the copies
 * between device buffers and host memory (staging), and the page-locked memory that these copies use (locked).
 * "Staged" means: through a host copy.
 *
 * It uses base and gpu. The engine's host form, coll and the top of the component use it. Any thread may call it: a
 * call's host copies belong to the call, the page-locked blocks have a lock of their own, and the engine's lock is not
 * needed.
 */
#ifndef GPUHIER_FALLBACK_H
#define GPUHIER_FALLBACK_H

#include "base/coll_gpuhier_counters.h"
#include "base/coll_gpuhier_saved.h"
#include "base/coll_gpuhier_trace.h"
#include "host/coll_gpuhier_operand.h"

/* The host copies of an allreduce's buffers, as gpuhier_staged_open() makes them. sbuf may be MPI_IN_PLACE, which the
 * program passes on all ranks or on none. */
int gpuhier_staged_allreduce(gpuhier_staged_t *staged, const void *sbuf, const void *rbuf, size_t count,
                             struct ompi_datatype_t *dtype);

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
