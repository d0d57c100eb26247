/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * References to GPU memory that other processes can map, and the cache of what this process has mapped. Callers hold
 * the engine's lock.
 */
#ifndef GPUHIER_IPC_CACHE_H
#define GPUHIER_IPC_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/coll_gpuhier_vmm.h"

/* How other processes get at an allocation. */
typedef enum gpuhier_shared {
    GPUHIER_SHARED_IPC = 0, /* by the handle of CUDA IPC */
    GPUHIER_SHARED_FILE,    /* by a descriptor, which gpuhier_export_send() sends */
    GPUHIER_SHARED_FABRIC   /* by a fabric handle, which is in `handle` */
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

typedef struct gpuhier_mapping gpuhier_mapping_t;

/*
 * Fills *ref_p for the buffer at address, which `buffer` describes. The context that owns the buffer is current. The
 * first export of an allocation sets SYNC_MEMOPS on it, where the driver has that. References are remembered, so later
 * exports are cheap. *uses_p: how often this allocation was exported, this time included. Returns an Open MPI code:
 * OMPI_ERR_NOT_SUPPORTED for memory that IPC cannot map.
 */
int gpuhier_export(const void *address, const gpuhier_buffer_t *buffer, gpuhier_memref_t *ref_p, unsigned *uses_p);

/* The reference to memory of this process with a fabric handle, which no earlier reference names. */
void gpuhier_export_fabric(CUdeviceptr base, size_t bytes, const gpuhier_fabric_handle_t *handle,
                           gpuhier_memref_t *ref_p);

/*
 * Sends descriptors of the memory to those peers that have none, before a reference with GPUHIER_SHARED_FILE is
 * published. peers: for each peer, a reference to any memory of it. Does nothing for references of other kinds. A peer
 * cannot map memory whose descriptor could not be sent.
 */
void gpuhier_export_send(const gpuhier_memref_t *ref, const gpuhier_memref_t *peers, int n);

/* Notes that a peer could not map the memory of a reference; that in this call some peer could not; or that all peers
 * could. Memory that peers fail to map in several calls in a row counts as memory that IPC cannot map. */
void gpuhier_export_unmapped(const gpuhier_memref_t *ref, const gpuhier_memref_t *peer);
void gpuhier_export_failed(const gpuhier_memref_t *ref);
void gpuhier_export_mapped(const gpuhier_memref_t *ref);

/* The random word that names this process. */
uint64_t gpuhier_process_word(void);

/*
 * Maps the referenced allocation into the current context, or finds its mapping, and pins it until gpuhier_unmap().
 * *address_p is the address of the place. A reference to this process's own memory gives that memory, and a NULL
 * mapping. keep: scratch of a process that is held, which is not closed to make room. Returns an Open MPI code.
 */
int gpuhier_map(const gpuhier_memref_t *ref, bool keep, gpuhier_mapping_t **mapping_p, CUdeviceptr *address_p);

/* A number that changes when a mapping is closed or lost. Until it changes, all mappings that were found are valid. */
uint64_t gpuhier_ipc_epoch(void);

/* Pins n valid mappings once more, as gpuhier_map() does, without a look-up. NULL is ignored. */
void gpuhier_map_again(gpuhier_mapping_t *const *mappings, int n);

/* Releases a pin. NULL is ignored. */
void gpuhier_unmap(gpuhier_mapping_t *mapping);

/*
 * Closes unpinned mappings of user memory, the least recently used first: until at most `budget` bytes stay mapped, and
 * all that were last used `idle` seconds ago or earlier (0: age does not count). Not for use inside progress, since
 * closing may wait for the device. Contexts that are gone must have been forgotten by gpuhier_ipc_forget().
 */
void gpuhier_ipc_trim(size_t budget, double idle);

/* Would gpuhier_ipc_trim() close anything? */
bool gpuhier_ipc_exceeds(size_t budget, double idle);

/* Counts a kept mapping as user memory from now on, since its owner may have lost the memory. The context of the
 * mapping is current. */
void gpuhier_ipc_unkeep(const gpuhier_memref_t *ref);

/* The same for all mappings of a process. */
void gpuhier_ipc_unkeep_all(uint64_t process);

/*
 * Scratch of a process, named by its random word, stays mapped while there are more holds than releases. Then it counts
 * as user memory: the next communicator may use it again, or gpuhier_ipc_trim() closes it.
 */
void gpuhier_ipc_hold(uint64_t process);
void gpuhier_ipc_release(uint64_t process);

/* Forgets the mappings of a context that is gone. Those by legacy IPC get no CUDA call: the addresses may have other
 * owners. */
void gpuhier_ipc_forget(CUcontext context);

/* Closes everything, at the end of the process's life in MPI. A driver that is already gone is no error. */
void gpuhier_ipc_finalize(void);

#endif /* GPUHIER_IPC_CACHE_H */
