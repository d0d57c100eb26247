/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns what this process remembers of trials: pairs of GPUs, its own and one of another process of its node, whose
 * kernels have read and written each other's memory. A later set-up maps that memory, and starts no kernels.
 *
 * The pairs are pairs of contexts, so what was remembered of a context that is lost is never found again.
 *
 * Called by the steps of set-up, under the engine's lock.
 */
#ifndef GPUHIER_TRIED_H
#define GPUHIER_TRIED_H

#include <stdbool.h>
#include <stdint.h>

typedef struct gpuhier_tried_pair {
    uint64_t mine;    /* this process's context: a number that no other context of this process has or will have */
    uint64_t process; /* the other process's random word ... */
    uint64_t theirs;  /* ... and its context */
} gpuhier_tried_pair_t;

/* Has the pair passed? Sets *rate_p if so: how fast this GPU's kernels read the other's memory then, in GB/s; 0: that
 * is not known. */
bool gpuhier_tried_find(const gpuhier_tried_pair_t *pair, double *rate_p);

/* Remembers a pair. Without memory for it, it is tried again. */
void gpuhier_tried_note(const gpuhier_tried_pair_t *pair, double rate);

void gpuhier_tried_forget(const gpuhier_tried_pair_t *pair);

/* Forgets everything. */
void gpuhier_tried_finalize(void);

#endif /* GPUHIER_TRIED_H */
