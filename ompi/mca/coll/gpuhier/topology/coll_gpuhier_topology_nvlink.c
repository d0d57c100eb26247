/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Asks NVML for the NVLink neighbours of a GPU, and whether the machine computes confidentially. NVML shows what
 * CUDA_VISIBLE_DEVICES hides, so all ranks of a machine see the same.
 *
 * NVML is optional: libnvidia-ml.so.1 comes with the driver and is opened when asked for. This file declares the few
 * functions that it uses, after NVIDIA's documentation, so that the build needs no header of NVML. Whether memory can
 * be mapped is not asked here: set-up tries that.
 */
#include "ompi_config.h"

#include "topology/coll_gpuhier_topology.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define NVML_SUCCESS 0
#define NVML_REMOTE_IS_GPU 0    /* NVML_NVLINK_DEVICE_TYPE_GPU */
#define NVML_REMOTE_IS_SWITCH 2 /* NVML_NVLINK_DEVICE_TYPE_SWITCH */
#define UUID_TEXT 48

typedef struct nvml_device *nvml_device_t;

/* nvmlPciInfo_t of nvmlDeviceGetNvLinkRemotePciInfo_v2. */
typedef struct {
    char legacy[16];
    unsigned domain;
    unsigned bus;
    unsigned device;
    unsigned id;
    unsigned subsystem;
    char bus_id[32];
} nvml_pci_t;

_Static_assert(68 == sizeof(nvml_pci_t), "the layout is NVML's");

/* nvmlSystemConfComputeSettings_v1_t. */
typedef struct {
    unsigned version;
    unsigned environment;
    unsigned feature;
    unsigned tools;
    unsigned multi_gpu; /* not 0: protected PCIe, or encrypted NVLink */
} nvml_confidential_t;

_Static_assert(20 == sizeof(nvml_confidential_t), "the layout is NVML's");

/* X(member, symbol, result, arguments) */
#define NVML_SYMBOLS(X)                                                                    \
    X(init, "nvmlInit_v2", int, (void) )                                                   \
    X(shutdown, "nvmlShutdown", int, (void) )                                              \
    X(count, "nvmlDeviceGetCount_v2", int, (unsigned *) )                                  \
    X(by_uuid, "nvmlDeviceGetHandleByUUID", int, (const char *, nvml_device_t *) )         \
    X(link_state, "nvmlDeviceGetNvLinkState", int, (nvml_device_t, unsigned, unsigned *) ) \
    X(link_remote, "nvmlDeviceGetNvLinkRemotePciInfo_v2", int, (nvml_device_t, unsigned, nvml_pci_t *) )

typedef struct {
#define NVML_MEMBER(member, symbol, result, arguments) result(*member) arguments;
    NVML_SYMBOLS(NVML_MEMBER)
#undef NVML_MEMBER
    /* Since driver 470; without it a neighbour counts as a GPU. */
    int (*link_type)(nvml_device_t, unsigned, int *);
    /* Since driver 550, the first that supports confidential computing in production. */
    int (*confidential)(nvml_confidential_t *);
} nvml_t;

/* Through memcpy, because ISO C converts no object pointer to a function's. */
static bool find_symbol(void *library, const char *symbol, void *function_p)
{
    void *address = dlsym(library, symbol);
    memcpy(function_p, &address, sizeof(address));
    return NULL != address;
}

static bool nvml_load(void *library, nvml_t *nvml)
{
    bool all = true;
#define NVML_FIND(member, symbol, result, arguments) all = find_symbol(library, symbol, &nvml->member) && all;
    NVML_SYMBOLS(NVML_FIND)
#undef NVML_FIND
    (void) find_symbol(library, "nvmlDeviceGetNvLinkRemoteDeviceType", &nvml->link_type);
    (void) find_symbol(library, "nvmlSystemGetConfComputeSettings", &nvml->confidential);
    return all;
}

/* "GPU-" and the bytes in the usual groups. */
static void uuid_text(const uint8_t uuid[16], char *text)
{
    int at = snprintf(text, UUID_TEXT, "GPU-");
    for (int i = 0; i < 16; ++i) {
        at += snprintf(text + at, (size_t) (UUID_TEXT - at), "%s%02x",
                       (4 == i || 6 == i || 8 == i || 10 == i) ? "-" : "", uuid[i]);
    }
}

/* Counts one link in the neighbour's entry, which is made if need be. */
static void add_link(gpuhier_nvlinks_t *nvlinks, const nvml_pci_t *pci, bool is_switch)
{
    const gpuhier_pci_id_t id = {.domain = pci->domain, .bus = (uint8_t) pci->bus, .device = (uint8_t) pci->device};
    int i = 0;
    while (i < nvlinks->count && 0 != memcmp(&id, &nvlinks->to[i].pci, sizeof(id))) {
        ++i;
    }
    if (i == nvlinks->count && i < GPUHIER_NVLINKS_MAX) {
        nvlinks->to[nvlinks->count++] = (gpuhier_nvlink_t){.pci = id, .is_switch = is_switch};
    }
    if (i < nvlinks->count) {
        nvlinks->to[i].links++;
    }
}

static void add_links(const nvml_t *nvml, nvml_device_t device, gpuhier_nvlinks_t *nvlinks)
{
    for (unsigned link = 0; link < GPUHIER_NVLINKS_MAX; ++link) {
        nvml_pci_t pci = {{0}, 0, 0, 0, 0, 0, {0}};
        unsigned active;
        int type = NVML_REMOTE_IS_GPU;
        if (NVML_SUCCESS != nvml->link_state(device, link, &active) || 0 == active
            || NVML_SUCCESS != nvml->link_remote(device, link, &pci)) {
            continue;
        }
        if (NULL != nvml->link_type && NVML_SUCCESS != nvml->link_type(device, link, &type)) {
            type = NVML_REMOTE_IS_GPU;
        }
        if (NVML_REMOTE_IS_GPU == type || NVML_REMOTE_IS_SWITCH == type) {
            add_link(nvlinks, &pci, NVML_REMOTE_IS_SWITCH == type);
        }
    }
}

static bool is_confidential(const nvml_t *nvml)
{
    nvml_confidential_t settings = {.version = 1u << 24 | (unsigned) sizeof(settings)};
    return NULL != nvml->confidential && NVML_SUCCESS == nvml->confidential(&settings)
           && (0 != settings.feature || 0 != settings.multi_gpu);
}

void gpuhier_nvlinks_find(const uint8_t uuid[16], gpuhier_nvlinks_t *nvlinks_p)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    nvml_t nvml = {0};
    *nvlinks_p = (gpuhier_nvlinks_t){.count = -1};
    if (NULL == library) {
        return;
    }
    if (nvml_load(library, &nvml) && NVML_SUCCESS == nvml.init()) {
        char text[UUID_TEXT];
        nvml_device_t device;
        unsigned gpus = 0;
        nvlinks_p->is_confidential = is_confidential(&nvml);
        uuid_text(uuid, text);
        if (NVML_SUCCESS == nvml.count(&gpus) && NVML_SUCCESS == nvml.by_uuid(text, &device)) {
            nvlinks_p->count = 0;
            nvlinks_p->others = (int) gpus - 1;
            add_links(&nvml, device, nvlinks_p);
        }
        (void) nvml.shutdown();
    }
    dlclose(library);
}
