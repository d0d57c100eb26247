/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * This machine: GPUs from the CUDA driver, NVLink from NVML, network devices from /sys, places from hwloc. Each of
 * them may be missing; `blind` of the machine then says what could not be looked at.
 */
#include "ompi_config.h"

#include "info_machine.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "info_driver.h"

/* "GPU 2 does not answer: cuDeviceGetUuid returns CUDA_ERROR_..." */
static bool gpu_failed(info_gpu_t *gpu, CUresult result, const char *call)
{
    if (CUDA_SUCCESS == result || '\0' != gpu->failure[0]) {
        return CUDA_SUCCESS != result;
    }
    snprintf(gpu->failure, sizeof(gpu->failure), "%s returns %s", call, info_driver_error(result));
    return true;
}

static void describe_gpu(const info_driver_t *driver, int ordinal, info_gpu_t *gpu)
{
    CUdevice device = 0;
    CUuuid uuid = {{0}};
    size_t memory = 0;

    gpu->id.ordinal = ordinal;
    snprintf(gpu->name, sizeof(gpu->name), "?");
    if (gpu_failed(gpu, driver->cuDeviceGet(&device, ordinal), "cuDeviceGet")) {
        return;
    }
    (void) driver->cuDeviceGetName(gpu->name, (int) sizeof(gpu->name), device);
    if (gpu_failed(gpu, driver->cuDeviceGetUuid(&uuid, device), "cuDeviceGetUuid")
        || gpu_failed(gpu, driver->cuDeviceTotalMem(&memory, device), "cuDeviceTotalMem")) {
        return;
    }
    memcpy(gpu->id.uuid, uuid.bytes, sizeof(gpu->id.uuid));
    gpu->id.pci.domain = (uint32_t) info_driver_attribute(device, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
    gpu->id.pci.bus = (uint8_t) info_driver_attribute(device, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
    gpu->id.pci.device = (uint8_t) info_driver_attribute(device, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
    gpu->id.cc_major = info_driver_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    gpu->id.cc_minor = info_driver_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    gpu->memory = memory;
    /* A process sees one slice, whose name ends in its profile: "NVIDIA A100-SXM4-40GB MIG 1g.5gb". */
    const char *mig = strstr(gpu->name, " MIG ");
    if (NULL != mig) {
        snprintf(gpu->slice, sizeof(gpu->slice), "%.15s", mig + 5);
    }
}

static void find_peers(const info_driver_t *driver, info_machine_t *machine)
{
    for (int i = 0; i < machine->ngpus; ++i) {
        for (int j = 0; j < machine->ngpus; ++j) {
            CUdevice from, to;
            int can = 0;

            if (i != j && '\0' == machine->gpu[i].failure[0] && '\0' == machine->gpu[j].failure[0]
                && CUDA_SUCCESS == driver->cuDeviceGet(&from, i) && CUDA_SUCCESS == driver->cuDeviceGet(&to, j)
                && CUDA_SUCCESS == driver->cuDeviceCanAccessPeer(&can, from, to)) {
                machine->peer[i][j] = 0 != can;
            }
        }
    }
}

static bool same_place(const gpuhier_pci_id_t *a, const gpuhier_pci_id_t *b)
{
    return a->domain == b->domain && a->bus == b->bus && a->device == b->device;
}

/* Links between GPUs: direct ones, else as many as both have to NVSwitches. */
static void find_links(info_machine_t *machine)
{
    int to_switch[INFO_GPUS_MAX] = {0};

    for (int i = 0; i < machine->ngpus; ++i) {
        gpuhier_nvlinks_t *nvlinks = &machine->gpu[i].id.nvlinks;
        if ('\0' == machine->gpu[i].failure[0]) {
            gpuhier_nvlinks_find(machine->gpu[i].id.uuid, nvlinks);
        }
        for (int l = 0; l < nvlinks->count; ++l) {
            to_switch[i] += nvlinks->to[l].is_switch ? nvlinks->to[l].links : 0;
        }
        machine->switch_links = to_switch[i] > machine->switch_links ? to_switch[i] : machine->switch_links;
    }
    for (int i = 0; i < machine->ngpus; ++i) {
        const gpuhier_nvlinks_t *nvlinks = &machine->gpu[i].id.nvlinks;
        for (int j = 0; j < machine->ngpus; ++j) {
            machine->links[i][j] = (uint8_t) (i == j ? 0 : to_switch[i] < to_switch[j] ? to_switch[i] : to_switch[j]);
            for (int l = 0; i != j && l < nvlinks->count; ++l) {
                if (!nvlinks->to[l].is_switch && same_place(&nvlinks->to[l].pci, &machine->gpu[j].id.pci)) {
                    machine->links[i][j] = (uint8_t) nvlinks->to[l].links;
                }
            }
        }
    }
}

static void find_gpus(info_machine_t *machine)
{
    const char *why;
    const info_driver_t *driver = info_driver(&why);
    char text[320];
    int count = 0;

    if (NULL == driver) {
        snprintf(text, sizeof(text), "GPUs: none: %s", why);
        info_machine_blind(machine, text);
        return;
    }
    machine->is_emulated = driver->is_emulated;
    machine->cuda_version = driver->version;
    if (CUDA_SUCCESS != driver->cuDeviceGetCount(&count) || 0 == count) {
        info_machine_blind(machine, "GPUs: none: the driver shows no device (is CUDA_VISIBLE_DEVICES empty?)");
        return;
    }
    machine->ngpus = count < INFO_GPUS_MAX ? count : INFO_GPUS_MAX;
    for (int i = 0; i < machine->ngpus; ++i) {
        describe_gpu(driver, i, &machine->gpu[i]);
    }
    find_peers(driver, machine);
    find_links(machine);
    if (machine->gpu[0].id.nvlinks.count < 0) {
        info_machine_blind(machine, "NVLink: not known: there is no NVML (libnvidia-ml.so.1), or it does not answer");
    }
    /* P100, V100, A100, H100, B200. */
    const int major = machine->gpu[0].id.cc_major;
    bool any = false;
    for (int i = 0; i < machine->ngpus * INFO_GPUS_MAX; ++i) {
        any = any || 0 != machine->links[i / INFO_GPUS_MAX][i % INFO_GPUS_MAX];
    }
    machine->nvlink_generation = any && major >= 6 && major <= 10 ? major - 5 : 0;
}

/* The PCIe generation of the first GPU by /sys: "16.0 GT/s PCIe". */
static int pcie_generation(const char *sys, const gpuhier_pci_id_t *pci)
{
    static const double rates[] = {2.5, 5.0, 8.0, 16.0, 32.0, 64.0};
    char path[PATH_MAX + 64];
    double rate = 0.0;
    int generation = 0;

    snprintf(path, sizeof(path), "%s/bus/pci/devices/%04x:%02x:%02x.0/max_link_speed", sys, (unsigned) pci->domain,
             pci->bus, pci->device);
    FILE *file = fopen(path, "re");
    if (NULL != file) {
        if (1 != fscanf(file, "%lf", &rate)) {
            rate = 0.0;
        }
        fclose(file);
    }
    while (generation < 6 && rates[generation] <= rate) {
        generation++;
    }
    return generation;
}

static void find_nics(const char *root, info_machine_t *machine)
{
    static gpuhier_found_nic_t nics[GPUHIER_FOUND_NICS_MAX];
    char sys[PATH_MAX], dev[PATH_MAX], classes[PATH_MAX + 16];

    snprintf(sys, sizeof(sys), "%s/sys", NULL == root ? "" : root);
    snprintf(dev, sizeof(dev), "%s/dev", NULL == root ? "" : root);
    snprintf(classes, sizeof(classes), "%s/class/net", sys);
    if (0 != access(classes, R_OK)) {
        info_machine_blind(machine, "network devices: not known: there is no /sys/class/net");
    }
    machine->nnics = gpuhier_nics_find(sys, dev, gpuhier_nics_interface_is_up, NULL, nics, GPUHIER_FOUND_NICS_MAX);
    for (int n = 0; n < machine->nnics; ++n) {
        char link[PATH_MAX + 96], target[PATH_MAX];

        machine->nic[n].found = nics[n];
        machine->nic[n].gbit = (int) (nics[n].mbit / 1000);
        if (nics[n].is_rdma) {
            snprintf(link, sizeof(link), "%s/class/infiniband/%.*s/device/driver", sys,
                     (int) strcspn(nics[n].device, ":"), nics[n].device);
            const ssize_t length = readlink(link, target, sizeof(target) - 1);
            target[length < 0 ? 0 : length] = '\0';
            machine->nic[n].is_efa = length > 4 && 0 == strcmp(target + length - 4, "/efa");
        }
    }
    machine->pcie_generation = 0 == machine->ngpus ? 0 : pcie_generation(sys, &machine->gpu[0].id.pci);
}

int info_live_load(const char *root, info_machine_t *machine, hwloc_topology_t *topology_p)
{
    char host[64] = "?";

    (void) gethostname(host, sizeof(host) - 1);
    snprintf(machine->title, sizeof(machine->title), "%s", host);
    find_gpus(machine);
    find_nics(root, machine);
    *topology_p = gpuhier_topology_load();
    if (NULL == *topology_p) {
        info_machine_blind(machine, "places: not known: hwloc fails");
    }
    return INFO_OK;
}
