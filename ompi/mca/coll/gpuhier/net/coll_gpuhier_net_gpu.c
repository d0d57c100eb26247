/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Decides whether UCX is given GPU memory, from facts. Calls nothing, and knows no UCX.
 *
 * coll_gpuhier_net.c decides for the rails of this process, set-up for all ranks of a communicator.
 */
#include "ompi_config.h"

#include "net/coll_gpuhier_net.h"

#include <string.h>

gpuhier_net_gpu_t gpuhier_net_gpu_decide(gpuhier_net_mode_t mode, const gpuhier_net_gpu_facts_t *facts)
{
    if (GPUHIER_NET_STAGED == mode) {
        return GPUHIER_NET_GPU_STAGED;
    }
    if (GPUHIER_NET_AUTO == mode && facts->is_tcp) {
        return GPUHIER_NET_GPU_TCP;
    }
    if (!facts->takes_cuda) {
        return GPUHIER_NET_GPU_NO_CUDA;
    }
    if (GPUHIER_NET_DIRECT == mode) {
        return GPUHIER_NET_GPU_FORCED;
    }
    if (!facts->is_known) {
        return GPUHIER_NET_GPU_UNKNOWN;
    }
    if (0 == facts->nics) {
        return GPUHIER_NET_GPU_TCP;
    }
    if (0 != (facts->nics & ~facts->on_gpu)) {
        return GPUHIER_NET_GPU_NO_REGISTRATION;
    }
    return facts->has_rc ? GPUHIER_NET_GPU_YES : GPUHIER_NET_GPU_NO_RC;
}

bool gpuhier_net_gpu_hear(gpuhier_net_gpu_t *answer, gpuhier_net_gpu_t other)
{
    if (GPUHIER_NET_GPU_YES != *answer || gpuhier_net_gpu_is_yes(other)) {
        return false;
    }
    *answer = other;
    return true;
}

static const struct {
    const char *reason;
    const char *remedy;
} texts[] = {
#define GPUHIER_NET_GPU_TEXT(name, reason, remedy) {reason, remedy},
    GPUHIER_NET_GPU_ANSWERS(GPUHIER_NET_GPU_TEXT)
#undef GPUHIER_NET_GPU_TEXT
};

const char *gpuhier_net_gpu_reason(gpuhier_net_gpu_t answer)
{
    return (unsigned) answer < GPUHIER_NET_GPU_COUNT ? texts[answer].reason : texts[GPUHIER_NET_GPU_NOT_ASKED].reason;
}

const char *gpuhier_net_gpu_remedy(gpuhier_net_gpu_t answer)
{
    return (unsigned) answer < GPUHIER_NET_GPU_COUNT ? texts[answer].remedy : "";
}

bool gpuhier_net_gpu_keys(const void *packed, size_t bytes, uint64_t *domains_p)
{
    const uint8_t *key = packed;
    uint64_t domains, with_key = 0;
    size_t at = sizeof(domains) + 1;
    if (bytes < at) {
        return false;
    }
    memcpy(&domains, key, sizeof(domains));
    for (int domain = 0; domain < 64; ++domain) {
        const uint64_t bit = UINT64_C(1) << domain;
        if (0 == (domains & bit)) {
            continue;
        }
        if (at >= bytes || key[at] >= bytes - at) {
            return false;
        }
        with_key |= 0 != key[at] ? bit : 0;
        at += (size_t) 1 + key[at];
    }
    *domains_p = with_key;
    return true;
}
