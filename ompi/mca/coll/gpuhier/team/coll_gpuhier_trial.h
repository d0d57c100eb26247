/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The trial of mappings at set-up: do this rank's kernels reach its neighbours' scratch, and theirs this rank's?
 */
#ifndef GPUHIER_TRIAL_H
#define GPUHIER_TRIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/coll_gpuhier_device.h"

#define GPUHIER_NO_DESCRIPTOR UINT16_MAX /* none of CUDA's errors: the neighbour's descriptor has not come */

/* A rank of this node. The set-up owns an array of all of them, this rank included, in the same order on all ranks. */
typedef struct gpuhier_neighbour {
    gpuhier_memref_t scratch;
    uint64_t nonce;             /* random, for one set-up: what the rank's patterns come from */
    bool passed;                /* in an earlier set-up: this rank maps the scratch, and starts no kernels */
    gpuhier_mapping_t *mapping; /* of scratch, while the trial runs */
    CUdeviceptr address;        /* where scratch is mapped */
    unsigned error;             /* CUDA's, or GPUHIER_NO_DESCRIPTOR, of the mapping or of work on it; 0: none */
    bool reads;                 /* this rank's kernels read what the neighbour wrote */
    double rate;  /* of a longer read by a kernel, in GB/s, as one clock saw it when the pair was tried; 0: not known */
    bool arrived; /* what the neighbour's kernels wrote arrived in this rank's scratch */
} gpuhier_neighbour_t;

/*
 * The steps, in this order. The context is current, and the engine's lock is not held. lane: of kind SLICES, lent for
 * the whole trial. They return an Open MPI code.
 *
 * prepare: writes this rank's own pattern into its scratch. Neighbours read it, so it ends before they know the nonce.
 * run: maps each neighbour's scratch, reads there and writes there by kernels, and fills in `error`, `reads` and
 *      `rate`. One that cannot be mapped, or has an `error` already, is no error of the step. me: this rank's place
 * among the n neighbours. Where `passed` is set it only maps, and `rate` stays. inspect: when all neighbours have run,
 * looks for what they have written here, and fills in `arrived`.
 */
int gpuhier_trial_prepare(const gpuhier_lane_t *lane, uint64_t nonce);
int gpuhier_trial_run(const gpuhier_lane_t *lane, gpuhier_neighbour_t *neighbours, int n, int me);
int gpuhier_trial_inspect(const gpuhier_lane_t *lane, gpuhier_neighbour_t *neighbours, int n, int me);

/* The first writes random words that come from a nonce, and the second checks for them. bytes: > 0, of whole words. */
void gpuhier_trial_pattern(uint64_t *words, size_t bytes, uint64_t nonce);
bool gpuhier_trial_matches(const uint64_t *words, size_t bytes, uint64_t nonce);

#endif /* GPUHIER_TRIAL_H */
