/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What this process tries of a GPU when it makes a device, for short messages that the host reads and writes itself.
 * The context is current, and the engine's lock is held.
 */
#ifndef GPUHIER_HOST_TRIAL_H
#define GPUHIER_HOST_TRIAL_H

#include "gpu/coll_gpuhier_cuda.h"

/* Does the host see what the GPU has written to this word of scratch, and the GPU what the host writes there? stream is
 * a non-blocking one without work. */
bool gpuhier_host_trial_maps(CUdeviceptr word, CUstream stream);

/*
 * Does cuStreamQuery() of the legacy default stream look at the context's blocking streams as well? NVIDIA's
 * documentation does not say. If so, one query shows whether all work that a call must wait for is done. If that is not
 * certain, the answer is no.
 */
bool gpuhier_host_trial_query(void);

#endif /* GPUHIER_HOST_TRIAL_H */
