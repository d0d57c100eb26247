/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * cudasim_topo: checks a description file, prints it, or turns it into an hwloc topology.
 *
 *   cudasim_topo [FILE]               prints the emulated machine
 *   cudasim_topo --hwloc-xml [FILE]   writes hwloc's XML (version 2) to stdout
 *   cudasim_topo --rails-xml [FILE]   the same, with the NICs that carry data under the names rail0, rail1, ...
 *   cudasim_topo --rails [FILE]       prints the number of nodes and of NICs that carry data
 *
 * Without FILE it describes what the environment asks for (CUDASIM_TOPOLOGY, CUDASIM_GPUS).
 */
#include <stdio.h>
#include <string.h>

#include "sim_topology.h"

/* Where a device is: the words that say so. */
static void print_place(const sim_topology_t *topology, int numa, int root, int on)
{
    printf(" numa %d", numa);
    if (on >= 0) {
        printf(" on %s", topology->switches[on].name);
    } else if (0 != root) {
        printf(" root %d", root);
    }
}

/* What is said once for the whole machine, and the switches. */
static void print_head(const sim_topology_t *topology)
{
    int i;

    if ('\0' != topology->title[0]) {
        printf("machine %s\n", topology->title);
    }
    if (1 != topology->nodes) {
        printf("nodes %d\n", topology->nodes);
    }
    if (0 != topology->nvlink_generation) {
        printf("nvlink-generation %d\n", topology->nvlink_generation);
    }
    if (0 != topology->pcie_generation) {
        printf("pcie-generation %d\n", topology->pcie_generation);
    }
    for (i = 0; i < topology->nnumas; i++) {
        if (i != topology->package[i]) {
            printf("numa %d package %d\n", i, topology->package[i]);
        }
    }
    for (i = 0; i < topology->nswitches; i++) {
        const sim_switch_t *own = &topology->switches[i];
        printf("switch %s", own->name);
        print_place(topology, own->numa, own->root, own->below);
        printf("\n");
    }
}

static void print_machine(const sim_topology_t *topology)
{
    char pci[48], uuid[48];
    int i, j;

    print_head(topology);
    for (i = 0; i < topology->ngpus; i++) {
        const sim_gpu_t *gpu = &topology->gpus[i];
        sim_pci_print(&gpu->pci, pci);
        sim_uuid_print(gpu->uuid, uuid);
        printf("gpu %d pci %s", i, pci);
        print_place(topology, gpu->numa, gpu->root, gpu->on);
        printf(" memory %zuM%s%s # %s\n", gpu->memory >> 20, '\0' != gpu->slice[0] ? " slice " : "", gpu->slice, uuid);
    }
    if (0 != topology->nvswitch) {
        printf("nvswitch %d%s%s\n", topology->nvswitch, topology->is_fabric ? " fabric" : "",
               topology->multicast ? " multicast" : "");
    }
    for (i = 0; i < topology->ngpus; i++) {
        for (j = i + 1; j < topology->ngpus; j++) {
            if (topology->nvlinks[i][j] > 0) {
                printf("nvlink %d %d count %d\n", i, j, topology->nvlinks[i][j]);
            }
            if (!topology->peers[i][j]) {
                printf("nopeer %d %d\n", i, j);
            }
            if (0 != topology->slow[i][j]) {
                printf("slow %d %d %d\n", i, j, topology->slow[i][j]);
            }
        }
    }
    for (i = 0; i < topology->nnics; i++) {
        const sim_nic_t *nic = &topology->nics[i];
        sim_pci_print(&nic->pci, pci);
        printf("nic %s pci %s", nic->interface, pci);
        print_place(topology, nic->numa, nic->root, nic->on);
        if (SIM_NIC_ETHERNET != nic->kind) {
            printf(" kind %s", sim_nic_kinds[nic->kind]);
        }
        if (0 != nic->gbit) {
            printf(" gbit %d", nic->gbit);
        }
        printf("\n");
    }
}

int main(int argc, char **argv)
{
    static sim_topology_t topology;
    const char *verb = (argc > 1 && 0 == strncmp(argv[1], "--", 2)) ? argv[1] : "";
    const int used = '\0' != verb[0], for_rails = 0 == strcmp(verb, "--rails-xml");
    const int counts = 0 == strcmp(verb, "--rails"), xml = for_rails || 0 == strcmp(verb, "--hwloc-xml");
    const char *path = (argc > 1 + used) ? argv[1 + used] : NULL;
    int rc, i, rails = 0;

    if (argc > 2 + used || used != (xml || counts) || (NULL != path && '-' == path[0])) {
        fprintf(stderr, "usage: cudasim_topo [--hwloc-xml|--rails-xml|--rails] [FILE]\n");
        return 2;
    }
    rc = (NULL != path) ? sim_topology_read(path, &topology) : sim_topology_load(&topology);
    if (0 != rc) {
        return 1;
    }
    for (i = 0; i < topology.nnics; i++) {
        rails += sim_nic_is_rail(&topology, i);
    }
    if (counts) {
        printf("%d %d\n", topology.nodes, rails);
    } else if (xml) {
        sim_topology_xml(stdout, &topology, for_rails);
    } else {
        print_machine(&topology);
    }
    return 0 == fflush(stdout) ? 0 : 1;
}
