/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The words that ranks of different groups send each other outside their calls: a greeting at set-up, and a notice when
 * a rank gives up.
 */
#ifndef GPUHIER_PARTNERS_H
#define GPUHIER_PARTNERS_H

#include "team/coll_gpuhier_team.h"

/*
 * -- the tags of all messages between groups ----------------------------------------------------
 *
 * A tag is
 *     63..32 team id   31..28 call   27..20 slice   19..10 piece   9..0 step
 * with slices modulo 254, and the other numbers modulo the width of their field. A receiver gets one message per (call,
 * slice, piece, step), so tags tell apart what can be in flight at once: two calls, eight slices, and the pieces of one
 * owner, which are neighbours. In place of a slice, 255 marks a vote (piece 1023) or a message of the small form (piece
 * 1021).
 *
 * A partner that has taken a piece from the sender's memory answers with the tag of the piece, but with bit 9 of the
 * step inverted. That tag is unique, since the steps that are in flight are neighbours.
 *
 * In place of a slice, 254 marks the words that partners send each other outside their calls:
 *     63..32 team id   31..28 which word   27..20 254   19..0 the sender's rank
 */

#define GPUHIER_TAG_SLICES 254u
#define GPUHIER_TAG_WORDS 254u /* in place of a slice, as the next */
#define GPUHIER_TAG_BESIDE 255u
#define GPUHIER_TAG_VOTE 1023u /* in place of a piece, as the next */
#define GPUHIER_TAG_SMALL 1021u
#define GPUHIER_TAG_RANKS (1u << 20)

/* Which word. Those of a rail have its number, up to 7, added. */
enum {
    GPUHIER_WORD_NOTICE = 0,   /* that the sender has given up: its last one on rail 0 */
    GPUHIER_WORD_GREETING = 1, /* on rail r, at set-up */
    GPUHIER_WORD_LAST = 8      /* on rail r > 0, after a notice: nothing more comes there */
};

/* What all tags of a team begin with. */
static inline uint64_t gpuhier_team_tag(uint32_t team)
{
    return (uint64_t) team << 32;
}

static inline uint64_t gpuhier_tag_fields(uint32_t team, uint64_t call, uint64_t slice, uint64_t piece, uint64_t step)
{
    return gpuhier_team_tag(team) | (call & 15u) << 28 | slice << 20 | (piece & 1023u) << 10 | (step & 1023u);
}

/* Payload of a slice. */
static inline uint64_t gpuhier_slice_tag(uint32_t team, uint64_t sequence, uint64_t slice, uint64_t piece,
                                         uint64_t step)
{
    return gpuhier_tag_fields(team, sequence, slice % GPUHIER_TAG_SLICES, piece, step);
}

/* For the answer to a message of this tag: the chunk that it announced has been taken. */
static inline uint64_t gpuhier_taken_tag(uint64_t tag)
{
    return tag ^ 512u;
}

/* Of the vote or of the small form. */
static inline uint64_t gpuhier_beside_tag(uint32_t team, uint64_t sequence, uint64_t which, uint64_t step)
{
    return gpuhier_tag_fields(team, sequence, GPUHIER_TAG_BESIDE, which, step);
}

static inline uint64_t gpuhier_word_tag(uint32_t team, int word, int rank)
{
    return gpuhier_team_tag(team) | (uint64_t) word << 28 | (uint64_t) GPUHIER_TAG_WORDS << 20
           | ((uint64_t) rank & (GPUHIER_TAG_RANKS - 1));
}

/* -- words ----------------------------------------------------------------------------------- */

/*
 * Expects a notice from each partner of a team of several groups. Returns an Open MPI code; gpuhier_partners_leave()
 * may be called in any case. The engine's lock is held in all functions but gpuhier_partners_connect().
 */
int gpuhier_partners_init(gpuhier_team_t *team);

/*
 * Stops expecting notices. Messages that UCX has not let go of are kept until it does. Harmless when no notice is
 * expected. failed: a call has failed. Until every partner has given up as well, but for two minutes at most, this rank
 * then receives and discards their messages, so that they get their memory back.
 */
void gpuhier_partners_leave(gpuhier_team_t *team, bool failed);

/*
 * Exchanges a greeting with each partner. UCX connects with the first message, and that takes both sides. Over a
 * connection that stands, a later notice leaves at once, even if the partner is not in the call yet. All members call
 * it. Waits GREETING_SECONDS at most for each rail; returns an Open MPI code.
 */
int gpuhier_partners_connect(gpuhier_team_t *team);

/* OMPI_ERR_UNREACH when a partner cannot be reached, OMPI_ERROR when one has given up, else OMPI_SUCCESS. */
int gpuhier_partners_check(const gpuhier_team_t *team);

/*
 * Keeps what the team has heard of its partners until it is unshared, even if the team ends before. Memory that a
 * failed call has offered to partners must not change until they have taken it, or have given up as well.
 */
struct gpuhier_partners *gpuhier_partners_share(const gpuhier_team_t *team);
void gpuhier_partners_unshare(struct gpuhier_partners *partners);

/* Has this partner said that it has given up, or is its connection lost? False once this rank no longer listens to
 * it. */
bool gpuhier_partners_rank_is_over(const struct gpuhier_partners *partners, int rank);

/* Tells the partners, once, that this rank has given up. Does not wait for them. */
void gpuhier_partners_give_up(gpuhier_team_t *team);

/* Are the notices still on their way out? */
bool gpuhier_partners_is_giving_up(const gpuhier_team_t *team);

#endif /* GPUHIER_PARTNERS_H */
