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
    GPUHIER_SMALL_INPUT,    /* what the program had queued, and the copy of my input behind it, are under way */
    GPUHIER_SMALL_ARRIVE,   /* waits for the contributions of the group */
    GPUHIER_SMALL_EXCHANGE, /* leader: with the leaders of the other groups */
    GPUHIER_SMALL_RESULT,   /* waits for the leader's result */
    GPUHIER_SMALL_OUTPUT    /* the result is on its way to my receive buffer */
} gpuhier_small_phase_t;

/* Part of a call; as long-lived, owned and locked as that. */
typedef struct gpuhier_small {
    gpuhier_small_phase_t phase;
    bool marks_itself; /* the call begins at once: its input is copied on the program's own stream, and the mark is
                          behind that */
    int arrived;       /* members of my group, from the first on, whose contribution is known to be there */
    int step;          /* leader: of the exchange */
    bool posted;       /* leader: the messages of the step are under way */
} gpuhier_small_t;

/* Does a message of so many bytes take the small form? The same on all ranks. */
bool gpuhier_small_takes(size_t bytes);

/* Does the call need nothing of the GPU? */
bool gpuhier_small_is_on_host(const struct gpuhier_call *call);

/* May the call, which begins at once, copy its input on the program's own stream? Notes that it does. */
bool gpuhier_small_marks_itself(struct gpuhier_call *call);

/* Begins a prepared call: starts the copy of my input. Whatever goes wrong is voted. */
void gpuhier_small_begin(struct gpuhier_call *call);

/* Does what can be done now. Returns the number of events or an error; *done_p is set when the call is over: declined
 * if its mask says so. */
int gpuhier_small_step(struct gpuhier_call *call, bool *done_p);

/* Of a call that fails here: can its mask be known? Then it is in call->mask. */
bool gpuhier_small_mask_learn(struct gpuhier_call *call);

/* Of a call that has failed here: may others have come to its end, and all know its mask? One group: the same on all
 * ranks. */
bool gpuhier_small_outcome_known(struct gpuhier_call *call);

/* Nothing can move before another process of the node writes a word. Needs no lock and no context. */
bool gpuhier_small_is_idle(const struct gpuhier_call *call);

/* Would progress of the net help? Those who only wait for their group ask now and then: messages of earlier calls may
 * still be leaving. */
bool gpuhier_small_wants_net(const struct gpuhier_call *call);

/* What every member of my group has come to. */
void gpuhier_small_report(const struct gpuhier_call *call);

#endif /* GPUHIER_SMALL_H */
