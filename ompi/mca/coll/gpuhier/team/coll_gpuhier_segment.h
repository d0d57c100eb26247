/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The control block of the ranks of one node in one communicator: shared memory with slots and areas for each rank.
 * What lies in these is the engine's (engine/coll_gpuhier_slot.h).
 *
 *   +--------+-------+--------------------+--------------------+----+--------------------+---
 *   | header | lives | rank 0: slot, slot | rank 1: slot, slot | .. | rank 0: area, area | ..
 *   +--------+-------+--------------------+--------------------+----+--------------------+---
 *
 * Call number s uses slot and area s % GPUHIER_SLOTS of every rank. Two of each are enough: a rank that starts call
 * s + 2 has seen all ranks arrive at call s + 1, and so they have left call s. (In the small form with several groups
 * only the leader sees the arrivals, and the other members learn of them by the leader's word.)
 *
 * Ranks in different pid namespaces cannot ask the kernel whether the other's process lives. Each of them locks the
 * byte of the file at the offset that equals its place, and says in its life word that it holds this lock. The lock
 * (F_OFD_SETLK) belongs to its mapping of the file, which a child of the process does not inherit, so it ends with the
 * process. A rank that detaches says first that it has left.
 */
#ifndef GPUHIER_SEGMENT_H
#define GPUHIER_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/coll_gpuhier_sync.h"

#define GPUHIER_SLOTS 2
#define GPUHIER_CACHE_LINE 64

/* Header of the file; its maker writes it before another rank attaches. */
typedef struct gpuhier_segment_header {
    uint64_t magic;
    uint32_t version;
    uint32_t nranks;     /* on this node */
    uint64_t word;       /* random, told to the members by message: proves that they opened the same file */
    uint64_t area_bytes; /* of each area, whole cache lines */
    uint8_t pad[GPUHIER_CACHE_LINE - 32];
} gpuhier_segment_header_t;

_Static_assert(GPUHIER_CACHE_LINE == sizeof(gpuhier_segment_header_t), "header is one line");

/* One process's view. Owned by the team; the memory goes when the last process detaches. */
typedef struct gpuhier_segment {
    gpuhier_segment_header_t *header;
    size_t bytes;
    size_t lives_bytes;            /* of all life words, whole cache lines */
    size_t slot_bytes, area_bytes; /* whole cache lines */
    int nranks;
    int place;  /* of this rank */
    bool locks; /* ranks show by locks that they live */
    int watch;  /* the file, opened once more to look at others' locks; -1: not open */
} gpuhier_segment_t;

/* What all ranks of the node know of a segment. */
typedef struct gpuhier_segment_args {
    uint64_t word; /* names it */
    int nranks;
    size_t slot_bytes; /* of each slot, whole cache lines */
    size_t area_bytes; /* used of each area */
    bool locks;        /* ranks are in different pid namespaces, and show by locks that they live */
} gpuhier_segment_args_t;

/*
 * Makes a segment, as the rank with place 0: mode 0600, must not exist, memory reserved now (so that a full /dev/shm is
 * an error here and not a SIGBUS later). Returns an Open MPI code, and then leaves nothing behind.
 */
int gpuhier_segment_create(const gpuhier_segment_args_t *args, gpuhier_segment_t *segment_p);

/* Opens it, as the rank with this place: OMPI_ERR_NOT_FOUND when this process does not see it, OMPI_ERR_BAD_PARAM when
 * it is not the one meant. */
int gpuhier_segment_attach(const gpuhier_segment_args_t *args, int place, gpuhier_segment_t *segment_p);

/* Removes the file's name. The maker calls it once all have attached. */
void gpuhier_segment_unlink(uint64_t word);

/* Says that this rank has left in peace, and lets go of the memory. */
void gpuhier_segment_detach(gpuhier_segment_t *segment);

/* False if the process of the rank with this place has died. True as well if nothing is known: without locks, if the
 * rank could not take its lock, and if it has left. */
bool gpuhier_segment_lives(const gpuhier_segment_t *segment, int place);

/* Slot of the rank with this index on the node, for call number `sequence`. */
static inline void *gpuhier_segment_slot(const gpuhier_segment_t *segment, int index, uint64_t sequence)
{
    return (char *) (segment->header + 1) + segment->lives_bytes
           + ((size_t) index * GPUHIER_SLOTS + sequence % GPUHIER_SLOTS) * segment->slot_bytes;
}

/* The same for its area. */
static inline void *gpuhier_segment_area(const gpuhier_segment_t *segment, int index, uint64_t sequence)
{
    return (char *) gpuhier_segment_slot(segment, segment->nranks, 0)
           + ((size_t) index * GPUHIER_SLOTS + sequence % GPUHIER_SLOTS) * segment->area_bytes;
}

#endif /* GPUHIER_SEGMENT_H */
