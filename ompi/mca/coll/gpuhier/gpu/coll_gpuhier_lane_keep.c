/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the lanes that failed calls have left behind, until the GPU has finished with them. Called by the engine, and by
 * the kept list (base/kept).
 */
#include "ompi_config.h"

#include <stddef.h>

#include "gpu/coll_gpuhier_device.h"

/* Has the copy on the default stream ended? The context is current. */
static bool until_ended(gpuhier_lane_t *lane)
{
    if (lane->until_unknown) {
        if (OMPI_SUCCESS != gpuhier_event_take(lane->device, &lane->until)) {
            return false;
        }
        if (CUDA_SUCCESS != gpuhier_cu.cuEventRecord(lane->until, CU_STREAM_LEGACY)) {
            gpuhier_event_give(lane->device, lane->until);
            lane->until = NULL;
            return false;
        }
        lane->until_unknown = false;
    }
    if (NULL != lane->until && CUDA_ERROR_NOT_READY == gpuhier_cu.cuEventQuery(lane->until)) {
        return false;
    }
    if (NULL != lane->until) {
        gpuhier_event_give(lane->device, lane->until);
        lane->until = NULL;
    }
    return true;
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
