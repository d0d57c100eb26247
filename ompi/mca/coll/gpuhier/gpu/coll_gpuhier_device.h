/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What this process has on a GPU: the kernels loaded into a context, and lanes,
 * each of which carries one call at a time: scratch memory that peers have
 * mapped, streams and events.
 */
#ifndef GPUHIER_DEVICE_H
#define GPUHIER_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu/coll_gpuhier_ipc_cache.h"
#include "gpu/coll_gpuhier_reduce.h"
#include "plan/coll_gpuhier_schedule.h"
#include "base/coll_gpuhier_kept.h"
#include "opal/class/opal_list.h"

/* Stages of a call. Those of consecutive slices overlap, so each has a stream of the lane. */
typedef enum gpuhier_stage {
    GPUHIER_STAGE_IN,       /* user's input into scratch */
    GPUHIER_STAGE_RS,       /* reduce-scatter; fused with the all-gather in a single group */
    GPUHIER_STAGE_EXCHANGE, /* reductions of the exchange; high priority */
    GPUHIER_STAGE_AG,       /* all-gather; high priority, or AG of a slice queues behind RS of the next */
    GPUHIER_STAGE_OUT,      /* scratch into user's output */
    GPUHIER_STAGES
} gpuhier_stage_t;

/* What a lane can carry. */
typedef enum gpuhier_lane_kind {
    GPUHIER_LANE_SMALL,  /* a short message, which the host reduces: page-locked memory and one stream, no GPU memory */
    GPUHIER_LANE_SLICES, /* slices of slice_bytes */
    GPUHIER_LANE_LONG,   /* slices of slice_bytes_max */
    GPUHIER_LANE_KINDS
} gpuhier_lane_kind_t;

/*
 * Scratch of a lane, in device memory, mapped by the peers (S: slices in flight, B: bytes of a slice buffer):
 *
 *   0            256                            256 + S·B                    256 + 2·S·B
 *   | proof word | in of slice 0, 1 .. S-1      | out of slice 0, 1 .. S-1   |
 *
 * A slice buffer is longer than a slice by up to one unit; all ranks compute the same places. A long lane has buffers
 * of slice_bytes_max. It is made when the first call needs it, and kept; the others take slices of slice_bytes. One for
 * short messages has none: many calls may be in flight at once, on as many communicators or persistent requests.
 */
#define GPUHIER_SCRATCH_HEADER 256

typedef struct gpuhier_device gpuhier_device_t;

typedef struct gpuhier_lane {
    opal_list_item_t super; /* in its device's list of free lanes of the kind, unless a call has it */
    gpuhier_device_t *device;
    gpuhier_lane_kind_t kind;
    CUdeviceptr scratch;  /* and the next two; 0 in a lane for short messages */
    gpuhier_memref_t ref; /* of scratch, offset 0 */
    uint64_t proof;       /* the word at the start of scratch: who reads it there has mapped this memory */
    int nstreams;         /* all, but GPUHIER_STAGE_IN only in a lane for short messages */
    CUstream stream[GPUHIER_STAGES];
    CUevent done[GPUHIER_STAGES][GPUHIER_SLICE_BUFFERS_MAX]; /* stage of the slice in this buffer */
    void *pinned; /* for short messages: host memory of coll_gpuhier_small_bytes, for the input, then the result; else
                     NULL */
    /* Exchange buffers, made when a team has several groups: one slice each, in a long lane one shard of its first
     * team. Pinned host memory, or device memory when UCX takes it. */
    void *shard[GPUHIER_SLICE_BUFFERS_MAX];
    void *recv[GPUHIER_SLICE_BUFFERS_MAX];
    size_t exchange_bytes; /* of each; 0: there are none */
    bool exchange_on_device;
    /* Of a lane that a failed call has left behind. */
    gpuhier_kept_t kept;
    CUevent until;      /* behind a copy from or to `pinned` on the program's own stream, or NULL */
    bool until_unknown; /* there is such a copy, and the event could not be had */
    bool peers_work;    /* peers may still work on scratch, and nobody will say when they have ended */
} gpuhier_lane_t;

OBJ_CLASS_DECLARATION(gpuhier_lane_t);

/*
 * One per context in use, from the first team's set-up until MPI_Finalize. A program may destroy or reset its context
 * meanwhile, and what was made there with it: gpuhier_device_check() notices. A new context may then have the old one's
 * handle, and new streams, events and memory of the program the old ones' handles and addresses.
 */
struct gpuhier_device {
    opal_list_item_t super;
    CUcontext context;   /* NULL once it is gone */
    CUdeviceptr witness; /* scratch of the first lane that has any, which exists as long as the context does ... */
    uint64_t witness_id; /* ... under this buffer id */
    int ordinal;
    gpuhier_reduce_t reduce;
    opal_list_t free_lanes[GPUHIER_LANE_KINDS];
    CUevent *events; /* [nevents] free ones, for calls that have no lane yet */
    int nevents, events_room;
    size_t memory_bytes; /* the GPU's; a little where the driver does not say */
    bool flush_needed;   /* what NICs write needs cuFlushGPUDirectRDMAWrites before kernels read it ... */
    bool flush_possible; /* ... which the driver offers */
};

OBJ_CLASS_DECLARATION(gpuhier_device_t);

/* Is it memory that the device's kernels reach without any mapping? */
static inline bool gpuhier_device_owns(const gpuhier_device_t *device, const gpuhier_buffer_t *buffer)
{
    return gpuhier_buffer_on_device(buffer) && buffer->device == device->ordinal && buffer->context == device->context;
}

/* Bytes of one slice buffer in scratch, the same on all ranks. */
size_t gpuhier_slice_buffer_bytes(bool is_long);

/* Place of a slice buffer in a lane's scratch, bytes from its start. */
size_t gpuhier_scratch_in(bool is_long, int buffer);
size_t gpuhier_scratch_out(bool is_long, int buffer);

/*
 * The device of a context, made with its first lanes, one for slices and one for short messages, when new: loads
 * kernels and allocates, so it may wait for the whole GPU.
 */
int gpuhier_device_get(CUcontext context, gpuhier_device_t **device_p);

/* Is the device's context still the one that it was made in? Else its context is NULL from now on, and nothing of it is
 * used again. */
bool gpuhier_device_check(gpuhier_device_t *device);

/*
 * How many contexts have been lost, as far as was noticed. Open MPI 5's own CUDA code keeps a stream of the first
 * context that it met, and ends the job without it; UCX keeps streams of those in which it first copied, and without
 * them copies nothing.
 */
unsigned gpuhier_devices_lost(void);

/* Bytes of peers' user memory that may stay mapped from call to call. */
size_t gpuhier_device_budget(const gpuhier_device_t *device);

/* Closes mappings of peers' user buffers beyond what is to stay open, see gpuhier_ipc_trim(). Not for use inside
 * progress. */
void gpuhier_device_trim(const gpuhier_device_t *device);

/* gpuhier_device_check() of all. */
void gpuhier_devices_check(void);

/*
 * A free lane of the kind, or a new one, which stays until MPI_Finalize: peers keep scratch mapped, and freeing what
 * short messages need may wait for the GPU, which a call's end inside progress must not. Its events and buffers are
 * those of earlier calls. The context is current. exchange_bytes: what each exchange buffer must have, if the lane has
 * any.
 */
int gpuhier_lane_take(gpuhier_device_t *device, gpuhier_lane_kind_t kind, size_t exchange_bytes,
                      gpuhier_lane_t **lane_p);
void gpuhier_lane_give(gpuhier_lane_t *lane);

/*
 * Has a failed call's lane given when the GPU has done with it, which `until` and the next two members say as well as
 * its streams. UCX has let go of it.
 */
void gpuhier_lane_keep(gpuhier_lane_t *lane);

/* A free event, or a new one, for the time that a call lives. The context is current. */
int gpuhier_event_take(gpuhier_device_t *device, CUevent *event_p);
void gpuhier_event_give(gpuhier_device_t *device, CUevent event);

/* Makes the lane's exchange buffers of so many bytes each if it has none of the kind. on_device: UCX takes device
 * memory. */
int gpuhier_lane_exchange_buffers(gpuhier_lane_t *lane, bool on_device, size_t bytes);

/* Frees all devices and lanes; a driver or context that is already gone is no error. */
void gpuhier_device_finalize(void);

#endif /* GPUHIER_DEVICE_H */
