/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The doctor's checks of the GPUs: that they answer and give handles to memory, peer access and what kernels see by it,
 * NVLink, and the slots that they and the rails are in.
 */
#include "ompi_config.h"

#include "info_doctor.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "info_driver.h"
#include "info_side.h"

#define WRONG_PAIRS_NAMED 8
#define TRIAL_BYTES ((uint64_t) 64 << 10)
#define IPC_BYTES ((size_t) 2 << 20)

static void check_gpus(info_visit_t *visit)
{
    const info_machine_t *machine = visit->machine;
    const char *why = "";

    if (0 == machine->ngpus) {
        info_find(visit, PROBLEM, "GPUs",
                  "install the NVIDIA driver, or run this on a node with GPUs; in a container, pass them in (--gpus "
                  "all)",
                  "none: %s", NULL == info_driver(&why) ? why : "the driver shows no device");
        return;
    }
    info_find(visit, OK, "GPUs", "", "%d%s, driver for CUDA %d.%d", machine->ngpus,
              machine->is_emulated ? " "
                                     "emulated"
                                   : "",
              machine->cuda_version / 1000, machine->cuda_version % 1000 / 10);
    for (int i = 0; i < machine->ngpus; ++i) {
        if ('\0' != machine->gpu[i].failure[0]) {
            info_find(visit, PROBLEM, "GPUs",
                      "look for Xid messages in the kernel's log (dmesg), reset or replace "
                      "the GPU",
                      "GPU%d does not answer and would be left out: %s", i, machine->gpu[i].failure);
        }
        if ('\0' != machine->gpu[i].slice[0]) {
            info_find(visit, WARNING, "MIG", "use whole GPUs for multi-GPU jobs",
                      "GPU%d is a MIG slice (%s): slices cannot map each other, each rank is a group of one", i,
                      machine->gpu[i].slice);
        }
    }
}

static void check_peers(info_visit_t *visit)
{
    const info_machine_t *machine = visit->machine;
    int refused = 0, pairs = 0, a = 0, b = 0, most = 0;

    for (int i = 0; i < machine->ngpus; ++i) {
        int links = 0;
        for (int j = 0; j < machine->ngpus; ++j) {
            if (i != j && '\0' == machine->gpu[i].failure[0] && '\0' == machine->gpu[j].failure[0]) {
                pairs++;
                links += machine->links[i][j];
                if (!machine->peer[i][j]) {
                    a = 0 == refused ? i : a;
                    b = 0 == refused ? j : b;
                    refused++;
                }
            }
        }
        most = links > most ? links : most;
    }
    if (refused > 0) {
        info_find(visit, WARNING, "peer access",
                  "compare with `nvidia-smi topo -p2p r`; between sockets it is often by design, else look at the "
                  "IOMMU and ACS",
                  "the driver refuses it between %d of %d pairs, for instance GPU%d and GPU%d: they are in different "
                  "groups",
                  refused / 2, pairs / 2, a, b);
    } else if (pairs > 0) {
        info_find(visit, OK, "peer access", "", "granted between all %d pairs", pairs / 2);
    }
    for (int i = 0; i < machine->ngpus; ++i) {
        int links = 0;
        for (int j = 0; j < machine->ngpus; ++j) {
            links += machine->links[i][j];
        }
        if (0 == links && most > 0 && '\0' == machine->gpu[i].failure[0]) {
            info_find(visit, WARNING, "NVLink", "look at `nvidia-smi nvlink -s`, and whether nvidia-fabricmanager runs",
                      "GPU%d has no active link, and others have", i);
        }
    }
}

/* Does the driver take kernels of this build? */
static void check_kernels(info_visit_t *visit)
{
    const info_machine_t *machine = visit->machine;

    for (int i = 0; i < machine->ngpus; ++i) {
        info_side_t side = {0};
        if ('\0' == machine->gpu[i].failure[0] && CUDA_SUCCESS == info_side_open(&side, i, TRIAL_BYTES)
            && NULL == side.kernel) {
            info_find(
                visit, PROBLEM, "kernels",
                "update the driver, or build gpuhier with a toolkit of the driver's major version or an older one "
                "(configure --with-cuda=DIR)",
                "GPU%d does not load gpuhier's kernels, which the toolkit of CUDA %d.%d built: %s", i,
                CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10, info_driver_error(side.no_kernel));
        }
        info_side_close(&side, i);
    }
}

/* Does a GPU give a handle to some memory of its own? In a job, other processes open it. */
static CUresult try_handle(const info_driver_t *driver, int gpu, const char **call_p)
{
    CUcontext context, none;
    CUdevice device;
    CUdeviceptr memory;
    CUipcMemHandle handle;
    CUresult result;

    *call_p = "cuDevicePrimaryCtxRetain";
    if (CUDA_SUCCESS != (result = driver->cuDeviceGet(&device, gpu))
        || CUDA_SUCCESS != (result = driver->cuDevicePrimaryCtxRetain(&context, device))) {
        return result;
    }
    *call_p = "cuMemAlloc";
    result = driver->cuCtxPushCurrent(context);
    if (CUDA_SUCCESS == result) {
        result = driver->cuMemAlloc(&memory, IPC_BYTES);
        if (CUDA_SUCCESS == result) {
            *call_p = "cuIpcGetMemHandle";
            result = driver->cuIpcGetMemHandle(&handle, memory);
            (void) driver->cuMemFree(memory);
        }
        (void) driver->cuCtxPopCurrent(&none);
    }
    (void) driver->cuDevicePrimaryCtxRelease(device);
    return result;
}

static void check_ipc(info_visit_t *visit)
{
    const info_machine_t *machine = visit->machine;
    const info_driver_t *driver = info_driver(NULL);
    int given = 0;

    for (int i = 0; i < machine->ngpus; ++i) {
        const char *call;

        if ('\0' != machine->gpu[i].failure[0]) {
            continue;
        }
        const CUresult result = try_handle(driver, i, &call);
        given += CUDA_SUCCESS == result;
        if (CUDA_SUCCESS != result) {
            info_find(
                visit, WARNING, "CUDA IPC",
                "free the GPU's memory where that is what fails; else use whole GPUs of a driver for Linux, without "
                "confidential computing",
                "GPU%d gives no handle to its memory, so calls copy it to memory that ranks share: %s returns %s", i,
                call, info_driver_error(result));
        }
    }
    if (given > 0) {
        info_find(visit, OK, "CUDA IPC", "", "%d GPU%s give%s handles to memory", given, 1 == given ? "" : "s",
                  1 == given ? "s" : "");
    }
}

/* Has kernels of one GPU read and write memory of another. A CUDA error ends the trial of that pair only. */
static void try_pair(info_visit_t *visit, const info_side_t *sides, int own, int other, int *tried_p, int *wrong_p)
{
    const info_driver_t *driver = info_driver(NULL);
    info_trial_t trial = {false, false};
    CUcontext none;

    CUresult result = driver->cuCtxPushCurrent(sides[own].context);
    if (CUDA_SUCCESS == result) {
        result = info_side_reach(&sides[own], &sides[other]);
        (void) driver->cuCtxPopCurrent(&none);
    }
    result = CUDA_SUCCESS != result ? result : info_side_try(&sides[own], &sides[other], &trial);
    const char *text = CUDA_SUCCESS != result ? info_driver_error(result) : info_trial_text(&trial, own);
    ++*tried_p;
    if (NULL != text && ++*wrong_p <= WRONG_PAIRS_NAMED) {
        info_find(visit, PROBLEM, "peer data",
                  CUDA_SUCCESS == result ? INFO_TRIAL_REMEDY : "look for Xid messages in the kernel's log (dmesg)",
                  "memory of GPU%d, which the driver lets GPU%d reach: %s", other, own, text);
    }
}

static void check_peer_data(info_visit_t *visit)
{
    const info_machine_t *machine = visit->machine;
    info_side_t sides[INFO_GPUS_MAX] = {0};
    int tried = 0, wrong = 0;

    for (int i = 0; i < machine->ngpus && machine->ngpus > 1; ++i) {
        if ('\0' == machine->gpu[i].failure[0] && CUDA_SUCCESS != info_side_open(&sides[i], i, TRIAL_BYTES)) {
            sides[i].kernel = NULL;
        }
    }
    for (int i = 0; i < machine->ngpus; ++i) {
        for (int j = 0; j < machine->ngpus; ++j) {
            if (i != j && machine->peer[i][j] && NULL != sides[i].kernel && NULL != sides[j].kernel) {
                try_pair(visit, sides, i, j, &tried, &wrong);
            }
        }
    }
    for (int i = 0; i < machine->ngpus; ++i) {
        info_side_close(&sides[i], i);
    }
    if (wrong > WRONG_PAIRS_NAMED) {
        info_find(visit, PROBLEM, "peer data", "gpuhier_info measure names all pairs", "%d more are damaged",
                  wrong - WRONG_PAIRS_NAMED);
    } else if (tried > 0 && 0 == wrong) {
        info_find(visit, OK, "peer data", "", "kernels read and write right data, tried %d ways", tried);
    }
}

/* A slot that trained to fewer lanes than device and slot have. */
static void check_width(info_visit_t *visit, const gpuhier_pci_id_t *pci, const char *name)
{
    char path[128], now[32], most[32];

    snprintf(path, sizeof(path), "/sys/bus/pci/devices/%04x:%02x:%02x.%x/current_link_width", (unsigned) pci->domain,
             pci->bus, pci->device, pci->function);
    const bool known = info_visit_line(visit, path, now, sizeof(now));
    snprintf(path, sizeof(path), "/sys/bus/pci/devices/%04x:%02x:%02x.%x/max_link_width", (unsigned) pci->domain,
             pci->bus, pci->device, pci->function);
    if (known && info_visit_line(visit, path, most, sizeof(most)) && atoi(now) > 0 && atoi(now) < atoi(most)) {
        info_find(visit, WARNING, "PCIe", "reseat the card, look at the slot and at `lspci -vv` (LnkSta)",
                  "%s runs on %s lanes, it has %s", name, now, most);
    }
}

static void check_pcie(info_visit_t *visit)
{
    const info_machine_t *machine = visit->machine;
    char name[64];

    for (int i = 0; i < machine->ngpus; ++i) {
        snprintf(name, sizeof(name), "GPU%d", i);
        check_width(visit, &machine->gpu[i].id.pci, name);
    }
    for (int n = 0; n < machine->nnics; ++n) {
        if (machine->nic[n].found.has_pci && machine->nic[n].found.is_taken) {
            check_width(visit, &machine->nic[n].found.pci, machine->nic[n].found.device);
        }
    }
    if (machine->ngpus > 1 && info_visit_has(visit, "/sys/class/iommu/dmar0")) {
        info_find(visit, NOTE, "IOMMU",
                  "on bare metal, boot with iommu=pt or off and switch ACS off; gpuhier_info measure shows what it "
                  "costs",
                  "it is on: peer traffic over PCIe may go through the host bridge");
    }
}

/* GDRCopy, by which the host reads and writes short messages in GPU memory itself. */
static void check_gdr(info_visit_t *visit)
{
    static const char saves[] = "short messages would need neither a kernel nor a copy engine";
    if (0 == visit->machine->ngpus) {
        return;
    }
    void *(*open_library)(void) = NULL;
    int (*close_library)(void *) = NULL;
    void (*version)(int *, int *) = NULL;
    void *file = dlopen("libgdrapi.so.2", RTLD_NOW | RTLD_LOCAL);
    if (NULL != file) {
        open_library = (__typeof__(open_library)) dlsym(file, "gdr_open");
        close_library = (__typeof__(close_library)) dlsym(file, "gdr_close");
        version = (__typeof__(version)) dlsym(file, "gdr_runtime_get_version");
    }
    if (NULL == open_library || NULL == close_library || NULL == version) {
        info_find(visit, NOTE, "GDRCopy", "install GDRCopy: the library and its kernel module gdrdrv",
                  "there is no libgdrapi.so.2; with it %s", saves);
        return;
    }
    int major = 0, minor = 0;
    version(&major, &minor);
    void *library = open_library();
    if (NULL == library) {
        info_find(visit, NOTE, "GDRCopy", "`modprobe gdrdrv`; give containers the device /dev/gdrdrv",
                  "libgdrapi %d.%d cannot be opened; else %s", major, minor, saves);
        return;
    }
    (void) close_library(library);
    info_find(visit, OK, "GDRCopy", "", "libgdrapi %d.%d: the host reads and writes short messages in GPU memory",
              major, minor);
}

void info_doctor_gpus(info_visit_t *visit)
{
    check_gpus(visit);
    check_kernels(visit);
    check_peers(visit);
    check_ipc(visit);
    check_gdr(visit);
    check_peer_data(visit);
    check_pcie(visit);
}
