/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns what this process remembers of trials: the processes of its node whose GPU and its own have read and written
 * each other's memory by kernels. Communicators made later of such processes need no trial.
 *
 * Both processes of a pair remember it, or neither does, as long as nothing fails. So the members of a node compare
 * what they remember, and try anew unless all of them remember all. A context that was lost is another identity, and
 * so is another process under the same name.
 *
 * Called by the steps of set-up, under the engine's lock.
 */
#ifndef GPUHIER_TRIED_H
#define GPUHIER_TRIED_H

#include <stdbool.h>
#include <stdint.h>

struct ompi_communicator_t;

/* A process's GPU and context, unique among all processes. */
typedef struct gpuhier_tried_id {
    uint64_t process; /* random word of the process */
    uint64_t device;  /* of the context, unique in the process */
} gpuhier_tried_id_t;

/* The ids of several processes have the sum of their words: the same in any order, and by chance only that of others.
 */
uint64_t gpuhier_tried_word(gpuhier_tried_id_t id);

/*
 * The sum for this rank and those members of comm that it remembers, by their names. *all_p: these are all members that
 * Open MPI knows on this node.
 */
uint64_t gpuhier_tried_sum(struct ompi_communicator_t *comm, gpuhier_tried_id_t mine, bool *all_p);

/* Remembers a pair that has passed the trial, with the rate of reads in GB/s, or forgets the member. */
void gpuhier_tried_note(struct ompi_communicator_t *comm, int rank, gpuhier_tried_id_t mine, gpuhier_tried_id_t theirs,
                        bool passed, double rate);

/* The rate that was noted; 0 if there is none. */
double gpuhier_tried_rate(struct ompi_communicator_t *comm, int rank);

/* Forgets everything. Called when the component closes. */
void gpuhier_tried_forget(void);

#endif /* GPUHIER_TRIED_H */
