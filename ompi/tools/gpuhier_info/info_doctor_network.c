/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The doctor's checks of the network: which devices carry data between nodes, whether UCX opens them, and whether they
 * reach GPU memory.
 */
#include "ompi_config.h"

#include "info_doctor.h"

#include <stdio.h>
#include <sys/utsname.h>

#include "info_driver.h"

/* "5.14.0" is at least 5.12? */
static bool kernel_has_dma_buf(void)
{
    struct utsname system;
    int major = 0, minor = 0;

    return 0 == uname(&system) && 2 == sscanf(system.release, "%d.%d", &major, &minor)
           && (major > 5 || (5 == major && minor >= 12));
}

static void check_rdma(info_visit_t *visit, const info_ucx_t *ucx)
{
    const info_machine_t *machine = visit->machine;
    const bool peermem =
        info_visit_has(visit, "/sys/module/nvidia_peermem") || info_visit_has(visit, "/sys/module/nv_peer_mem");
    CUdevice device;
    const info_driver_t *driver = info_driver(NULL);
    const bool dma_buf = NULL != driver && machine->ngpus > 0 && CUDA_SUCCESS == driver->cuDeviceGet(&device, 0)
                         && 0 != info_driver_attribute(device, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED)
                         && kernel_has_dma_buf();

    if (peermem || dma_buf) {
        info_find(visit, OK, "GPUDirect RDMA", "", "%s%s%s", peermem ? "nvidia_peermem is loaded" : "",
                  peermem && dma_buf ? ", " : "", dma_buf ? "driver and kernel have dma-buf" : "");
    } else {
        info_find(visit, WARNING, "GPUDirect RDMA",
                  "`modprobe nvidia_peermem` (and at boot: /etc/modules-load.d), or the open kernel modules on Linux "
                  "5.12 for dma-buf; until then coll_gpuhier_net staged",
                  "the NIC cannot read GPU memory: nvidia_peermem is not loaded and there is no dma-buf");
    }
    const bool known = GPUHIER_NET_GPU_NO_REGISTRATION == ucx->gpu && !peermem && !dma_buf;
    if ('\0' == ucx->failure[0] && '\0' == ucx->no_rdma[0] && ucx->asked && !ucx->takes_gpu_memory && !known) {
        info_find(visit, WARNING, "UCX",
                  GPUHIER_NET_GPU_NO_REGISTRATION == ucx->gpu
                      ? "use a later UCX: dma-buf needs 1.14, and nvidia_peermem without MLNX_OFED needs 1.18"
                      : gpuhier_net_gpu_remedy(ucx->gpu),
                  "UCX %s is given no GPU memory, since %s: data between groups goes through pinned host memory",
                  ucx->version, gpuhier_net_gpu_reason(ucx->gpu));
    }
    for (int i = 0; i < machine->ngpus; ++i) {
        info_way_t nearest = INFO_WAY_UNKNOWN;
        for (int n = 0; n < machine->nnics; ++n) {
            if (machine->nic[n].found.is_taken && machine->nic_way[i][n] < nearest) {
                nearest = machine->nic_way[i][n];
            }
        }
        if (INFO_WAY_SYS == nearest) {
            info_find(visit, NOTE, "distance", "nothing, if the machine has no nearer port; else look why it is down",
                      "GPU%d reaches its nearest network device across sockets or NUMA nodes (SYS)", i);
        }
    }
}

void info_doctor_network(info_visit_t *visit, const info_ucx_t *ucx)
{
    const info_machine_t *machine = visit->machine;
    bool rdma = false;

    for (int n = 0; n < machine->nnics; ++n) {
        const info_nic_t *nic = &machine->nic[n];
        rdma = rdma || (nic->found.is_taken && nic->found.is_rdma);
        if (nic->found.is_closed) {
            info_find(visit, WARNING, "network",
                      "pass /dev/infiniband into the container (--device), or correct its permissions",
                      "%s is active but this process may not open it", nic->found.device);
        }
    }
    if (0 == machine->record[0].nics) {
        info_find(visit, NOTE, "network", "", "no network device: jobs of one node only");
    }
    if ('\0' != ucx->no_rdma[0]) {
        info_find(
            visit, WARNING, "network",
            info_machine_is_efa(machine)
                ? "use UCX 1.19 or later, built with EFA"
                : "look at variables named GPUHIER_UCX_*, and at `ucx_info -d`, which lists the ports that UCX can use",
            "UCX %s cannot use the %s ports, so that data between groups goes over TCP: %s", ucx->version,
            info_machine_is_efa(machine) ? "EFA" : "RDMA", ucx->no_rdma);
    }
    if ('\0' != ucx->failure[0]) {
        info_find(visit, PROBLEM, "UCX",
                  "look at variables named GPUHIER_UCX_*, and at `ucx_info -d`; calls go to Open MPI's own "
                  "collectives until then",
                  "UCX %s cannot be opened on the rails: %s", ucx->version, ucx->failure);
    } else {
        info_find(visit, OK, "UCX", "", "%s opens %s%s", ucx->version,
                  '\0' == ucx->no_rdma[0] ? "the rails" : "what is left without them",
                  ucx->takes_gpu_memory ? " and takes GPU memory" : "");
    }
    if (rdma) {
        check_rdma(visit, ucx);
    }
}
