/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the members of a communicator must have in common before any of them sends a message of gpuhier's: the version,
 * the parameters that decide paths, and a CUDA driver.
 */
#ifndef GPUHIER_AGREE_H
#define GPUHIER_AGREE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/coll_gpuhier_compat.h"

/* Publishes what this process has, when the component opens. Returns an Open MPI code. */
int gpuhier_agree_publish(const mca_base_component_t *self);

/*
 * Have all members published the same values, with a driver present? All members ask in the same call, and get the same
 * answer in *agreed_p. Returns the code of a message that failed: then this rank has sent no others, and the answer is
 * no.
 */
int gpuhier_agree(struct ompi_communicator_t *comm, bool *agreed_p);

/*
 * Which member differs from this rank, and in what. Local, but asks the modex for one member after the other: for
 * messages only. text: [room] "rank 3 has other parameters". Returns false if none is found.
 */
bool gpuhier_agree_who(struct ompi_communicator_t *comm, char *text, size_t room);

/* Forgets what is remembered of other processes, when the component closes. */
void gpuhier_agree_forget(void);

#endif /* GPUHIER_AGREE_H */
