/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the two files of the engine's states share.
 */
#ifndef GPUHIER_ENGINE_INTERNAL_H
#define GPUHIER_ENGINE_INTERNAL_H

#include <stdbool.h>

struct gpuhier_call;

/* Lets go of the mappings of the members' memory. */
void gpuhier_engine_unmap(struct gpuhier_call *call);

/* Lets go of mappings, lane and marks. failed: the GPU and UCX may still work on the lane. */
void gpuhier_engine_give(struct gpuhier_call *call, bool failed);

/* Lets go of all that the call has, and makes it DONE with this status. */
void gpuhier_engine_end(struct gpuhier_call *call, int status);

/* A step of a FAILED call. Returns the number of events. */
int gpuhier_engine_failed_step(struct gpuhier_call *call);

#endif /* GPUHIER_ENGINE_INTERNAL_H */
