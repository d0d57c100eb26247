/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The table of modes: whether calls of one kind run on the GPUs (ACC) or on the
 * saved collective (HOST), and when ranks in HOST ask each other whether to change (a probe).
 *
 * Pure: no MPI, no CUDA. Every rank walks the same table with the same calls, so
 * the tables stay equal without a message.
 *
 *            all pass device memory and are ready (probe)
 *      HOST -----------------------------------------------> ACC
 *       ^                                                     |
 *       +-----------------------------------------------------+
 *            a call's mask shows a host buffer or a failure
 */
#ifndef GPUHIER_MODES_H
#define GPUHIER_MODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/coll_gpuhier_counters.h"

#define GPUHIER_MODE_KINDS 256 /* of pairs of an operation and a type */
#define GPUHIER_MODE_SIZES 64  /* log2 of the message's bytes */

typedef enum gpuhier_mode {
    GPUHIER_MODE_HOST = 0,
    GPUHIER_MODE_ACC = 1,
    GPUHIER_MODE_NEVER = 2 /* HOST for good, without probes: a rank had no memory for the row */
} gpuhier_mode_t;

typedef struct gpuhier_mode_entry {
    uint64_t calls;  /* blocking calls in HOST since the entry last became HOST */
    uint64_t probe;  /* the number of the next call that a probe precedes; 0 in a new entry: the first */
    uint8_t mode;    /* gpuhier_mode_t */
    uint8_t flips;   /* times it went back from ACC to HOST */
    uint8_t why;     /* in HOST: gpuhier_reason_t */
    uint8_t outcome; /* the masks of nonblocking calls, applied when the next blocking call ends; 0: none */
} gpuhier_mode_entry_t;

/* One row for each kind, allocated at its first call. */
typedef struct gpuhier_modes {
    gpuhier_mode_entry_t *row[GPUHIER_MODE_KINDS];
} gpuhier_modes_t;

void gpuhier_modes_init(gpuhier_modes_t *modes);
void gpuhier_modes_fini(gpuhier_modes_t *modes);

/* Makes the row of a kind; NULL when memory ran out. */
gpuhier_mode_entry_t *gpuhier_modes_row(gpuhier_modes_t *modes, int kind);

/* Leaves the kind to the saved collective for good. All ranks do so after the same call, the first blocking call of
 * the kind. */
void gpuhier_modes_never(gpuhier_modes_t *modes, int kind);

/* The mode of a kind of call; HOST where there is no row yet. */
static inline gpuhier_mode_t gpuhier_modes_mode(const gpuhier_modes_t *modes, int kind, size_t bytes)
{
    const gpuhier_mode_entry_t *row = modes->row[kind];
    return NULL == row ? GPUHIER_MODE_HOST
                       : (gpuhier_mode_t) row[0 == bytes ? 0 : 63 - __builtin_clzll((unsigned long long) bytes)].mode;
}

/* Why the saved collective serves a kind of call; GPUHIER_REASON_not_tried where there is no row yet. */
static inline gpuhier_reason_t gpuhier_modes_why(const gpuhier_modes_t *modes, int kind, size_t bytes)
{
    const gpuhier_mode_entry_t *row = modes->row[kind];
    return NULL == row ? GPUHIER_REASON_not_tried
                       : (gpuhier_reason_t) row[0 == bytes ? 0 : 63 - __builtin_clzll((unsigned long long) bytes)].why;
}

/* Sets when the next probe is due. */
void gpuhier_modes_probe_next(gpuhier_mode_entry_t *entry);

/* The entry of `kind` (below GPUHIER_MODE_KINDS) for a message of `bytes`; NULL when memory ran out. */
static inline gpuhier_mode_entry_t *gpuhier_modes_entry(gpuhier_modes_t *modes, int kind, size_t bytes)
{
    gpuhier_mode_entry_t *row = modes->row[kind];
    if (NULL == row && NULL == (row = gpuhier_modes_row(modes, kind))) {
        return NULL;
    }
    return &row[0 == bytes ? 0 : 63 - __builtin_clzll((unsigned long long) bytes)];
}

/*
 * Counts one blocking call in HOST and says whether a probe precedes it. Probes precede calls 1, 2, 4 .. 64, then
 * every 64th call, from call 1024 on every 128th, from 2048 on every 256th, from 4096 on every 512th, and from 8192 on
 * every 1024th. Each flip from the fourth on doubles the least interval, up to 4096 calls.
 */
static inline bool gpuhier_modes_probe_due(gpuhier_mode_entry_t *entry)
{
    if (++entry->calls < entry->probe) {
        return false;
    }
    gpuhier_modes_probe_next(entry);
    return true;
}

void gpuhier_modes_to_acc(gpuhier_mode_entry_t *entry);
void gpuhier_modes_to_host(gpuhier_mode_entry_t *entry, gpuhier_reason_t why);

#endif /* GPUHIER_MODES_H */
