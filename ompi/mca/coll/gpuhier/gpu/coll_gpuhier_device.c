/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns devices, lanes (scratch memory, streams and events), and single events. Does not know what runs on them. Called
 * by the team at set-up, by the engine at the start and end of a call, and by the kept list, under the engine's lock.
 */
#include "ompi_config.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/coll_gpuhier_params.h"
#include "gpu/coll_gpuhier_device.h"
#include "gpu/coll_gpuhier_gdr.h"
#include "opal/util/output.h"

OBJ_CLASS_INSTANCE(gpuhier_lane_t, opal_list_item_t, NULL, NULL);

static void device_construct(gpuhier_device_t *device)
{
    memset((char *) device + sizeof(device->super), 0, sizeof(*device) - sizeof(device->super));
    for (int kind = 0; kind < GPUHIER_LANE_KINDS; ++kind) {
        OBJ_CONSTRUCT(&device->free_lanes[kind], opal_list_t);
    }
}
static void device_destruct(gpuhier_device_t *device)
{
    free(device->events);
    for (int kind = 0; kind < GPUHIER_LANE_KINDS; ++kind) {
        OBJ_DESTRUCT(&device->free_lanes[kind]);
    }
}
OBJ_CLASS_INSTANCE(gpuhier_device_t, opal_list_item_t, device_construct, device_destruct);

static opal_list_t devices;
static bool ready;

/* Makes the stream of a stage and its events, unless they are there. */
static int stage_make(gpuhier_lane_t *lane, gpuhier_stage_t s)
{
    int lowest = 0, highest = 0, rc = OMPI_SUCCESS;
    if (NULL == lane->stream[s]) {
        rc = GPUHIER_CU(cuCtxGetStreamPriorityRange, &lowest, &highest);
        /* Greater priorities are smaller numbers. */
        const int high = highest + 1 < lowest ? highest + 1 : highest;
        const int priority = s > GPUHIER_STAGE_RS ? highest : high;
        rc = OMPI_SUCCESS != rc
                 ? rc
                 : GPUHIER_CU(cuStreamCreateWithPriority, &lane->stream[s], CU_STREAM_NON_BLOCKING, priority);
    }
    const int nevents = GPUHIER_LANE_SMALL == lane->kind ? 0 : gpuhier_lane_buffers(GPUHIER_LANE_LONG == lane->kind);
    for (int b = 0; b < nevents && OMPI_SUCCESS == rc; ++b) {
        if (NULL == lane->done[s][b]) {
            rc = GPUHIER_CU(cuEventCreate, &lane->done[s][b], CU_EVENT_DISABLE_TIMING);
        }
    }
    return rc;
}

/* Makes the streams that all calls need. */
static int streams_make(gpuhier_lane_t *lane)
{
    static const gpuhier_stage_t stages[] = {GPUHIER_STAGE_IN, GPUHIER_STAGE_RS, GPUHIER_STAGE_EXCHANGE,
                                             GPUHIER_STAGE_AG, GPUHIER_STAGE_OUT};
    const size_t n = GPUHIER_LANE_SMALL == lane->kind ? 1 : sizeof(stages) / sizeof(stages[0]);
    int rc = OMPI_SUCCESS;
    for (size_t i = 0; i < n && OMPI_SUCCESS == rc; ++i) {
        rc = stage_make(lane, stages[i]);
    }
    return rc;
}

int gpuhier_lane_levels(gpuhier_lane_t *lane, int levels)
{
    int rc = OMPI_SUCCESS;
    for (int level = 1; level < levels && OMPI_SUCCESS == rc; ++level) {
        rc = stage_make(lane, gpuhier_stage_rs(level));
        rc = OMPI_SUCCESS != rc ? rc : stage_make(lane, gpuhier_stage_ag(level));
    }
    return rc;
}

/* A driver that refuses memory of cuMemCreate may still give memory of cuMemAlloc, the only kind of device memory that
 * CUDA IPC maps. */
static int scratch_make(gpuhier_lane_t *lane, bool by_ipc)
{
    const bool is_long = GPUHIER_LANE_LONG == lane->kind;
    const size_t bytes = gpuhier_scratch_out(is_long, gpuhier_lane_buffers(is_long))
                         + (is_long ? 0 : GPUHIER_SCRATCH_COUNTER_BYTES + GPUHIER_MAILBOX_BYTES);
    size_t made = bytes;
    if (!by_ipc && lane->device->knows_files && OMPI_SUCCESS == gpuhier_vmm_make(&made, &lane->scratch, NULL)) {
        gpuhier_export_own(lane->scratch, made, NULL, &lane->ref);
        return OMPI_SUCCESS;
    }
    const int rc = GPUHIER_CU(cuMemAlloc, &lane->scratch, bytes);
    if (OMPI_SUCCESS == rc) {
        gpuhier_export_scratch(lane->scratch, bytes, &lane->ref);
    }
    return rc;
}

/* A flag is 32 bits of a number. Numbers begin near the end of that range, so that a lane first clears its mailbox
 * after 300 calls and not after hours. */
#define NUMBER_FIRST ((uint64_t) UINT32_MAX - 300)

uint32_t gpuhier_lane_mailbox_flag(const gpuhier_lane_t *lane)
{
    return (uint32_t) (lane->number % UINT32_MAX) + 1; /* not 0, which a cleared mailbox holds */
}

/* Clears the mailbox and the counter, and waits for that. No other work of the program delays it. */
static int mailbox_clear(const gpuhier_lane_t *lane)
{
    const size_t bytes = GPUHIER_SCRATCH_COUNTER_BYTES + GPUHIER_MAILBOX_BYTES;
    const CUdeviceptr begin = lane->scratch + gpuhier_scratch_mailbox() - GPUHIER_SCRATCH_COUNTER_BYTES;
    const CUstream stream = lane->stream[GPUHIER_STAGE_RS];
    const int rc = GPUHIER_CU(cuMemsetD32Async, begin, 0, bytes / sizeof(uint32_t), stream);
    return OMPI_SUCCESS != rc ? rc : gpuhier_stream_await(stream);
}

int gpuhier_lane_mailbox_next(gpuhier_lane_t *lane)
{
    if (NULL == lane->words) {
        return OMPI_ERR_NOT_SUPPORTED;
    }
    ++lane->number;
    return 0 == lane->number % UINT32_MAX ? mailbox_clear(lane) : OMPI_SUCCESS;
}

/* A system that refuses page-locked memory leaves the lane without words, and calls without the one-shot form. */
static int mailbox_make(gpuhier_lane_t *lane)
{
    void *words = NULL;
    if (OMPI_SUCCESS == GPUHIER_CU(cuMemHostAlloc, &words, 2 * GPUHIER_ONESHOT_ABORT, CU_MEMHOSTALLOC_PORTABLE)) {
        memset(words, 0, 2 * GPUHIER_ONESHOT_ABORT);
        lane->words = words;
        lane->number = NUMBER_FIRST;
    }
    return mailbox_clear(lane);
}

/* Frees all that the lane has. It may be made in part only. */
static void lane_destroy(gpuhier_lane_t *lane)
{
    for (int kind = 0; kind < GPUHIER_EXCHANGE_KINDS; ++kind) {
        gpuhier_lane_exchange_free(&lane->exchange, (gpuhier_exchange_kind_t) kind);
    }
    for (int s = 0; s < GPUHIER_STAGES; ++s) {
        for (int b = 0; b < GPUHIER_SLICE_BUFFERS_MAX; ++b) {
            if (NULL != lane->done[s][b]) {
                GPUHIER_CU_FREE(cuEventDestroy, lane->done[s][b]);
            }
        }
        if (NULL != lane->stream[s]) {
            GPUHIER_CU_FREE(cuStreamDestroy, lane->stream[s]);
        }
    }
    if (NULL != lane->pinned) {
        GPUHIER_CU_FREE(cuMemFreeHost, lane->pinned);
    }
    if (NULL != lane->words) {
        GPUHIER_CU_FREE(cuMemFreeHost, (void *) lane->words);
    }
    if (GPUHIER_SHARED_FILE == lane->ref.shared) {
        gpuhier_vmm_unmap(lane->scratch, lane->ref.bytes);
    } else if (0 != lane->scratch) {
        GPUHIER_CU_FREE(cuMemFree, lane->scratch);
    }
    OBJ_RELEASE(lane);
}

static int lane_make(gpuhier_device_t *device, gpuhier_lane_kind_t kind, bool by_ipc, gpuhier_lane_t **lane_p)
{
    gpuhier_lane_t *lane = OBJ_NEW(gpuhier_lane_t);
    if (NULL == lane) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    memset((char *) lane + sizeof(lane->super), 0, sizeof(*lane) - sizeof(lane->super));
    lane->device = device;
    lane->kind = kind;
    lane->exchange.count = gpuhier_lane_buffers(GPUHIER_LANE_LONG == kind);
    int rc = streams_make(lane);
    if (OMPI_SUCCESS == rc) {
        rc = GPUHIER_LANE_SMALL == kind
                 ? gpuhier_pinned_alloc(&lane->pinned, gpuhier_params.small_bytes, CU_MEMHOSTALLOC_PORTABLE)
                 : scratch_make(lane, by_ipc);
    }
    if (OMPI_SUCCESS == rc && GPUHIER_LANE_SLICES == kind) {
        rc = mailbox_make(lane);
    }
    if (OMPI_SUCCESS != rc) {
        lane_destroy(lane);
        return rc;
    }
    ++device->lanes_used;
    *lane_p = lane;
    return OMPI_SUCCESS;
}

static void lane_forget(gpuhier_lane_t *lane)
{
    gpuhier_lane_exchange_forget(&lane->exchange);
    if (GPUHIER_SHARED_FILE == lane->ref.shared) {
        gpuhier_vmm_unmap(lane->scratch, lane->ref.bytes); /* it belongs to no context */
    }
    OBJ_RELEASE(lane); /* no other CUDA call: the driver has freed the rest, and its handles may have other owners */
}

/* Removes a free lane of any kind. NULL when there is none. */
static gpuhier_lane_t *free_lane_remove(gpuhier_device_t *device)
{
    opal_list_item_t *item = NULL;
    for (int kind = 0; kind < GPUHIER_LANE_KINDS && NULL == item; ++kind) {
        item = opal_list_remove_first(&device->free_lanes[kind]);
    }
    return (gpuhier_lane_t *) item;
}

static void flush_decide(gpuhier_device_t *device)
{
    const int ordinal = device->ordinal;
    const gpuhier_flush_facts_t facts = {
        .compute_capability = 10 * gpuhier_cuda_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, ordinal)
                              + gpuhier_cuda_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, ordinal),
        .is_coherent =
            0 != gpuhier_cuda_attribute(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, ordinal)
            || 0 != gpuhier_cuda_attribute(CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST, ordinal),
        .ordering = gpuhier_cuda_attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, ordinal),
        .options = gpuhier_cuda_attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, ordinal)};
    device->flush = gpuhier_flush_decide(&facts, false);
    device->flush_for_peers = gpuhier_flush_decide(&facts, true);
}

#define MPS_ENABLED ((CUdevice_attribute) 133) /* CU_DEVICE_ATTRIBUTE_MPS_ENABLED, of CUDA 13 */

/* Has a kernel all the time that it wants, and the host while it runs? A GPU with a display ends a kernel after some
 * seconds, and the program's context with it. Under MPS kernels of many processes fill a GPU and take no turns: those
 * of two sets of communicators could wait for partners that cannot start. */
static bool kernels_may_wait(int ordinal)
{
    const char *blocking = getenv("CUDA_LAUNCH_BLOCKING");
    return 0 == gpuhier_cuda_attribute(CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT, ordinal)
           && 0 == gpuhier_cuda_attribute(MPS_ENABLED, ordinal)
           && (NULL == blocking || 0 == strtol(blocking, NULL, 10));
}

static int witness_make(gpuhier_device_t *device)
{
    gpuhier_buffer_t buffer;
    int rc = GPUHIER_CU(cuMemAlloc, &device->witness, sizeof(uint64_t));
    if (OMPI_SUCCESS == rc) {
        gpuhier_buffer_inspect((void *) (uintptr_t) device->witness, &buffer);
        device->witness_id = buffer.id;
    }
    return rc;
}

/* Makes the lanes that calls surely need. A call that makes its own lane may wait for the whole GPU. */
static int first_lanes_make(gpuhier_device_t *device)
{
    gpuhier_lane_t *slices, *small;
    int rc = lane_make(device, GPUHIER_LANE_SLICES, false, &slices);
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    if (gpuhier_params.small_bytes > 0) {
        rc = lane_make(device, GPUHIER_LANE_SMALL, false, &small);
        if (OMPI_SUCCESS != rc) {
            lane_destroy(slices);
            return rc;
        }
        gpuhier_lane_give(small);
    }
    device->host_maps =
        gpuhier_params.gdr_bytes > 0 && gpuhier_gdr_works(device->witness, slices->stream[GPUHIER_STAGE_RS]);
    device->query_suffices = device->host_maps && gpuhier_gdr_query_suffices();
    gpuhier_lane_give(slices);
    return OMPI_SUCCESS;
}

/* Frees what the device has in its context, which is current. */
static void device_empty(gpuhier_device_t *device)
{
    gpuhier_lane_t *lane;
    while (NULL != (lane = free_lane_remove(device))) {
        lane_destroy(lane);
    }
    while (device->nevents > 0) {
        GPUHIER_CU_FREE(cuEventDestroy, device->events[--device->nevents]);
    }
    if (0 != device->witness) {
        GPUHIER_CU_FREE(cuMemFree, device->witness);
    }
    gpuhier_multicast_kernels_close(&device->multicast);
    gpuhier_reduce_close(&device->reduce);
}

/* What the driver says about the device. */
static void device_describe(gpuhier_device_t *device, CUdevice handle)
{
    if (CUDA_SUCCESS != gpuhier_cu.cuDeviceTotalMem(&device->memory_bytes, handle)) {
        device->memory_bytes = (size_t) 4 << 30;
    }
    device->kernels_may_wait = kernels_may_wait(device->ordinal);
    device->knows_files =
        0 != gpuhier_cuda_attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, device->ordinal);
    if (!device->knows_files) {
        opal_output_verbose(1, gpuhier_output(), "coll:gpuhier: the driver shares memory of GPU %d by CUDA IPC only",
                            device->ordinal);
    }
    flush_decide(device);
}

static int device_make(CUcontext context, gpuhier_device_t **device_p)
{
    gpuhier_device_t *device = OBJ_NEW(gpuhier_device_t);
    if (NULL == device) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    device->context = context;
    CUdevice handle;
    int rc = GPUHIER_CU(cuCtxGetDevice, &handle);
    device->ordinal = (int) handle;
    rc = OMPI_SUCCESS != rc ? rc : gpuhier_reduce_open(&device->reduce);
    if (OMPI_SUCCESS == rc) {
        device_describe(device, handle);
        rc = witness_make(device);
    }
    rc = OMPI_SUCCESS != rc ? rc : first_lanes_make(device);
    if (OMPI_SUCCESS != rc) {
        device_empty(device);
        OBJ_RELEASE(device);
        return rc;
    }
    *device_p = device;
    return OMPI_SUCCESS;
}

static _Atomic unsigned lost;

unsigned gpuhier_devices_lost(void)
{
    return atomic_load_explicit(&lost, memory_order_relaxed);
}

bool gpuhier_device_check(gpuhier_device_t *device)
{
    if (NULL == device->context || !gpuhier_buffer_is_gone(device->witness, device->witness_id)) {
        return NULL != device->context;
    }
    opal_output_verbose(1, gpuhier_output(), "coll:gpuhier: the CUDA context of GPU %d was destroyed or reset",
                        device->ordinal);
    atomic_fetch_add_explicit(&lost, 1, memory_order_relaxed);
    gpuhier_ipc_forget(device->context, device->ordinal);
    device->context = NULL;
    device->nevents = 0;
    gpuhier_lane_t *lane;
    while (NULL != (lane = free_lane_remove(device))) {
        lane_forget(lane);
    }
    return false;
}

/*
 * A quarter of the memory, where peers have like GPUs. Buffers that calls use again and again should stay mapped, or
 * each call pays for opening them. Mappings of buffers that peers have freed should leave peers most of their GPU.
 */
size_t gpuhier_device_budget(const gpuhier_device_t *device)
{
    const size_t given = gpuhier_params.ipc_cache_bytes;
    return 0 != given ? given : device->memory_bytes / 4;
}

void gpuhier_device_trim(const gpuhier_device_t *device)
{
    if (gpuhier_kernel_waits) {
        return;
    }
    const size_t budget = gpuhier_device_budget(device);
    if (gpuhier_ipc_exceeds(budget, gpuhier_params.ipc_idle)) {
        gpuhier_devices_check(); /* mappings may belong to other contexts than the call's, which may be gone */
        gpuhier_ipc_trim(budget, gpuhier_params.ipc_idle);
    }
}

void gpuhier_devices_check(void)
{
    gpuhier_device_t *device;
    if (!ready) {
        return;
    }
    OPAL_LIST_FOREACH (device, &devices, gpuhier_device_t) {
        (void) gpuhier_device_check(device);
    }
}

int gpuhier_device_get(CUcontext context, gpuhier_device_t **device_p)
{
    if (!ready) {
        OBJ_CONSTRUCT(&devices, opal_list_t);
        ready = true;
    }
    gpuhier_device_t *device;
    OPAL_LIST_FOREACH (device, &devices, gpuhier_device_t) {
        if (context == device->context && gpuhier_device_check(device)) {
            *device_p = device;
            return OMPI_SUCCESS;
        }
    }
    int rc = device_make(context, device_p);
    if (OMPI_SUCCESS == rc) {
        opal_list_append(&devices, &(*device_p)->super);
    }
    return rc;
}

static inline int lane_find(gpuhier_device_t *device, gpuhier_lane_kind_t kind, bool by_ipc,
                            gpuhier_exchange_kind_t exchange, size_t exchange_bytes, gpuhier_lane_t **lane_p)
{
    gpuhier_lane_t *lane;
    OPAL_LIST_FOREACH (lane, &device->free_lanes[kind], gpuhier_lane_t) {
        if (by_ipc && GPUHIER_SHARED_FILE == lane->ref.shared) {
            continue;
        }
        if (exchange_bytes <= lane->exchange.of[exchange].bytes || 0 == lane->exchange.of[exchange].bytes) {
            opal_list_remove_item(&device->free_lanes[kind], &lane->super);
            ++device->lanes_used;
            *lane_p = lane;
            return OMPI_SUCCESS;
        }
    }
    return lane_make(device, kind, by_ipc, lane_p);
}

/* Something is kept, which may be a lane. */
static __attribute__((noinline)) int lane_find_kept(gpuhier_device_t *device, gpuhier_lane_kind_t kind, bool by_ipc,
                                                    gpuhier_exchange_kind_t exchange, size_t exchange_bytes,
                                                    gpuhier_lane_t **lane_p)
{
    gpuhier_kept_poll_all();
    return lane_find(device, kind, by_ipc, exchange, exchange_bytes, lane_p);
}

int gpuhier_lane_take(gpuhier_device_t *device, gpuhier_lane_kind_t kind, bool by_ipc, gpuhier_exchange_kind_t exchange,
                      size_t exchange_bytes, gpuhier_lane_t **lane_p)
{
    return NULL != gpuhier_kept_list ? lane_find_kept(device, kind, by_ipc, exchange, exchange_bytes, lane_p)
                                     : lane_find(device, kind, by_ipc, exchange, exchange_bytes, lane_p);
}

void gpuhier_lane_give(gpuhier_lane_t *lane)
{
    --lane->device->lanes_used;
    if (NULL == lane->device->context) {
        lane_forget(lane);
        return;
    }
    opal_list_prepend(&lane->device->free_lanes[lane->kind], &lane->super);
}

int gpuhier_event_take(gpuhier_device_t *device, CUevent *event_p)
{
    if (device->nevents > 0) {
        *event_p = device->events[--device->nevents];
        return OMPI_SUCCESS;
    }
    return GPUHIER_CU(cuEventCreate, event_p, CU_EVENT_DISABLE_TIMING);
}

void gpuhier_event_give(gpuhier_device_t *device, CUevent event)
{
    if (NULL == device->context) {
        return;
    }
    if (device->nevents == device->events_room) {
        const int room = 0 == device->events_room ? 16 : 2 * device->events_room;
        CUevent *events = realloc(device->events, sizeof(*events) * (size_t) room);
        if (NULL == events) {
            GPUHIER_CU_FREE(cuEventDestroy, event);
            return;
        }
        device->events = events;
        device->events_room = room;
    }
    device->events[device->nevents++] = event;
}

/* -- lanes that failed calls have left behind, until the GPU has finished with them ----------- */

/* Has the copy on the default stream ended? The context is current. */
static bool until_ended(gpuhier_lane_t *lane)
{
    if (lane->until_unknown) {
        if (OMPI_SUCCESS != gpuhier_event_take(lane->device, &lane->until)) {
            return false;
        }
        lane->until_unknown = CUDA_SUCCESS != gpuhier_cu.cuEventRecord(lane->until, CU_STREAM_LEGACY);
    }
    if (NULL != lane->until) {
        if (!lane->until_unknown && CUDA_ERROR_NOT_READY == gpuhier_cu.cuEventQuery(lane->until)) {
            return false;
        }
        gpuhier_event_give(lane->device, lane->until);
        lane->until = NULL;
    }
    return !lane->until_unknown;
}

static bool streams_ended(const gpuhier_lane_t *lane)
{
    for (int s = 0; s < GPUHIER_STAGES; ++s) {
        if (NULL != lane->stream[s] && CUDA_ERROR_NOT_READY == gpuhier_cu.cuStreamQuery(lane->stream[s])) {
            return false;
        }
    }
    return true;
}

static bool lane_give_back(gpuhier_kept_t *kept)
{
    gpuhier_lane_t *lane = (gpuhier_lane_t *) (void *) ((char *) kept - offsetof(gpuhier_lane_t, kept));
    gpuhier_cuda_scope_t scope;
    if (gpuhier_device_check(lane->device)) {
        if (lane->peers_work || OMPI_SUCCESS != gpuhier_cuda_enter(lane->device->context, &scope)) {
            return false;
        }
        const bool ended = until_ended(lane) && streams_ended(lane);
        gpuhier_cuda_leave(&scope);
        if (!ended) {
            return false;
        }
    }
    ++lane->device->lanes_used;
    gpuhier_lane_give(lane);
    return true;
}

void gpuhier_lane_keep(gpuhier_lane_t *lane)
{
    --lane->device->lanes_used;
    gpuhier_keep(&lane->kept, lane_give_back);
}

void gpuhier_device_finalize(void)
{
    if (!ready) {
        return;
    }
    gpuhier_devices_check();
    opal_list_item_t *item;
    while (NULL != (item = opal_list_remove_first(&devices))) {
        gpuhier_device_t *device = (gpuhier_device_t *) item;
        gpuhier_cuda_scope_t scope;
        if (OMPI_SUCCESS == gpuhier_cuda_enter(device->context, &scope)) {
            device_empty(device);
            gpuhier_cuda_leave(&scope);
        }
        OBJ_RELEASE(device);
    }
    OBJ_DESTRUCT(&devices);
    ready = false;
}
