/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * NVML and the driver describe the same machine; the file's links and places are what NVML says.
 * Run with the topology that tests.list names: two GPUs on two NUMA nodes with four links, a third alone.
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../nvml_abi.h"

sim_nvml_return_t nvmlInit_v2(void);
sim_nvml_return_t nvmlShutdown(void);
sim_nvml_return_t nvmlSystemGetConfComputeSettings(sim_nvml_confidential_t *);
sim_nvml_return_t nvmlDeviceGetCount_v2(unsigned *);
sim_nvml_return_t nvmlDeviceGetHandleByIndex_v2(unsigned, sim_nvml_device_t *);
sim_nvml_return_t nvmlDeviceGetHandleByUUID(const char *, sim_nvml_device_t *);
sim_nvml_return_t nvmlDeviceGetHandleByPciBusId_v2(const char *, sim_nvml_device_t *);
sim_nvml_return_t nvmlDeviceGetUUID(sim_nvml_device_t, char *, unsigned);
sim_nvml_return_t nvmlDeviceGetPciInfo_v3(sim_nvml_device_t, sim_nvml_pci_t *);
sim_nvml_return_t nvmlDeviceGetNvLinkState(sim_nvml_device_t, unsigned, int *);
sim_nvml_return_t nvmlDeviceGetNvLinkRemotePciInfo_v2(sim_nvml_device_t, unsigned, sim_nvml_pci_t *);
sim_nvml_return_t nvmlDeviceGetP2PStatus(sim_nvml_device_t, sim_nvml_device_t, int, int *);
sim_nvml_return_t nvmlDeviceGetTopologyCommonAncestor(sim_nvml_device_t, sim_nvml_device_t, int *);
sim_nvml_return_t nvmlDeviceGetFieldValues(sim_nvml_device_t, int, sim_nvml_field_t *);

static int failures;

static void expect(int holds, const char *what, int line)
{
    if (!holds) {
        fprintf(stderr, "line %d: does not hold: %s\n", line, what);
        failures++;
    }
}

#define EXPECT(condition) expect(condition, #condition, __LINE__)

static void same_identity(CUdevice ordinal)
{
    char bus[32], uuid[64], driver[64], *at = driver;
    sim_nvml_device_t by_bus = NULL, by_uuid = NULL;
    CUuuid id;
    int i;

    EXPECT(CUDA_SUCCESS == cuDeviceGetPCIBusId(bus, sizeof(bus), ordinal));
    EXPECT(CUDA_SUCCESS == cuDeviceGetUuid(&id, ordinal));
    at += sprintf(at, "GPU-");
    for (i = 0; i < 16; i++) {
        at += sprintf(at, (4 == i || 6 == i || 8 == i || 10 == i) ? "-%02x" : "%02x", (unsigned char) id.bytes[i]);
    }
    EXPECT(SIM_NVML_SUCCESS == nvmlDeviceGetHandleByPciBusId_v2(bus, &by_bus));
    EXPECT(SIM_NVML_SUCCESS == nvmlDeviceGetUUID(by_bus, uuid, sizeof(uuid)));
    EXPECT(0 == strcmp(uuid, driver));
    EXPECT(SIM_NVML_SUCCESS == nvmlDeviceGetHandleByUUID(driver, &by_uuid) && by_uuid == by_bus);
}

static void confidential(void)
{
    sim_nvml_confidential_t settings = {.version = 0};

    EXPECT(SIM_NVML_VERSION_MISMATCH == nvmlSystemGetConfComputeSettings(&settings));
    settings.version = SIM_NVML_CONFIDENTIAL_V1;
    EXPECT(SIM_NVML_SUCCESS == nvmlSystemGetConfComputeSettings(&settings));
    EXPECT(0 == settings.feature && 0 == settings.multi_gpu);
    setenv("CUDASIM_CC", "1", 1);
    EXPECT(SIM_NVML_SUCCESS == nvmlSystemGetConfComputeSettings(&settings));
    EXPECT(1 == settings.feature && 0 == settings.multi_gpu);
    setenv("CUDASIM_CC", "pcie", 1);
    EXPECT(SIM_NVML_SUCCESS == nvmlSystemGetConfComputeSettings(&settings));
    EXPECT(0 == settings.feature && 1 == settings.multi_gpu);
}

int main(void)
{
    sim_nvml_field_t field = {.field = SIM_NVML_FIELD_NVLINK_COUNT};
    sim_nvml_device_t devices[3];
    sim_nvml_pci_t remote;
    unsigned count = 0, link;
    int value = -1;
    CUdevice i;

    EXPECT(SIM_NVML_UNINITIALIZED == nvmlDeviceGetCount_v2(&count));
    EXPECT(SIM_NVML_SUCCESS == nvmlInit_v2());
    EXPECT(SIM_NVML_SUCCESS == nvmlDeviceGetCount_v2(&count) && 3 == count);
    EXPECT(CUDA_SUCCESS == cuInit(0));
    for (i = 0; i < 3; i++) {
        same_identity(i);
        EXPECT(SIM_NVML_SUCCESS == nvmlDeviceGetHandleByIndex_v2((unsigned) i, &devices[i]));
    }
    EXPECT(SIM_NVML_INVALID_ARGUMENT == nvmlDeviceGetHandleByIndex_v2(3, &devices[0]));
    for (link = 0; link < 4; link++) {
        EXPECT(SIM_NVML_SUCCESS == nvmlDeviceGetNvLinkState(devices[0], link, &value) && 1 == value);
        EXPECT(SIM_NVML_SUCCESS == nvmlDeviceGetNvLinkRemotePciInfo_v2(devices[0], link, &remote));
        EXPECT(0x65 == remote.bus && 0 == strcmp(remote.id, "00000000:65:00.0"));
    }
    EXPECT(SIM_NVML_SUCCESS != nvmlDeviceGetNvLinkState(devices[0], 4, &value));
    EXPECT(SIM_NVML_SUCCESS != nvmlDeviceGetNvLinkState(devices[2], 0, &value));
    EXPECT(SIM_NVML_SUCCESS == nvmlDeviceGetFieldValues(devices[0], 1, &field) && 4 == field.value.word);
    EXPECT(SIM_NVML_SUCCESS == nvmlDeviceGetP2PStatus(devices[0], devices[1], SIM_NVML_P2P_NVLINK, &value)
           && SIM_NVML_P2P_OK == value);
    EXPECT(SIM_NVML_SUCCESS == nvmlDeviceGetP2PStatus(devices[0], devices[2], 0, &value) && SIM_NVML_P2P_OK != value);
    EXPECT(CUDA_SUCCESS == cuDeviceCanAccessPeer(&value, 0, 2) && 0 == value);
    EXPECT(CUDA_SUCCESS == cuDeviceCanAccessPeer(&value, 0, 1) && 1 == value);
    EXPECT(SIM_NVML_SUCCESS == nvmlDeviceGetTopologyCommonAncestor(devices[0], devices[1], &value)
           && SIM_NVML_LEVEL_SYSTEM == value);
    EXPECT(SIM_NVML_SUCCESS == nvmlDeviceGetTopologyCommonAncestor(devices[1], devices[2], &value)
           && SIM_NVML_LEVEL_NODE == value);
    confidential();
    EXPECT(SIM_NVML_SUCCESS == nvmlShutdown());
    return failures > 0;
}
