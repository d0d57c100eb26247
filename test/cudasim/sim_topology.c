/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The emulated machine: which GPUs and NICs there are and how they are wired.
 *
 * Owns the description file's format (see README) and the defaults used without
 * one. Does not own what the CUDA or NVML calls say about it. Read once, by
 * cuInit and by nvmlInit, and by cudasim_topo. The file is a list of lines, each
 * a keyword and pairs of words; whatever is wrong ends in one message with the
 * file's name, the line and what is expected there.
 */
#include "sim_topology.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DEFAULT_MEMORY ((size_t) 16 << 30)
#define MAX_WORDS 16

/* Where the parser is, for its messages. */
struct reader {
    const char *path;
    int line;
    int nwords;
    char *words[MAX_WORDS];
};

static int complain(const struct reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static int complain(const struct reader *reader, const char *format, ...)
{
    va_list args;
    char text[256];

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "cudasim: %s:%d: %s\n", reader->path, reader->line, text);
    return -1;
}

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

    if (4 != sscanf(text, "%x:%x:%x.%x%n", &pci.domain, &pci.bus, &pci.device, &pci.function, &used) ||
        '\0' != text[used]) {
        used = 0;
        pci.domain = 0;
        if (3 != sscanf(text, "%x:%x.%x%n", &pci.bus, &pci.device, &pci.function, &used) ||
            '\0' != text[used]) {
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

static void topology_clear(sim_topology_t *topology_p)
{
    int i, j;

    memset(topology_p, 0, sizeof(*topology_p));
    for (i = 0; i < SIM_MAX_GPUS; i++) {
        topology_p->gpus[i].memory = DEFAULT_MEMORY;
        topology_p->gpus[i].pci.bus = 0x10 + (uint32_t) i;
        for (j = 0; j < SIM_MAX_GPUS; j++) {
            topology_p->peers[i][j] = (i != j);
        }
    }
}

/* What the description leaves open: identities, and the number of NUMA nodes. */
static void topology_finish(sim_topology_t *topology_p)
{
    uint64_t high, low;
    int i, j;

    topology_p->node = node_hash();
    topology_p->nnumas = 1;
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

static int parse_index(const struct reader *reader, const char *word, int limit, const char *what, int *value_p)
{
    char *end = NULL;
    long value = strtol(word, &end, 10);

    if (!isdigit((unsigned char) word[0]) || '\0' != *end || value >= limit) {
        return complain(reader, "'%s' is not %s (a number from 0 to %d is expected)", word, what, limit - 1);
    }
    *value_p = (int) value;
    return 0;
}

/* The pairs "pci ADDRESS", "numa NUMBER" and, for a GPU, "memory BYTES" from word first on. */
static int parse_place(const struct reader *reader, int first, sim_pci_t *pci_p, int *numa_p, size_t *memory_p)
{
    int i;

    for (i = first; i < reader->nwords; i += 2) {
        const char *value = (i + 1 < reader->nwords) ? reader->words[i + 1] : NULL;
        if (NULL == value) {
            return complain(reader, "'%s' is the last word; its value is expected after it", reader->words[i]);
        }
        if (0 == strcmp(reader->words[i], "pci")) {
            if (0 != sim_pci_parse(value, pci_p)) {
                return complain(reader, "'%s' is not a PCI address (dddd:bb:dd.f, hexadecimal, is expected)", value);
            }
        } else if (0 == strcmp(reader->words[i], "numa")) {
            if (0 != parse_index(reader, value, 64, "a NUMA node", numa_p)) {
                return -1;
            }
        } else if (0 == strcmp(reader->words[i], "memory") && NULL != memory_p) {
            if (0 != sim_bytes_parse(value, memory_p) || 0 == *memory_p) {
                return complain(reader, "'%s' is not a memory size (a number with K, M, G or T is expected)", value);
            }
        } else {
            return complain(reader, "unknown word '%s' (pci, numa%s is expected)", reader->words[i],
                            NULL != memory_p ? " or memory" : "");
        }
    }
    return 0;
}

static int parse_gpu(const struct reader *reader, sim_topology_t *topology_p)
{
    sim_gpu_t *gpu;
    int index = -1;

    if (reader->nwords < 2) {
        return complain(reader, "a GPU's number is expected: gpu NUMBER [pci ADDRESS] [numa NUMBER] [memory BYTES]");
    }
    if (0 != parse_index(reader, reader->words[1], SIM_MAX_GPUS, "a GPU's number", &index)) {
        return -1;
    }
    if (index != topology_p->ngpus) {
        return complain(reader, "gpu %d comes here, but gpu %d is expected: GPUs are listed once each, in order",
                        index, topology_p->ngpus);
    }
    gpu = &topology_p->gpus[index];
    if (0 != parse_place(reader, 2, &gpu->pci, &gpu->numa, &gpu->memory)) {
        return -1;
    }
    topology_p->ngpus = index + 1;
    return 0;
}

static int parse_nic(const struct reader *reader, sim_topology_t *topology_p)
{
    sim_nic_t *nic;

    if (reader->nwords < 2) {
        return complain(reader, "an interface is expected: nic INTERFACE [pci ADDRESS] [numa NUMBER]");
    }
    if (SIM_MAX_NICS == topology_p->nnics) {
        return complain(reader, "more than %d nic lines", SIM_MAX_NICS);
    }
    nic = &topology_p->nics[topology_p->nnics];
    if (strlen(reader->words[1]) >= sizeof(nic->interface)) {
        return complain(reader, "'%s' is not an interface name (at most %zu characters are expected)",
                        reader->words[1], sizeof(nic->interface) - 1);
    }
    strcpy(nic->interface, reader->words[1]);
    nic->pci.bus = 0x80 + (uint32_t) topology_p->nnics;
    if (0 != parse_place(reader, 2, &nic->pci, &nic->numa, NULL)) {
        return -1;
    }
    topology_p->nnics++;
    return 0;
}

static int parse_pair(const struct reader *reader, sim_topology_t *topology_p, int *a_p, int *b_p)
{
    if (reader->nwords < 3) {
        return complain(reader, "two GPUs are expected after '%s'", reader->words[0]);
    }
    if (0 == topology_p->ngpus) {
        return complain(reader, "'%s' comes before any gpu line", reader->words[0]);
    }
    if (0 != parse_index(reader, reader->words[1], topology_p->ngpus, "a GPU listed above", a_p) ||
        0 != parse_index(reader, reader->words[2], topology_p->ngpus, "a GPU listed above", b_p)) {
        return -1;
    }
    if (*a_p == *b_p) {
        return complain(reader, "gpu %d is paired with itself; two different GPUs are expected", *a_p);
    }
    return 0;
}

static int count_links(const sim_topology_t *topology, int gpu)
{
    int total = 0, i;

    for (i = 0; i < topology->ngpus; i++) {
        total += topology->nvlinks[gpu][i];
    }
    return total;
}

static int parse_nvlink(const struct reader *reader, sim_topology_t *topology_p)
{
    int a, b, count = 1;

    if (0 != parse_pair(reader, topology_p, &a, &b)) {
        return -1;
    }
    if (3 != reader->nwords) {
        if (5 != reader->nwords || 0 != strcmp(reader->words[3], "count")) {
            return complain(reader, "nvlink GPU GPU [count NUMBER] is expected");
        }
        if (0 != parse_index(reader, reader->words[4], SIM_MAX_LINKS_PER_GPU + 1, "a number of links", &count)) {
            return -1;
        }
    }
    topology_p->nvlinks[a][b] = topology_p->nvlinks[b][a] = (uint8_t) count;
    if (count_links(topology_p, a) > SIM_MAX_LINKS_PER_GPU || count_links(topology_p, b) > SIM_MAX_LINKS_PER_GPU) {
        return complain(reader, "a GPU has at most %d NVLink links", SIM_MAX_LINKS_PER_GPU);
    }
    return 0;
}

static int parse_line(struct reader *reader, char *text, sim_topology_t *topology_p)
{
    char *save = NULL, *word;
    int a, b;

    text[strcspn(text, "#\r\n")] = '\0';
    reader->nwords = 0;
    for (word = strtok_r(text, " \t", &save); NULL != word; word = strtok_r(NULL, " \t", &save)) {
        if (MAX_WORDS == reader->nwords) {
            return complain(reader, "more than %d words on a line", MAX_WORDS);
        }
        reader->words[reader->nwords++] = word;
    }
    if (0 == reader->nwords) {
        return 0;
    }
    word = reader->words[0];
    if (0 == strcmp(word, "gpu")) {
        return parse_gpu(reader, topology_p);
    }
    if (0 == strcmp(word, "nic")) {
        return parse_nic(reader, topology_p);
    }
    if (0 == strcmp(word, "nvlink")) {
        return parse_nvlink(reader, topology_p);
    }
    if (0 == strcmp(word, "nopeer")) {
        if (3 != reader->nwords) {
            return complain(reader, "nopeer GPU GPU is expected");
        }
        if (0 != parse_pair(reader, topology_p, &a, &b)) {
            return -1;
        }
        topology_p->peers[a][b] = topology_p->peers[b][a] = 0;
        return 0;
    }
    return complain(reader, "unknown keyword '%s' (gpu, nvlink, nopeer or nic is expected)", word);
}

int sim_topology_read(const char *path, sim_topology_t *topology_p)
{
    struct reader reader = {.path = path};
    char text[1024];
    FILE *file = fopen(path, "re");
    int rc = 0;

    if (NULL == file) {
        fprintf(stderr, "cudasim: cannot read the topology file %s: %s (see CUDASIM_TOPOLOGY)\n", path,
                strerror(errno));
        return -1;
    }
    topology_clear(topology_p);
    while (0 == rc && NULL != fgets(text, sizeof(text), file)) {
        reader.line++;
        if (NULL == strchr(text, '\n') && !feof(file)) {
            rc = complain(&reader, "a line of at most %zu characters is expected", sizeof(text) - 2);
        } else {
            rc = parse_line(&reader, text, topology_p);
        }
    }
    if (0 == rc && ferror(file)) {
        rc = complain(&reader, "cannot be read: %s", strerror(errno));
    }
    if (0 == rc && 0 == topology_p->ngpus) {
        rc = complain(&reader, "the file ends without a gpu line; at least 'gpu 0' is expected");
    }
    fclose(file);
    if (0 == rc) {
        topology_finish(topology_p);
    }
    return rc;
}

/* Without a description: CUDASIM_GPUS equal GPUs, each wired to each. */
static int topology_default(sim_topology_t *topology_p)
{
    const char *text = getenv("CUDASIM_GPUS");
    char *end = NULL;
    long ngpus = 1;
    int i, j, links;

    if (NULL != text && '\0' != text[0]) {
        ngpus = strtol(text, &end, 10);
        if ('\0' != *end || ngpus < 1 || ngpus > SIM_MAX_GPUS) {
            fprintf(stderr, "cudasim: CUDASIM_GPUS is '%s'; a number from 1 to %d is expected\n", text, SIM_MAX_GPUS);
            return -1;
        }
    }
    topology_clear(topology_p);
    topology_p->ngpus = (int) ngpus;
    links = (ngpus > 1) ? SIM_MAX_LINKS_PER_GPU / (int) (ngpus - 1) : 0;
    links = (links > 4) ? 4 : links;
    for (i = 0; i < ngpus; i++) {
        for (j = 0; j < ngpus; j++) {
            topology_p->nvlinks[i][j] = (i != j) ? (uint8_t) links : 0;
        }
    }
    topology_finish(topology_p);
    return 0;
}

int sim_topology_load(sim_topology_t *topology_p)
{
    const char *path = getenv("CUDASIM_TOPOLOGY");
    const char *memory = getenv("CUDASIM_MEMORY");
    size_t bytes;
    int rc, i;

    rc = (NULL != path && '\0' != path[0]) ? sim_topology_read(path, topology_p) : topology_default(topology_p);
    if (0 == rc && NULL != memory && '\0' != memory[0]) {
        if (0 != sim_bytes_parse(memory, &bytes) || 0 == bytes) {
            fprintf(stderr, "cudasim: CUDASIM_MEMORY is '%s'; a number of bytes with K, M, G or T is expected\n",
                    memory);
            return -1;
        }
        for (i = 0; i < topology_p->ngpus; i++) {
            topology_p->gpus[i].memory = bytes;
        }
    }
    return rc;
}

static int visible_match(const sim_topology_t *topology, const char *word)
{
    char *end = NULL;
    char uuid[48];
    long index;
    int i, found = -1;

    if (isdigit((unsigned char) word[0])) {
        index = strtol(word, &end, 10);
        return ('\0' == *end && index < topology->ngpus) ? (int) index : -1;
    }
    if (0 != strncmp(word, "GPU-", 4)) {
        return -1;
    }
    for (i = 0; i < topology->ngpus; i++) {
        sim_uuid_print(topology->gpus[i].uuid, uuid);
        if (0 == strncmp(uuid, word, strlen(word))) {
            if (found >= 0) {
                return -1; /* a prefix must say which GPU it means */
            }
            found = i;
        }
    }
    return found;
}

int sim_topology_visible(const sim_topology_t *topology, int physical_p[SIM_MAX_GPUS])
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    char text[4096];
    char *save = NULL, *word;
    int count = 0, i, physical;

    if (NULL == list) {
        for (i = 0; i < topology->ngpus; i++) {
            physical_p[i] = i;
        }
        return topology->ngpus;
    }
    snprintf(text, sizeof(text), "%s", list);
    for (word = strtok_r(text, ", ", &save); NULL != word; word = strtok_r(NULL, ", ", &save)) {
        physical = visible_match(topology, word);
        if (physical < 0) {
            break; /* as the driver: GPUs from the first wrong word on are invisible */
        }
        for (i = 0; i < count; i++) {
            if (physical_p[i] == physical) {
                return 0; /* as the driver: a GPU named twice hides them all */
            }
        }
        physical_p[count++] = physical;
    }
    return count;
}
