/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the table of modes; see the header for the rule. Called by allreduce.
 */
#include "coll_gpuhier_modes.h"

#include <stdlib.h>
#include <string.h>

#define PROBE_EVERY 64u     /* calls between probes, once the first 64 are over */
#define PROBE_EVERY_MAX 4096u
#define CALM_FLIPS 3u       /* flips that do not yet stretch the interval */

void gpuhier_modes_init(gpuhier_modes_t *modes)
{
    memset(modes, 0, sizeof(*modes));
}

void gpuhier_modes_fini(gpuhier_modes_t *modes)
{
    for (int i = 0; i < GPUHIER_MODE_CLASSES; ++i) {
        free(modes->row[i]);
        modes->row[i] = NULL;
    }
}

gpuhier_mode_entry_t *gpuhier_modes_entry(gpuhier_modes_t *modes, int kind, size_t bytes)
{
    if (NULL == modes->row[kind]) {
        modes->row[kind] = calloc(GPUHIER_MODE_SIZES, sizeof(gpuhier_mode_entry_t));
        if (NULL == modes->row[kind]) {
            return NULL;
        }
    }
    int size = 0 == bytes ? 0 : 63 - __builtin_clzll((unsigned long long) bytes);
    return &modes->row[kind][size];
}

static uint32_t interval(const gpuhier_mode_entry_t *entry)
{
    uint32_t calls = PROBE_EVERY;
    for (uint32_t flip = CALM_FLIPS; flip < entry->flips && calls < PROBE_EVERY_MAX; ++flip) {
        calls *= 2;
    }
    return calls;
}

bool gpuhier_modes_probe_due(gpuhier_mode_entry_t *entry)
{
    uint32_t call = ++entry->calls;
    uint32_t every = interval(entry);
    if (call >= every) {
        return 0 == call % every;
    }
    return PROBE_EVERY == every && 0 == (call & (call - 1));
}

void gpuhier_modes_to_acc(gpuhier_mode_entry_t *entry)
{
    entry->mode = GPUHIER_MODE_ACC;
}

void gpuhier_modes_to_host(gpuhier_mode_entry_t *entry)
{
    if (GPUHIER_MODE_ACC == entry->mode && entry->flips < UINT8_MAX) {
        ++entry->flips;
    }
    entry->mode = GPUHIER_MODE_HOST;
    entry->calls = 0;
}
