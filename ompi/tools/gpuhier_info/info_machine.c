/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What follows from a machine's devices and their places, by the component's own rules: which network devices are
 * taken, the record of a rank on each GPU, groups and rails; and the ways between devices for people.
 *
 * The devices come from info_live.c or info_described.c.
 */
#include "ompi_config.h"

#include "info_machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ompi/constants.h"

const char *const info_way_names[INFO_WAY_COUNT] = {"X", "MIG", "PIX", "PXB", "PHB", "NODE", "SYS", "?"};
const char *const info_way_texts[INFO_WAY_COUNT] = {
    "the device itself",
    "slices of one GPU",
    "at most one PCIe bridge or switch",
    "several PCIe bridges or switches, without the PCIe host bridge",
    "PCIe and a PCIe host bridge (the processor)",
    "PCIe and the way between PCIe host bridges of one NUMA node",
    "PCIe and the link between NUMA nodes or sockets",
    "not known",
};

void info_machine_blind(info_machine_t *machine, const char *text)
{
    const size_t used = strlen(machine->blind);

    snprintf(machine->blind + used, sizeof(machine->blind) - used, "%s%s", used > 0 ? "\n" : "", text);
}

/* The component's distance in nvidia-smi's words: a switch is an upstream and a downstream bridge, two hops. */
static info_way_t way_of(uint8_t distance)
{
    if (GPUHIER_DISTANCE_UNKNOWN == distance) {
        return INFO_WAY_UNKNOWN;
    }
    if (distance < 32) {
        return distance <= 2 ? INFO_WAY_PIX : INFO_WAY_PXB;
    }
    return distance < 64 ? INFO_WAY_PHB : 64 == distance ? INFO_WAY_NODE : INFO_WAY_SYS;
}

static void find_ways(info_machine_t *machine, hwloc_topology_t topology)
{
    static gpuhier_found_nic_t places[INFO_GPUS_MAX > GPUHIER_FOUND_NICS_MAX ? INFO_GPUS_MAX : GPUHIER_FOUND_NICS_MAX];

    for (int i = 0; i < machine->ngpus; ++i) {
        const gpuhier_pci_id_t *pci = &machine->gpu[i].id.pci;

        memset(places, 0, sizeof(places));
        for (int j = 0; j < machine->ngpus; ++j) {
            places[j].has_pci = true;
            places[j].pci = machine->gpu[j].id.pci;
            places[j].distance = GPUHIER_DISTANCE_UNKNOWN;
        }
        if (NULL != topology) {
            (void) gpuhier_topology_distances(topology, pci, places, machine->ngpus);
        }
        for (int j = 0; j < machine->ngpus; ++j) {
            const bool same = 0 == memcmp(pci, &machine->gpu[j].id.pci, sizeof(*pci));
            machine->way[i][j] = i == j ? INFO_WAY_SELF : same ? INFO_WAY_SLICE : way_of(places[j].distance);
        }
        for (int n = 0; n < machine->nnics; ++n) {
            places[n] = machine->nic[n].found;
            places[n].distance = GPUHIER_DISTANCE_UNKNOWN;
        }
        if (NULL != topology) {
            (void) gpuhier_topology_distances(topology, pci, places, machine->nnics);
        }
        for (int n = 0; n < machine->nnics; ++n) {
            machine->nic_way[i][n] = way_of(places[n].distance);
        }
    }
}

/* The records of one rank on each GPU, from the devices. tcp: without RDMA ports. Sets which devices are taken. */
static int choose(const info_machine_t *machine, const char *devices, bool tcp, hwloc_topology_t topology,
                  gpuhier_found_nic_t *nics, gpuhier_record_t *records, gpuhier_text_t *report)
{
    for (int n = 0; n < machine->nnics; ++n) {
        nics[n] = machine->nic[n].found;
        nics[n].is_failed = tcp && nics[n].is_rdma;
        nics[n].is_usable = nics[n].is_usable && !nics[n].is_failed;
    }
    const int rc = gpuhier_nics_choose(nics, machine->nnics, devices, report);
    for (int i = 0; OMPI_SUCCESS == rc && i < (0 == machine->ngpus ? 1 : machine->ngpus); ++i) {
        gpuhier_topology_place(0 == machine->ngpus ? NULL : &machine->gpu[i].id, devices, topology, nics,
                               machine->nnics, &records[i]);
    }
    return rc;
}

/* The records of one rank on each GPU, with RDMA ports and without, and which network devices are taken. */
static int make_records(info_machine_t *machine, const char *devices, hwloc_topology_t topology)
{
    static gpuhier_found_nic_t nics[GPUHIER_FOUND_NICS_MAX];
    gpuhier_text_t report = {0};
    int rc = INFO_OK;

    machine->has_tcp = OMPI_SUCCESS == choose(machine, devices, true, topology, nics, machine->tcp, &report);
    free(report.text);
    report = (gpuhier_text_t){0};
    if (OMPI_SUCCESS != choose(machine, devices, false, topology, nics, machine->record, &report)) {
        rc = info_fail(INFO_BAD_USAGE, "%.*s", (int) strcspn(NULL == report.text ? "" : report.text, "\n"),
                       NULL == report.text ? "" : report.text);
    }
    for (int n = 0; n < machine->nnics; ++n) {
        machine->nic[n].found = nics[n];
    }
    free(report.text);
    return rc;
}

int info_machine_load(const info_options_t *options, info_machine_t **machine_p)
{
    info_machine_t *machine = calloc(1, sizeof(*machine));
    hwloc_topology_t topology = NULL;

    if (NULL == machine) {
        return info_fail(INFO_FAILED, "out of memory");
    }
    machine->nodes = 1;
    machine->levels_bytes = options->mca.levels_bytes;
    int rc = NULL != options->machine ? info_described_load(options->machine, machine, &topology)
                                      : info_live_load(options->root, machine, &topology);
    rc = INFO_OK != rc ? rc : make_records(machine, options->mca.devices, topology);
    if (INFO_OK == rc) {
        find_ways(machine, topology);
        *machine_p = machine;
    } else {
        free(machine);
    }
    if (NULL != topology) {
        hwloc_topology_destroy(topology);
    }
    return rc;
}

void info_machine_free(info_machine_t *machine)
{
    free(machine);
}

/* For gpuhier_hierarchy_init(): may these two ranks be in one group? */
typedef struct {
    const info_machine_t *machine;
    const int *gpus;
    bool by_host;
} grouping_t;

static bool can_map(void *arg, int rank, int other)
{
    const grouping_t *grouping = arg;

    return grouping->by_host || grouping->machine->peer[grouping->gpus[rank]][grouping->gpus[other]];
}

int info_machine_groups(const info_machine_t *machine, gpuhier_hierarchy_t *h, int ranks_p[INFO_GPUS_MAX],
                        bool *by_host_p)
{
    const uint64_t nodes[INFO_GPUS_MAX] = {0}; /* all are on node 0 */
    grouping_t grouping = {machine, ranks_p, false};
    bool is_host[INFO_GPUS_MAX] = {false}; /* by the number of a node: there is node 0 alone */
    int count = 0;

    for (int i = 0; i < machine->ngpus; ++i) {
        if ('\0' == machine->gpu[i].failure[0]) {
            ranks_p[count++] = i;
        }
    }
    if (0 == count || 0 != gpuhier_hierarchy_init(h, count, nodes, can_map, &grouping, GPUHIER_GROUP_MAX)) {
        return 0;
    }
    *by_host_p = gpuhier_hierarchy_host_nodes(h, nodes, can_map, &grouping, is_host);
    if (*by_host_p) {
        grouping.by_host = true;
        gpuhier_hierarchy_fini(h);
        return 0 == gpuhier_hierarchy_init(h, count, nodes, can_map, &grouping, GPUHIER_GROUP_MAX) ? count : 0;
    }
    return count;
}

bool info_machine_links(const info_machine_t *machine, const gpuhier_hierarchy_t *h, const int *gpus)
{
    gpuhier_shape_t shape;
    bool all = true;

    if (h->ngroups < 2 || 0 != gpuhier_shape_init(&shape, h)) {
        return false;
    }
    for (int piece = 0; piece < shape.npieces; ++piece) {
        for (int g = 0; g < h->ngroups; ++g) {
            for (int other = 0; other < g; ++other) {
                const int a = gpus[gpuhier_shape_owner(&shape, piece, g)];
                const int b = gpus[gpuhier_shape_owner(&shape, piece, other)];
                all = all && machine->peer[a][b] && machine->peer[b][a];
            }
        }
    }
    gpuhier_shape_fini(&shape);
    return all;
}

bool info_machine_levels(const info_machine_t *machine, const gpuhier_hierarchy_t *h, int group, const int *gpus,
                         bool by_host, gpuhier_parts_t *parts_p)
{
    gpuhier_record_t records[INFO_GPUS_MAX];

    if (0 == machine->levels_bytes || by_host) {
        return false;
    }
    for (int rank = 0; rank < h->nranks; ++rank) {
        records[rank] = machine->record[gpus[rank]];
    }
    return gpuhier_levels_find(h, group, records, parts_p);
}

int info_machine_rails(const info_machine_t *machine, int gpu, bool tcp, const char *rails_p[GPUHIER_RAILS_MAX])
{
    const gpuhier_record_t *records[INFO_GPUS_MAX];
    int count = 0;
    int me = 0;

    for (int i = 0; i < machine->ngpus; ++i) {
        if ('\0' == machine->gpu[i].failure[0]) {
            me = i == gpu ? count : me;
            records[count++] = tcp ? &machine->tcp[i] : &machine->record[i];
        }
    }
    if (0 == count || (tcp && !machine->has_tcp)) {
        return 0;
    }
    const int nrails = gpuhier_topology_pick_rails(records, count, me, rails_p);
    if (nrails < 0) {
        exit(info_fail(INFO_FAILED, "out of memory"));
    }
    return nrails;
}

bool info_machine_is_rdma(const info_machine_t *machine)
{
    const gpuhier_record_t *record = &machine->record[0];

    for (int i = 0; i < record->nics; ++i) {
        if (!record->nic[i].is_rdma) {
            return false;
        }
    }
    return record->nics > 0;
}

bool info_machine_has_rdma(const info_machine_t *machine)
{
    const gpuhier_record_t *record = &machine->record[0];
    bool rdma = false;

    for (int i = 0; i < record->nics; ++i) {
        rdma = rdma || record->nic[i].is_rdma;
    }
    return rdma;
}

bool info_machine_is_efa(const info_machine_t *machine)
{
    bool efa = false;

    for (int n = 0; n < machine->nnics; ++n) {
        efa = efa || (machine->nic[n].is_efa && machine->nic[n].found.is_taken);
    }
    return efa;
}

const char *info_way_text(const info_machine_t *machine, int gpu, int other, char text[8])
{
    if (machine->links[gpu][other] > 0 && gpu != other) {
        snprintf(text, 8, "NV%d", machine->links[gpu][other]);
        return text;
    }
    return info_way_names[machine->way[gpu][other]];
}

const char *info_node_path_text(const info_machine_t *machine, const gpuhier_hierarchy_t *h, const int *gpus)
{
    return info_machine_links(machine, h, gpus) ? "mapped GPU memory of the partners in the other group"
                                                : "page-locked host memory that the groups share";
}
