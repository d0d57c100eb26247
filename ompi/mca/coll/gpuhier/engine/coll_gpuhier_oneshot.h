/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The one-shot form of a call: one kernel on each GPU of the only group pushes its input to all peers and waits for
 * theirs (gpu/kernels/gpuhier_oneshot.h). It is a call in slices that has one slice, whose kernel needs nothing of the
 * peers but their scratch, and whose end is a word that the kernel writes to host memory.
 *
 * Kernels that wait for each other need care:
 *
 *   - No two ranks of the group share a GPU, or one kernel would keep the other from running.
 *   - A kernel starts when all ranks have arrived. Only calls that a thread waits for take this form, since a rank that
 *     computes between two calls of MPI_Test would let the others' kernels wait. A kernel still waits for what the
 *     peers' programs had queued before the call, so it takes few of the GPU's multiprocessors.
 *   - A process has one such call at a time. With two, a driver call that waits for the whole GPU could hold up the
 *     start of one kernel until the other ends. A rank that has one offers no other in its arrival record, and all take
 *     slices.
 *   - When a call fails, its host tells the kernel to leave.
 *   - Where the program may have several threads, a kernel waits on a stream of its lane, behind a mark. On the legacy
 *     default stream it would hold up what other threads queue, and a peer's kernel may wait for some of that. Where
 *     the program has one thread (MPI_THREAD_SINGLE), all ranks' threads are in the call, and the kernel runs on the
 *     legacy default stream without a mark.
 *
 * A kernel reads and writes the user's buffers if they are memory of its GPU and context. Otherwise the input is first
 * copied to scratch, and the result from there.
 */
#ifndef GPUHIER_ONESHOT_FORM_H
#define GPUHIER_ONESHOT_FORM_H

#include <stdbool.h>

#include <cuda.h>

struct gpuhier_arrival;
struct gpuhier_call;

/* May the call take this form, by what all ranks know? */
bool gpuhier_oneshot_suits(const struct gpuhier_call *call);

/* Do kernels of this rank's GPU reach the user's buffers? */
bool gpuhier_oneshot_is_direct(const struct gpuhier_call *call);

/* Offers to take this form, in the arrival record of a call that it suits. The call has its lane. */
void gpuhier_oneshot_offer(struct gpuhier_call *call, struct gpuhier_arrival *arrival);

/* All records are known: have all members offered it? */
bool gpuhier_oneshot_agreed(const struct gpuhier_call *call);

/* Starts the kernel, with this rank's claim. in, out: first element of this rank's input and result, in memory of its
 * GPU. Returns an Open MPI code. */
int gpuhier_oneshot_launch(struct gpuhier_call *call, CUdeviceptr in, CUdeviceptr out);

/* Has the kernel, which was started, ended? 1 if so, 0 if not, < 0 for an error. */
int gpuhier_oneshot_ended(const struct gpuhier_call *call);

/* Has the kernel been started, and has its word not come? Needs no lock and no context. */
bool gpuhier_oneshot_waits(const struct gpuhier_call *call);

/* Has a kernel been started that has not ended? */
bool gpuhier_oneshot_runs(const struct gpuhier_call *call);

/* Tells the kernel of a call that fails to leave. Harmless for all other calls. */
void gpuhier_oneshot_abort(struct gpuhier_call *call);

/* For a call in this form that has failed, when all members are at rest: can any have completed it? If one has, all
 * members have started their kernels. The answer is the same on all members. */
bool gpuhier_oneshot_all_started(const struct gpuhier_call *call);

/* Called when a call in slices ends: another one may then take this form. Harmless if the call did not offer it. */
void gpuhier_oneshot_release(struct gpuhier_call *call);

#endif /* GPUHIER_ONESHOT_FORM_H */
