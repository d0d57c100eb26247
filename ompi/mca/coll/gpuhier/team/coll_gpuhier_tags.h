/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The tags of all messages between groups. Pure.
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
#ifndef GPUHIER_TAGS_H
#define GPUHIER_TAGS_H

#include <stdint.h>

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

#endif /* GPUHIER_TAGS_H */
