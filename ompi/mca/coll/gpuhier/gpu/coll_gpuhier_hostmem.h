/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Host memory that several ranks of a node share: one file in /dev/shm that all of them map, page-locked, with a lane
 * for each. Kernels and copy engines reach it over the bus. It is the scratch of a group whose ranks cannot map each
 * other's GPU memory, or a relay, by which groups of a node exchange (engine/link).
 *
 *   | lane of rank 0                                                       | lane of rank 1 ...
 *   | proof word, to 256 | scratch: in of slice 0 .. S-1 | out of 0 .. S-1 |
 *   |                    | relay: of slice 0 .. S-1                        |
 */
#ifndef GPUHIER_HOSTMEM_H
#define GPUHIER_HOSTMEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/coll_gpuhier_cuda.h"

/*
 * The longest slice of scratch in it: page-locked memory is scarce, /dev/shm is small in containers, and every
 * communicator has its own. With four slices in flight a lane takes 2 MiB.
 */
#define GPUHIER_HOSTMEM_SLICE_BYTES ((size_t) 256 << 10)

/* One process's view, owned by the team; all zero when there is none. The memory goes when the last process closes. */
typedef struct gpuhier_hostmem {
    void *memory;       /* all lanes; NULL: there are none */
    CUdeviceptr device; /* the same, for kernels; 0 until it is registered */
    int file;           /* the memory's, open while it is made */
    bool file_open;
    size_t bytes;        /* of all lanes */
    size_t lane_bytes;   /* of one, whole pages */
    size_t buffer_bytes; /* of one slice buffer */
} gpuhier_hostmem_t;

/* What the ranks agree on before they make it. */
typedef struct gpuhier_hostmem_size {
    int nlanes;
    int nbuffers;        /* of a lane */
    size_t buffer_bytes; /* of each */
} gpuhier_hostmem_size_t;

/*
 * The steps by which the ranks make the memory:
 *   1. open: the first rank creates the file.
 *   2. open: the other ranks attach it. reserve: each rank reserves its own lane, so that the pages lie near its GPU,
 *      and a full /dev/shm is an error here and not a SIGBUS later.
 *   3. register: each rank registers the whole file with the driver and writes its proof by the GPU.
 *   4. prove: each rank reads all proofs by the GPU.
 * A step begins when all ranks have taken the one before. word: random, and known to all of them. lane: without work;
 * the first word of its scratch is written over. The steps return an Open MPI code, and after an error
 * `reason` says why. gpuhier_hostmem_close() is due in any case.
 */
#define GPUHIER_HOSTMEM_REASON_BYTES 128
int gpuhier_hostmem_open(gpuhier_hostmem_t *hostmem, uint64_t word, bool create, const gpuhier_hostmem_size_t *size,
                         char *reason);
int gpuhier_hostmem_reserve(gpuhier_hostmem_t *hostmem, int index, char *reason);
int gpuhier_hostmem_register(gpuhier_hostmem_t *hostmem, uint64_t word, int index, const struct gpuhier_lane *lane,
                             char *reason);
int gpuhier_hostmem_prove(gpuhier_hostmem_t *hostmem, uint64_t word, int nlanes, const struct gpuhier_lane *lane,
                          char *reason);

/* Removes the file's name. The creator calls it once all have attached. */
void gpuhier_hostmem_unlink(uint64_t word);

/* Lets go of the memory. context: the one it was registered in, NULL when that is gone. No GPU work on it is left. */
void gpuhier_hostmem_close(gpuhier_hostmem_t *hostmem, CUcontext context);

static inline bool gpuhier_hostmem_is_used(const gpuhier_hostmem_t *hostmem)
{
    return 0 != hostmem->device;
}

static inline CUdeviceptr gpuhier_hostmem_lane(const gpuhier_hostmem_t *hostmem, int index)
{
    return hostmem->device + (size_t) index * hostmem->lane_bytes;
}

/* Place of slice buffer number `buffer` in a lane. In scratch those for input come first, then those for output. */
size_t gpuhier_hostmem_place(const gpuhier_hostmem_t *hostmem, int buffer);

#endif /* GPUHIER_HOSTMEM_H */
