/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Reductions on the GPU: which MPI operation and type has a kernel, and its launch. The kernels are in kernels/.
 */
#ifndef GPUHIER_REDUCE_H
#define GPUHIER_REDUCE_H

#include <stdbool.h>
#include <stddef.h>

#include <cuda.h>

#include "gpu/kernels/gpuhier_kernels.h"

struct ompi_op_t;
struct ompi_datatype_t;

#define GPUHIER_REDUCE_NUMBER(op, type) GPUHIER_REDUCE_##op##_##type,
enum { GPUHIER_KERNEL_LIST(GPUHIER_REDUCE_NUMBER) GPUHIER_REDUCE_COUNT };
#undef GPUHIER_REDUCE_NUMBER

/*
 * The index of the kernel that reduces elements of dtype with op, 0 .. GPUHIER_REDUCE_COUNT - 1; -1: there is none. The
 * index depends on the operation and on the type in C, not on the handle: MPI_LONG and MPI_INT64_T have the same index,
 * and so have matching calls on all ranks.
 * Only predefined operations and types have one.
 * *elem_bytes_p (may be NULL) is set on success: the extent of an element in bytes.
 */
int gpuhier_reduce_find(const struct ompi_op_t *op, const struct ompi_datatype_t *dtype, size_t *elem_bytes_p);

/* Is the kernel's type a padded pair? Bytes between its fields, or behind them, belong to the program and are never
 * written. */
extern const bool gpuhier_reduce_gaps[];
static inline bool gpuhier_reduce_has_gaps(int index)
{
    return gpuhier_reduce_gaps[index];
}

/* Bytes from the first field of count > 0 elements to the end of the last field. Memory behind it need not exist. */
size_t gpuhier_reduce_span(int index, uint64_t count);

/*
 * The kernels as loaded into a CUDA context. Owned by the caller of open. Constant from open to close, so any thread
 * may launch. Closed while the same context is current, or after it is gone.
 */
typedef struct gpuhier_reduce {
    CUmodule module;
    CUfunction function[GPUHIER_REDUCE_COUNT + 2]; /* the last ones are gpuhier_copy and gpuhier_moves */
    unsigned all_blocks[GPUHIER_REDUCE_COUNT + 2]; /* blocks that the whole GPU runs at once */
    unsigned enough_blocks;                        /* blocks that fill the links */
    CUfunction oneshot[GPUHIER_REDUCE_COUNT + 1];  /* the last one is gpuhier_oneshot_move */
} gpuhier_reduce_t;

/*
 * Loads all kernels into the current context. A kernel that the driver loads at its first launch may wait for the whole
 * device, and so for a kernel of the program that waits for this call.
 * Returns an Open MPI code; after an error nothing is open.
 */
int gpuhier_reduce_open(gpuhier_reduce_t *r);
void gpuhier_reduce_close(gpuhier_reduce_t *r);

/*
 * Starts a kernel on a stream. index: of a kernel, or GPUHIER_REDUCE_COUNT for gpuhier_copy. args->count: elements; 0
 * starts nothing. args may change after the return. Returns an Open MPI code: OMPI_ERR_BAD_PARAM for an index or number
 * of peers out of range, else that of the driver's result.
 */
int gpuhier_reduce_launch(gpuhier_reduce_t *r, int index, const gpuhier_kernel_args_t *args, CUstream stream);

/*
 * Starts a one-shot kernel, see gpuhier_kernels.h. It ends once the kernels of all peers have started, or when its host
 * tells it to leave. index: of a kernel, or GPUHIER_REDUCE_COUNT for gpuhier_oneshot_move. Returns an Open MPI code:
 * OMPI_ERR_BAD_PARAM for an index or number of ranks out of range, else that of the driver's result.
 */
int gpuhier_reduce_oneshot(gpuhier_reduce_t *r, int index, const gpuhier_oneshot_args_t *args, CUstream stream);

/*
 * Copies args->count elements of the kernel's type from src[0] to all destinations, which may be users' receive
 * buffers: gaps of padded pairs are not written. args->nsrc is ignored.
 */
int gpuhier_reduce_push(gpuhier_reduce_t *r, int index, const gpuhier_kernel_args_t *args, CUstream stream);

/* Adds a range of bytes to those that one kernel moves, and starts it if there are as many as it takes. args->count is
 * 0 before the first one. An empty range, or one that is there already, is not moved. */
int gpuhier_reduce_move(gpuhier_reduce_t *r, gpuhier_moves_args_t *args, CUdeviceptr to, CUdeviceptr from,
                        uint64_t bytes, CUstream stream);

/* Starts the kernel that moves the ranges, if there are any, and empties args. Returns an Open MPI code. */
int gpuhier_reduce_moves(gpuhier_reduce_t *r, gpuhier_moves_args_t *args, CUstream stream);

/* The same for one range. */
int gpuhier_reduce_copy(gpuhier_reduce_t *r, CUdeviceptr to, CUdeviceptr from, uint64_t bytes, CUstream stream);

/*
 * Does the same as gpuhier_reduce_push() for one destination, without a kernel. Source and destination may be memory of
 * any kind, and kernels of the program that fill the GPU do not delay the copy. Padded pairs take one or two strided
 * copies, which are slower than a kernel.
 */
int gpuhier_reduce_store(int index, CUdeviceptr to, CUdeviceptr from, uint64_t count, CUstream stream);

/* -- reductions in an NVSwitch: kernels/gpuhier_kernels.h, on the memory of coll_gpuhier_vmm.h --------- */

#define GPUHIER_MULTICAST_NUMBER(name, type, op) GPUHIER_MULTICAST_##name,
enum { GPUHIER_MULTICAST_LIST(GPUHIER_MULTICAST_NUMBER) GPUHIER_MULTICAST_COUNT };
#undef GPUHIER_MULTICAST_NUMBER

/* The kernels as loaded into a CUDA context. Owned and used like gpuhier_reduce_t. */
typedef struct gpuhier_multicast_kernels {
    CUmodule module;                                  /* NULL: not open */
    CUfunction function[GPUHIER_MULTICAST_COUNT + 1]; /* the last one is gpuhier_multicast_store */
    unsigned most_blocks;                             /* of a grid: enough for the links */
} gpuhier_multicast_kernels_t;

/* Can the switch do what the kernel with this index does? any_order: the result may depend on
 * the order of operands, which the switch chooses. */
bool gpuhier_multicast_can(int index, bool any_order);

/*
 * Loads the kernels into the current context; does nothing if they are open. Returns an Open MPI code, and then nothing
 * is open: OMPI_ERR_NOT_SUPPORTED if the component was built without them.
 */
int gpuhier_multicast_kernels_open(gpuhier_multicast_kernels_t *kernels);
void gpuhier_multicast_kernels_close(gpuhier_multicast_kernels_t *kernels);

/* Starts the kernel that does in the switch what the kernel with this index does, or gpuhier_multicast_store for
 * GPUHIER_REDUCE_COUNT. args->bytes 0 starts nothing. Returns an Open MPI code: OMPI_ERR_BAD_PARAM where
 * gpuhier_multicast_can() says no. */
int gpuhier_multicast_launch(const gpuhier_multicast_kernels_t *kernels, int index,
                             const gpuhier_multicast_args_t *args, CUstream stream);

#endif /* GPUHIER_REDUCE_H */
