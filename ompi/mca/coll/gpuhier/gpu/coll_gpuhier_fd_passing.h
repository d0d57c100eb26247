/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * File descriptors that the processes of a node send each other. Callers hold the engine's lock.
 *
 * A process has one socket, named after its random word in the abstract namespace, so that nothing is left behind when
 * it is killed. It makes the socket when it first sends, or asks for, a descriptor. A descriptor is sent before the
 * record that mentions it is published, and so it has come when a peer asks for it. No call waits: what cannot be
 * sent or has not come is missing, and the sender may try again. At set-up a rank does not know its peers' words before
 * they know its record, so there it tries until all is sent and has come. Descriptors pass between processes of one
 * network namespace and one user; their pid namespaces may differ, and no process needs the right to trace another.
 */
#ifndef GPUHIER_FD_PASSING_H
#define GPUHIER_FD_PASSING_H

#include <stdbool.h>
#include <stdint.h>

/* What a descriptor stands for: an allocation of the process with that word. */
typedef struct gpuhier_fd_key {
    uint64_t process, base, id;
} gpuhier_fd_key_t;

/* The random word that names this process. */
uint64_t gpuhier_process_word(void);

/* Makes the socket of this process, whose word is `me`, so that others can send it descriptors. Returns whether there
 * is one. */
bool gpuhier_fd_passing_open(uint64_t me);

/* Sends a copy of file, which the caller keeps, to the process with the word `to`; -1 says that there is none. Returns
 * an Open MPI code:
 * OMPI_ERR_RESOURCE_BUSY if its socket is full, OMPI_ERR_UNREACH if there is no way to it. */
int gpuhier_fd_send(const gpuhier_fd_key_t *fd_key, int file, uint64_t to);

#define GPUHIER_FD_MISSING (-2) /* nothing has come */

/* A descriptor that has come for this process, whose word is `me`. The caller closes it. -1: the sender has none, or it
 * was lost since this process may open no more. */
int gpuhier_fd_take(const gpuhier_fd_key_t *fd_key, uint64_t me);

/* Waits until something comes for this process, or so many milliseconds. The engine's lock is not held. */
void gpuhier_fd_passing_wait(int milliseconds);

/* Closes the socket, and what has come and was not taken. */
void gpuhier_fd_passing_finalize(void);

#endif /* GPUHIER_FD_PASSING_H */
