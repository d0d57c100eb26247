/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The protocol of a call among the ranks of one node: what lies in a rank's slot and in its area of the control block
 * (team/coll_gpuhier_segment.h), namely the arrival record, progress words, and the data of short messages.
 */
#ifndef GPUHIER_SLOT_H
#define GPUHIER_SLOT_H

#include <stddef.h>
#include <stdint.h>

#include "base/coll_gpuhier_sync.h"
#include "gpu/coll_gpuhier_ipc_cache.h"
#include "plan/coll_gpuhier_levels.h"
#include "team/coll_gpuhier_team.h"

/* What a rank says about itself and votes for. OR-ed over all ranks, it is the call's mask. */
enum {
    GPUHIER_MASK_HOST = 1u,   /* a buffer of this rank is host memory: gpuhier serves this call, mode HOST later ones */
    GPUHIER_MASK_FAIL = 2u,   /* this rank cannot take part: no rank writes a user's buffer, and all decline the call */
    GPUHIER_MASK_NO_LONG = 4u /* this rank has no long lane, or cannot map a peer's. All ranks begin the call again with
                               slices of at most slice_bytes, and keep to that. */
};

/* Written by its rank before `arrived`, constant until that rank's next use of the slot. */
typedef struct gpuhier_arrival {
    uint32_t mask;   /* GPUHIER_MASK_* */
    uint32_t direct; /* 1: in and out may be mapped; 0: everything is in scratch */
    uint32_t fresh;  /* 1: this is not the scratch that all members mapped at set-up */
    uint32_t flag;   /* not 0: the rank offers the one-shot form, and its kernel waits for words with this flag */
    uint32_t form;   /* gpuhier_form_kind_t: the form in which the rank begins; all ranks must agree */
    uint32_t unused;
    uint64_t longest;     /* pairs with lists: elements of the longest block that it gives */
    uint64_t known;       /* number of an earlier call on the same memory, if this rank still has all its mappings; 0:
                             there is none (engine/coll_gpuhier_arrival.h) */
    gpuhier_memref_t in;  /* first element of the send buffer */
    gpuhier_memref_t out; /* first element of the receive buffer */
    gpuhier_memref_t scratch;
} gpuhier_arrival_t;

/*
 * A rank's right to start GPU work on its peers' buffers in one call. The rank
 * itself claims it; a member whose call fails revokes it. The first one wins. So a
 * process that is stopped between its arrival and its first launch cannot write
 * into buffers whose owners have returned with an error.
 */
enum { GPUHIER_CLAIM_OPEN = 0, GPUHIER_CLAIM_TAKEN = 1, GPUHIER_CLAIM_REVOKED = 2 };

/* How far a rank that ends a call with an error has come. */
enum {
    GPUHIER_FAILED_SAID = 1, /* the other members must end it, too */
    GPUHIER_FAILED_QUIET = 2 /* it has no GPU work left on any rank's buffers */
};

/* One rank, one call. Only that rank writes it, except for `claim`. Each group of words has its own cache line, since
 * different waits read them. */
typedef struct gpuhier_slot {
    gpuhier_word_t arrived; /* 1: `arrival` is valid */
    gpuhier_word_t failed;  /* GPUHIER_FAILED_* */
    gpuhier_word_t claim;   /* GPUHIER_CLAIM_* */
    gpuhier_word_t
        undecided; /* 1: this rank failed in the small form without knowing the mask; written before `failed` */
    uint8_t pad0[GPUHIER_CACHE_LINE - 32];

    gpuhier_word_t opened; /* 1: the next two are valid */
    uint64_t unmapped;     /* bit i: this rank cannot map the user's buffers of member i of its group */
    uint64_t opened_mask;  /* GPUHIER_MASK_*: it cannot map a member's scratch */
    gpuhier_word_t vote;   /* written by the group's leader only: 1 + mask of all groups */
    uint8_t pad1[GPUHIER_CACHE_LINE - 32];

    gpuhier_word_t in_ready; /* slices of this rank's input that peers may read */
    gpuhier_word_t out_done; /* slices that it has copied out of its scratch */
    /* By level; a flat call has level 0 only, whose circle is the group. */
    gpuhier_word_t rs_done[GPUHIER_LEVELS_MAX]; /* slices that it has reduced: it reads the circle's inputs
                                                   or partial sums of them no more. [0] at its limit: it has left the
                                                   call by the vote on it, and has no GPU work */
    gpuhier_word_t ag_done[GPUHIER_LEVELS_MAX]; /* slices of which its shard lies in the outputs of the circle; [0]: it
                                                   no longer touches other members' memory for them */

    gpuhier_arrival_t arrival;
    uint8_t pad3[384 - sizeof(gpuhier_arrival_t)];
} gpuhier_slot_t;

_Static_assert(sizeof(gpuhier_arrival_t) <= 384, "the arrival record outgrew its place");
_Static_assert(3 * GPUHIER_CACHE_LINE + 384 == sizeof(gpuhier_slot_t), "a slot is whole cache lines");
_Static_assert(3 * GPUHIER_CACHE_LINE == offsetof(gpuhier_slot_t, arrival), "words before the record, in three lines");

/*
 * One rank, one call. Of the small form: its words and its data, which begin in the same cache line. Of blocks that
 * only their rank knows: its list, before it arrives. Written by that rank only.
 */
typedef struct gpuhier_area {
    gpuhier_word_t arrived; /* 1 + 2 * GPUHIER_MASK_*: the data are valid, unless the mask has FAIL */
    gpuhier_word_t result;  /* several groups, by the leader: 1 + 2 * the mask of all groups: the data are the result,
                               unless it has FAIL */
    uint8_t data[];         /* coll_gpuhier_small_bytes, or gpuhier_block_t[ranks] */
} gpuhier_area_t;

_Static_assert(16 == offsetof(gpuhier_area_t, data), "data are aligned for every element");

/* The slot of a member of this rank's group in the control block, for call number `sequence`. */
static inline gpuhier_slot_t *gpuhier_slot_of(const gpuhier_team_t *team, int index, uint64_t sequence)
{
    return gpuhier_segment_slot(&team->segment, team->node_index[index], sequence);
}

/* The same for its area. */
static inline gpuhier_area_t *gpuhier_area_of(const gpuhier_team_t *team, int index, uint64_t sequence)
{
    return gpuhier_segment_area(&team->segment, team->node_index[index], sequence);
}

#endif /* GPUHIER_SLOT_H */
