/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What a team remembers of calls in which every member had mapped the buffers of all others: a later call on the same
 * allocations looks nothing up, and leaves out the round of `opened` words, in which members say what they could map.
 *
 * Such a call is named by its sequence number. A member that uses its allocations of that call again, and still has
 * all mappings of it, pins these mappings and then puts the number into its arrival record. If all records have the
 * same number, all members know that nothing has to be mapped. If any record differs, the round takes place.
 */
#ifndef GPUHIER_KNOWN_H
#define GPUHIER_KNOWN_H

#include "engine/coll_gpuhier_call.h"

/* Fills the record's references and returns true if a call on the same allocations is known here; its mappings are
 * then pinned. The record is this rank's own, of a call whose members have no pins. */
bool gpuhier_known_take(gpuhier_call_t *call, gpuhier_arrival_t *arrival);

/* All records are there. Do all name the same call? If so, sets the members' addresses; if not, releases what
 * gpuhier_known_take() pinned. */
bool gpuhier_known_use(gpuhier_call_t *call);

/* For a call of which gpuhier_known_use() returned true. The first sets call->slices.plan to the plan of the last call
 * on this memory and returns true, if that plan serves this call. The other remembers the call's plan. */
bool gpuhier_known_plan(gpuhier_call_t *call);
void gpuhier_known_plan_keep(const gpuhier_call_t *call);

/* Remembers a call in which all members have mapped all buffers. All members of the group remember the same calls. */
void gpuhier_known_add(const gpuhier_call_t *call);

/* Forgets all. */
void gpuhier_known_leave(gpuhier_team_t *team);

#endif /* GPUHIER_KNOWN_H */
