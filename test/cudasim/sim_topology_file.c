/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The description file of an emulated machine. Owns its format (see README) and its messages. The file is a list of
 * lines, each a keyword and pairs of words; whatever is wrong ends in one message with the file's name, the line and
 * what is expected there. Read once, by cuInit and by nvmlInit, and by cudasim_topo and gpuhier_info.
 */
#include "sim_topology.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WORDS 24

/* Where the parser is, for its messages. */
struct reader {
    const char *path;
    int line;
    int nwords;
    char *words[MAX_WORDS];
};

static int complain(const struct reader *reader, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int complain(const struct reader *reader, const char *format, ...)
{
    va_list args;
    char text[256];

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "%s: %s:%d: %s\n", sim_topology_speaker, reader->path, reader->line, text);
    return -1;
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

/* What the pairs of words of a gpu, nic or switch line say; a NULL is not for that line. */
struct place {
    sim_pci_t *pci;
    int *numa, *root, *on, *gbit;
    size_t *memory;
    char *slice; /* 16 characters */
    sim_nic_kind_t *kind;
    bool has_numa;
};

static int parse_text(const struct reader *reader, const char *word, size_t room, const char *what, char *text_p)
{
    if (strlen(word) >= room
        || strlen(word) != strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:+-")) {
        return complain(reader, "'%s' is not %s (at most %zu letters, digits and _ . : + - are expected)", word, what,
                        room - 1);
    }
    strcpy(text_p, word);
    return 0;
}

static int parse_switch_name(const struct reader *reader, const sim_topology_t *topology, const char *name, int *on_p)
{
    int i;

    for (i = 0; i < topology->nswitches; i++) {
        if (0 == strcmp(name, topology->switches[i].name)) {
            *on_p = i;
            return 0;
        }
    }
    return complain(reader, "'%s' is not a switch listed above", name);
}

static int parse_kind(const struct reader *reader, const char *word, sim_nic_kind_t *kind_p)
{
    int i;

    for (i = 0; i < SIM_NIC_KINDS; i++) {
        if (0 == strcmp(word, sim_nic_kinds[i])) {
            *kind_p = (sim_nic_kind_t) i;
            return 0;
        }
    }
    return complain(reader, "'%s' is not a kind of NIC (ethernet, rdma or efa is expected)", word);
}

/* One pair of words. Returns 0, -1 after a message, or 1: this line has no such pair. */
static int parse_one(const struct reader *reader, const sim_topology_t *topology, const char *name, const char *value,
                     struct place *place)
{
    if (0 == strcmp(name, "pci") && NULL != place->pci) {
        return (0 == sim_pci_parse(value, place->pci))
                   ? 0
                   : complain(reader, "'%s' is not a PCI address (dddd:bb:dd.f, hexadecimal, is expected)", value);
    }
    if (0 == strcmp(name, "numa")) {
        place->has_numa = true;
        return parse_index(reader, value, SIM_MAX_NUMAS, "a NUMA node", place->numa);
    }
    if (0 == strcmp(name, "root")) {
        return parse_index(reader, value, 32, "a host bridge", place->root);
    }
    if (0 == strcmp(name, "on")) {
        return parse_switch_name(reader, topology, value, place->on);
    }
    if (0 == strcmp(name, "memory") && NULL != place->memory) {
        return (0 == sim_bytes_parse(value, place->memory) && 0 != *place->memory)
                   ? 0
                   : complain(reader, "'%s' is not a memory size (a number with K, M, G or T is expected)", value);
    }
    if (0 == strcmp(name, "slice") && NULL != place->slice) {
        return parse_text(reader, value, 16, "a MIG profile", place->slice);
    }
    if (0 == strcmp(name, "kind") && NULL != place->kind) {
        return parse_kind(reader, value, place->kind);
    }
    if (0 == strcmp(name, "gbit") && NULL != place->gbit) {
        return parse_index(reader, value, 10000, "a rate in Gbit/s", place->gbit);
    }
    return 1;
}

/* The pairs from word first on. A device on a switch is where the switch is, and may not say otherwise. */
static int parse_place(const struct reader *reader, int first, const sim_topology_t *topology, struct place *place)
{
    int i, rc;

    for (i = first; i < reader->nwords; i += 2) {
        if (i + 1 >= reader->nwords) {
            return complain(reader, "'%s' is the last word; its value is expected after it", reader->words[i]);
        }
        rc = parse_one(reader, topology, reader->words[i], reader->words[i + 1], place);
        if (rc > 0) {
            return complain(reader, "unknown word '%s' (%snuma, root, on%s is expected)", reader->words[i],
                            NULL != place->pci ? "pci, " : "",
                            NULL != place->memory ? ", slice or memory"
                                                  : (NULL != place->kind ? ", kind or gbit" : ""));
        }
        if (0 != rc) {
            return rc;
        }
    }
    if (*place->on >= 0) {
        const sim_switch_t *on = &topology->switches[*place->on];
        if (place->has_numa && *place->numa != on->numa) {
            return complain(reader, "NUMA node %d contradicts its switch %s, which is on NUMA node %d", *place->numa,
                            on->name, on->numa);
        }
        *place->numa = on->numa;
        *place->root = on->root;
    }
    return 0;
}

/* Two devices at one PCI address contradict each other; slices of one GPU share it. */
static int check_address(const struct reader *reader, const sim_topology_t *topology, const sim_pci_t *pci,
                         const char *slice)
{
    char text[48];
    int i;

    for (i = 0; i < topology->ngpus; i++) {
        if (0 == memcmp(&topology->gpus[i].pci, pci, sizeof(*pci))
            && ('\0' == slice[0] || '\0' == topology->gpus[i].slice[0])) {
            sim_pci_print(pci, text);
            return complain(reader, "PCI address %s contradicts a line above: gpu %d has it", text, i);
        }
    }
    for (i = 0; i < topology->nnics; i++) {
        if (0 == memcmp(&topology->nics[i].pci, pci, sizeof(*pci))) {
            sim_pci_print(pci, text);
            return complain(reader, "PCI address %s contradicts a line above: nic %s has it", text,
                            topology->nics[i].interface);
        }
    }
    return 0;
}

static int parse_gpu(const struct reader *reader, sim_topology_t *topology_p)
{
    struct place place = {0};
    sim_gpu_t *gpu;
    int index = -1;

    if (reader->nwords < 2) {
        return complain(reader, "a GPU's number is expected: gpu NUMBER [pci ADDRESS] [numa NUMBER] [memory BYTES]");
    }
    if (0 != parse_index(reader, reader->words[1], SIM_MAX_GPUS, "a GPU's number", &index)) {
        return -1;
    }
    if (index != topology_p->ngpus) {
        return complain(reader, "gpu %d comes here, but gpu %d is expected: GPUs are listed once each, in order", index,
                        topology_p->ngpus);
    }
    gpu = &topology_p->gpus[index];
    place = (struct place){.pci = &gpu->pci,
                           .numa = &gpu->numa,
                           .root = &gpu->root,
                           .on = &gpu->on,
                           .memory = &gpu->memory,
                           .slice = gpu->slice};
    if (0 != parse_place(reader, 2, topology_p, &place)
        || 0 != check_address(reader, topology_p, &gpu->pci, gpu->slice)) {
        return -1;
    }
    topology_p->ngpus = index + 1;
    return 0;
}

static int parse_nic(const struct reader *reader, sim_topology_t *topology_p)
{
    struct place place = {0};
    sim_nic_t *nic;
    int i;

    if (reader->nwords < 2) {
        return complain(reader, "an interface is expected: nic INTERFACE [pci ADDRESS] [numa NUMBER]");
    }
    if (SIM_MAX_NICS == topology_p->nnics) {
        return complain(reader, "more than %d nic lines", SIM_MAX_NICS);
    }
    nic = &topology_p->nics[topology_p->nnics];
    if (0 != parse_text(reader, reader->words[1], sizeof(nic->interface), "an interface name", nic->interface)) {
        return -1;
    }
    for (i = 0; i < topology_p->nnics; i++) {
        if (0 == strcmp(nic->interface, topology_p->nics[i].interface)) {
            return complain(reader, "nic %s is listed twice", nic->interface);
        }
    }
    nic->pci.bus = 0x80 + (uint32_t) topology_p->nnics;
    nic->on = -1;
    place = (struct place){.pci = &nic->pci,
                           .numa = &nic->numa,
                           .root = &nic->root,
                           .on = &nic->on,
                           .kind = &nic->kind,
                           .gbit = &nic->gbit};
    if (0 != parse_place(reader, 2, topology_p, &place) || 0 != check_address(reader, topology_p, &nic->pci, "")) {
        return -1;
    }
    topology_p->nnics++;
    return 0;
}

static int parse_switch(const struct reader *reader, sim_topology_t *topology_p)
{
    sim_switch_t *own = &topology_p->switches[topology_p->nswitches];
    struct place place = {0};

    if (reader->nwords < 2) {
        return complain(reader, "a name is expected: switch NAME [numa NUMBER] [root NUMBER] [on SWITCH]");
    }
    if (SIM_MAX_SWITCHES == topology_p->nswitches) {
        return complain(reader, "more than %d switch lines", SIM_MAX_SWITCHES);
    }
    own->below = -1;
    place = (struct place){.numa = &own->numa, .root = &own->root, .on = &own->below};
    if (0 != parse_text(reader, reader->words[1], sizeof(own->name), "a switch's name", own->name)
        || 0 != parse_place(reader, 2, topology_p, &place)) {
        return -1;
    }
    topology_p->nswitches++;
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
    if (0 != parse_index(reader, reader->words[1], topology_p->ngpus, "a GPU listed above", a_p)
        || 0 != parse_index(reader, reader->words[2], topology_p->ngpus, "a GPU listed above", b_p)) {
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
    if (0 != topology_p->nvlinks[a][b] && count != topology_p->nvlinks[a][b]) {
        return complain(reader, "%d links between gpu %d and gpu %d contradict the %d above", count, a, b,
                        topology_p->nvlinks[a][b]);
    }
    topology_p->nvlinks[a][b] = topology_p->nvlinks[b][a] = (uint8_t) count;
    if (count_links(topology_p, a) > SIM_MAX_LINKS_PER_GPU || count_links(topology_p, b) > SIM_MAX_LINKS_PER_GPU) {
        return complain(reader, "a GPU has at most %d NVLink links", SIM_MAX_LINKS_PER_GPU);
    }
    return 0;
}

/* nopeer A B, or nopeer all: no GPU listed so far reaches another. */
static int parse_nopeer(const struct reader *reader, sim_topology_t *topology_p)
{
    int a, b;

    if (2 == reader->nwords && 0 == strcmp(reader->words[1], "all")) {
        memset(topology_p->peers, 0, sizeof(topology_p->peers));
        return 0;
    }
    if (3 != reader->nwords) {
        return complain(reader, "nopeer GPU GPU is expected, or nopeer all");
    }
    if (0 != parse_pair(reader, topology_p, &a, &b)) {
        return -1;
    }
    topology_p->peers[a][b] = topology_p->peers[b][a] = 0;
    return 0;
}

/* slow A B MBYTES: a damaged link. */
static int parse_slow(const struct reader *reader, sim_topology_t *topology_p)
{
    int a, b, rate = 0;

    if (4 != reader->nwords) {
        return complain(reader, "slow GPU GPU MBYTES-PER-SECOND is expected");
    }
    if (0 != parse_pair(reader, topology_p, &a, &b)
        || 0 != parse_index(reader, reader->words[3], 1000000, "a rate in MB/s", &rate)) {
        return -1;
    }
    if (0 == rate) {
        return complain(reader, "a rate above 0 MB/s is expected");
    }
    topology_p->slow[a][b] = topology_p->slow[b][a] = rate;
    return 0;
}

/* nvswitch LINKS [fabric] [multicast]: every GPU has LINKS links to NVSwitches, of this node or of all nodes. */
static int parse_nvswitch(const struct reader *reader, sim_topology_t *topology_p)
{
    int word = 2;

    topology_p->is_fabric = word < reader->nwords && 0 == strcmp(reader->words[word], "fabric");
    word += topology_p->is_fabric;
    topology_p->multicast = word < reader->nwords && 0 == strcmp(reader->words[word], "multicast");
    word += topology_p->multicast;
    if (reader->nwords < 2 || word < reader->nwords) {
        return complain(reader, "nvswitch LINKS [fabric] [multicast] is expected");
    }
    if (0
        != parse_index(reader, reader->words[1], SIM_MAX_LINKS_PER_GPU + 1, "a number of links",
                       &topology_p->nvswitch)) {
        return -1;
    }
    if (topology_p->multicast && 0 == topology_p->nvswitch) {
        return complain(reader, "0 links contradict multicast");
    }
    return 0;
}

/* numa NODE package PACKAGE */
static int parse_numa(const struct reader *reader, sim_topology_t *topology_p)
{
    int numa = 0, package = 0;

    if (4 != reader->nwords || 0 != strcmp(reader->words[2], "package")) {
        return complain(reader, "numa NODE package PACKAGE is expected");
    }
    if (0 != parse_index(reader, reader->words[1], SIM_MAX_NUMAS, "a NUMA node", &numa)
        || 0 != parse_index(reader, reader->words[3], SIM_MAX_NUMAS, "a package", &package)) {
        return -1;
    }
    topology_p->package[numa] = package;
    if (numa >= topology_p->nnumas) {
        topology_p->nnumas = numa + 1;
    }
    return 0;
}

static int parse_number(const struct reader *reader, int limit, const char *what, int *value_p)
{
    if (2 != reader->nwords) {
        return complain(reader, "%s NUMBER is expected", reader->words[0]);
    }
    if (0 != parse_index(reader, reader->words[1], limit, what, value_p)) {
        return -1;
    }
    return (0 == *value_p) ? complain(reader, "%s 0 is not %s", reader->words[0], what) : 0;
}

/* The words of the line again, as one text. */
static int parse_title(const struct reader *reader, sim_topology_t *topology_p)
{
    size_t used = 0;
    int i;

    for (i = 1; i < reader->nwords; i++) {
        used += (size_t) snprintf(topology_p->title + used, sizeof(topology_p->title) - used, "%s%s", i > 1 ? " " : "",
                                  reader->words[i]);
        if (used >= sizeof(topology_p->title)) {
            return complain(reader, "a name of at most %zu characters is expected", sizeof(topology_p->title) - 1);
        }
    }
    return 0;
}

static int parse_line(struct reader *reader, char *text, sim_topology_t *topology_p)
{
    char *save = NULL, *word;
    int i;

    text[strcspn(text, "#\r\n")] = '\0';
    for (i = 0; '\0' != text[i]; i++) {
        if ('\t' != text[i] && (text[i] < ' ' || text[i] > '~')) {
            return complain(reader, "character %d of the line is not one of ASCII that can be printed", i + 1);
        }
    }
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
    if (0 == strcmp(word, "nvswitch")) {
        return parse_nvswitch(reader, topology_p);
    }
    if (0 == strcmp(word, "nopeer")) {
        return parse_nopeer(reader, topology_p);
    }
    if (0 == strcmp(word, "slow")) {
        return parse_slow(reader, topology_p);
    }
    if (0 == strcmp(word, "switch")) {
        return parse_switch(reader, topology_p);
    }
    if (0 == strcmp(word, "numa")) {
        return parse_numa(reader, topology_p);
    }
    if (0 == strcmp(word, "machine")) {
        return parse_title(reader, topology_p);
    }
    if (0 == strcmp(word, "nodes")) {
        return parse_number(reader, 1025, "a number of nodes", &topology_p->nodes);
    }
    if (0 == strcmp(word, "nvlink-generation")) {
        return parse_number(reader, 6, "a generation of NVLink", &topology_p->nvlink_generation);
    }
    if (0 == strcmp(word, "pcie-generation")) {
        return parse_number(reader, 7, "a generation of PCI Express", &topology_p->pcie_generation);
    }
    return complain(reader,
                    "unknown keyword '%s' (gpu, nvlink, nopeer or nic is expected, or machine, nodes, numa, "
                    "switch, nvswitch, nvlink-generation, pcie-generation, slow)",
                    word);
}

int sim_topology_read(const char *path, sim_topology_t *topology_p)
{
    struct reader reader = {.path = path};
    char text[1024];
    FILE *file = fopen(path, "re");
    int rc = 0;

    if (NULL == file) {
        fprintf(stderr, "%s: cannot read the topology file %s: %s\n", sim_topology_speaker, path, strerror(errno));
        return -1;
    }
    sim_topology_clear(topology_p);
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
    if (0 == rc && topology_p->multicast && 0 != topology_p->nvlink_generation && topology_p->nvlink_generation < 4) {
        rc = complain(&reader, "nvlink-generation %d contradicts multicast, which NVSwitches have from 4 on",
                      topology_p->nvlink_generation);
    }
    fclose(file);
    if (0 == rc) {
        sim_topology_finish(topology_p);
    }
    return rc;
}
