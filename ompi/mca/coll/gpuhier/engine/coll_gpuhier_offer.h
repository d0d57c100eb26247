/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the decision which of the user's buffers the peers may map: what is offered to them in the arrival record of a
 * call in slices. Called by the engine; the peers' side is gpu/ipc_cache.
 */
#ifndef GPUHIER_OFFER_H
#define GPUHIER_OFFER_H

#include <stdbool.h>

struct gpuhier_arrival;
struct gpuhier_call;

/* Finds out which allocation each buffer lies in, since an address may have had other memory before. */
void gpuhier_offer_identify(struct gpuhier_call *call);

/* Would the result overwrite input that peers still read? In place, where the input has other blocks. The buffers may
 * not be offered then, whoever has mapped them. */
bool gpuhier_offer_overwrites(const struct gpuhier_call *call);

/* Offers the buffers if they may be mapped. */
void gpuhier_offer_make(const struct gpuhier_call *call, struct gpuhier_arrival *arrival);

/* Sends the descriptors of offered buffers to the peers that have none, see gpuhier_export_send(): a peer may have
 * closed its mapping since the last call. */
void gpuhier_offer_send(const struct gpuhier_call *call, const struct gpuhier_arrival *arrival);

/* Notes whether the members could map the buffers that this rank has offered. all: all of them could. */
void gpuhier_offer_end(const struct gpuhier_call *call, bool all);

#endif /* GPUHIER_OFFER_H */
