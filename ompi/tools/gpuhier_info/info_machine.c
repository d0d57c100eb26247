/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Explains this machine: node, GPUs, NVLink, network devices with the reason why
 * each is used or not, the rails that one rank on each GPU would drive, and UCX.
 *
 * The driver is looked for at run time, as the component does; without one there
 * are no GPUs to explain, and the rest still is. Called by gpuhier_info.c.
 */
#include "ompi_config.h"

#include "gpuhier_info.h"
#include "info_nvlink.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>
#include <ucp/api/ucp.h>

#include "net/coll_gpuhier_net.h"
#include "topology/coll_gpuhier_topology.h"
#include "ompi/constants.h"

#define GPUS_MAX 64

/* cuda.h maps a name to its newest version, so the symbol is the expanded name. */
#define DRIVER_FUNCTIONS(X) \
    X(cuInit)               \
    X(cuDeviceGet)          \
    X(cuDeviceGetAttribute) \
    X(cuDeviceGetCount)     \
    X(cuDeviceGetName)      \
    X(cuDeviceGetUuid)      \
    X(cuDriverGetVersion)
#define TEXT(name) #name
#define EXPANDED_TEXT(name) TEXT(name)

#define FIELD(name) __typeof__(name) *name;
typedef struct {
    DRIVER_FUNCTIONS(FIELD)
} driver_t;
#undef FIELD

/* False, and a line that says why, if there is no usable driver. The library stays loaded. */
static bool driver_load(driver_t *driver)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    bool all = true;
    void *symbol;
    CUresult result;

    if (NULL == library) {
        printf("GPUs: none: no CUDA driver (%s)\n", dlerror());
        return false;
    }
#define LOAD(name)                                \
    symbol = dlsym(library, EXPANDED_TEXT(name)); \
    all = all && NULL != symbol;                  \
    memcpy(&driver->name, &symbol, sizeof(symbol));
    DRIVER_FUNCTIONS(LOAD)
#undef LOAD
    if (!all) {
        printf("GPUs: none: the CUDA driver is too old\n");
        return false;
    }
    result = driver->cuInit(0);
    if (CUDA_SUCCESS != result) {
        printf("GPUs: none: cuInit returns error %d\n", (int) result);
        return false;
    }
    return true;
}

static int attribute(const driver_t *driver, CUdevice device, CUdevice_attribute name)
{
    int value = 0;

    return (CUDA_SUCCESS == driver->cuDeviceGetAttribute(&value, name, device)) ? value : 0;
}

static void describe_gpu(const driver_t *driver, int ordinal, gpuhier_gpu_info_t *gpu)
{
    char name[96] = "?";
    CUdevice device = 0;
    CUuuid uuid = {{0}};

    memset(gpu, 0, sizeof(*gpu));
    gpu->ordinal = ordinal;
    if (CUDA_SUCCESS == driver->cuDeviceGet(&device, ordinal)) {
        (void) driver->cuDeviceGetName(name, sizeof(name), device);
        (void) driver->cuDeviceGetUuid(&uuid, device);
        memcpy(gpu->uuid, uuid.bytes, sizeof(gpu->uuid));
        gpu->pci.domain = (uint32_t) attribute(driver, device, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
        gpu->pci.bus = (uint8_t) attribute(driver, device, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
        gpu->pci.device = (uint8_t) attribute(driver, device, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
        gpu->cc_major = attribute(driver, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
        gpu->cc_minor = attribute(driver, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    }
    printf("GPU %d: %s, compute capability %d.%d, PCI %04x:%02x:%02x\n", ordinal, name, gpu->cc_major, gpu->cc_minor,
           (unsigned) gpu->pci.domain, gpu->pci.bus, gpu->pci.device);
}

static void print_indented(const char *text)
{
    while (NULL != text && '\0' != *text) {
        size_t length = strcspn(text, "\n");

        printf("    %.*s\n", (int) length, text);
        text += length + ('\n' == text[length] ? 1 : 0);
    }
}

static void print_record(const gpuhier_record_t *record, const char *report)
{
    if (record->numa_node >= 0) {
        printf("  NUMA node %d\n", (int) record->numa_node);
    }
    info_nvlink_t links[INFO_NVLINKS_MAX];
    const int nlinks = record->has_gpu ? info_nvlinks_find(record->gpu_uuid, links, INFO_NVLINKS_MAX) : 0;
    printf("  NVLink: %s\n", (0 == nlinks) ? "none" : "");
    for (int i = 0; i < nlinks; ++i) {
        const info_nvlink_t *link = &links[i];

        printf("    %d link%s to %s %04x:%02x:%02x\n", link->links, (1 == link->links) ? "" : "s",
               link->is_switch ? "the switch" : "the GPU", (unsigned) link->pci.domain, link->pci.bus,
               link->pci.device);
    }
    printf("  network devices:\n");
    print_indented(report);
}

/* Every GPU with what is near it, and the rails of one rank on each. Returns 0, or 1 for a wrong list of devices. */
static int print_gpus(const info_settings_t *settings)
{
    static gpuhier_record_t records[GPUS_MAX];
    const gpuhier_record_t *records_p[GPUS_MAX];
    gpuhier_gpu_info_t gpu;
    driver_t driver = {0};
    char *report;
    int count = 0;
    int version = 0;
    bool have = driver_load(&driver);
    int rc;
    int i;
    int rail;

    if (have && CUDA_SUCCESS == driver.cuDeviceGetCount(&count)
        && CUDA_SUCCESS == driver.cuDriverGetVersion(&version)) {
        printf("GPUs: %d, driver for CUDA %d.%d\n", count, version / 1000, version % 1000 / 10);
    }
    count = (count > GPUS_MAX) ? GPUS_MAX : count;
    for (i = 0; i < ((0 == count) ? 1 : count); ++i) {
        if (0 != count) {
            describe_gpu(&driver, i, &gpu);
        }
        rc = gpuhier_topology_local((0 == count) ? NULL : &gpu, settings->devices, &records[i], &report);
        if (OMPI_SUCCESS != rc) {
            fprintf(stderr, "gpuhier_info: %s", (NULL == report) ? "out of memory\n" : report);
            free(report);
            return 1;
        }
        records_p[i] = &records[i];
        print_record(&records[i], report);
        free(report);
    }
    for (i = 0; i < count; ++i) {
        const char *rails[GPUHIER_RAILS_MAX];
        int nrails = gpuhier_topology_pick_rails(records_p, count, i, rails);

        printf("with one rank on each GPU, rank %d drives:", i);
        for (rail = 0; rail < nrails; ++rail) {
            printf(" %s", rails[rail]);
        }
        printf("%s\n", (0 == nrails) ? " whatever UCX finds" : "");
    }
    return 0;
}

static int print_ucx(void)
{
    gpuhier_net_t *net;
    const char *why;

    printf("UCX %s: ", ucp_get_version_string());
    if (OMPI_SUCCESS != gpuhier_net_open(NULL, 0, GPUHIER_NET_CUDA_AUTO, &net, &why)) {
        printf("cannot be opened: %s\n", why);
        return 1;
    }
    printf("%s\n", gpuhier_net_can_cuda(net)
                       ? "takes GPU memory"
                       : "has no CUDA support here: between groups, data goes through pinned host memory");
    gpuhier_net_close(net);
    return 0;
}

int info_machine(const info_settings_t *settings)
{
    int rc = print_gpus(settings);

    return (0 == rc) ? print_ucx() : rc;
}
