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
#include "host/coll_gpuhier_operand.h"

/*
 * Counts a call that is staged and left to Open MPI for this reason. A process with many such calls says so once, with
 * a remedy: see GPUHIER_REASONS. Only rank 0 does, unless the reason is that another rank passes host memory, which may
 * be rank 0.
 */
void gpuhier_staged_count(const gpuhier_staged_t *staged, struct ompi_communicator_t *comm, gpuhier_reason_t reason);

/*
 * gpuhier_staged_read() for a call in which other ranks take part already. If it fails, a message says so, and the host
 * copies are full of ones, which are no numbers: the others do not wait for this rank, and cannot take the result for a
 * right one. comm: NULL in a call of this rank alone.
 */
int gpuhier_staged_bring(const gpuhier_staged_t *staged, struct ompi_communicator_t *comm);

/* Ends the job where there is no memory for host copies. The other ranks are in the collective or will enter it, and no
 * error code returned here would reach them. */
void gpuhier_staged_abort(const gpuhier_staged_t *staged, struct ompi_communicator_t *comm);

#endif /* GPUHIER_FALLBACK_H */
