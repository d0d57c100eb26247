/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A reference to GPU memory that another process can map, and the cache of what
 * this process has mapped.
 */
#ifndef GPUHIER_IPC_CACHE_H
#define GPUHIER_IPC_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/coll_gpuhier_cuda.h"

/*
 * One allocation of a process and a place in it. Plain bytes: it travels through
 * shared memory and messages. process 0 means: no reference.
 */
typedef struct gpuhier_memref {
    uint64_t process; /* random word of the exporting process */
    uint64_t base;    /* the allocation's address there, from cuMemGetAddressRange */
    uint64_t bytes;   /* of the allocation */
    uint64_t id;      /* CUDA's buffer id, unique in that process */
    uint64_t offset;  /* bytes from base to the place */
    CUipcMemHandle handle;
} gpuhier_memref_t;

_Static_assert(104 == sizeof(gpuhier_memref_t), "a memref is shared between processes");

typedef struct gpuhier_mapping gpuhier_mapping_t;

/*
 * Fills ref_p for the buffer at address, which `buffer` describes; the context
 * that owns it is current. Sets SYNC_MEMOPS on an allocation when it is first
 * exported. A reference is kept, so that asking again is cheap.
 * *uses_p: how often this allocation was asked for, this time included.
 * Returns an Open MPI code: OMPI_ERR_NOT_SUPPORTED for memory that IPC cannot map.
 */
int gpuhier_export(const void *address, const gpuhier_buffer_t *buffer, gpuhier_memref_t *ref_p, unsigned *uses_p);

/* The random word that names this process. */
uint64_t gpuhier_process_word(void);

/*
 * Maps what ref names into the current context (opened once, then found), pins
 * it until gpuhier_unmap(), and gives the address of the place. A reference to
 * this process's own memory gives that memory.
 * keep: scratch, of a process that is held: not closed to make room. Returns an Open MPI code.
 */
int gpuhier_map(const gpuhier_memref_t *ref, bool keep, gpuhier_mapping_t **mapping_p, CUdeviceptr *address_p);

/* NULL is ignored. */
void gpuhier_unmap(gpuhier_mapping_t *mapping);

/*
 * Closes mappings that nobody uses until at most budget bytes of user memory stay mapped, and those that were last used
 * idle seconds ago or earlier (0: however long ago). Not for use inside progress: closing may wait for the device.
 * The contexts that they were mapped in must be there: gpuhier_ipc_forget() those that are gone.
 */
void gpuhier_ipc_trim(size_t budget, double idle);

/* Would gpuhier_ipc_trim() close anything? */
bool gpuhier_ipc_exceeds(size_t budget, double idle);

/* What was mapped to be kept may be closed from now on: its owner has perhaps lost it. The context it was mapped in is
 * current. */
void gpuhier_ipc_unkeep(const gpuhier_memref_t *ref);

/*
 * Scratch of a process, by its random word, stays mapped while there are more holds than releases. Afterwards it is not
 * closed at once, since the next communicator may want it, but when gpuhier_ipc_trim() finds too much or too old
 * mappings.
 */
void gpuhier_ipc_hold(uint64_t process);
void gpuhier_ipc_release(uint64_t process);

/* Forgets what is mapped in a context that is gone, without a CUDA call: the addresses may be others' by now. */
void gpuhier_ipc_forget(CUcontext context);

/* Closes everything, at the end of the process's MPI life; a driver that is already gone is no error. */
void gpuhier_ipc_finalize(void);

#endif /* GPUHIER_IPC_CACHE_H */
