/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What a duplicate of a communicator inherits: which kinds of calls its parent had in mode ACC when it was duplicated.
 */
#ifndef GPUHIER_HERITAGE_H
#define GPUHIER_HERITAGE_H

#include "base/coll_gpuhier_compat.h"
#include "coll/coll_gpuhier_module.h"

/* Begins anew, when the component opens. */
void gpuhier_heritage_open(void);

/* From now on duplicates of the communicator inherit from it, unless this fails. Local. */
void gpuhier_heritage_leave(gpuhier_module_t *module, struct ompi_communicator_t *comm);

/*
 * What this rank would inherit for the communicator. Returns false if there is nothing. Local, and for the first call
 * of the communicator: its own duplicates inherit from its table afterwards.
 */
bool gpuhier_heritage_take(gpuhier_module_t *module, struct ompi_communicator_t *comm, gpuhier_modes_acc_t *acc);

#endif /* GPUHIER_HERITAGE_H */
