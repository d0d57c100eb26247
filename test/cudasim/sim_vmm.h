/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory that cuMemCreate made, for what maps it or binds it to multicast objects.
 */
#ifndef SIM_VMM_H
#define SIM_VMM_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_PHYSICAL_MAGIC 0x766d6d31u

/* Memory of a GPU without an address. Guarded by the memory lock; freed when no handle, mapping or binding is left.
 */
struct physical {
    uint32_t magic;
    unsigned handles;
    unsigned mappings;
    unsigned bindings; /* to multicast objects */
    int device;
    uint32_t first, nblocks; /* own blocks; an imported one has none, and first is 0 */
    int fd;                  /* of its own file, whose blocks count from 0; -1: it lies in the process's memory file */
    bool imported;
    bool remote; /* imported from another node */
    uint64_t id;
    CUmemAllocationProp properties;
};

/* What a handle refers to, or NULL. */
static inline struct physical *physical_of(CUmemGenericAllocationHandle handle)
{
    struct physical *physical = (struct physical *) (uintptr_t) handle;

    return (NULL != physical && SIM_PHYSICAL_MAGIC == physical->magic) ? physical : NULL;
}

/* Under the memory lock, after one of its counts went down: frees it if that was its last use. */
void sim_physical_drop(struct physical *physical);

/* Where such memory lies. */
struct sim_backing {
    struct physical *physical;
    int device;      /* physical number */
    bool exportable; /* as a file descriptor */
    int fd;
    uint64_t offset; /* in that file */
    size_t bytes;
};

/* Under the memory lock: the memory behind a handle, or from an address to the end of its mapping. false: there is
 * none, or it lies on another node. */
bool sim_backing_of_handle(CUmemGenericAllocationHandle handle, struct sim_backing *backing_p);
bool sim_backing_at(uintptr_t address, struct sim_backing *backing_p);

/* Under the memory lock: the memory stays while it is held, though its handles and mappings go. */
void sim_backing_hold(struct physical *physical);
void sim_backing_release(struct physical *physical);

#endif /* SIM_VMM_H */
