/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the environment says of the emulated machine: which description, or how many equal GPUs without one
 * (CUDASIM_TOPOLOGY, CUDASIM_GPUS, CUDASIM_MEMORY), and which GPUs a process sees (CUDA_VISIBLE_DEVICES).
 */
#include "sim_topology.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    sim_topology_clear(topology_p);
    topology_p->ngpus = (int) ngpus;
    links = (ngpus > 1) ? SIM_MAX_LINKS_PER_GPU / (int) (ngpus - 1) : 0;
    links = (links > 4) ? 4 : links;
    for (i = 0; i < ngpus; i++) {
        for (j = 0; j < ngpus; j++) {
            topology_p->nvlinks[i][j] = (i != j) ? (uint8_t) links : 0;
        }
    }
    sim_topology_finish(topology_p);
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
