/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Pure layer: what a call's size and the shape of its ranks decide before there
 * is a plan, and that decision for every size as a table to be printed.
 */
#ifndef GPUHIER_CHOICE_H
#define GPUHIER_CHOICE_H

#include "plan/coll_gpuhier_schedule.h"

/* A message between groups is cut into about as many slices: the first and the last do not overlap with anything. */
#define GPUHIER_SLICES_WANTED 8

/*
 * But a rank's part of a slice is no shorter, in bytes: below it a slice costs more than its overlap gains. Medians on
 * 2026-11-22, 2 nodes x 1 emulated GPU, UCX 1.13 over unshaped veths, two busy cores: 256 KiB take 115 us in one
 * slice, 150 in two; 512 KiB 310 us in four, 610 to 730 in one or two; 1 MiB 570 us in eight, 1200 to 2000 in one or
 * four.
 */
#define GPUHIER_SLICE_SHARD_MIN ((uint64_t) 128 << 10)

/*
 * Between groups the longest slice hides its steps: its pieces take so many times as long on the wire as a step does,
 * for each doubling of the groups. By simulation (docs/scaling.md; 2 to 1,024 nodes of 8 GPUs, RDMA) 1 GiB takes 1.31
 * to 2.6 times the bound in slices of 4 MiB, and 1.08 to 1.33 in these with coll_gpuhier_slice_bytes_max as it is, 16
 * MiB.
 */
#define GPUHIER_SLICE_STEPS 21

/*
 * Bytes of the longest slice of any message. One group: limits->slice_bytes, since its stages are one kernel. Several:
 *     max(slice_bytes, min(slice_bytes_max, GPUHIER_SLICE_STEPS * step_bytes of the wire * ceil(log2 groups) * ranks of
 * the largest group))
 */
uint64_t gpuhier_choice_longest(const gpuhier_shape_t *shape, const gpuhier_limits_t *limits);

/*
 * Bytes of a slice for a message of `bytes`, equal on all ranks. One group: the longest. Several:
 *     min(longest, max(bytes / GPUHIER_SLICES_WANTED, min(slice_bytes, GPUHIER_SLICE_SHARD_MIN * ranks of the largest
 * group))) More than slice_bytes only for messages of more than GPUHIER_SLICES_WANTED of them: only those need a long
 * lane.
 */
uint64_t gpuhier_choice_slice_bytes(const gpuhier_shape_t *shape, uint64_t bytes, const gpuhier_limits_t *limits);

/* gpuhier_plan_init() with that slice. */
int gpuhier_choice_plan(gpuhier_plan_t *plan_p, const gpuhier_shape_t *shape, int rank, uint64_t count,
                        size_t elem_bytes, const gpuhier_limits_t *limits);

/* Messages of min_bytes and more, up to the next row's, are treated alike. */
typedef struct gpuhier_choice {
    uint64_t min_bytes;
    bool on_host;                  /* the small form: reduced by the host, one kernel and slices do not come into it */
    gpuhier_algorithm_t algorithm; /* between groups */
    int nsteps;                    /* of it */
    uint64_t nslices;              /* of the shortest message of this row */
    bool more_slices;              /* longer ones have more: slices have reached their limit */
} gpuhier_choice_t;

#define GPUHIER_CHOICES_MAX 48

/*
 * All choices for messages of doubles from 8 bytes to 1 TiB, by powers of two, in rows of equal algorithm and
 * number of slices. small_bytes: coll_gpuhier_small_bytes. Returns the number of rows, 0 if the limits are out of
 * range.
 */
int gpuhier_choice_table(const gpuhier_shape_t *shape, const gpuhier_limits_t *limits, uint64_t small_bytes,
                         gpuhier_choice_t rows[GPUHIER_CHOICES_MAX]);

/* A row in words: "from 4 MiB: ring in 4 steps, 8 slices". Returns text. */
const char *gpuhier_choice_text(const gpuhier_choice_t *row, int ngroups, char *text, size_t room);

#endif /* GPUHIER_CHOICE_H */
