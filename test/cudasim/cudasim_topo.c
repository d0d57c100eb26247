/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * cudasim_topo: checks a description file, prints it, or turns it into an hwloc topology.
 *
 *   cudasim_topo [FILE]               prints the emulated machine
 *   cudasim_topo --hwloc-xml [FILE]   writes hwloc's XML (version 2) to stdout
 *
 * Without FILE it describes what the environment asks for (CUDASIM_TOPOLOGY, CUDASIM_GPUS).
 * The machine's processors are dealt out to the NUMA nodes in blocks; with fewer
 * processors than NUMA nodes, the missing ones are made up, and nobody should bind to them.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sim_topology.h"

static unsigned long next_id = 1;

static void print_machine(const sim_topology_t *topology)
{
    char pci[48], uuid[48];
    int i, j;

    for (i = 0; i < topology->ngpus; i++) {
        sim_pci_print(&topology->gpus[i].pci, pci);
        sim_uuid_print(topology->gpus[i].uuid, uuid);
        printf("gpu %d pci %s numa %d memory %zuM # %s\n", i, pci, topology->gpus[i].numa,
               topology->gpus[i].memory >> 20, uuid);
    }
    for (i = 0; i < topology->ngpus; i++) {
        for (j = i + 1; j < topology->ngpus; j++) {
            if (topology->nvlinks[i][j] > 0) {
                printf("nvlink %d %d count %d\n", i, j, topology->nvlinks[i][j]);
            }
            if (!topology->peers[i][j]) {
                printf("nopeer %d %d\n", i, j);
            }
        }
    }
    for (i = 0; i < topology->nnics; i++) {
        sim_pci_print(&topology->nics[i].pci, pci);
        printf("nic %s pci %s numa %d\n", topology->nics[i].interface, pci, topology->nics[i].numa);
    }
}

/* hwloc's text of a set of bits first..last: words of 32 bits, the highest first. */
static void set_print(long first, long last, char *text_p, size_t room)
{
    long word, bit, low = 0;
    uint32_t bits;
    size_t used = 0;

    for (word = last / 32; word >= low; word--) {
        bits = 0;
        for (bit = 0; bit < 32; bit++) {
            if (32 * word + bit >= first && 32 * word + bit <= last) {
                bits |= (uint32_t) 1 << bit;
            }
        }
        used += (size_t) snprintf(text_p + used, room - used, "%s0x%08x", used > 0 ? "," : "", bits);
    }
}

static void xml_sets(const char *cpus, const char *nodes)
{
    printf(" cpuset=\"%s\" complete_cpuset=\"%s\" nodeset=\"%s\" complete_nodeset=\"%s\" gp_index=\"%lu\"", cpus,
           cpus, nodes, nodes, next_id++);
}

static void xml_pci_open(const sim_pci_t *pci, const char *type)
{
    char text[48];

    sim_pci_print(pci, text);
    printf("   <object type=\"PCIDev\" gp_index=\"%lu\" pci_busid=\"%s\" pci_type=\"%s\" "
           "pci_link_speed=\"31.500000\">\n", next_id++, text, type);
}

static void xml_devices(const sim_topology_t *topology, int numa)
{
    char uuid[48];
    int i;

    for (i = 0; i < topology->ngpus; i++) {
        if (numa == topology->gpus[i].numa) {
            sim_uuid_print(topology->gpus[i].uuid, uuid);
            xml_pci_open(&topology->gpus[i].pci, "0302 [10de:2330] [10de:16c1] a1");
            printf("    <object type=\"OSDev\" gp_index=\"%lu\" name=\"cuda%d\" subtype=\"CUDA\" osdev_type=\"5\">\n"
                   "     <info name=\"GPUModel\" value=\"Emulated GPU\"/>\n    </object>\n", next_id++, i);
            printf("    <object type=\"OSDev\" gp_index=\"%lu\" name=\"nvml%d\" subtype=\"NVML\" osdev_type=\"1\">\n"
                   "     <info name=\"NVIDIAUUID\" value=\"%s\"/>\n    </object>\n   </object>\n", next_id++, i, uuid);
        }
    }
    for (i = 0; i < topology->nnics; i++) {
        if (numa == topology->nics[i].numa) {
            xml_pci_open(&topology->nics[i].pci, "0200 [15b3:1021] [15b3:0023] 00");
            printf("    <object type=\"OSDev\" gp_index=\"%lu\" name=\"%s\" osdev_type=\"2\"/>\n   </object>\n",
                   next_id++, topology->nics[i].interface);
        }
    }
}

/* A NUMA node as a package of its own, with a host bridge that its devices hang on. */
static void xml_package(const sim_topology_t *topology, int numa, long cpus)
{
    char cpuset[1024], nodeset[64], one[1024];
    long first, last, cpu;

    sim_topology_cpus(topology, numa, cpus, &first, &last);
    set_print(first, last, cpuset, sizeof(cpuset));
    set_print(numa, numa, nodeset, sizeof(nodeset));
    printf(" <object type=\"Package\" os_index=\"%d\"", numa);
    xml_sets(cpuset, nodeset);
    printf(">\n  <object type=\"NUMANode\" os_index=\"%d\"", numa);
    xml_sets(cpuset, nodeset);
    printf(" local_memory=\"17179869184\"/>\n");
    for (cpu = first; cpu <= last; cpu++) {
        set_print(cpu, cpu, one, sizeof(one));
        printf("  <object type=\"Core\" os_index=\"%ld\"", cpu);
        xml_sets(one, nodeset);
        printf(">\n   <object type=\"PU\" os_index=\"%ld\"", cpu);
        xml_sets(one, nodeset);
        printf("/>\n  </object>\n");
    }
    printf("  <object type=\"Bridge\" gp_index=\"%lu\" bridge_type=\"0-1\" depth=\"0\" "
           "bridge_pci=\"0000:[00-ff]\">\n", next_id++);
    xml_devices(topology, numa);
    printf("  </object>\n </object>\n");
}

static void print_xml(const sim_topology_t *topology)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    char cpuset[1024], nodeset[64];
    int numa;

    if (cpus < topology->nnumas) {
        cpus = topology->nnumas;
    }
    set_print(0, cpus - 1, cpuset, sizeof(cpuset));
    set_print(0, topology->nnumas - 1, nodeset, sizeof(nodeset));
    printf("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
           "<topology version=\"2.0\">\n<object type=\"Machine\" os_index=\"0\" allowed_cpuset=\"%s\" "
           "allowed_nodeset=\"%s\"", cpuset, nodeset);
    xml_sets(cpuset, nodeset);
    printf(">\n <info name=\"Backend\" value=\"cudasim\"/>\n");
    for (numa = 0; numa < topology->nnumas; numa++) {
        xml_package(topology, numa, cpus);
    }
    printf("</object>\n</topology>\n");
}

int main(int argc, char **argv)
{
    static sim_topology_t topology;
    int xml = argc > 1 && 0 == strcmp(argv[1], "--hwloc-xml"), rc;
    const char *path = (argc > 1 + xml) ? argv[1 + xml] : NULL;

    if (argc > 2 + xml || (NULL != path && '-' == path[0])) {
        fprintf(stderr, "usage: cudasim_topo [--hwloc-xml] [FILE]\n");
        return 2;
    }
    rc = (NULL != path) ? sim_topology_read(path, &topology) : sim_topology_load(&topology);
    if (0 != rc) {
        return 1;
    }
    if (xml) {
        print_xml(&topology);
    } else {
        print_machine(&topology);
    }
    return 0 == fflush(stdout) ? 0 : 1;
}
