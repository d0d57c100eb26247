/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * One step of a piece where partners have mapped each other's memory: the receiver copies the chunk out of the sender's
 * shard buffer, and UCX carries two words. With a relay the sender first copies the chunk into its lane there, and the
 * receiver copies it out of that.
 *
 *      sender                            receiver
 *        | copies it into the relay         |
 *        |  where the chunk lies  ------->  |
 *        |                                  | copies it
 *        |  <-------  it has been taken     |
 *
 * In one step a rank may send and receive, with one partner or two. No rank writes memory that another rank writes. The
 * sender's step ends when its chunk has been taken: then the sender may write there.
 */
#ifndef GPUHIER_LINK_H
#define GPUHIER_LINK_H

#include "engine/coll_gpuhier_call.h"

typedef enum gpuhier_link_phase {
    GPUHIER_LINK_IDLE,   /* nothing is to be received in this step, or the chunk has been taken */
    GPUHIER_LINK_HEARS,  /* waits for the word that says where the chunk lies */
    GPUHIER_LINK_COPIES, /* the copy is under way */
} gpuhier_link_phase_t;

/* Owned by the state of a piece. The messages belong to UCX until their ops have ended. */
typedef struct gpuhier_link {
    int rail;      /* of the words */
    uint64_t name; /* the tag of the messages */
    /* What this rank gives. */
    int taker;                   /* the partner; -1: none */
    bool puts;                   /* its copy into the relay is under way; the message follows */
    CUevent put;                 /* the end of that copy */
    gpuhier_memref_t mine;       /* the message; of a chunk in the relay its `process` is 1 + the lane, `bytes` those of
                                    a lane, and `offset` the place there */
    gpuhier_net_op_t told, over; /* the message's send; the receive of the word that the chunk has been taken */
    /* What it takes. */
    gpuhier_link_phase_t phase;
    int giver;
    CUdeviceptr into;
    size_t bytes;
    gpuhier_memref_t theirs; /* the message */
    gpuhier_net_op_t heard, thanked;
    gpuhier_mapping_t *mapping; /* pinned while the copy is under way; NULL with a relay */
    CUevent copied;
} gpuhier_link_t;

/* Does this rank exchange pieces with that one over a link or through a relay? */
static inline bool gpuhier_link_is_used(const gpuhier_team_t *team, int rank)
{
    return NULL != team->linked && 0 != team->linked[rank];
}

/* Makes the events of a link that is zeroed. The context is current. Returns an Open MPI code. fini: harmless if that
 * failed; needs no current context. */
int gpuhier_link_init(gpuhier_link_t *link);
void gpuhier_link_fini(gpuhier_link_t *link, bool context_is_there);

/* Begins a step in which nothing is given or taken, unless one of the next two functions is called. */
void gpuhier_link_clear(gpuhier_link_t *link);

/* Gives a chunk of `buffer`, one of the lane's shard buffers, to a partner: so many bytes, `offset` bytes from the
 * beginning. name: of the step's message. Returns an Open MPI code. */
int gpuhier_link_give(const gpuhier_call_t *call, gpuhier_link_t *link, int rank, int rail, uint64_t name, int buffer,
                      size_t offset, size_t bytes);

/* Takes a chunk of so many bytes from a partner. */
int gpuhier_link_take(const gpuhier_call_t *call, gpuhier_link_t *link, int rank, int rail, uint64_t name, void *into,
                      size_t bytes);

/* Does what can be done. Returns the number of events, or an Open MPI code (< 0). */
int gpuhier_link_step(const gpuhier_call_t *call, gpuhier_link_t *link);

/* Has the step ended? 1 if so, 0 if not, < 0 for an error. */
int gpuhier_link_done(const gpuhier_link_t *link);

/*
 * For a link of a call that has failed, whose receive of a word (`heard`) was cancelled: is it still in use? It is
 * while a chunk that this rank gave has not been taken and the taker has not given up, since the taker's call may still
 * succeed and must then read the right data. It is also in use while a copy of this rank is under way. A link that is
 * no longer in use has let go of the mapping.
 */
bool gpuhier_link_in_use(gpuhier_link_t *link, const struct gpuhier_partners *partners, bool context_is_there);

#endif /* GPUHIER_LINK_H */
