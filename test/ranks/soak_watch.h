/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The clock and the notes of a soak by time; see soak_watch.c.
 */
#ifndef GPUHIER_TEST_SOAK_WATCH_H
#define GPUHIER_TEST_SOAK_WATCH_H

#include "calls.h"
#include "resources.h"

enum { WATCH_NOTES = 20, WATCH_NOTES_LEAST = 12 };

typedef enum watch_word { WATCH_GO_ON, WATCH_NOTE, WATCH_NOTE_AND_STOP } watch_word_t;

/* One run; lives in the program. */
typedef struct watch {
    MPI_Comm comm; /* all ranks, without gpuhier; not owned */
    double begin, seconds;
    int nnotes;
    long notes[WATCH_NOTES][RESOURCES]; /* this rank's */
} watch_t;

void watch_begin(watch_t *watch, MPI_Comm comm, double seconds);

/* Collective: what is to be done now, by rank 0's clock. The run goes on beyond its time until it has
 * WATCH_NOTES_LEAST notes. */
watch_word_t watch_ask(const watch_t *watch);

/* Collective, while no call is pending: notes what there is of everything. */
void watch_note(watch_t *watch);

/* Collective: fails the ranks that hold more at the end than before; rank 0 prints the largest numbers of all. */
void watch_end(const watch_t *watch, suite_t *suite, uint64_t on_gpus);

#endif /* GPUHIER_TEST_SOAK_WATCH_H */
