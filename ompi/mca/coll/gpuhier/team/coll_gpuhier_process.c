/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns what belongs to the process and not to a communicator: its record, and its connections.
 * Called by set-up, by the engine and at the end.
 */
#include "ompi_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/coll_gpuhier_end.h"
#include "base/coll_gpuhier_kept.h"
#include "base/coll_gpuhier_lock.h"
#include "base/coll_gpuhier_params.h"
#include "gpu/coll_gpuhier_device.h"
#include "plan/coll_gpuhier_rails.h"
#include "team/coll_gpuhier_process.h"
#include "opal/runtime/opal_progress.h"
#include "opal/util/output.h"
#include "opal/util/show_help.h"

static gpuhier_record_t record; /* made once: finding the devices takes milliseconds */
static bool record_known;
static gpuhier_net_t *net;
static unsigned net_lost; /* contexts that had been lost when it was opened */
static bool leaving;      /* said to all connections of net */
static int (*progress)(void);

void gpuhier_process_open(int (*net_progress)(void))
{
    progress = net_progress;
}

/* "domain:bus:device.function", as CUDA prints it. */
static void pci_parse(const char *text, gpuhier_pci_id_t *pci_p)
{
    unsigned domain = 0, bus = 0, device = 0, function = 0;
    if (4 == sscanf(text, "%x:%x:%x.%x", &domain, &bus, &device, &function)) {
        *pci_p = (gpuhier_pci_id_t){
            .domain = domain, .bus = (uint8_t) bus, .device = (uint8_t) device, .function = (uint8_t) function};
    }
}

static int gpu_describe(int ordinal, gpuhier_gpu_info_t *gpu_p)
{
    CUdevice device;
    CUuuid uuid;
    char pci[32] = "";
    memset(gpu_p, 0, sizeof(*gpu_p));
    int rc = gpuhier_cuda_error(gpuhier_cu.cuDeviceGet(&device, ordinal), "cuDeviceGet");
    rc = OMPI_SUCCESS != rc ? rc : gpuhier_cuda_error(gpuhier_cu.cuDeviceGetUuid(&uuid, device), "cuDeviceGetUuid");
    rc = OMPI_SUCCESS != rc
             ? rc
             : gpuhier_cuda_error(gpuhier_cu.cuDeviceGetPCIBusId(pci, sizeof(pci), device), "cuDeviceGetPCIBusId");
    rc = OMPI_SUCCESS != rc
             ? rc
             : gpuhier_cuda_error(gpuhier_cu.cuDeviceGetAttribute(&gpu_p->cc_major,
                                                                  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device),
                                  "cuDeviceGetAttribute");
    rc = OMPI_SUCCESS != rc
             ? rc
             : gpuhier_cuda_error(gpuhier_cu.cuDeviceGetAttribute(&gpu_p->cc_minor,
                                                                  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device),
                                  "cuDeviceGetAttribute");
    if (OMPI_SUCCESS == rc) {
        memcpy(gpu_p->uuid, &uuid, sizeof(gpu_p->uuid));
        pci_parse(pci, &gpu_p->pci);
        gpu_p->ordinal = ordinal;
    }
    return rc;
}

int gpuhier_process_record(int ordinal, gpuhier_record_t *record_p)
{
    if (record_known && ordinal == record.gpu_ordinal) {
        *record_p = record;
        return OMPI_SUCCESS;
    }
    gpuhier_gpu_info_t gpu;
    char *report = NULL;
    int rc = gpu_describe(ordinal, &gpu);
    rc = OMPI_SUCCESS != rc ? rc : gpuhier_topology_local(&gpu, gpuhier_params.devices, &record, &report);
    record_known = OMPI_SUCCESS == rc;
    if (NULL != report && (gpuhier_params.print_info || OMPI_SUCCESS != rc)) {
        opal_output(0, "coll:gpuhier: %s", report);
    }
    free(report);
    if (record_known) {
        *record_p = record;
    }
    return rc;
}

gpuhier_net_t *gpuhier_process_net(void)
{
    return net;
}

/*
 * By default UCX is given GPU memory only where NICs read and write it. Otherwise UCX would copy it to host memory
 * piece by piece, waiting for each; our kernels write to host memory directly.
 */
static gpuhier_net_cuda_mode_t cuda_mode(void)
{
    switch (gpuhier_params.net) {
    case GPUHIER_NET_DIRECT:
        return GPUHIER_NET_CUDA_DIRECT;
    case GPUHIER_NET_STAGED:
        return GPUHIER_NET_CUDA_STAGED;
    default:
        return GPUHIER_NET_CUDA_AUTO;
    }
}

bool gpuhier_process_net_on_device(void)
{
    gpuhier_devices_check();
    return gpuhier_net_can_cuda(net) && net_lost == gpuhier_devices_lost();
}

gpuhier_net_gpu_t gpuhier_process_net_gpu(const gpuhier_device_t *device)
{
    const gpuhier_net_gpu_t answer = gpuhier_net_gpu(net);
    if (!gpuhier_net_gpu_is_yes(answer)) {
        return answer;
    }
    if (!gpuhier_process_net_on_device()) {
        return GPUHIER_NET_GPU_LOST;
    }
    return GPUHIER_FLUSH_IMPOSSIBLE == device->flush ? GPUHIER_NET_GPU_NO_FLUSH : answer;
}

static void net_failed(void *arg, gpuhier_net_peer_t *peer, int code, const char *text)
{
    (void) arg;
    (void) peer;
    opal_output_verbose(5, gpuhier_output(), "coll:gpuhier: %s (%d)", text, code);
}

void gpuhier_process_leave_begin(void)
{
    if (!leaving) {
        leaving = true;
        gpuhier_net_leave(net, gpuhier_end_is_finalizing()); /* sessions end at different times, and a process that
                                                                shares no communicator may live on */
    }
}

int gpuhier_process_net_open(const gpuhier_record_t *mine)
{
    if (NULL != net) {
        return OMPI_SUCCESS;
    }
    gpuhier_devices_check();
    net_lost = gpuhier_devices_lost();
    const char *reason = NULL;
    const char *devices[GPUHIER_RAILS_MAX];
    int nrails = gpuhier_rails_devices(mine, devices);
    int rc = gpuhier_net_open(devices, nrails, cuda_mode(), &net, &reason);
    if (OMPI_SUCCESS != rc) {
        net = NULL;
        opal_show_help("help-coll-gpuhier.txt", "no network", true, ompi_process_info.nodename,
                       NULL != reason ? reason : "unknown");
    } else {
        gpuhier_net_set_error_handler(net, net_failed, NULL);
        (void) opal_progress_register_lp(progress); /* if that fails, calls still drive the net */
    }
    return rc;
}

#define LEAVE_PAUSE_NS 20000

/* Partners may still be in their last call with this rank, and need Open MPI's progress here. */
void gpuhier_process_leave(void)
{
    const struct timespec pause = {.tv_nsec = LEAVE_PAUSE_NS};
    bool left = NULL == net;
    if (!left) {
        gpuhier_engine_lock();
        gpuhier_process_leave_begin();
        gpuhier_engine_unlock();
    }
    while (!left) {
        gpuhier_engine_lock();
        int events = gpuhier_net_progress(net);
        gpuhier_kept_poll_at_times();
        left = gpuhier_net_has_left(net);
        gpuhier_engine_unlock();
        opal_progress();
        if (0 == events) {
            nanosleep(&pause, NULL);
        }
    }
}

void gpuhier_process_close(void)
{
    (void) opal_progress_unregister(progress);
    gpuhier_net_close(net);
    net = NULL;
    leaving = false;
    record_known = false;
}
