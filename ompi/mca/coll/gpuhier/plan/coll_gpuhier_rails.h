/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Which rails carry a piece, from the records that all ranks have of each other.
 *
 * A rail's number is the same on all nodes: the place of its network device among the node's devices in order of their
 * names. A piece has one owner in every group, and owners may be nearest to different devices. So one group decides for
 * all: the largest, since there the fewest pieces share an owner, and the lowest of several largest ones.
 */
#ifndef GPUHIER_RAILS_H
#define GPUHIER_RAILS_H

#include "plan/coll_gpuhier_schedule.h"
#include "topology/coll_gpuhier_topology.h"

/* Rails of one piece. A long message is cut into as many stripes. */
typedef struct gpuhier_piece_rails {
    uint8_t count; /* 1 .. GPUHIER_RAILS_MAX */
    uint8_t rail[GPUHIER_RAILS_MAX];
} gpuhier_piece_rails_t;

/* Bytes of the shortest stripe. Below it a second message costs more than a second rail gains. */
#define GPUHIER_STRIPE_BYTES_MIN 65536

/* The node's devices in order of rail numbers, from the record of a rank there: of several with one number that nearest
 * to the rank. names_p: pointers into the record. Returns their number, at most GPUHIER_RAILS_MAX. */
int gpuhier_rails_devices(const gpuhier_record_t *record, const char *names_p[GPUHIER_RAILS_MAX]);

/*
 * Rails of all pieces of a shape. records: of all ranks, in rank order. The owner in the deciding group shares its
 * rails among its pieces. Numbers are below the fewest devices that any rank has, so a piece's rails are different
 * devices on every rank. rails_p: [shape->npieces]. The result is the same on all ranks. Returns 0 or -ENOMEM.
 */
int gpuhier_rails_plan(const gpuhier_shape_t *shape, const gpuhier_record_t *records, gpuhier_piece_rails_t *rails_p);

/* The rails of pieces begin .. end - 1, as bits. */
static inline unsigned gpuhier_rails_bits(const gpuhier_piece_rails_t *rails, int begin, int end)
{
    unsigned bits = 0;
    for (int piece = begin; piece < end; ++piece) {
        for (int i = 0; i < rails[piece].count; ++i) {
            bits |= 1u << rails[piece].rail[i];
        }
    }
    return bits;
}

/* How many rails carry data. */
typedef struct gpuhier_rails_use {
    int driven;      /* rails that carry a piece; the same on all nodes */
    int there;       /* the most devices of any rank's node */
    int fewest;      /* the fewest: no rank uses a rail that another rank has no device for */
    int fewest_rank; /* the first rank with so few */
} gpuhier_rails_use_t;

/*
 * Do so few rails carry data that messages between groups are far slower than they could be? That is so if a node has
 * fewer devices than another, or if they are at most half of those that are there, and two ranks or more of a node
 * share each. ranks_on_node: of the fullest node.
 * rails: of gpuhier_rails_plan(). Sets *use_p in any case.
 */
bool gpuhier_rails_are_few(const gpuhier_shape_t *shape, const gpuhier_record_t *records,
                           const gpuhier_piece_rails_t *rails, int ranks_on_node, gpuhier_rails_use_t *use_p);

/* RDMA if every rank has a device and all devices of all ranks are RDMA ports, else TCP. The same on all ranks. */
gpuhier_wire_t gpuhier_rails_wire(const gpuhier_record_t *records, int nranks);

/* The number of stripes of a message of this many bytes: 1 .. rails->count. */
int gpuhier_stripes(const gpuhier_piece_rails_t *rails, size_t bytes);

/* Where a stripe begins, in bytes from the start of the message; for stripe == stripes, the end of the message. Stripes
 * end on whole units. */
size_t gpuhier_stripe_begin(size_t bytes, int stripes, int stripe);

#endif /* GPUHIER_RAILS_H */
