/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The buffers of a lane for the exchange between groups.
 */
#ifndef GPUHIER_LANE_EXCHANGE_H
#define GPUHIER_LANE_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu/coll_gpuhier_ipc_cache.h"
#include "plan/coll_gpuhier_schedule.h"

/* What the buffers lie in. */
typedef enum gpuhier_exchange_kind {
    GPUHIER_EXCHANGE_HOST,   /* page-locked host memory */
    GPUHIER_EXCHANGE_SHORT,  /* the same for calls whose shards the host reduces, where UCX takes device memory */
    GPUHIER_EXCHANGE_DEVICE, /* memory of cuMemAlloc, which UCX takes, or partners of the same node map */
    GPUHIER_EXCHANGE_FABRIC, /* the shard buffers have fabric handles, so partners of other operating systems map them
                              */
    GPUHIER_EXCHANGE_KINDS
} gpuhier_exchange_kind_t;

/*
 * The exchange buffers of one kind. The lane owns them, and may have some of each kind, since teams of several kinds
 * use it in turn. Each buffer holds a slice; in a LONG lane, a shard of the lane's first team. A SHORT buffer is
 * gpuhier_lane_exchange_short_bytes() long.
 */
typedef struct gpuhier_exchange_buffers {
    gpuhier_exchange_kind_t kind;
    void *shard[GPUHIER_SLICE_BUFFERS_MAX];
    void *recv[GPUHIER_SLICE_BUFFERS_MAX];
    int count;    /* of shard buffers, and of receive buffers */
    size_t bytes; /* of each; 0: there are none */
    gpuhier_memref_t
        ref[GPUHIER_SLICE_BUFFERS_MAX]; /* names shard buffers to partners; process 0: they cannot map it */
    size_t fabric_bytes;                /* FABRIC: of the memory in which all shard buffers lie */
} gpuhier_exchange_buffers_t;

/* The exchange buffers of a lane. Zeroed: there are none. */
typedef struct gpuhier_lane_exchange {
    gpuhier_exchange_buffers_t of[GPUHIER_EXCHANGE_KINDS];
    gpuhier_exchange_buffers_t *now; /* of the kind that the last team with several groups used; NULL: none */
    int count;                       /* shard buffers and receive buffers of each kind: the lane's slice buffers */
} gpuhier_lane_exchange_t;

/*
 * Makes the buffers of this kind the ones in use, and makes them first if there are none, or shorter ones than `bytes`.
 * The context is current. Returns an Open MPI code; after an error there are none of this kind.
 */
int gpuhier_lane_exchange_use(gpuhier_lane_exchange_t *exchange, gpuhier_exchange_kind_t kind, size_t bytes);

/* Bytes of a SHORT buffer, for teams of any number of groups. */
size_t gpuhier_lane_exchange_short_bytes(void);

/* Do the buffers that are in use lie in device memory? */
static inline bool gpuhier_lane_exchange_on_device(const gpuhier_lane_exchange_t *exchange)
{
    return GPUHIER_EXCHANGE_HOST != exchange->now->kind && GPUHIER_EXCHANGE_SHORT != exchange->now->kind;
}

/* Can partners map all shard buffers that are in use? */
bool gpuhier_lane_exchange_is_mappable(const gpuhier_lane_exchange_t *exchange);

/* Frees the buffers of a kind. Harmless when there are none. */
void gpuhier_lane_exchange_free(gpuhier_lane_exchange_t *exchange, gpuhier_exchange_kind_t kind);

/* Gives back what outlives a context. Called when the context, and with it everything else, is gone. */
void gpuhier_lane_exchange_forget(gpuhier_lane_exchange_t *exchange);

/* Allocates page-locked host memory. Reports an error to the user, since the communicator may then leave the GPUs. */
int gpuhier_pinned_alloc(void **memory_p, size_t bytes, unsigned flags);

#endif /* GPUHIER_LANE_EXCHANGE_H */
