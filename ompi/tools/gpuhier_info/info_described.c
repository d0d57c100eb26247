/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A machine from a description file. The format, its parser, and the hwloc topology that follows from a file are those
 * of the emulated GPUs (test/cudasim), so that the same file makes an emulated machine. Files of known machines are
 * installed in share/gpuhier/machines.
 */
#include "ompi_config.h"

#include "info_machine.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim_topology.h"

static gpuhier_pci_id_t pci_of(const sim_pci_t *pci)
{
    return (gpuhier_pci_id_t){.domain = pci->domain,
                              .bus = (uint8_t) pci->bus,
                              .device = (uint8_t) pci->device,
                              .function = (uint8_t) pci->function};
}

/* As NVML would tell it. */
static void copy_nvlinks(const sim_topology_t *file, int gpu, gpuhier_nvlinks_t *nvlinks)
{
    nvlinks->others = file->ngpus - 1;
    if (file->nvswitch > 0) {
        nvlinks->to[nvlinks->count++] = (gpuhier_nvlink_t){.links = file->nvswitch, .is_switch = true};
    }
    for (int j = 0; j < file->ngpus && nvlinks->count < GPUHIER_NVLINKS_MAX; ++j) {
        if (file->nvlinks[gpu][j] > 0) {
            nvlinks->to[nvlinks->count++] =
                (gpuhier_nvlink_t){.pci = pci_of(&file->gpus[j].pci), .links = file->nvlinks[gpu][j]};
        }
    }
}

static void copy_gpus(info_machine_t *machine, const sim_topology_t *file)
{
    /* Compute capabilities of the GPUs with this generation of NVLink. */
    static const int majors[] = {0, 6, 7, 8, 9, 10};

    machine->ngpus = file->ngpus;
    for (int i = 0; i < file->ngpus; ++i) {
        info_gpu_t *gpu = &machine->gpu[i];

        snprintf(gpu->name, sizeof(gpu->name), "described GPU");
        memcpy(gpu->slice, file->gpus[i].slice, sizeof(gpu->slice));
        memcpy(gpu->id.uuid, file->gpus[i].uuid, sizeof(gpu->id.uuid));
        gpu->id.pci = pci_of(&file->gpus[i].pci);
        gpu->id.ordinal = i;
        gpu->id.cc_major = majors[file->nvlink_generation];
        gpu->memory = file->gpus[i].memory;
        copy_nvlinks(file, i, &gpu->id.nvlinks);
        for (int j = 0; j < file->ngpus; ++j) {
            machine->links[i][j] = i == j ? 0 : (uint8_t) sim_topology_links(file, i, j);
            machine->peer[i][j] = i != j && 0 != file->peers[i][j];
        }
    }
}

static void copy_nics(info_machine_t *machine, const sim_topology_t *file)
{
    for (int n = 0; n < file->nnics && n < GPUHIER_FOUND_NICS_MAX; ++n) {
        const sim_nic_t *nic = &file->nics[n];
        gpuhier_found_nic_t *found = &machine->nic[n].found;

        found->is_rdma = SIM_NIC_ETHERNET != nic->kind;
        snprintf(found->device, sizeof(found->device), found->is_rdma ? "%s:1" : "%s", nic->interface);
        found->is_usable = true;
        found->has_pci = true;
        found->pci = pci_of(&nic->pci);
        found->mbit = 1000u * (unsigned) nic->gbit;
        machine->nic[n].is_efa = SIM_NIC_EFA == nic->kind;
        machine->nic[n].gbit = nic->gbit;
        machine->nnics++;
    }
}

/* Through hwloc's XML, as an emulated machine shows itself to the component. */
static int make_topology(const sim_topology_t *file, hwloc_topology_t *topology_p)
{
    char *xml = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&xml, &bytes);
    hwloc_topology_t topology = NULL;
    int rc = INFO_FAILED;

    if (NULL == out) {
        return info_fail(INFO_FAILED, "out of memory");
    }
    sim_topology_xml(out, file, 0);
    if (0 != fclose(out) || 0 != hwloc_topology_init(&topology)) {
        free(xml);
        return info_fail(INFO_FAILED, "out of memory");
    }
    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL);
    if (0 == hwloc_topology_set_xmlbuffer(topology, xml, (int) bytes + 1) && 0 == hwloc_topology_load(topology)) {
        *topology_p = topology;
        rc = INFO_OK;
    } else {
        hwloc_topology_destroy(topology);
        info_fail(rc, "hwloc does not take the described machine");
    }
    free(xml);
    return rc;
}

/* The file of a known machine. False: there is none of that name. */
static bool find_known(const char *name, char path[PATH_MAX + 64])
{
    char folder[PATH_MAX];

    info_own_folder(folder);
    snprintf(path, PATH_MAX + 64, "%s/../share/gpuhier/machines/%s.topo", folder, name); /* moved as a whole */
    if (0 != access(path, R_OK)) {
        snprintf(path, PATH_MAX + 64, "%s/%s.topo", GPUHIER_MACHINES, name);
    }
    return 0 == access(path, R_OK);
}

int info_described_load(const char *path, info_machine_t *machine, hwloc_topology_t *topology_p)
{
    static sim_topology_t file;
    char known[PATH_MAX + 64];

    if (NULL == strchr(path, '/') && 0 != access(path, F_OK)) {
        if (!find_known(path, known)) {
            return info_fail(INFO_BAD_USAGE, "--machine: there is no file '%s', and no machine of that name in %s",
                             path, GPUHIER_MACHINES);
        }
        path = known;
    }
    sim_topology_speaker = "gpuhier_info";
    if (0 != sim_topology_read(path, &file)) {
        return INFO_BAD_USAGE;
    }
    snprintf(machine->title, sizeof(machine->title), "%.127s", '\0' != file.title[0] ? file.title : path);
    machine->is_described = true;
    machine->nodes = file.nodes;
    machine->nvlink_generation = file.nvlink_generation;
    machine->pcie_generation = file.pcie_generation;
    machine->switch_links = file.nvswitch;
    machine->is_fabric = 0 != file.is_fabric;
    copy_gpus(machine, &file);
    copy_nics(machine, &file);
    return make_topology(&file, topology_p);
}
