/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Executes the plans of all ranks of a communicator on plain arrays, with a
 * simulated mail between ranks, and checks everything that must hold of the result.
 */
#ifndef PURE_SIM_H
#define PURE_SIM_H

#include "plan/coll_gpuhier_schedule.h"
#include "pure_world.h"

/* One call to execute. */
typedef struct pure_sim {
    const pure_world_t *world;
    uint64_t count;
    size_t elem_bytes;
    gpuhier_limits_t limits;
    uint64_t seed; /* of the contributions */
    /* Test hook: may spoil one step of a rank's program before it runs; NULL: none. Also called for idle steps. */
    void (*tamper)(void *arg, const gpuhier_plan_t *plan, uint64_t slice, int piece, int step,
                   gpuhier_transfer_t *transfer);
    void *tamper_arg;
} pure_sim_t;

/* What was counted; valid after a run that found nothing. */
typedef struct pure_sim_counts {
    uint64_t messages;  /* between groups */
    uint64_t net_elems; /* elements sent between groups, all ranks together */
    uint64_t gpu_elems; /* elements read and written in groups' GPU memory: 2 * P * count per group */
    gpuhier_algorithm_t algorithm;
} pure_sim_counts_t;

/*
 * Runs every rank's program. Returns NULL if all holds, else a sentence (in a
 * static buffer) that says what does not:
 *   - each slice is reduced, exchanged and gathered once, in this order, at the ticks of the table;
 *   - each element of each group's receive buffers is written exactly once, and
 *     holds every rank's contribution exactly once (sum of random 64-bit weights, and their number);
 *   - the operands were combined in the documented order (a hash that neither
 *     commutes nor associates), and a badly conditioned double has the same bits everywhere;
 *   - each message is received exactly once, by the step and for the range that was meant; no rank waits for ever;
 *   - no range leaves its buffer, nothing is received over what is being sent;
 *   - bytes over each GPU link and sent by each rank are those of the formulas.
 * counts_p may be NULL.
 */
const char *pure_sim_run(const pure_sim_t *sim, pure_sim_counts_t *counts_p);

#endif /* PURE_SIM_H */
