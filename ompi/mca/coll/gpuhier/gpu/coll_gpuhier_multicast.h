/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory that the GPUs of a group reach through one multicast object of the driver: each has a copy, and an address
 * that stands for all copies. Callers hold the engine's lock.
 *
 *   own GPU's copy       own   ->  |  memory of this GPU, for its copy engines and kernels
 *   all copies, each at  all   ->  |  for kernels of gpuhier_multicast.h
 *
 * An offset means the same place in both.
 */
#ifndef GPUHIER_MULTICAST_MEMORY_H
#define GPUHIER_MULTICAST_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/coll_gpuhier_cuda.h"

/* One process's part; zeroed, there is nothing. Owned by the team. */
typedef struct gpuhier_multicast {
    CUmemGenericAllocationHandle object, memory; /* 0: there is none */
    int device;                                  /* ordinal of this process's GPU */
    size_t bytes;                                /* of each copy */
    bool is_counted;                             /* among the objects of this process */
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

#endif /* GPUHIER_MULTICAST_MEMORY_H */
