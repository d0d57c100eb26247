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
#include <stdint.h>

#include "gpu/coll_gpuhier_cuda.h"

#if CUDA_VERSION < 12030 /* as later headers have them */
#    define CU_MEM_HANDLE_TYPE_FABRIC ((CUmemAllocationHandleType) 8)
#    define CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED ((CUdevice_attribute) 128)
#endif

/*
 * A handle by which processes of other operating systems map memory, if the same NVLink domain joins their GPUs.
 * CUmemFabricHandle of CUDA 12.3 and newer. Drivers claim to support it even on machines that have no domain of several
 * operating systems, and to processes that lack an IMEX channel. Only an attempt to make and open such memory shows
 * whether it works.
 */
typedef struct gpuhier_fabric_handle {
    unsigned char data[64];
} gpuhier_fabric_handle_t;

/*
 * Makes memory on the current context's GPU, with a fabric handle, or, if handle_p is NULL, such that it may be
 * exported as a descriptor; and maps it at *address_p. *bytes: the length that is needed; on return, the length that
 * was made. gpuhier_vmm_unmap() gives the memory back, but it lives on while other processes map it. Returns an Open
 * MPI code.
 */
int gpuhier_vmm_make(size_t *bytes, CUdeviceptr *address_p, gpuhier_fabric_handle_t *handle_p);

/*
 * Maps `bytes` of another process's memory at *address_p, for the current context's GPU. shareable: a descriptor, which
 * stays the caller's, or a fabric handle, as the type says. Returns an Open MPI code.
 */
int gpuhier_vmm_open(void *shareable, CUmemAllocationHandleType type, size_t bytes, CUdeviceptr *address_p);

/* Lets the current context's GPU, too, work on memory that is mapped. Returns an Open MPI code. */
int gpuhier_vmm_allow(CUdeviceptr address, size_t bytes);

/* Unmaps memory, unless the address is 0. It is freed when no process maps it any longer. No GPU work on it is left. No
 * context need be current, and a driver that is gone is no error. */
void gpuhier_vmm_unmap(CUdeviceptr address, size_t bytes);

/* A descriptor of the memory that is mapped from `base` on, which the caller closes; -1 if there is none. */
int gpuhier_vmm_file_make(CUdeviceptr base);

/*
 * -- multicast objects ----------------------------------------------------------------------
 *
 * Memory that the GPUs of a group reach through one object of the driver: each has a copy, and an address that stands
 * for all copies.
 *
 *   own GPU's copy       own   ->  |  memory of this GPU, for its copy engines and kernels
 *   all copies, each at  all   ->  |  for kernels of gpuhier_kernels.h
 *
 * An offset means the same place in both.
 */

/* One process's part; zeroed, there is nothing. Owned by the team. */
typedef struct gpuhier_multicast {
    CUmemGenericAllocationHandle object, memory; /* 0: there is none */
    CUdevice device;                             /* this process's GPU */
    size_t bytes;                                /* of each copy; 0: it is not among the objects of this process */
    bool is_bound;
    CUdeviceptr own, all; /* 0: not mapped */
} gpuhier_multicast_t;

/*
 * Multicast objects that a process takes part in at a time. The switches of a machine have 128 places for those of all
 * processes (NVIDIA/nccl, issue 2077), of which NCCL takes some for each communicator. Each costs slice buffers as
 * well.
 */
#define GPUHIER_MULTICAST_OBJECTS_MAX 8

/* Do the driver and this GPU have multicast objects, and may this process have one more? */
bool gpuhier_multicast_is_possible(int device);

/*
 * The steps of a group's members, in this order:
 *   create    One member makes an object for `ngpus` GPUs with copies of at least `bytes`, and sends a descriptor of it
 *             to the other members, whose processes are `to`.
 *   receive   The other members take the descriptor. process: the creator; id: the number that create was given.
 *   join      Each member adds its GPU.
 *   map       Each member makes its copy. The driver allows this only when all GPUs have been added.
 * A step begins when all members have taken the one before, but join may follow receive at once. The steps return an
 * Open MPI code; gpuhier_multicast_close() is due in any case. The device's context is current.
 */
int gpuhier_multicast_create(gpuhier_multicast_t *multicast, int device, int ngpus, size_t bytes, uint64_t id,
                             const uint64_t *to);
int gpuhier_multicast_receive(gpuhier_multicast_t *multicast, int device, int ngpus, size_t bytes, uint64_t id,
                              uint64_t process);
int gpuhier_multicast_join(const gpuhier_multicast_t *multicast);
int gpuhier_multicast_map(gpuhier_multicast_t *multicast);

/* Lets go of everything. No GPU work of this process on it is left, and none of another on its copy. */
void gpuhier_multicast_close(gpuhier_multicast_t *multicast);

/* Forgets it and lets go of nothing until the process ends: kernels of other processes may work on its copy. */
void gpuhier_multicast_leave(gpuhier_multicast_t *multicast);

#endif /* GPUHIER_VMM_H */
