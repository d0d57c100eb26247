/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The emulated libnvidia-ml.so.1: what UCX, Open MPI and readers of the topology ask.
 *
 * Owns nothing but its own copy of the topology, read at the first nvmlInit. As the
 * real library it knows all GPUs of the machine, whatever CUDA_VISIBLE_DEVICES says,
 * and needs no CUDA context. The GPUs' identities are those that libcuda.so.1 gives.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nvml_abi.h"
#include "sim_topology.h"

#define NVML(name, ...)                                                         \
    __attribute__((visibility("default"))) sim_nvml_return_t name(__VA_ARGS__); \
    sim_nvml_return_t name(__VA_ARGS__)

#define DEVICE_ID 0x233010deu /* an H100's */
#define SUBSYSTEM_ID 0x16c110deu
#define LINK_SPEED_MBPS 26562u

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int users;
static int loaded; /* 1: topology is good; -1: it was not, and has been complained about */
static sim_topology_t topology;

static const struct {
    sim_nvml_return_t result;
    const char *text;
} texts[] = {
    {SIM_NVML_SUCCESS, "Success"},
    {SIM_NVML_UNINITIALIZED, "Uninitialized"},
    {SIM_NVML_INVALID_ARGUMENT, "Invalid Argument"},
    {SIM_NVML_NOT_SUPPORTED, "Not Supported"},
    {SIM_NVML_NOT_FOUND, "Not Found"},
    {SIM_NVML_INSUFFICIENT_SIZE, "Insufficient Size"},
    {SIM_NVML_DRIVER_NOT_LOADED, "Driver Not Loaded"},
    {SIM_NVML_VERSION_MISMATCH, "Argument Version Mismatch"},
};

__attribute__((visibility("default"))) const char *nvmlErrorString(sim_nvml_return_t result);
const char *nvmlErrorString(sim_nvml_return_t result)
{
    size_t i;

    for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (result == texts[i].result) {
            return texts[i].text;
        }
    }
    return "Unknown Error";
}

/* ---- start and end ---- */

NVML(nvmlInit_v2, void)
{
    const char *disable = getenv("CUDASIM_DISABLE");
    sim_nvml_return_t rc = SIM_NVML_SUCCESS;

    if (NULL != disable && '\0' != disable[0] && 0 != strcmp(disable, "0")) {
        return SIM_NVML_DRIVER_NOT_LOADED;
    }
    pthread_mutex_lock(&mutex);
    if (0 == loaded) {
        loaded = (0 == sim_topology_load(&topology)) ? 1 : -1;
    }
    if (loaded < 0) {
        rc = SIM_NVML_UNKNOWN;
    } else {
        users++;
    }
    pthread_mutex_unlock(&mutex);
    return rc;
}

NVML(nvmlInit, void)
{
    return nvmlInit_v2();
}

NVML(nvmlInitWithFlags, unsigned flags)
{
    (void) flags;
    return nvmlInit_v2();
}

NVML(nvmlShutdown, void)
{
    sim_nvml_return_t rc = SIM_NVML_SUCCESS;

    pthread_mutex_lock(&mutex);
    if (0 == users) {
        rc = SIM_NVML_UNINITIALIZED;
    } else {
        users--;
    }
    pthread_mutex_unlock(&mutex);
    return rc;
}

/* The index of a device handle; -1 and the error in rc_p. */
static int index_of(sim_nvml_device_t device, sim_nvml_return_t *rc_p)
{
    ptrdiff_t index = device - topology.gpus;

    if (0 == users) {
        *rc_p = SIM_NVML_UNINITIALIZED;
        return -1;
    }
    if (NULL == device || index < 0 || index >= topology.ngpus) {
        *rc_p = SIM_NVML_INVALID_ARGUMENT;
        return -1;
    }
    *rc_p = SIM_NVML_SUCCESS;
    return (int) index;
}

NVML(nvmlSystemGetDriverVersion, char *text_p, unsigned length)
{
    return (size_t) snprintf(text_p, length, "580.0.0") < length ? SIM_NVML_SUCCESS : SIM_NVML_INSUFFICIENT_SIZE;
}

NVML(nvmlSystemGetCudaDriverVersion, int *version_p)
{
    *version_p = 13000;
    return SIM_NVML_SUCCESS;
}

NVML(nvmlSystemGetConfComputeSettings, sim_nvml_confidential_t *settings_p)
{
    const char *mode = getenv("CUDASIM_CC");
    const int is_pcie = NULL != mode && 0 == strcmp(mode, "pcie");

    if (0 == users) {
        return SIM_NVML_UNINITIALIZED;
    }
    if (NULL == settings_p) {
        return SIM_NVML_INVALID_ARGUMENT;
    }
    if (SIM_NVML_CONFIDENTIAL_V1 != settings_p->version) {
        return SIM_NVML_VERSION_MISMATCH;
    }
    settings_p->environment = NULL != mode ? 2 : 0; /* in production */
    settings_p->feature = NULL != mode && !is_pcie;
    settings_p->tools = 0;
    settings_p->multi_gpu = (unsigned) is_pcie;
    return SIM_NVML_SUCCESS;
}

/* ---- devices ---- */

NVML(nvmlDeviceGetCount_v2, unsigned *count_p)
{
    if (0 == users) {
        return SIM_NVML_UNINITIALIZED;
    }
    if (NULL == count_p) {
        return SIM_NVML_INVALID_ARGUMENT;
    }
    *count_p = (unsigned) topology.ngpus;
    return SIM_NVML_SUCCESS;
}

NVML(nvmlDeviceGetCount, unsigned *count_p)
{
    return nvmlDeviceGetCount_v2(count_p);
}

NVML(nvmlDeviceGetHandleByIndex_v2, unsigned index, sim_nvml_device_t *device_p)
{
    if (0 == users) {
        return SIM_NVML_UNINITIALIZED;
    }
    if (NULL == device_p || index >= (unsigned) topology.ngpus) {
        return SIM_NVML_INVALID_ARGUMENT;
    }
    *device_p = &topology.gpus[index];
    return SIM_NVML_SUCCESS;
}

NVML(nvmlDeviceGetHandleByIndex, unsigned index, sim_nvml_device_t *device_p)
{
    return nvmlDeviceGetHandleByIndex_v2(index, device_p);
}

NVML(nvmlDeviceGetHandleByUUID, const char *text, sim_nvml_device_t *device_p)
{
    char uuid[48];
    int i;

    if (0 == users) {
        return SIM_NVML_UNINITIALIZED;
    }
    if (NULL == text || NULL == device_p) {
        return SIM_NVML_INVALID_ARGUMENT;
    }
    for (i = 0; i < topology.ngpus; i++) {
        sim_uuid_print(topology.gpus[i].uuid, uuid);
        if (0 == strcmp(uuid, text)) {
            *device_p = &topology.gpus[i];
            return SIM_NVML_SUCCESS;
        }
    }
    return SIM_NVML_NOT_FOUND;
}

NVML(nvmlDeviceGetHandleByPciBusId_v2, const char *text, sim_nvml_device_t *device_p)
{
    sim_pci_t pci;
    int i;

    if (0 == users) {
        return SIM_NVML_UNINITIALIZED;
    }
    if (NULL == text || NULL == device_p || 0 != sim_pci_parse(text, &pci)) {
        return SIM_NVML_INVALID_ARGUMENT;
    }
    for (i = 0; i < topology.ngpus; i++) {
        if (topology.gpus[i].pci.domain == pci.domain && topology.gpus[i].pci.bus == pci.bus
            && topology.gpus[i].pci.device == pci.device) {
            *device_p = &topology.gpus[i];
            return SIM_NVML_SUCCESS;
        }
    }
    return SIM_NVML_NOT_FOUND;
}

NVML(nvmlDeviceGetHandleByPciBusId, const char *text, sim_nvml_device_t *device_p)
{
    return nvmlDeviceGetHandleByPciBusId_v2(text, device_p);
}

NVML(nvmlDeviceGetIndex, sim_nvml_device_t device, unsigned *index_p)
{
    sim_nvml_return_t rc;
    int index = index_of(device, &rc);

    if (index >= 0) {
        *index_p = (unsigned) index;
    }
    return rc;
}

NVML(nvmlDeviceGetMinorNumber, sim_nvml_device_t device, unsigned *minor_p)
{
    return nvmlDeviceGetIndex(device, minor_p);
}

NVML(nvmlDeviceGetUUID, sim_nvml_device_t device, char *text_p, unsigned length)
{
    sim_nvml_return_t rc;
    int index = index_of(device, &rc);
    char uuid[48];

    if (index < 0) {
        return rc;
    }
    sim_uuid_print(topology.gpus[index].uuid, uuid);
    if (strlen(uuid) >= length) {
        return SIM_NVML_INSUFFICIENT_SIZE;
    }
    strcpy(text_p, uuid);
    return SIM_NVML_SUCCESS;
}

NVML(nvmlDeviceGetName, sim_nvml_device_t device, char *text_p, unsigned length)
{
    sim_nvml_return_t rc;

    if (index_of(device, &rc) < 0) {
        return rc;
    }
    return (size_t) snprintf(text_p, length, "Emulated GPU") < length ? SIM_NVML_SUCCESS : SIM_NVML_INSUFFICIENT_SIZE;
}

NVML(nvmlDeviceGetMemoryInfo, sim_nvml_device_t device, sim_nvml_memory_t *memory_p)
{
    sim_nvml_return_t rc;
    int index = index_of(device, &rc);

    if (index >= 0) { /* what processes use is known to them alone */
        memory_p->total = memory_p->free = topology.gpus[index].memory;
        memory_p->used = 0;
    }
    return rc;
}

NVML(nvmlDeviceGetCudaComputeCapability, sim_nvml_device_t device, int *major_p, int *minor_p)
{
    sim_nvml_return_t rc;

    if (index_of(device, &rc) >= 0) {
        *major_p = 9;
        *minor_p = 0;
    }
    return rc;
}

NVML(nvmlDeviceGetComputeMode, sim_nvml_device_t device, int *mode_p)
{
    sim_nvml_return_t rc;

    if (index_of(device, &rc) >= 0) {
        *mode_p = 0;
    }
    return rc;
}

NVML(nvmlDeviceGetMigMode, sim_nvml_device_t device, unsigned *current_p, unsigned *pending_p)
{
    sim_nvml_return_t rc;

    if (index_of(device, &rc) >= 0) {
        *current_p = *pending_p = 0;
    }
    return rc;
}

/* ---- places ---- */

static void pci_fill(const sim_pci_t *pci, sim_nvml_pci_t *pci_p)
{
    memset(pci_p, 0, sizeof(*pci_p));
    snprintf(pci_p->legacy_id, sizeof(pci_p->legacy_id), "%04X:%02X:%02X.0", pci->domain & 0xffff, pci->bus & 0xff,
             pci->device & 0x1f);
    snprintf(pci_p->id, sizeof(pci_p->id), "%08X:%02X:%02X.0", pci->domain, pci->bus & 0xff, pci->device & 0x1f);
    pci_p->domain = pci->domain;
    pci_p->bus = pci->bus;
    pci_p->device = pci->device;
    pci_p->device_id = DEVICE_ID;
    pci_p->subsystem_id = SUBSYSTEM_ID;
}

static void pci_fill_v1(const sim_pci_t *pci, sim_nvml_pci_v1_t *pci_p)
{
    sim_nvml_pci_t full;

    pci_fill(pci, &full);
    memset(pci_p, 0, sizeof(*pci_p));
    memcpy(pci_p->id, full.legacy_id, sizeof(pci_p->id));
    pci_p->domain = full.domain;
    pci_p->bus = full.bus;
    pci_p->device = full.device;
    pci_p->device_id = full.device_id;
    pci_p->subsystem_id = full.subsystem_id;
}

NVML(nvmlDeviceGetPciInfo_v3, sim_nvml_device_t device, sim_nvml_pci_t *pci_p)
{
    sim_nvml_return_t rc;
    int index = index_of(device, &rc);

    if (index >= 0) {
        pci_fill(&topology.gpus[index].pci, pci_p);
    }
    return rc;
}

NVML(nvmlDeviceGetPciInfo_v2, sim_nvml_device_t device, sim_nvml_pci_v1_t *pci_p)
{
    sim_nvml_return_t rc;
    int index = index_of(device, &rc);

    if (index >= 0) {
        pci_fill_v1(&topology.gpus[index].pci, pci_p);
    }
    return rc;
}

NVML(nvmlDeviceGetPciInfo, sim_nvml_device_t device, sim_nvml_pci_v1_t *pci_p)
{
    return nvmlDeviceGetPciInfo_v2(device, pci_p);
}

/* The processors of the GPU's NUMA node: the machine's, dealt out in blocks, as in the hwloc description. */
NVML(nvmlDeviceGetCpuAffinity, sim_nvml_device_t device, unsigned words, unsigned long *set_p)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN), first, last, cpu;
    sim_nvml_return_t rc;
    int index = index_of(device, &rc);
    const unsigned bits = 8 * sizeof(*set_p);

    if (index < 0) {
        return rc;
    }
    sim_topology_cpus(&topology, topology.gpus[index].numa, cpus, &first, &last);
    memset(set_p, 0, words * sizeof(*set_p));
    for (cpu = first; cpu <= last && (unsigned) cpu < words * bits; cpu++) {
        set_p[(unsigned) cpu / bits] |= 1ul << ((unsigned) cpu % bits);
    }
    return SIM_NVML_SUCCESS;
}

NVML(nvmlDeviceGetTopologyCommonAncestor, sim_nvml_device_t a, sim_nvml_device_t b, int *level_p)
{
    sim_nvml_return_t rc;
    int i = index_of(a, &rc), j = (i >= 0) ? index_of(b, &rc) : -1;

    if (j < 0) {
        return rc;
    }
    if (i == j) {
        *level_p = SIM_NVML_LEVEL_INTERNAL;
    } else {
        *level_p = topology.gpus[i].numa == topology.gpus[j].numa ? SIM_NVML_LEVEL_NODE : SIM_NVML_LEVEL_SYSTEM;
    }
    return SIM_NVML_SUCCESS;
}

NVML(nvmlDeviceGetP2PStatus, sim_nvml_device_t a, sim_nvml_device_t b, int capability, int *status_p)
{
    sim_nvml_return_t rc;
    int i = index_of(a, &rc), j = (i >= 0) ? index_of(b, &rc) : -1, can;

    if (j < 0) {
        return rc;
    }
    if (capability < 0 || capability >= SIM_NVML_P2P_CAPS || i == j) {
        return SIM_NVML_INVALID_ARGUMENT;
    }
    can = topology.peers[i][j];
    if (SIM_NVML_P2P_NVLINK == capability || SIM_NVML_P2P_ATOMICS == capability) {
        can = can && sim_topology_links(&topology, i, j) > 0;
    }
    *status_p = can ? SIM_NVML_P2P_OK : SIM_NVML_P2P_NOT_SUPPORTED;
    return SIM_NVML_SUCCESS;
}

/* ---- NVLink: a GPU's links are numbered peer by peer, those to NVSwitches last ---- */

#define REMOTE_SWITCH SIM_MAX_GPUS

/* Where an NVSwitch would be: one stands for all. */
static const sim_pci_t switch_pci = {.domain = 0, .bus = 0xc4};

static int link_count(int index)
{
    int i, total = topology.nvswitch;

    for (i = 0; i < topology.ngpus; i++) {
        total += topology.nvlinks[index][i];
    }
    return total;
}

/* The GPU at the other end of a link, REMOTE_SWITCH, or -1. */
static int link_remote(int index, unsigned link)
{
    int i;

    for (i = 0; i < topology.ngpus; i++) {
        if (link < topology.nvlinks[index][i]) {
            return i;
        }
        link -= topology.nvlinks[index][i];
    }
    return link < (unsigned) topology.nvswitch ? REMOTE_SWITCH : -1;
}

/* Checks device and link; the remote GPU, or -1 with the error in rc_p. Links without a cable say so by absent. */
static int link_check(sim_nvml_device_t device, unsigned link, sim_nvml_return_t absent, sim_nvml_return_t *rc_p)
{
    int index = index_of(device, rc_p), remote;

    if (index < 0) {
        return -1;
    }
    if (link >= SIM_MAX_LINKS_PER_GPU) {
        *rc_p = SIM_NVML_INVALID_ARGUMENT;
        return -1;
    }
    remote = link_remote(index, link);
    if (remote < 0) {
        *rc_p = absent;
    }
    return remote;
}

NVML(nvmlDeviceGetNvLinkState, sim_nvml_device_t device, unsigned link, int *active_p)
{
    sim_nvml_return_t rc;

    if (link_check(device, link, SIM_NVML_NOT_SUPPORTED, &rc) >= 0) {
        *active_p = 1;
    }
    return rc;
}

NVML(nvmlDeviceGetNvLinkVersion, sim_nvml_device_t device, unsigned link, unsigned *version_p)
{
    sim_nvml_return_t rc;

    if (link_check(device, link, SIM_NVML_NOT_SUPPORTED, &rc) >= 0) {
        *version_p = topology.nvlink_generation > 0 ? (unsigned) topology.nvlink_generation : 4;
    }
    return rc;
}

NVML(nvmlDeviceGetNvLinkCapability, sim_nvml_device_t device, unsigned link, int capability, unsigned *value_p)
{
    sim_nvml_return_t rc;

    if (capability < 0 || capability >= SIM_NVML_LINK_CAPS) {
        return SIM_NVML_INVALID_ARGUMENT;
    }
    if (link_check(device, link, SIM_NVML_NOT_SUPPORTED, &rc) >= 0) {
        *value_p = SIM_NVML_LINK_CAP_P2P == capability || SIM_NVML_LINK_CAP_P2P_ATOMICS == capability
                   || SIM_NVML_LINK_CAP_VALID == capability;
    }
    return rc;
}

NVML(nvmlDeviceGetNvLinkRemotePciInfo_v2, sim_nvml_device_t device, unsigned link, sim_nvml_pci_t *pci_p)
{
    sim_nvml_return_t rc;
    int remote = link_check(device, link, SIM_NVML_NOT_SUPPORTED, &rc);

    if (remote >= 0) {
        pci_fill(REMOTE_SWITCH == remote ? &switch_pci : &topology.gpus[remote].pci, pci_p);
    }
    return rc;
}

NVML(nvmlDeviceGetNvLinkRemotePciInfo, sim_nvml_device_t device, unsigned link, sim_nvml_pci_v1_t *pci_p)
{
    sim_nvml_return_t rc;
    int remote = link_check(device, link, SIM_NVML_NOT_SUPPORTED, &rc);

    if (remote >= 0) {
        pci_fill_v1(REMOTE_SWITCH == remote ? &switch_pci : &topology.gpus[remote].pci, pci_p);
    }
    return rc;
}

NVML(nvmlDeviceGetNvLinkRemoteDeviceType, sim_nvml_device_t device, unsigned link, int *type_p)
{
    sim_nvml_return_t rc;

    const int remote = link_check(device, link, SIM_NVML_NOT_SUPPORTED, &rc);

    if (remote >= 0) {
        *type_p = REMOTE_SWITCH == remote ? SIM_NVML_REMOTE_SWITCH : SIM_NVML_REMOTE_GPU;
    }
    return rc;
}

NVML(nvmlDeviceGetFieldValues, sim_nvml_device_t device, int count, sim_nvml_field_t *fields)
{
    sim_nvml_return_t rc;
    int index = index_of(device, &rc), i;

    if (index < 0) {
        return rc;
    }
    if (count < 1 || NULL == fields) {
        return SIM_NVML_INVALID_ARGUMENT;
    }
    for (i = 0; i < count; i++) {
        fields[i].result = SIM_NVML_SUCCESS;
        fields[i].value_type = SIM_NVML_TYPE_UNSIGNED;
        fields[i].timestamp = fields[i].latency = 0;
        fields[i].value.big = 0;
        if (SIM_NVML_FIELD_NVLINK_COUNT == fields[i].field) {
            fields[i].value.word = (unsigned) link_count(index);
        } else if (SIM_NVML_FIELD_NVLINK_SPEED == fields[i].field) {
            fields[i].value.word = link_count(index) > 0 ? LINK_SPEED_MBPS : 0;
        } else {
            fields[i].result = SIM_NVML_NOT_SUPPORTED;
        }
    }
    return SIM_NVML_SUCCESS;
}
