/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Reductions in an NVSwitch: which operation and type it can do, and the launch of the kernels that ask it to. The
 * kernels are in kernels/gpuhier_multicast.cu, their memory in coll_gpuhier_multicast.h.
 */
#ifndef GPUHIER_MULTICAST_REDUCE_H
#define GPUHIER_MULTICAST_REDUCE_H

#include <stdbool.h>

#include <cuda.h>

#include "gpu/coll_gpuhier_reduce.h"
#include "gpu/kernels/gpuhier_multicast.h"

#define GPUHIER_MULTICAST_NUMBER(name, type, op) GPUHIER_MULTICAST_##name,
enum { GPUHIER_MULTICAST_LIST(GPUHIER_MULTICAST_NUMBER) GPUHIER_MULTICAST_COUNT };
#undef GPUHIER_MULTICAST_NUMBER

/* The kernels as loaded into a CUDA context. Owned and used like gpuhier_reduce_t. */
typedef struct gpuhier_multicast_kernels {
    CUmodule module;                                  /* NULL: not open */
    CUfunction function[GPUHIER_MULTICAST_COUNT + 1]; /* the last one is gpuhier_multicast_store */
    unsigned most_blocks;                             /* of a grid: enough for the links */
} gpuhier_multicast_kernels_t;

/* Can the switch do what the kernel with this index (coll_gpuhier_reduce.h) does? any_order: the result may depend on
 * the order of operands, which the switch chooses. */
bool gpuhier_multicast_can(int index, bool any_order);

/*
 * Loads the kernels into the current context; does nothing if they are open. Returns an Open MPI code, and then nothing
 * is open: OMPI_ERR_NOT_SUPPORTED if the component was built without them.
 */
int gpuhier_multicast_kernels_open(gpuhier_multicast_kernels_t *kernels);
void gpuhier_multicast_kernels_close(gpuhier_multicast_kernels_t *kernels);

/* Starts the kernel that does in the switch what the kernel with this index does. args->bytes 0 starts nothing. Returns
 * an Open MPI code: OMPI_ERR_BAD_PARAM where gpuhier_multicast_can() says no. */
int gpuhier_multicast_launch(const gpuhier_multicast_kernels_t *kernels, int index,
                             const gpuhier_multicast_args_t *args, CUstream stream);

/* The same for gpuhier_multicast_store. */
int gpuhier_multicast_store(const gpuhier_multicast_kernels_t *kernels, const gpuhier_multicast_args_t *args,
                            CUstream stream);

#endif /* GPUHIER_MULTICAST_REDUCE_H */
