/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Asks NVML for the NVLink neighbours of a GPU.
 *
 * NVML is optional: libnvidia-ml.so.1 comes with the driver and is opened when asked for. This file declares the few
 * functions that it uses, after NVIDIA's documentation, so that the build needs no header of NVML. The answer only
 * informs the reader: the component finds out by trying whether memory can be mapped.
 */
#include "ompi_config.h"

#include "info_nvlink.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define NVML_SUCCESS 0
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

/* X(member, symbol, result, arguments) */
#define NVML_SYMBOLS(X)                                                                    \
    X(init, "nvmlInit_v2", int, (void) )                                                   \
    X(shutdown, "nvmlShutdown", int, (void) )                                              \
    X(by_uuid, "nvmlDeviceGetHandleByUUID", int, (const char *, nvml_device_t *) )         \
    X(link_state, "nvmlDeviceGetNvLinkState", int, (nvml_device_t, unsigned, unsigned *) ) \
    X(link_remote, "nvmlDeviceGetNvLinkRemotePciInfo_v2", int, (nvml_device_t, unsigned, nvml_pci_t *) )

typedef struct {
#define NVML_MEMBER(member, symbol, result, arguments) result(*member) arguments;
    NVML_SYMBOLS(NVML_MEMBER)
#undef NVML_MEMBER
    /* Since driver 470; without it a neighbour counts as a GPU. */
    int (*link_type)(nvml_device_t, unsigned, int *);
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

/* Count one link in the neighbour's entry, which is made if need be. */
static int add_link(info_nvlink_t *links, int count, int max, const nvml_pci_t *pci, bool is_switch)
{
    int i;

    for (i = 0; i < count; ++i) {
        if (links[i].pci.domain == pci->domain && links[i].pci.bus == pci->bus && links[i].pci.device == pci->device) {
            links[i].links++;
            return count;
        }
    }
    if (count == max) {
        return count;
    }
    memset(&links[i], 0, sizeof(links[i]));
    links[i].pci.domain = pci->domain;
    links[i].pci.bus = (uint8_t) pci->bus;
    links[i].pci.device = (uint8_t) pci->device;
    links[i].links = 1;
    links[i].is_switch = is_switch;
    return count + 1;
}

int info_nvlinks_find(const uint8_t uuid[16], info_nvlink_t *links, int max)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    nvml_t nvml = {0};
    int count = 0;

    if (NULL == library) {
        return 0;
    }
    if (!nvml_load(library, &nvml) || NVML_SUCCESS != nvml.init()) {
        goto close_library;
    }
    char text[UUID_TEXT];
    uuid_text(uuid, text);
    nvml_device_t device;
    if (NVML_SUCCESS != nvml.by_uuid(text, &device)) {
        goto shut_down;
    }
    for (unsigned link = 0; link < INFO_NVLINKS_MAX; ++link) {
        nvml_pci_t pci = {{0}, 0, 0, 0, 0, 0, {0}};
        unsigned active;
        int type = 0;

        if (NVML_SUCCESS != nvml.link_state(device, link, &active) || 0 == active
            || NVML_SUCCESS != nvml.link_remote(device, link, &pci)) {
            continue;
        }
        if (NULL != nvml.link_type && NVML_SUCCESS != nvml.link_type(device, link, &type)) {
            type = 0;
        }
        count = add_link(links, count, max, &pci, NVML_REMOTE_IS_SWITCH == type);
    }

shut_down:
    (void) nvml.shutdown();
close_library:
    dlclose(library);
    return count;
}
