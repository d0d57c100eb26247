/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Knows where what lies in the scratch of a lane. Owns the exchange buffers of lanes: their memory, and the references
 * by which partners map it. Does not know what lies in them (engine/exchange), nor which kind a team uses
 * (team/setup_links). Called at set-up, by the engine at the start of a call, and by the device, under the engine's
 * lock.
 *
 * Partners read what they map and write nothing: only shard buffers have references.
 */
#include "ompi_config.h"

#include <limits.h>
#include <string.h>

#include "base/coll_gpuhier_help.h"
#include "base/coll_gpuhier_params.h"
#include "gpu/coll_gpuhier_device.h"
#include "opal/util/proc.h"

int gpuhier_lane_buffers(bool is_long)
{
    const gpuhier_limits_t limits = {.slice_buffers = gpuhier_params.slices_in_flight};
    return gpuhier_choice_buffers(&limits, is_long);
}

size_t gpuhier_slice_buffer_bytes(bool is_long)
{
    /* A plan's slices may be one unit longer than asked, and a unit is at least one element. */
    return (is_long ? gpuhier_params.slice_bytes_max : gpuhier_params.slice_bytes) + 4 * GPUHIER_UNIT_BYTES;
}

size_t gpuhier_scratch_in(bool is_long, int buffer)
{
    return (size_t) buffer * gpuhier_slice_buffer_bytes(is_long);
}

size_t gpuhier_scratch_out(bool is_long, int buffer)
{
    return gpuhier_scratch_in(is_long, gpuhier_lane_buffers(is_long) + buffer);
}

_Static_assert(GPUHIER_MAILBOX_WIRE == GPUHIER_ONESHOT_WIRE, "plan and kernels must agree on the mailbox");
_Static_assert(GPUHIER_MAILBOX_UNIT == GPUHIER_ONESHOT_UNIT * GPUHIER_ONESHOT_PLACES,
               "plan and kernels must agree on the mailbox");

size_t gpuhier_scratch_mailbox(void)
{
    return gpuhier_scratch_out(false, gpuhier_lane_buffers(false)) + GPUHIER_SCRATCH_COUNTER_BYTES;
}

/* -- exchange buffers --------------------------------------------------------------------- */

int gpuhier_pinned_alloc(void **memory_p, size_t bytes, unsigned flags)
{
    const CUresult result = gpuhier_cu.cuMemHostAlloc(memory_p, bytes, flags);
    if (CUDA_SUCCESS != result && !gpuhier_cuda_gone(result)) {
        gpuhier_help("no pinned memory", opal_process_info.nodename, bytes, gpuhier_cuda_name(result));
    }
    return gpuhier_cuda_error(result, "cuMemHostAlloc");
}

static bool is_pinned(gpuhier_exchange_kind_t kind)
{
    return GPUHIER_EXCHANGE_HOST == kind || GPUHIER_EXCHANGE_SHORT == kind;
}

static void buffer_free(gpuhier_exchange_kind_t kind, void *buffer)
{
    if (NULL == buffer) {
        return;
    }
    if (is_pinned(kind)) {
        GPUHIER_CU_FREE(cuMemFreeHost, buffer);
    } else {
        GPUHIER_CU_FREE(cuMemFree, (CUdeviceptr) (uintptr_t) buffer);
    }
}

static void fabric_free(gpuhier_exchange_buffers_t *buffers)
{
    if (GPUHIER_EXCHANGE_FABRIC == buffers->kind) {
        gpuhier_vmm_unmap((CUdeviceptr) (uintptr_t) buffers->shard[0], buffers->ref[0].bytes);
        memset(buffers->shard, 0, sizeof(buffers->shard));
    }
}

void gpuhier_lane_exchange_free(gpuhier_lane_exchange_t *exchange, gpuhier_exchange_kind_t kind)
{
    gpuhier_exchange_buffers_t *buffers = &exchange->of[kind];
    fabric_free(buffers);
    for (int b = 0; b < GPUHIER_SLICE_BUFFERS_MAX; ++b) {
        buffer_free(kind, buffers->shard[b]);
        buffer_free(kind, buffers->recv[b]);
    }
    memset(buffers, 0, sizeof(*buffers));
    exchange->now = buffers == exchange->now ? NULL : exchange->now;
}

void gpuhier_lane_exchange_forget(gpuhier_lane_exchange_t *exchange)
{
    fabric_free(&exchange->of[GPUHIER_EXCHANGE_FABRIC]);
}

/* The user is not told if SHORT buffers are refused, since other buffers take their place. */
static int buffer_alloc(gpuhier_exchange_kind_t kind, void **buffer_p, size_t bytes)
{
    const unsigned flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
    if (is_pinned(kind)) {
        return GPUHIER_EXCHANGE_SHORT == kind ? GPUHIER_CU(cuMemHostAlloc, buffer_p, bytes, flags)
                                              : gpuhier_pinned_alloc(buffer_p, bytes, flags);
    }
    CUdeviceptr address = 0;
    int rc = GPUHIER_CU(cuMemAlloc, &address, bytes);
    *buffer_p = (void *) (uintptr_t) address;
    return rc;
}

/* The reference by CUDA IPC of a shard buffer. It is no error here if there is none: UCX needs none. */
static void reference(gpuhier_exchange_buffers_t *buffers, int b)
{
    gpuhier_buffer_t buffer;
    unsigned uses;
    gpuhier_buffer_inspect(buffers->shard[b], &buffer);
    if (OMPI_SUCCESS != gpuhier_export(buffers->shard[b], &buffer, &buffers->ref[b], &uses)) {
        buffers->ref[b].process = 0;
    }
}

/* All n shard buffers, `bytes` each, in one piece of memory. */
static int fabric_make(gpuhier_exchange_buffers_t *buffers, int n, size_t bytes)
{
    const size_t stride = (bytes + GPUHIER_UNIT_BYTES - 1) / GPUHIER_UNIT_BYTES * GPUHIER_UNIT_BYTES;
    gpuhier_fabric_handle_t handle;
    CUdeviceptr base = 0;
    size_t all = (size_t) n * stride;
    int rc = gpuhier_vmm_make(&all, &base, &handle);
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    gpuhier_export_own(base, all, &handle, &buffers->ref[0]);
    for (int b = 0; b < n; ++b) {
        buffers->shard[b] = (void *) (uintptr_t) (base + (size_t) b * stride);
        buffers->ref[b] = buffers->ref[0];
        buffers->ref[b].offset = (size_t) b * stride;
    }
    return OMPI_SUCCESS;
}

static int buffers_make(gpuhier_exchange_buffers_t *buffers, int n, size_t bytes)
{
    const gpuhier_exchange_kind_t kind = buffers->kind;
    int rc = GPUHIER_EXCHANGE_FABRIC == kind ? fabric_make(buffers, n, bytes) : OMPI_SUCCESS;
    for (int b = 0; b < n && OMPI_SUCCESS == rc; ++b) {
        rc = GPUHIER_EXCHANGE_FABRIC == kind ? rc : buffer_alloc(kind, &buffers->shard[b], bytes);
        if (OMPI_SUCCESS == rc && GPUHIER_EXCHANGE_DEVICE == kind) {
            reference(buffers, b);
        }
        rc = OMPI_SUCCESS != rc ? rc : buffer_alloc(kind, &buffers->recv[b], bytes);
    }
    buffers->bytes = OMPI_SUCCESS == rc ? bytes : 0;
    return rc;
}

int gpuhier_lane_exchange_use(gpuhier_lane_exchange_t *exchange, gpuhier_exchange_kind_t kind, size_t bytes)
{
    gpuhier_exchange_buffers_t *buffers = &exchange->of[kind];
    if (0 == buffers->bytes || bytes > buffers->bytes) {
        gpuhier_lane_exchange_free(exchange, kind);
        buffers->kind = kind;
        int rc = buffers_make(buffers, exchange->count, bytes);
        if (OMPI_SUCCESS != rc) {
            gpuhier_lane_exchange_free(exchange, kind);
            return rc;
        }
    }
    exchange->now = buffers;
    return OMPI_SUCCESS;
}

bool gpuhier_lane_exchange_is_mappable(const gpuhier_lane_exchange_t *exchange)
{
    bool all = true;
    for (int b = 0; b < exchange->count; ++b) {
        all = all && 0 != exchange->now->ref[b].process;
    }
    return all;
}

size_t gpuhier_lane_exchange_short_bytes(void)
{
    return (size_t) gpuhier_choice_host_shard((uint64_t) gpuhier_params.host_shard_bytes, INT_MAX, true)
           + 4 * GPUHIER_UNIT_BYTES;
}
