/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The arrival of a call's members: each publishes a record of what it brings, and they map each other's memory.
 *
 * Every member publishes its record at once, even after a local failure, so that no member waits for one that has given
 * up. A local failure is a bit in the record's mask, and all members decline the call before they write any user's
 * buffer.
 */
#ifndef GPUHIER_ARRIVAL_H
#define GPUHIER_ARRIVAL_H

#include "engine/coll_gpuhier_call.h"

/* Publishes this rank's record, with what the call's form offers. The state is GATHER. */
void gpuhier_arrival_begin(gpuhier_call_t *call);

/*
 * The states GATHER and OPENED: waits for the records and, if memory was to be mapped, for the outcome of that. Then
 * the form has agreed, and the state is RUN. Returns the number of events or an error.
 */
int gpuhier_arrival_step(gpuhier_call_t *call);

/* Does the step wait for a peer's word? */
bool gpuhier_arrival_is_idle(const gpuhier_call_t *call);

/* For a form's offer: names the scratch of the call's lane, and sends its descriptor if it is not the scratch that all
 * have mapped at set-up. */
void gpuhier_arrival_scratch(const gpuhier_call_t *call, gpuhier_arrival_t *arrival);

/* Finds the address of a member's scratch, and pins its mapping. Returns an Open MPI code. */
int gpuhier_arrival_find(gpuhier_call_t *call, int index);

/* Lets go of the mappings of the members' memory. */
void gpuhier_arrival_unmap(gpuhier_call_t *call);

#endif /* GPUHIER_ARRIVAL_H */
