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

/*
 * Which of the user's buffers are offered to the peers in the arrival record of a call in slices. Called by the engine;
 * the peers' side is gpu/ipc_cache.
 *
 * Also what a team remembers of calls in which every member had mapped the buffers of all others: a later call on the
 * same allocations looks nothing up, and leaves out the round of `opened` words, in which members say what they could
 * map.
 *
 * Such a call is named by its sequence number. A member that uses its allocations of that call again, and still has
 * all mappings of it, pins these mappings and then puts the number into its arrival record. If all records have the
 * same number, all members know that nothing has to be mapped. If any record differs, the round takes place.
 */

/* Would the result overwrite input that peers still read? In place, where the input has other blocks. The buffers may
 * not be offered then, whoever has mapped them. */
bool gpuhier_offer_overwrites(const gpuhier_call_t *call);

/* Offers the buffers if they may be mapped, in this rank's own record, and sends the descriptors to the peers that have
 * none, see gpuhier_export_send(). */
void gpuhier_offer(gpuhier_call_t *call, gpuhier_arrival_t *arrival);

/* Notes whether the members could map the buffers that this rank has offered. all: all of them could. */
void gpuhier_offer_end(const gpuhier_call_t *call, bool all);

/* All records are there. Do all name the same call? If so, sets the members' addresses; if not, the caller lets go of
 * what gpuhier_offer() pinned. */
bool gpuhier_known_use(gpuhier_call_t *call);

/* For a call of which gpuhier_known_use() returned true. The first sets call->slices.plan to the plan of the last call
 * on this memory and returns true, if that plan serves this call. The other remembers the call's plan. */
bool gpuhier_known_plan(gpuhier_call_t *call);
void gpuhier_known_plan_keep(const gpuhier_call_t *call);

/* Remembers a call in which all members have mapped all buffers. All members of the group remember the same calls. */
void gpuhier_known_add(const gpuhier_call_t *call);

/* Forgets all. */
void gpuhier_known_leave(gpuhier_team_t *team);

#endif /* GPUHIER_ARRIVAL_H */
