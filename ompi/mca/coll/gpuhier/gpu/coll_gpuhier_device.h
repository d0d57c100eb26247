/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What this process has on a GPU: a device for each context, with the kernels, events, and lanes. A lane carries one
 * call at a time. It has scratch memory that peers have mapped, streams and events.
 *
 * This folder, gpu, owns the CUDA driver's entry points (cuda), devices and lanes (device), a lane's buffers for the
 * exchange between groups (lane_exchange), what this process exports (exports) and has mapped of its peers (ipc_cache,
 * vmm, fd_passing), memory that all GPUs of a group reach at one address (vmm), page-locked host memory that a
 * node's ranks share in place of scratch (hostmem), what the host has mapped (gdr), the tables of kernels and their
 * launches (reduce), and the kernels themselves (kernels/). It uses base, and plan for limits. Set-up, the engine, host
 * and coll use it.
 *
 * Calls to device and ipc_cache are made under the engine's lock. A device's kernels are constant, so any thread may
 * launch them. "Short message" always means: at most coll_gpuhier_small_bytes, so the host reduces it.
 */
#ifndef GPUHIER_DEVICE_H
#define GPUHIER_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu/coll_gpuhier_ipc_cache.h"
#include "gpu/coll_gpuhier_reduce.h"
#include "plan/coll_gpuhier_choice.h"
#include "plan/coll_gpuhier_levels.h"
#include "plan/coll_gpuhier_schedule.h"
#include "base/coll_gpuhier_kept.h"
#include "opal/class/opal_list.h"

/* Stages of a call, in the order in which a slice passes them. Stages of consecutive slices overlap, so each stage has
 * a stream of its own in a lane. A stage that a call does not need lends its stream to kernels of RS or AG
 * (engine/coll_gpuhier_pipeline.c), so no stream has a low priority. */
typedef enum gpuhier_stage {
    GPUHIER_STAGE_IN, /* copies the user's input into scratch */
    /* Reduce-scatter; fused with the all-gather in a flat call of a single group. High priority, or all ranks would
     * wait behind the program's kernels on one GPU. In a call with levels this is level 0. The stages of the other
     * levels follow it, with the highest priority. */
    GPUHIER_STAGE_RS,
    /* Reductions of the exchange; highest priority, or a slice would queue behind RS of the next one. */
    GPUHIER_STAGE_EXCHANGE = GPUHIER_STAGE_RS + GPUHIER_LEVELS_MAX,
    /* All-gather; highest priority, too. In a call with levels this is level 0. The other levels precede it, the last
     * level first. */
    GPUHIER_STAGE_AG = GPUHIER_STAGE_EXCHANGE + GPUHIER_LEVELS_MAX,
    GPUHIER_STAGE_OUT, /* copies scratch into the user's output */
    GPUHIER_STAGES
} gpuhier_stage_t;

/* The stages of a level. */
static inline gpuhier_stage_t gpuhier_stage_rs(int level)
{
    return (gpuhier_stage_t) (GPUHIER_STAGE_RS + level);
}

static inline gpuhier_stage_t gpuhier_stage_ag(int level)
{
    return (gpuhier_stage_t) (GPUHIER_STAGE_AG - level);
}

/* -- the buffers of a lane for the exchange between groups, in coll_gpuhier_lane_exchange.c ---- */

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
    size_t bytes; /* of each; 0: there are none */
    gpuhier_memref_t
        ref[GPUHIER_SLICE_BUFFERS_MAX]; /* names shard buffers to partners; process 0: they cannot map it */
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

/* -- lanes ---------------------------------------------------------------------------------- */

/* What a lane carries. */
typedef enum gpuhier_lane_kind {
    GPUHIER_LANE_SMALL,  /* short messages: page-locked memory and one stream, no GPU memory */
    GPUHIER_LANE_SLICES, /* slices of slice_bytes */
    GPUHIER_LANE_LONG,   /* slices of slice_bytes_max, and more of them (gpuhier_choice_is_long()) */
    GPUHIER_LANE_KINDS
} gpuhier_lane_kind_t;

/*
 * Scratch of a lane lies in device memory, and peers map it: memory of cuMemCreate by descriptors, which a process maps
 * once for all its GPUs; where there is none, memory of cuMemAlloc by CUDA IPC (S: slice buffers of the lane, B: bytes
 * of each):
 *
 *   0                         S·B                          2·S·B
 *   | in of slice 0, 1 .. S-1 | out of slice 0, 1 .. S-1   | counter | mailbox |
 *
 * A slice buffer is longer than a slice, by four units; all ranks compute the same places. A LONG lane has buffers of
 * slice_bytes_max, and twice as many. It is made when the first call needs it, and kept. A SLICES lane has buffers of
 * slice_bytes, and a mailbox for one-shot kernels, and their counter before it. A SMALL lane has no scratch, since many
 * short calls may be in flight, on as many communicators or persistent requests.
 */
#define GPUHIER_SCRATCH_COUNTER_BYTES 256 /* of one-shot kernels, before the mailbox */

typedef struct gpuhier_device gpuhier_device_t;

typedef struct gpuhier_lane {
    opal_list_item_t super; /* in its device's list of free lanes of its kind, unless a call uses it */
    gpuhier_device_t *device;
    gpuhier_lane_kind_t kind;
    CUdeviceptr scratch;             /* 0 in a SMALL lane */
    gpuhier_memref_t ref;            /* names scratch to peers; its offset is 0. All zero in a SMALL lane */
    CUstream stream[GPUHIER_STAGES]; /* NULL: not made. A SMALL lane has that of GPUHIER_STAGE_IN only */
    CUevent done[GPUHIER_STAGES][GPUHIER_SLICE_BUFFERS_MAX]; /* end of the stage of the slice in this buffer */
    /* Page-locked, SLICES: for one-shot kernels (gpuhier_kernels.h); NULL: there is none. */
    _Atomic uint64_t *words;
    uint64_t number; /* SLICES: of the last one-shot kernel that the mailbox was given to */
    void *pinned; /* SMALL: page-locked memory of coll_gpuhier_small_bytes for the input, then the result; else NULL */
    gpuhier_lane_exchange_t exchange;
    /* For a lane that a failed call leaves behind. */
    gpuhier_kept_t kept;
    CUevent until; /* recorded behind a copy between `pinned` and the program's memory on the default stream, or NULL */
    bool until_unknown; /* there is such a copy, but recording the event failed */
    bool peers_work;    /* peers may still work on scratch, and no message will say when they end */
} gpuhier_lane_t;

OBJ_CLASS_DECLARATION(gpuhier_lane_t);

/* -- does a kernel see what a NIC has just written into GPU memory? Set-up and the exchange obey the answer. ------- */

/* The facts that decide. Zeros are safe: if the driver does not know an attribute, it counts as not promising
 * anything. */
typedef struct gpuhier_flush_facts {
    int compute_capability; /* 90 for sm_90 */
    bool is_coherent;       /* the GPU shares page tables or managed memory with the host: C2C, or NVLink to the CPU */
    int ordering;           /* CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING */
    int options;            /* CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS */
} gpuhier_flush_facts_t;

/* What has to happen between the end of a receive into GPU memory and a kernel that reads it. */
typedef enum gpuhier_flush {
    GPUHIER_FLUSH_NONE = 0,  /* nothing */
    GPUHIER_FLUSH_CALL,      /* cuFlushGPUDirectRDMAWrites() */
    GPUHIER_FLUSH_IMPOSSIBLE /* a flush that the driver does not have: NICs must not write there */
} gpuhier_flush_t;

/*
 * The platform decides, as in NCCL (ncclTopoNeedFlush()): GPUs below sm_90 always need a flush, and so do GPUs behind
 * C2C, whose NICs may have a second path to them. Other GPUs need it where the driver promises no order.
 *
 * Where the driver promises order, the call does nothing (cuda.h). That suffices below sm_90, where there is one path.
 * The promise holds for each path alone, so behind C2C it is not enough.
 *
 * for_peers: other GPUs read there as well. The driver promises order to them in a value of its own.
 */
static inline gpuhier_flush_t gpuhier_flush_decide(const gpuhier_flush_facts_t *facts, bool for_peers)
{
    const bool is_ordered = facts->ordering >= CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER;
    const bool suffices =
        is_ordered && (!for_peers || facts->ordering >= CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES);
    if (suffices && facts->compute_capability >= 90 && !facts->is_coherent) {
        return GPUHIER_FLUSH_NONE;
    }
    const bool has_call = 0 != (facts->options & CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST);
    const bool is_idle_call = is_ordered && facts->is_coherent;
    return has_call && !is_idle_call ? GPUHIER_FLUSH_CALL : GPUHIER_FLUSH_IMPOSSIBLE;
}

/* -- devices -------------------------------------------------------------------------------- */

/*
 * One for each context in use, from the first team's set-up until MPI_Finalize. If the program destroys or resets the
 * context, all that was made there is gone; gpuhier_device_check() notices. A new context may have the handle of the
 * old one, and new streams, events and memory may have the old handles and addresses.
 */
struct gpuhier_device {
    opal_list_item_t super;
    CUcontext context;   /* NULL once it is gone */
    CUdeviceptr witness; /* a word of cuMemAlloc, which exists as long as the context does ... */
    uint64_t witness_id; /* ... under this buffer id */
    int ordinal;
    gpuhier_reduce_t reduce;
    gpuhier_multicast_kernels_t multicast; /* open once a team has made memory for them */
    opal_list_t free_lanes[GPUHIER_LANE_KINDS];
    int lanes_used;  /* by calls and set-ups; lanes that failed calls have left do not count */
    CUevent *events; /* [nevents] free events, for calls that have no lane yet */
    int nevents, events_room;
    bool knows_files;      /* the driver makes memory that peers map by descriptors */
    bool kernels_may_wait; /* for peers; false where the driver ends long kernels, or a launch waits for its kernel */
    bool host_maps;        /* the host reads and writes memory of this GPU, see coll_gpuhier_gdr.h */
    bool query_suffices;   /* with host_maps: a query of the default stream covers the blocking streams as well */
    bool short_refused;    /* the driver has refused memory for SHORT exchange buffers: calls use others, and
                              kernels reduce in place of the host, in the same steps */
    size_t memory_bytes;   /* of the GPU; 4 GiB where the driver does not say */
    gpuhier_flush_t flush; /* before kernels read what a NIC has written */
    gpuhier_flush_t flush_for_peers; /* before peers' copies read it, too */
};

OBJ_CLASS_DECLARATION(gpuhier_device_t);

/* Do the device's kernels reach the buffer without a mapping? */
static inline bool gpuhier_device_owns(const gpuhier_device_t *device, const gpuhier_buffer_t *buffer)
{
    return gpuhier_buffer_on_device(buffer) && buffer->device == device->ordinal && buffer->context == device->context;
}

/* Slice buffers of a lane for input, and as many for output. */
int gpuhier_lane_buffers(bool is_long);

/* Bytes of one slice buffer in scratch, the same on all ranks. */
size_t gpuhier_slice_buffer_bytes(bool is_long);

/* Where a slice buffer begins, in bytes from the start of a lane's scratch. */
size_t gpuhier_scratch_in(bool is_long, int buffer);
size_t gpuhier_scratch_out(bool is_long, int buffer);

size_t gpuhier_scratch_mailbox(void); /* of a SLICES lane */

/*
 * Gives a SLICES lane's mailbox to the next one-shot kernel: a new number, and with it a flag that no word in the
 * mailbox has. Returns an Open MPI code: OMPI_ERR_NOT_SUPPORTED if the lane has no page-locked words.
 */
int gpuhier_lane_mailbox_next(gpuhier_lane_t *lane);
uint32_t gpuhier_lane_mailbox_flag(const gpuhier_lane_t *lane);

/*
 * The device of a context, which is current. Makes a new device with a SLICES lane and a SMALL lane; that loads kernels
 * and allocates, so it may wait for the whole GPU. Returns an Open MPI code.
 */
int gpuhier_device_get(CUcontext context, gpuhier_device_t **device_p);

/* Does the context still exist in which the device was made? If not, device->context is NULL from then on, and nothing
 * of the device is used again. */
bool gpuhier_device_check(gpuhier_device_t *device);

/*
 * How many lost contexts gpuhier_device_check() has noticed. Any thread may ask. After a loss Open MPI 5 and UCX get no
 * device memory. Open MPI 5 keeps a stream of the first context that it met, and ends the job when that stream is gone.
 * UCX keeps streams of the contexts in which it first copied, and copies nothing when they are gone.
 */
unsigned gpuhier_devices_lost(void);

/* Bytes of peers' user memory that may stay mapped between calls. */
size_t gpuhier_device_budget(const gpuhier_device_t *device);

/* Closes mappings of peers' user buffers that exceed the budget or are idle, see gpuhier_ipc_trim(). Not for use inside
 * progress. Does nothing while gpuhier_kernel_waits. */
void gpuhier_device_trim(const gpuhier_device_t *device);

/* gpuhier_device_check() of all devices. */
void gpuhier_devices_check(void);

/* Makes the streams and events that a call with this many levels needs, unless the lane has them. The context is
 * current. Returns an Open MPI code. */
int gpuhier_lane_levels(gpuhier_lane_t *lane, int levels);

/*
 * Takes a free lane of the kind, or makes one. The context is current. by_ipc: peers cannot map its scratch by
 * descriptors. If the lane has exchange buffers of the kind
 * `exchange`, each has at least exchange_bytes. Lanes stay until MPI_Finalize: peers keep scratch mapped, and freeing a
 * SMALL lane may wait for the GPU, which the end of a call inside progress must not do. Returns an Open MPI code.
 */
int gpuhier_lane_take(gpuhier_device_t *device, gpuhier_lane_kind_t kind, bool by_ipc, gpuhier_exchange_kind_t exchange,
                      size_t exchange_bytes, gpuhier_lane_t **lane_p);
void gpuhier_lane_give(gpuhier_lane_t *lane);

/*
 * Gives the lane of a failed call back once the GPU has finished with it, as shown by its streams, by `until`, and by
 * the two members after that. UCX has already let go of the lane.
 */
void gpuhier_lane_keep(gpuhier_lane_t *lane);

/* A free event, or a new one, for the life of a call. The context is current. Returns an Open MPI code. */
int gpuhier_event_take(gpuhier_device_t *device, CUevent *event_p);
void gpuhier_event_give(gpuhier_device_t *device, CUevent event);

/* Frees all devices and lanes. A driver or context that is already gone is no error. */
void gpuhier_device_finalize(void);

#endif /* GPUHIER_DEVICE_H */
