/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns gpuhier's domain of NVTX. NVTX 3 is a header of the CUDA toolkit and no library: a profiler sets
 * NVTX_INJECTION64_PATH to its own library, which the header's code loads. In a process without a profiler there are no
 * ranges, and nothing is loaded.
 */
#include "base/coll_gpuhier_ranges.h"

#include <stddef.h>

#if __has_include(<nvtx3/nvToolsExt.h>)
#    include <nvtx3/nvToolsExt.h>

static nvtxDomainHandle_t domain;

bool gpuhier_ranges_open(void)
{
    domain = nvtxDomainCreateA("gpuhier");
    return NULL != domain;
}

static nvtxEventAttributes_t describe(const char *name, uint64_t bytes)
{
    nvtxEventAttributes_t attributes = {0};
    attributes.version = NVTX_VERSION;
    attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
    attributes.message.ascii = name;
    attributes.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
    attributes.payload.ullValue = bytes;
    return attributes;
}

void gpuhier_ranges_push(const char *name, uint64_t bytes)
{
    const nvtxEventAttributes_t attributes = describe(name, bytes);
    (void) nvtxDomainRangePushEx(domain, &attributes);
}

void gpuhier_ranges_pop(void)
{
    (void) nvtxDomainRangePop(domain);
}

uint64_t gpuhier_ranges_start(const char *name, uint64_t bytes)
{
    const nvtxEventAttributes_t attributes = describe(name, bytes);
    return nvtxDomainRangeStartEx(domain, &attributes);
}

void gpuhier_ranges_end(uint64_t id)
{
    nvtxDomainRangeEnd(domain, id);
}

#else /* a toolkit without NVTX 3 */

bool gpuhier_ranges_open(void)
{
    return false;
}

void gpuhier_ranges_push(const char *name, uint64_t bytes)
{
    (void) name;
    (void) bytes;
}

void gpuhier_ranges_pop(void)
{
}

uint64_t gpuhier_ranges_start(const char *name, uint64_t bytes)
{
    (void) name;
    (void) bytes;
    return 0;
}

void gpuhier_ranges_end(uint64_t id)
{
    (void) id;
}
#endif
