/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Multicast objects: one address for memory on several GPUs.
 */
#ifndef SIM_MULTICAST_H
#define SIM_MULTICAST_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim_memory.h"
#include "sim_vmm.h"

/* This process's handle of an object. Guarded by the memory lock. */
struct sim_multicast;

/* What a kernel's access to a multicast address reaches. */
struct sim_team {
    int count;
    int devices[SIM_MAX_GPUS];          /* physical numbers */
    void *copies[SIM_MAX_GPUS];         /* the bytes on each, as this process sees them */
    struct sim_gpu_ports *const *ports; /* model: of each; stay while the object is open here */
};

/* Whether a GPU (physical number) can be in a team. */
bool sim_multicast_supported(int device);

/* What a handle refers to, or NULL. */
struct sim_multicast *sim_multicast_of(CUmemGenericAllocationHandle handle);

/* Waits until all devices of the team have been added; cuMemMap and binds begin so. */
void sim_multicast_await(struct sim_multicast *object);

size_t sim_multicast_bytes(const struct sim_multicast *object);
bool sim_multicast_has(const struct sim_multicast *object, int device);

/* Under the memory lock. The last release or unmapping closes the object, and unbinds what this process has bound. */
CUresult sim_multicast_release(struct sim_multicast *object);
void sim_multicast_map(struct sim_multicast *object);
void sim_multicast_unmap(struct sim_multicast *object);

/* Shareable handles: the object's file, -1 if it was not made to be exported; whether a file is one; opening one, for
 * which CUDA_ERROR_INVALID_VALUE says that it is of another node. */
int sim_multicast_file(const struct sim_multicast *object);
bool sim_multicast_is_file(int fd);
CUresult sim_multicast_import(int fd, CUmemGenericAllocationHandle *handle_p);

/* Makes one, with one handle; the arguments of the following are checked. */
CUresult sim_multicast_new(const CUmulticastObjectProp *properties, CUmemGenericAllocationHandle *handle_p);
CUresult sim_multicast_add(struct sim_multicast *object, int device);

/* Under the memory lock: binds bytes of memory, from an offset in it, at an offset in the object; and unbinds them,
 * which CUDA_ERROR_INVALID_VALUE answers if this process has bound nothing at just that place. */
CUresult sim_multicast_bind(struct sim_multicast *object, size_t offset, const struct sim_backing *memory,
                            size_t memory_offset, size_t bytes);
CUresult sim_multicast_unbind(struct sim_multicast *object, int device, size_t offset, size_t bytes);

/* How it may be exported: CU_MEM_HANDLE_TYPE_*. */
unsigned long long sim_multicast_handle_types(const struct sim_multicast *object);

/*
 * What lies behind a range of a multicast mapping, for a kernel of a GPU (physical number). false: the address is none,
 * the GPU has no access, or a member has bound no memory to all of the range.
 */
bool sim_multicast_reach(uintptr_t address, size_t bytes, int device, struct sim_team *team_p);

#endif /* SIM_MULTICAST_H */
