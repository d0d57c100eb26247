/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory of cuMemCreate: mapping it at addresses of this process, and sharing it with other processes. To map memory
 * is also to reserve the address; to unmap it is to undo both. Callers hold the engine's lock.
 */
#ifndef GPUHIER_VMM_H
#define GPUHIER_VMM_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu/coll_gpuhier_cuda.h"

#if CUDA_VERSION < 12030 /* as later headers have them */
#    define CU_MEM_HANDLE_TYPE_FABRIC 8
#    define CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED 128
#endif

/*
 * A handle by which processes of other operating systems map memory, if the same NVLink domain joins their GPUs.
 * CUmemFabricHandle of CUDA 12.3 and newer.
 */
typedef struct gpuhier_fabric_handle {
    unsigned char data[64];
} gpuhier_fabric_handle_t;

/*
 * Does the driver know fabric handles for this GPU? It says so even on machines that have no domain of several
 * operating systems, and to processes that lack an IMEX channel. Only an attempt to make and open such memory shows
 * whether it works.
 */
bool gpuhier_vmm_knows_fabric(int ordinal);

/* Does the driver make memory of this GPU that may be exported as a descriptor? */
bool gpuhier_vmm_knows_files(int ordinal);

/* Makes memory that may be exported as a descriptor. Else as gpuhier_vmm_fabric_make(). */
int gpuhier_vmm_file_new(size_t *bytes, CUdeviceptr *address_p);

/*
 * Makes memory with a fabric handle on the current context's GPU, and maps it at *address_p. *bytes: the length that
 * is needed; on return, the length that was made. gpuhier_vmm_unmap() gives the memory back, but it lives on while
 * other processes map it. Returns an Open MPI code.
 */
int gpuhier_vmm_fabric_make(size_t *bytes, CUdeviceptr *address_p, gpuhier_fabric_handle_t *handle_p);

/* Maps memory at an address of this process, for the current context's GPU. Returns an Open MPI code. */
int gpuhier_vmm_map(CUmemGenericAllocationHandle memory, size_t bytes, CUdeviceptr *address_p);

/*
 * Maps `bytes` of another process's memory at *address_p, for the current context's GPU: by a descriptor, which stays
 * the caller's, or by a fabric handle. Returns an Open MPI code.
 */
int gpuhier_vmm_file_open(int file, size_t bytes, CUdeviceptr *address_p);
int gpuhier_vmm_fabric_open(const gpuhier_fabric_handle_t *handle, size_t bytes, CUdeviceptr *address_p);

/* Lets the current context's GPU, too, work on memory that is mapped. Returns an Open MPI code. */
int gpuhier_vmm_allow(CUdeviceptr address, size_t bytes);

/* Unmaps memory. It is freed when no process maps it any longer. No GPU work on it is left. No context need be current,
 * and a driver that is gone is no error. */
void gpuhier_vmm_unmap(CUdeviceptr address, size_t bytes);

/* A descriptor of the memory that is mapped from `base` on, which the caller closes; -1 if there is none. */
int gpuhier_vmm_file_make(CUdeviceptr base);

#endif /* GPUHIER_VMM_H */
