/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Which rails carry a piece: pure, from what all ranks know of each other.
 *
 * A rail has a number, alike on all nodes: the place of its network device among
 * the node's devices in order of their names. A piece has one owner in every
 * group, and those may be nearest to different devices; so one group decides for
 * all, the largest (the lowest of several), in which the fewest pieces share an
 * owner.
 */
#ifndef GPUHIER_RAILS_H
#define GPUHIER_RAILS_H

#include "plan/coll_gpuhier_schedule.h"
#include "topology/coll_gpuhier_topology.h"

/* Rails of one piece; a long message is cut into as many stripes. */
typedef struct gpuhier_piece_rails {
    uint8_t count; /* 1 .. GPUHIER_RAILS_MAX */
    uint8_t rail[GPUHIER_RAILS_MAX];
} gpuhier_piece_rails_t;

/* A stripe is at least this long, in bytes: below it, a second message costs more than a second rail gains. */
#define GPUHIER_STRIPE_BYTES_MIN 65536

/* The node's devices in order of rail numbers, from any of its ranks' records. names_p: pointers into it. Returns their
 * number. */
int gpuhier_rails_devices(const gpuhier_record_t *record, const char *names_p[GPUHIER_RAILS_MAX]);

/*
 * Rails of all pieces of a shape, from the records of all ranks in rank order:
 * the owner's in the deciding group, shared out among the pieces that it owns. Numbers
 * below the fewest devices that any rank has, so that a piece's rails are different devices of each.
 * rails_p: [shape->npieces]. The same on all ranks.
 */
void gpuhier_rails_plan(const gpuhier_shape_t *shape, const gpuhier_record_t *records, gpuhier_piece_rails_t *rails_p);

/* What the rails of all ranks are: RDMA if every device of every rank is, and each has one. The same on all ranks. */
gpuhier_wire_t gpuhier_rails_wire(const gpuhier_record_t *records, int nranks);

/* Stripes of a message of this many bytes: 1 .. rails->count. */
int gpuhier_stripes(const gpuhier_piece_rails_t *rails, size_t bytes);

/* Begin of a stripe in bytes from the message's begin; for stripe == stripes, its end. Stripes end on whole units. */
size_t gpuhier_stripe_begin(size_t bytes, int stripes, int stripe);

#endif /* GPUHIER_RAILS_H */
