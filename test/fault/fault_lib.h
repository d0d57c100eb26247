/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A call of MPI_Allreduce, or of another collective, that may fail, and how it ended.
 *
 * Owns: pairs of device buffers that are used again and again (so that the component comes to map
 *   them), the verdict on one call, the process's deadline, and the way to the saboteur.
 * Called by: the programs of this folder.
 */
#ifndef GPUHIER_TEST_FAULT_LIB_H
#define GPUHIER_TEST_FAULT_LIB_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buffers.h"
#include "calls.h"
#include "saboteur.h"

typedef enum outcome {
    OUTCOME_RIGHT, /* MPI_SUCCESS, and every element is right */
    OUTCOME_ERROR, /* an MPI error; the receive buffer may hold anything */
    OUTCOME_WRONG  /* MPI_SUCCESS with a wrong result, or bytes around a buffer were written: never allowed */
} outcome_t;

/* 'r', 'E' or 'W'. */
char outcome_letter(outcome_t outcome);

/* Buffers for up to `most` doubles. */
typedef struct pair {
    size_t most;
    buffer_t send, recv;
} pair_t;

void pair_alloc(pair_t *pair, size_t most);
void pair_free(pair_t *pair);

/*
 * One sum of count doubles, whose values depend on salt, rank and index, by MPI_Allreduce; or the call that the
 * environment names by FAULT_COLLECTIVE: reduce, bcast, allgather, reduce_scatter_block, allgatherv, reduce_scatter,
 * alltoall, alltoallv, ialltoallv. Those with blocks share the count out; the root follows from the salt. Prints what
 * is wrong.
 */
outcome_t pair_call(const suite_t *suite, MPI_Comm comm, pair_t *pair, size_t count, uint64_t salt);

/*
 * Has Open MPI's own messages go on when a connection breaks. Its layer ob1 (4.1) would end the process that sends to a
 * dead one, as an Open MPI that tolerates deaths does not, and so would SIGPIPE (its tcp writes to a closed
 * connection). After MPI_Init.
 */
void deaths_tolerate(void);

/* Ends the process with status 9 and says what it was doing, unless called again (0: no deadline) within that time.
 * A busy machine may take longer than seconds says, and gets several times that. */
void deadline(unsigned seconds, const char *what);

/* The saboteur's functions; ends the program with status 77 when it is not preloaded. */
typedef struct saboteur {
    saboteur_arm_fn_t arm;
    saboteur_calls_fn_t calls;
    saboteur_strikes_fn_t strikes;
    saboteur_function_fn_t function;
} saboteur_t;

void saboteur_find(saboteur_t *saboteur_p);

#endif /* GPUHIER_TEST_FAULT_LIB_H */
