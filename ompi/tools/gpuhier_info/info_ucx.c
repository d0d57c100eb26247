/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Asks UCX what the component would ask it, and says how data goes between groups. Used by topo, its picture, and
 * doctor.
 */
#include "ompi_config.h"

#include "info_ucx.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <ucp/api/ucp.h>

#include "info_driver.h"
#include "net/coll_gpuhier_net.h"
#include "ompi/constants.h"
#include "plan/coll_gpuhier_rails.h"

/* UCX registers a page of GPU memory in the context that is current. Returns NULL without one. */
static const info_driver_t *gpu_enter(const info_machine_t *machine, CUdevice *device_p)
{
    const info_driver_t *driver = info_driver(NULL);
    CUcontext context;
    if (NULL == driver || 0 == machine->ngpus || CUDA_SUCCESS != driver->cuDeviceGet(device_p, 0)
        || CUDA_SUCCESS != driver->cuDevicePrimaryCtxRetain(&context, *device_p)) {
        return NULL;
    }
    if (CUDA_SUCCESS != driver->cuCtxPushCurrent(context)) {
        (void) driver->cuDevicePrimaryCtxRelease(*device_p);
        return NULL;
    }
    return driver;
}

static void gpu_leave(const info_driver_t *driver, CUdevice device)
{
    CUcontext context;
    if (NULL != driver) {
        (void) driver->cuCtxPopCurrent(&context);
        (void) driver->cuDevicePrimaryCtxRelease(device);
    }
}

/* Opens the rails, and where UCX cannot use RDMA ports those over TCP, as a job does. */
static int rails_open(const info_machine_t *machine, gpuhier_net_mode_t mode, gpuhier_net_t **net_p, info_ucx_t *ucx_p)
{
    const char *devices[GPUHIER_RAILS_MAX];
    const char *why = "";
    int nrails = gpuhier_rails_devices(&machine->record[0], devices);

    int rc = gpuhier_net_open(devices, nrails, UINT_MAX, mode, net_p, &why);
    if (OMPI_SUCCESS != rc && info_machine_has_rdma(machine)) {
        snprintf(ucx_p->no_rdma, sizeof(ucx_p->no_rdma), "%s", why);
        nrails = gpuhier_rails_devices(&machine->tcp[0], devices);
        rc = machine->has_tcp ? gpuhier_net_open(devices, nrails, UINT_MAX, mode, net_p, &why) : rc;
    }
    if (OMPI_SUCCESS != rc) {
        snprintf(ucx_p->failure, sizeof(ucx_p->failure), "%s", why);
    }
    return rc;
}

void info_ask_ucx(const info_machine_t *machine, const info_options_t *options, info_ucx_t *ucx_p)
{
    gpuhier_net_t *net;

    memset(ucx_p, 0, sizeof(*ucx_p));
    snprintf(ucx_p->version, sizeof(ucx_p->version), "%s", ucp_get_version_string());
    const gpuhier_net_mode_t mode = (gpuhier_net_mode_t) options->mca.net;
    const bool rdma = info_machine_is_rdma(machine);
    ucx_p->asked = GPUHIER_NET_DIRECT == mode || (GPUHIER_NET_AUTO == mode && rdma);
    CUdevice device = 0;
    const info_driver_t *driver = GPUHIER_NET_AUTO == mode && rdma ? gpu_enter(machine, &device) : NULL;
    if (OMPI_SUCCESS == rails_open(machine, mode, &net, ucx_p)) {
        ucx_p->takes_gpu_memory = gpuhier_net_gpu_is_yes(gpuhier_net_gpu(net));
        ucx_p->gpu = gpuhier_net_gpu(net);
        gpuhier_net_close(net);
    }
    gpu_leave(driver, device);
}

static void network_text(const info_machine_t *machine, const info_ucx_t *ucx, char *text, size_t room)
{
    static const char or_pml[] = ", or by Open MPI's own messages if these have a fabric";
    const bool rdma = info_machine_is_rdma(machine);

    if (NULL != ucx && '\0' != ucx->failure[0]) {
        snprintf(text, room, "none: UCX cannot be opened, calls go to Open MPI's own collectives");
    } else if (NULL != ucx) {
        const bool by_rdma = rdma && '\0' == ucx->no_rdma[0];
        snprintf(text, room, "%s over %s rails%s%s", ucx->takes_gpu_memory ? "GPU memory" : "pinned host memory",
                 by_rdma ? "rdma" : "tcp", '\0' == ucx->no_rdma[0] ? "" : ", since UCX cannot use the RDMA ports",
                 by_rdma ? "" : or_pml);
    } else if (info_machine_is_efa(machine)) {
        snprintf(
            text, room,
            "GPU memory over rdma rails if UCX has EFA (from 1.19) and takes it, else pinned host memory over rdma "
            "or tcp rails%s",
            or_pml);
    } else if (rdma) {
        snprintf(text, room, "GPU memory over rdma rails if UCX takes it, else pinned host memory");
    } else {
        snprintf(text, room, "pinned host memory over tcp rails%s", or_pml);
    }
}

void info_path_text(const info_machine_t *machine, const info_ucx_t *ucx, char *text, size_t room)
{
    char network[INFO_PATH_ROOM];

    network_text(machine, ucx, network, sizeof(network));
    snprintf(text, room, "%s%s",
             machine->is_fabric ? "mapped GPU memory over NVLink if there is an IMEX channel, else " : "", network);
}
