/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The emulated machine as hwloc's XML, version 2.
 *
 *     Machine
 *       Package
 *         Group             a NUMA node, where the package has several
 *           NUMANode, Core, PU
 *           Bridge          a host bridge for each "root" of the NUMA node
 *             PCIDev        devices on it
 *             Bridge        the upstream port of a PCI switch
 *               Bridge      a downstream port for each device
 *                 PCIDev
 *
 * The processors of the machine at hand are dealt out to the NUMA nodes in blocks; with fewer processors than NUMA
 * nodes, the missing ones are made up, and nothing should bind to them. Called by cudasim_topo and by gpuhier_info.
 */
#include "sim_topology.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define SET_BITS 4096
#define ROOTS 32

/* What is being written. */
struct writer {
    FILE *out;
    const sim_topology_t *topology;
    bool for_rails;
    long cpus;
    unsigned long next_id;
    unsigned next_bridge; /* bridges get PCI addresses of a domain of their own */
};

/* hwloc's text of a set: words of 32 bits, the highest first. */
static void set_print(const bool *set, long bits, char *text_p, size_t room)
{
    size_t used = 0;
    long word, bit;

    for (word = (bits - 1) / 32; word >= 0; word--) {
        uint32_t value = 0;
        for (bit = 0; bit < 32; bit++) {
            if (32 * word + bit < bits && set[32 * word + bit]) {
                value |= (uint32_t) 1 << bit;
            }
        }
        used += (size_t) snprintf(text_p + used, room - used, "%s0x%08x", used > 0 ? "," : "", value);
    }
}

/* The processors and the NUMA nodes of a package, or of all packages (-1), or of one NUMA node of it (-1: of all). */
static void write_sets(struct writer *w, int package, int numa)
{
    static bool cpuset[SET_BITS];
    bool nodeset[SIM_MAX_NUMAS] = {false};
    char cpus[SET_BITS / 2], nodes[64];
    long first, last, cpu;
    int n;

    memset(cpuset, 0, sizeof(cpuset));
    for (n = 0; n < w->topology->nnumas; n++) {
        if ((package < 0 || package == w->topology->package[n]) && (numa < 0 || n == numa)) {
            nodeset[n] = true;
            sim_topology_cpus(w->topology, n, w->cpus, &first, &last);
            for (cpu = first; cpu <= last && cpu < SET_BITS; cpu++) {
                cpuset[cpu] = true;
            }
        }
    }
    set_print(cpuset, w->cpus, cpus, sizeof(cpus));
    set_print(nodeset, w->topology->nnumas, nodes, sizeof(nodes));
    fprintf(w->out, " cpuset=\"%s\" complete_cpuset=\"%s\" nodeset=\"%s\" complete_nodeset=\"%s\" gp_index=\"%lu\"",
            cpus, cpus, nodes, nodes, w->next_id++);
}

/* A core with one processor. */
static void write_core(struct writer *w, long cpu, int numa)
{
    static const char *const types[] = {"Core", "PU"};
    static bool cpuset[SET_BITS];
    bool nodeset[SIM_MAX_NUMAS] = {false};
    char cpus[SET_BITS / 2], nodes[64];
    int i;

    memset(cpuset, 0, sizeof(cpuset));
    cpuset[cpu] = true;
    nodeset[numa] = true;
    set_print(cpuset, w->cpus, cpus, sizeof(cpus));
    set_print(nodeset, w->topology->nnumas, nodes, sizeof(nodes));
    for (i = 0; i < 2; i++) {
        fprintf(w->out,
                "<object type=\"%s\" os_index=\"%ld\" cpuset=\"%s\" complete_cpuset=\"%s\" nodeset=\"%s\" "
                "complete_nodeset=\"%s\" gp_index=\"%lu\">\n",
                types[i], cpu, cpus, cpus, nodes, nodes, w->next_id++);
    }
    fprintf(w->out, "</object></object>\n");
}

static void pci_open(struct writer *w, const sim_pci_t *pci, const char *type)
{
    char text[48];

    sim_pci_print(pci, text);
    fprintf(w->out,
            "<object type=\"PCIDev\" gp_index=\"%lu\" pci_busid=\"%s\" pci_type=\"%s\" "
            "pci_link_speed=\"31.500000\">\n",
            w->next_id++, text, type);
}

static void bridge_open(struct writer *w)
{
    const unsigned bus = w->next_bridge++;

    fprintf(w->out,
            "<object type=\"Bridge\" gp_index=\"%lu\" bridge_type=\"1-1\" depth=\"1\" bridge_pci=\"fffe:[%02x-%02x]\" "
            "pci_busid=\"fffe:%02x:%02x.0\" pci_type=\"0604 [10b5:8796] [10b5:8796] ab\" "
            "pci_link_speed=\"31.500000\">\n",
            w->next_id++, bus / 32, bus / 32, bus / 32, bus % 32);
}

static void write_gpu(struct writer *w, int i)
{
    const sim_gpu_t *gpu = &w->topology->gpus[i];
    char uuid[48];
    int other;

    for (other = 0; other < i; other++) { /* slices of one GPU are one PCI device */
        if (0 == memcmp(&w->topology->gpus[other].pci, &gpu->pci, sizeof(gpu->pci))) {
            return;
        }
    }
    sim_uuid_print(gpu->uuid, uuid);
    pci_open(w, &gpu->pci, "0302 [10de:2330] [10de:16c1] a1");
    fprintf(w->out,
            "<object type=\"OSDev\" gp_index=\"%lu\" name=\"cuda%d\" subtype=\"CUDA\" osdev_type=\"5\">\n"
            "<info name=\"GPUModel\" value=\"Emulated GPU\"/>\n</object>\n",
            w->next_id++, i);
    fprintf(w->out,
            "<object type=\"OSDev\" gp_index=\"%lu\" name=\"nvml%d\" subtype=\"NVML\" osdev_type=\"1\">\n"
            "<info name=\"NVIDIAUUID\" value=\"%s\"/>\n</object>\n</object>\n",
            w->next_id++, i, uuid);
}

static void write_nic(struct writer *w, int i)
{
    const sim_nic_t *nic = &w->topology->nics[i];
    const bool verbs = SIM_NIC_ETHERNET != nic->kind && !w->for_rails;
    int rail = 0, other;

    for (other = 0; other < i; other++) {
        rail += sim_nic_is_rail(w->topology, other);
    }
    if (w->for_rails && !sim_nic_is_rail(w->topology, i)) {
        return;
    }
    pci_open(w, &nic->pci, verbs ? "0207 [15b3:1021] [15b3:0023] 00" : "0200 [15b3:1021] [15b3:0023] 00");
    fprintf(w->out, "<object type=\"OSDev\" gp_index=\"%lu\" name=\"", w->next_id++);
    if (w->for_rails) {
        fprintf(w->out, "rail%d", rail);
    } else {
        fprintf(w->out, "%s", nic->interface);
    }
    fprintf(w->out, "\" osdev_type=\"%d\"/>\n</object>\n", verbs ? 3 : 2);
}

/* What hangs on a switch, or, on -1, on a host bridge; on a switch each device has a port of its own. */
static void write_devices(struct writer *w, int numa, int root, int on)
{
    const sim_topology_t *t = w->topology;
    int i;

    for (i = 0; i < t->ngpus + t->nnics; i++) {
        const bool is_gpu = i < t->ngpus;
        const int n = is_gpu ? i : i - t->ngpus;
        const int its_on = is_gpu ? t->gpus[n].on : t->nics[n].on;

        if (on != its_on
            || (on < 0
                && (numa != (is_gpu ? t->gpus[n].numa : t->nics[n].numa)
                    || root != (is_gpu ? t->gpus[n].root : t->nics[n].root)))) {
            continue;
        }
        if (on >= 0) {
            bridge_open(w);
        }
        if (is_gpu) {
            write_gpu(w, n);
        } else {
            write_nic(w, n);
        }
        if (on >= 0) {
            fprintf(w->out, "</object>\n");
        }
    }
    for (i = 0; i < t->nswitches; i++) {
        if (on == t->switches[i].below && (on >= 0 || (numa == t->switches[i].numa && root == t->switches[i].root))) {
            if (on >= 0) {
                bridge_open(w);
            }
            bridge_open(w);
            write_devices(w, numa, root, i);
            fprintf(w->out, on >= 0 ? "</object></object>\n" : "</object>\n");
        }
    }
}

/* Does anything hang on this host bridge? */
static bool has_root(const sim_topology_t *t, int numa, int root)
{
    int i;

    for (i = 0; i < t->ngpus; i++) {
        if (numa == t->gpus[i].numa && root == t->gpus[i].root) {
            return true;
        }
    }
    for (i = 0; i < t->nnics; i++) {
        if (numa == t->nics[i].numa && root == t->nics[i].root) {
            return true;
        }
    }
    return false;
}

static void write_numa(struct writer *w, int numa)
{
    long first, last, cpu;
    int root;

    fprintf(w->out, "<object type=\"NUMANode\" os_index=\"%d\"", numa);
    write_sets(w, -1, numa);
    fprintf(w->out, " local_memory=\"17179869184\"/>\n");
    sim_topology_cpus(w->topology, numa, w->cpus, &first, &last);
    for (cpu = first; cpu <= last && cpu < SET_BITS; cpu++) {
        write_core(w, cpu, numa);
    }
    for (root = 0; root < ROOTS; root++) {
        if (has_root(w->topology, numa, root)) {
            fprintf(w->out,
                    "<object type=\"Bridge\" gp_index=\"%lu\" bridge_type=\"0-1\" depth=\"0\" "
                    "bridge_pci=\"0000:[00-ff]\">\n",
                    w->next_id++);
            write_devices(w, numa, root, -1);
            fprintf(w->out, "</object>\n");
        }
    }
}

static void write_package(struct writer *w, int package)
{
    int in_it = 0, numa;

    for (numa = 0; numa < w->topology->nnumas; numa++) {
        in_it += package == w->topology->package[numa];
    }
    if (0 == in_it) {
        return;
    }
    fprintf(w->out, "<object type=\"Package\" os_index=\"%d\"", package);
    write_sets(w, package, -1);
    fprintf(w->out, ">\n");
    for (numa = 0; numa < w->topology->nnumas; numa++) {
        if (package != w->topology->package[numa]) {
            continue;
        }
        if (in_it > 1) {
            fprintf(w->out, "<object type=\"Group\" kind=\"1001\" subkind=\"0\"");
            write_sets(w, -1, numa);
            fprintf(w->out, ">\n");
        }
        write_numa(w, numa);
        fprintf(w->out, in_it > 1 ? "</object>\n" : "");
    }
    fprintf(w->out, "</object>\n");
}

void sim_topology_xml(FILE *out, const sim_topology_t *topology, int for_rails)
{
    struct writer w = {.out = out, .topology = topology, .for_rails = 0 != for_rails, .next_id = 1};
    int package;

    w.cpus = sysconf(_SC_NPROCESSORS_ONLN);
    w.cpus = (w.cpus < topology->nnumas) ? topology->nnumas : (w.cpus > SET_BITS) ? SET_BITS : w.cpus;
    fprintf(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
                 "<topology version=\"2.0\">\n<object type=\"Machine\" os_index=\"0\"");
    write_sets(&w, -1, -1);
    fprintf(out, ">\n<info name=\"Backend\" value=\"cudasim\"/>\n");
    for (package = 0; package < SIM_MAX_NUMAS; package++) {
        write_package(&w, package);
    }
    fprintf(out, "</object>\n</topology>\n");
}
