/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Reductions on the GPU: which MPI operation and type has a kernel, and how it is launched.
 * The kernels themselves are in kernels/.
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
 * The index of the kernel that reduces elements of dtype with op, 0 .. GPUHIER_REDUCE_COUNT - 1, or -1:
 * not on the GPU. It depends on the operation and on what the type is in C, not on the handle: MPI_LONG
 * and MPI_INT64_T give the same index. Only predefined operations and types have one.
 * *elem_bytes_p (may be NULL) is set on success: the extent of an element.
 */
int gpuhier_reduce_find(const struct ompi_op_t *op, const struct ompi_datatype_t *dtype, size_t *elem_bytes_p);

/* Is the kernel's type a padded pair? What lies between its fields, or behind, is the program's, and never written. */
bool gpuhier_reduce_has_gaps(int index);

/* Bytes from the first field of count > 0 elements to the last: what lies behind that need not exist. */
size_t gpuhier_reduce_span(int index, uint64_t count);

/* A number from 0 to GPUHIER_REDUCE_COUNT - 1 that is the same on all ranks for matching calls. */
int gpuhier_reduce_class(int index);

/*
 * The kernels as loaded into one CUDA context. Owned by whoever opened it; constant from open to
 * close, so any thread may launch. Closed with the same context current, or after it is gone.
 */
typedef struct gpuhier_reduce {
    CUmodule module;
    CUfunction function[GPUHIER_REDUCE_COUNT + 1]; /* the last is gpuhier_copy */
    unsigned max_blocks[GPUHIER_REDUCE_COUNT + 1]; /* that the whole GPU runs at once */
} gpuhier_reduce_t;

/*
 * Loads the kernels into the current context, all at once: a kernel that the driver loads when it is first
 * launched may wait for the whole device, and so for a user's kernel that waits for us.
 * Returns an Open MPI code; on an error nothing is left open.
 */
int gpuhier_reduce_open(gpuhier_reduce_t *r);
void gpuhier_reduce_close(gpuhier_reduce_t *r);

/*
 * Starts kernel index on stream; args->count is in elements and 0 starts nothing. The caller's args may
 * change as soon as this returns. Returns an Open MPI code: OMPI_ERR_BAD_PARAM for an index or number
 * of peers out of range, else what the driver said.
 */
int gpuhier_reduce_launch(gpuhier_reduce_t *r, int index, const gpuhier_kernel_args_t *args, CUstream stream);

/* The same for a copy of args->count bytes from src[0] to all destinations; args->nsrc is not looked at. */
int gpuhier_reduce_copy(gpuhier_reduce_t *r, const gpuhier_kernel_args_t *args, CUstream stream);

/*
 * What goes to a user's receive buffer: args->count elements of kernel index, from src[0] to all destinations;
 * args->nsrc is not looked at. Gaps of padded pairs are not written.
 */
int gpuhier_reduce_push(gpuhier_reduce_t *r, int index, const gpuhier_kernel_args_t *args, CUstream stream);

/*
 * The same to one destination without a kernel: both may be memory of any kind, and kernels of the program that fill
 * the GPU do not hold it up. Padded pairs take strided copies, one or two, which are slower than a kernel.
 */
int gpuhier_reduce_store(int index, CUdeviceptr to, CUdeviceptr from, uint64_t count, CUstream stream);

#endif /* GPUHIER_REDUCE_H */
