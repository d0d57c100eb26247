/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What multicast objects need to know of memory that cuMemCreate made.
 */
#ifndef SIM_VMM_H
#define SIM_VMM_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct physical;

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
 * none. */
bool sim_backing_of_handle(CUmemGenericAllocationHandle handle, struct sim_backing *backing_p);
bool sim_backing_at(uintptr_t address, struct sim_backing *backing_p);

/* Under the memory lock: the memory stays while it is held, though its handles and mappings go. */
void sim_backing_hold(struct physical *physical);
void sim_backing_release(struct physical *physical);

#endif /* SIM_VMM_H */
