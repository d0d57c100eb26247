/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The cache of what this process has mapped of other processes. Callers hold the engine's lock.
 */
#ifndef GPUHIER_IPC_CACHE_H
#define GPUHIER_IPC_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/coll_gpuhier_exports.h"

typedef struct gpuhier_mapping gpuhier_mapping_t;

/* A call of this process has a kernel that may wait for its peers. To close a mapping is to wait for the GPU, with the
 * lock that ends the kernel when a peer is dead. Under the engine's lock. */
extern bool gpuhier_kernel_waits;
/* It is on the legacy default stream, of a process with one thread: what follows there waits for the peers, too. */
extern _Atomic bool gpuhier_default_waits;

/*
 * Takes the descriptor of a reference with GPUHIER_SHARED_FILE, and maps the memory by it, unless it is mapped already.
 * Returns an Open MPI code: OMPI_ERR_NOT_FOUND if the descriptor has not come.
 */
int gpuhier_map_received(const gpuhier_memref_t *ref);

/*
 * Maps the referenced allocation for the current context, or finds its mapping, and pins it until gpuhier_unmap().
 * Memory of cuMemCreate is mapped once for all GPUs of this process. Another allocation is mapped in one context only:
 * in a second one this fails with CUDA_ERROR_ALREADY_MAPPED, and the driver is not asked. *address_p is the address of
 * the place. A reference to this process's own memory gives that memory, and a NULL mapping. keep: scratch of a process
 * that is held, which is not closed to make room. Other memory is refused (OMPI_ERR_NOT_AVAILABLE) while
 * gpuhier_kernel_waits, if an old mapping is in its way. Returns an Open MPI code.
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
 * mapping is current, unless it has none (memory of cuMemCreate). */
void gpuhier_ipc_unkeep(const gpuhier_memref_t *ref);

/* The same for all mappings of a process. */
void gpuhier_ipc_unkeep_all(uint64_t process);

/*
 * Scratch of a process, named by its random word, stays mapped while there are more holds than releases. Then it counts
 * as user memory: the next communicator may use it again, or gpuhier_ipc_trim() closes it.
 */
void gpuhier_ipc_hold(uint64_t process);
void gpuhier_ipc_release(uint64_t process);

/* Forgets the mappings of a context that is gone, on the GPU with that number, without a CUDA call: the addresses may
 * have other owners. Memory of cuMemCreate stays mapped, for other contexts. */
void gpuhier_ipc_forget(CUcontext context, int ordinal);

/* Closes everything, at the end of the process's life in MPI. A driver that is already gone is no error. */
void gpuhier_ipc_finalize(void);

#endif /* GPUHIER_IPC_CACHE_H */
