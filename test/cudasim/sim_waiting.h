/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Kernels that wait, as queues and workers see them, and what they need of these. All is called under the engine's
 * lock, but sim_nap().
 */
#ifndef SIM_WAITING_H
#define SIM_WAITING_H

#include "sim_engine.h"

#define SIM_LOOK_NS 1000000 /* a worker looks so often at a kernel that was left */

/* The thread that submits a kernel that waits, which is the head of its stream, begins it. */
void sim_waiting_begin(CUstream stream);

/* The stream's worker looks at its kernel that was left, and sleeps. */
void sim_waiting_attend(CUstream stream);

/* sim_engine.c: takes the head of the queue, and says that it was executed. */
struct sim_item *sim_stream_pop(CUstream stream);
void sim_stream_advance(CUstream stream, struct sim_item *item);

/* The worker waits for news of its queue; ns: for no longer than that, 0: for ever. */
void sim_worker_rest(CUstream stream, uint64_t ns);
void sim_nap(uint64_t us);

#endif /* SIM_WAITING_H */
