/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The emulated machine: which GPUs and NICs there are and how they are wired. Owns the defaults, the identities of
 * GPUs, and what follows from a finished description. Does not own the description file's format (sim_topology_file.c),
 * nor what the environment asks for (sim_topology_env.c), nor what the CUDA or NVML calls say about the machine.
 */
#include "sim_topology.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DEFAULT_MEMORY ((size_t) 16 << 30)

const char *sim_topology_speaker = "cudasim";
const char *const sim_nic_kinds[SIM_NIC_KINDS] = {"ethernet", "rdma", "efa"};

int sim_bytes_parse(const char *text, size_t *bytes_p)
{
    static const char suffixes[] = "KMGT";
    char *end = NULL;
    unsigned long long value;
    const char *suffix;

    if (!isdigit((unsigned char) text[0])) {
        return -1;
    }
    errno = 0;
    value = strtoull(text, &end, 10);
    if (0 != errno) {
        return -1;
    }
    if ('\0' != *end) {
        suffix = strchr(suffixes, toupper((unsigned char) *end));
        if (NULL == suffix || '\0' != end[1] || value >> 24) {
            return -1;
        }
        value <<= 10 * (suffix - suffixes + 1);
    }
    *bytes_p = (size_t) value;
    return 0;
}

int sim_pci_parse(const char *text, sim_pci_t *pci_p)
{
    sim_pci_t pci;
    int used = 0;

    if (4 != sscanf(text, "%x:%x:%x.%x%n", &pci.domain, &pci.bus, &pci.device, &pci.function, &used)
        || '\0' != text[used]) {
        used = 0;
        pci.domain = 0;
        if (3 != sscanf(text, "%x:%x.%x%n", &pci.bus, &pci.device, &pci.function, &used) || '\0' != text[used]) {
            return -1;
        }
    }
    if (pci.domain > 0xffff || pci.bus > 0xff || pci.device > 0x1f || pci.function > 7) {
        return -1;
    }
    *pci_p = pci;
    return 0;
}

void sim_pci_print(const sim_pci_t *pci, char *text_p)
{
    snprintf(text_p, 48, "%04x:%02x:%02x.%x", pci->domain & 0xffff, pci->bus & 0xff, pci->device & 0x1f,
             pci->function & 7);
}

void sim_uuid_print(const uint8_t *uuid, char *text_p)
{
    int i;

    text_p += sprintf(text_p, "GPU-");
    for (i = 0; i < SIM_UUID_BYTES; i++) {
        text_p += sprintf(text_p, (4 == i || 6 == i || 8 == i || 10 == i) ? "-%02x" : "%02x", uuid[i]);
    }
}

void sim_topology_cpus(const sim_topology_t *topology, int numa, long cpus, long *first_p, long *last_p)
{
    if (cpus < topology->nnumas) {
        cpus = topology->nnumas;
    }
    *first_p = numa * cpus / topology->nnumas;
    *last_p = (numa + 1) * cpus / topology->nnumas - 1;
}

/* A 64-bit mixing step (splitmix64's finaliser): turns counters and inodes into words that differ everywhere. */
static uint64_t mix(uint64_t value)
{
    value += 0x9e3779b97f4a7c15ull;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
    return value ^ (value >> 31);
}

/* The node's identity: its given name, else the namespaces that keep emulated nodes apart. */
static uint64_t node_hash(void)
{
    static const char *const spaces[] = {"/proc/self/ns/ipc", "/proc/self/ns/mnt"};
    const char *name = getenv("CUDASIM_NODE");
    uint64_t hash = 0;
    struct stat info;
    size_t i;

    if (NULL != name && '\0' != name[0]) {
        for (i = 0; '\0' != name[i]; i++) {
            hash = mix(hash ^ (uint8_t) name[i]);
        }
        return hash;
    }
    for (i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++) {
        if (0 == stat(spaces[i], &info)) {
            hash = mix(hash ^ (uint64_t) info.st_ino);
        }
    }
    return hash;
}

void sim_topology_clear(sim_topology_t *topology_p)
{
    int i, j;

    memset(topology_p, 0, sizeof(*topology_p));
    topology_p->nodes = 1;
    for (i = 0; i < SIM_MAX_NUMAS; i++) {
        topology_p->package[i] = i;
    }
    for (i = 0; i < SIM_MAX_GPUS; i++) {
        topology_p->gpus[i].on = -1;
        topology_p->gpus[i].memory = DEFAULT_MEMORY;
        topology_p->gpus[i].pci.bus = 0x10 + (uint32_t) i;
        for (j = 0; j < SIM_MAX_GPUS; j++) {
            topology_p->peers[i][j] = (i != j);
        }
    }
}

void sim_topology_finish(sim_topology_t *topology_p)
{
    uint64_t high, low;
    int i, j;

    topology_p->node = node_hash();
    if (0 == topology_p->nnumas) {
        topology_p->nnumas = 1;
    }
    for (i = 0; i < topology_p->ngpus; i++) {
        high = mix(topology_p->node ^ mix((uint64_t) i));
        low = mix(high);
        for (j = 0; j < 8; j++) {
            topology_p->gpus[i].uuid[j] = (uint8_t) (high >> (8 * j));
            topology_p->gpus[i].uuid[8 + j] = (uint8_t) (low >> (8 * j));
        }
        if (topology_p->gpus[i].numa >= topology_p->nnumas) {
            topology_p->nnumas = topology_p->gpus[i].numa + 1;
        }
    }
    for (i = 0; i < topology_p->nnics; i++) {
        if (topology_p->nics[i].numa >= topology_p->nnumas) {
            topology_p->nnumas = topology_p->nics[i].numa + 1;
        }
    }
}

int sim_topology_links(const sim_topology_t *topology, int a, int b)
{
    if (topology->nvlinks[a][b] > 0) {
        return topology->nvlinks[a][b];
    }
    return topology->nvswitch;
}

int sim_nic_is_rail(const sim_topology_t *topology, int nic)
{
    int fastest = 0, any = 0, i;

    for (i = 0; i < topology->nnics; i++) {
        any = any || SIM_NIC_ETHERNET != topology->nics[i].kind;
    }
    for (i = 0; i < topology->nnics; i++) {
        if (any == (SIM_NIC_ETHERNET != topology->nics[i].kind) && topology->nics[i].gbit > fastest) {
            fastest = topology->nics[i].gbit;
        }
    }
    return any == (SIM_NIC_ETHERNET != topology->nics[nic].kind) && 2 * topology->nics[nic].gbit >= fastest;
}
