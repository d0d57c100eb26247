/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the table of modes; see the header for the rule. Called by path.
 */
#include "coll/coll_gpuhier_modes.h"

#include <stdlib.h>
#include <string.h>

#define PROBE_EVERY 64u       /* calls between probes, once the first 64 are over */
#define PROBE_EVERY_MAX 4096u /* after many flips */
#define PROBE_SHARE 8u        /* after n calls the interval is n / PROBE_SHARE calls ... */
#define PROBE_SHARE_MAX 1024u /* ... and at most so many */
#define CALM_FLIPS 3u         /* the first flips, which do not stretch the interval */

void gpuhier_modes_init(gpuhier_modes_t *modes)
{
    memset(modes, 0, sizeof(*modes));
}

/* The row of every kind for which a rank had no memory. It is never written. */
static gpuhier_mode_entry_t never[GPUHIER_MODE_SIZES] = {
    [0 ... GPUHIER_MODE_SIZES - 1] = {.mode = GPUHIER_MODE_NEVER, .why = GPUHIER_REASON_memory}};

static void row_free(gpuhier_mode_entry_t *row)
{
    if (never != row) {
        free(row);
    }
}

void gpuhier_modes_never(gpuhier_modes_t *modes, int kind)
{
    row_free(modes->row[kind]);
    modes->row[kind] = never;
}

void gpuhier_modes_fini(gpuhier_modes_t *modes)
{
    for (int i = 0; i < GPUHIER_MODE_KINDS; ++i) {
        row_free(modes->row[i]);
        modes->row[i] = NULL;
    }
}

gpuhier_mode_entry_t *gpuhier_modes_row(gpuhier_modes_t *modes, int kind)
{
    modes->row[kind] = calloc(GPUHIER_MODE_SIZES, sizeof(gpuhier_mode_entry_t));
    return modes->row[kind];
}

/* The number of calls between two probes, a power of two, for an entry with this number of calls. */
static uint64_t interval(const gpuhier_mode_entry_t *entry, uint64_t calls)
{
    uint64_t of_flips = PROBE_EVERY, of_calls = PROBE_EVERY;
    for (unsigned flip = CALM_FLIPS; flip < entry->flips && of_flips < PROBE_EVERY_MAX; ++flip) {
        of_flips *= 2;
    }
    while (of_calls < PROBE_SHARE_MAX && 2 * of_calls <= calls / PROBE_SHARE) {
        of_calls *= 2;
    }
    return of_flips > of_calls ? of_flips : of_calls;
}

/* The number of the next call that a probe precedes: a power of two at first, then a multiple of the interval. */
static uint64_t next_probe(const gpuhier_mode_entry_t *entry, uint64_t calls)
{
    const uint64_t every = interval(entry, calls);
    if (PROBE_EVERY == every && calls < PROBE_EVERY) {
        return 0 == calls ? 1 : 2 * calls;
    }
    return (calls / every + 1) * every;
}

void gpuhier_modes_probe_next(gpuhier_mode_entry_t *entry)
{
    entry->probe = next_probe(entry, entry->calls);
}

void gpuhier_modes_to_acc(gpuhier_mode_entry_t *entry)
{
    entry->mode = GPUHIER_MODE_ACC;
}

void gpuhier_modes_to_host(gpuhier_mode_entry_t *entry, gpuhier_reason_t why)
{
    if (GPUHIER_MODE_ACC == entry->mode && entry->flips < UINT8_MAX) {
        ++entry->flips;
    }
    entry->mode = GPUHIER_MODE_HOST;
    entry->why = (uint8_t) why;
    entry->calls = 0;
    entry->probe = next_probe(entry, 0);
}
