/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * References to GPU memory that other processes can map. Callers hold the engine's lock.
 */
#ifndef GPUHIER_EXPORTS_H
#define GPUHIER_EXPORTS_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/coll_gpuhier_fd_passing.h"
#include "gpu/coll_gpuhier_vmm.h"

/* How other processes get at an allocation. */
typedef enum gpuhier_shared {
    GPUHIER_SHARED_IPC = 0, /* by the handle of CUDA IPC */
    GPUHIER_SHARED_FILE,    /* by a descriptor, which gpuhier_export_send() sends */
    GPUHIER_SHARED_FABRIC,  /* by a fabric handle, which is in `handle` */
    GPUHIER_SHARED_NONE     /* and more: not at all, since the driver gave no handle; the error is added */
} gpuhier_shared_t;

/*
 * An allocation of a process and a place in it. Plain bytes, since it travels through shared memory and messages.
 * process 0: no reference.
 */
typedef struct gpuhier_memref {
    uint64_t process; /* random word of the exporting process */
    uint64_t base;    /* the allocation's address there, from cuMemGetAddressRange */
    uint64_t bytes;   /* of the allocation */
    uint64_t id;      /* of gpuhier_buffer_t, unique in that process */
    uint64_t offset;  /* bytes from base to the place */
    uint64_t shared;  /* gpuhier_shared_t */
    CUipcMemHandle handle;
} gpuhier_memref_t;

_Static_assert(112 == sizeof(gpuhier_memref_t), "a memref is shared between processes");

/*
 * Fills *ref_p for the buffer at address, which `buffer` describes. The context that owns the buffer is current. The
 * first export of an allocation sets SYNC_MEMOPS on it, where the driver has that. References are remembered, so later
 * exports are cheap. *uses_p: how often this allocation was exported, this time included. Returns an Open MPI code:
 * OMPI_ERR_NOT_SUPPORTED for memory that IPC cannot map.
 */
int gpuhier_export(const void *address, const gpuhier_buffer_t *buffer, gpuhier_memref_t *ref_p, unsigned *uses_p);

/*
 * The reference to scratch of cuMemAlloc at this address, of so many bytes. Where the driver gives no handle, peers get
 * its error when they map the reference, and a later export may succeed.
 */
void gpuhier_export_scratch(CUdeviceptr base, size_t bytes, gpuhier_memref_t *ref_p);

/* The reference to memory of cuMemCreate that gpuhier has made, which no earlier reference names. handle: NULL for
 * memory that peers map by a descriptor. */
void gpuhier_export_own(CUdeviceptr base, size_t bytes, const gpuhier_fabric_handle_t *handle, gpuhier_memref_t *ref_p);

/*
 * Sends descriptors of the memory to those peers that have none, before a reference with GPUHIER_SHARED_FILE is
 * published. peers: for each peer, a reference to any memory of it. Does nothing for references of other kinds. A peer
 * cannot map memory whose descriptor could not be sent.
 */
void gpuhier_export_send(const gpuhier_memref_t *ref, const gpuhier_memref_t *peers, int n);

/* Notes that a peer could not map the memory of a reference; and whether all peers could in this call. Memory that
 * peers fail to map in several calls in a row counts as memory that IPC cannot map. */
void gpuhier_export_unmapped(const gpuhier_memref_t *ref, const gpuhier_memref_t *peer);
void gpuhier_export_tried(const gpuhier_memref_t *ref, bool all);

/* Forgets that a process was sent descriptors of memory that gpuhier has made. */
void gpuhier_exports_unsent(uint64_t process);

/* Forgets everything. */
void gpuhier_exports_finalize(void);

#endif /* GPUHIER_EXPORTS_H */
