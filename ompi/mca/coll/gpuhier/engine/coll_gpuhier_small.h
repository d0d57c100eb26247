/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The small form of a call: messages of at most coll_gpuhier_small_bytes are reduced by the host. A
 * kernel and the agreement that precedes it cost more than the copies; see protocol.md.
 *
 *   begin --> INPUT --> ARRIVE --(one group)----------------------> OUTPUT --> done
 *               |         |                                           ^
 *               |         +--(leader of one of several)--> EXCHANGE --+
 *               +-----(member of one of several)---------> RESULT ----+
 */
#ifndef GPUHIER_SMALL_H
#define GPUHIER_SMALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gpuhier_call;

typedef enum gpuhier_small_phase {
    GPUHIER_SMALL_INPUT,    /* waits for the program's earlier work, and for the copy of the input behind it */
    GPUHIER_SMALL_ARRIVE,   /* waits for the contributions of the group */
    GPUHIER_SMALL_EXCHANGE, /* leader: with the leaders of the other groups */
    GPUHIER_SMALL_RESULT,   /* waits for the leader's result */
    GPUHIER_SMALL_OUTPUT    /* copies the result to the receive buffer */
} gpuhier_small_phase_t;

/* Part of a call: it has the call's owner, life and lock. */
typedef struct gpuhier_small {
    gpuhier_small_phase_t phase;
    bool is_mapped;  /* the host reads the input and writes the result itself (coll_gpuhier_gdr.h) */
    bool copies_out; /* the result is on its way to the receive buffer */
    int arrived;     /* members of the group, from the first on, whose contribution is known to be there */
    int step;        /* leader: of the exchange */
    bool posted;     /* leader: the messages of the step are under way */
} gpuhier_small_t;

/* Does a message of so many bytes take the small form? The same on all ranks. */
bool gpuhier_small_takes(size_t bytes);

/* Finds out, when the call is posted, whether the host reads its input and writes its result itself. */
void gpuhier_small_map(struct gpuhier_call *call);

/* Begins a prepared call: starts the copy of the input. A failure becomes this rank's vote. */
void gpuhier_small_begin(struct gpuhier_call *call);

/* Takes the steps that are possible now. Returns the number of events or an error. *done_p is set when the call is
 * over; it is declined if its mask says so. */
int gpuhier_small_step(struct gpuhier_call *call, bool *done_p);

/* Can this rank learn the mask of a call that fails here? Then it is in call->mask. */
bool gpuhier_small_mask_learn(struct gpuhier_call *call);

/* For a call that has failed here: may other ranks have completed it, and do all know its mask? In one group the answer
 * is the same on all ranks. */
bool gpuhier_small_outcome_known(struct gpuhier_call *call);

/* True only if nothing can move before another process of the node writes a word. Needs no lock and no context. */
bool gpuhier_small_is_idle(const struct gpuhier_call *call);

/* Can progress of the net help? A call that only waits for its group answers yes as well: messages of earlier calls may
 * still be leaving. */
bool gpuhier_small_wants_net(const struct gpuhier_call *call);

/* Prints how far every member of the group has come. */
void gpuhier_small_report(const struct gpuhier_call *call);

#endif /* GPUHIER_SMALL_H */
