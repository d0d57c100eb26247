/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fabric handles.
 *
 * Owns what such a handle holds, and who may use one. Does not own the memory (drv_vmm.c).
 *
 * A machine whose description says "nvswitch LINKS fabric" is one NVLink domain over all its nodes. The nodes of
 * test/vcluster are namespaces of this machine, so a handle names its process and a file of it, which any other process
 * opens through a /proc that shows the processes of all nodes (CUDASIM_PROC). That it lies on another node decides
 * nothing; the domain and the clique in the handle do. As on hardware a process needs an IMEX channel; CUDASIM_IMEX=0
 * takes it away. CUDASIM_CLIQUE is the clique of a process's node, which is 1 for all nodes otherwise.
 */
#include "sim_fabric.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim_context.h"

#define HANDLE_MAGIC 0x66616231u

struct handle {
    uint32_t magic;
    int32_t pid;
    int32_t fd;
    uint32_t clique;
    uint64_t cluster;
    uint64_t id;
};

_Static_assert(sizeof(struct handle) <= sizeof(CUmemFabricHandle), "fits");

sim_fabric_place_t sim_fabric_place;
static bool has_channel;
static const char *processes;

/* The same on all nodes of a description: FNV-1a of its title. */
static uint64_t cluster_of(const char *title)
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (; '\0' != *title; title++) {
        hash = (hash ^ (unsigned char) *title) * 0x100000001b3u;
    }
    return 0 == hash ? 1 : hash;
}

int sim_fabric_setup(void)
{
    const char *proc = getenv("CUDASIM_PROC"), *imex = getenv("CUDASIM_IMEX"), *clique = getenv("CUDASIM_CLIQUE");
    char *end = NULL;
    unsigned long number = 1;

    if (NULL != clique && '\0' != clique[0]) {
        number = strtoul(clique, &end, 10);
        if ('\0' != *end || number > UINT32_MAX) {
            fprintf(stderr, "cudasim: CUDASIM_CLIQUE is '%s'; a number is expected\n", clique);
            return -1;
        }
    }
    processes = NULL != proc && '\0' != proc[0] ? proc : "/proc";
    has_channel = NULL == imex || 0 != strcmp(imex, "0");
    if (sim_driver.topology.is_fabric) {
        sim_fabric_place.cluster = cluster_of(sim_driver.topology.title);
        sim_fabric_place.clique = (uint32_t) number;
    }
    return 0;
}

/* This process's number there. */
static int32_t own_number(void)
{
    char path[256], text[32] = "";

    snprintf(path, sizeof(path), "%s/self", processes);
    return readlink(path, text, sizeof(text) - 1) > 0 ? (int32_t) atoi(text) : (int32_t) getpid();
}

CUresult sim_fabric_check(void)
{
    if (0 == sim_fabric_place.cluster) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return has_channel ? CUDA_SUCCESS : CUDA_ERROR_NOT_PERMITTED;
}

void sim_fabric_export(int fd, uint64_t id, CUmemFabricHandle *handle_p)
{
    const struct handle handle = {.magic = HANDLE_MAGIC,
                                  .pid = own_number(),
                                  .fd = fd,
                                  .clique = sim_fabric_place.clique,
                                  .cluster = sim_fabric_place.cluster,
                                  .id = id};

    memset(handle_p, 0, sizeof(*handle_p));
    memcpy(handle_p, &handle, sizeof(handle));
}

CUresult sim_fabric_open(const CUmemFabricHandle *opaque, int *fd_p, uint64_t *id_p)
{
    const CUresult rc = sim_fabric_check();
    struct handle handle;
    char path[256];

    memcpy(&handle, opaque, sizeof(handle));
    if (CUDA_SUCCESS != rc) {
        return rc;
    }
    if (HANDLE_MAGIC != handle.magic || handle.cluster != sim_fabric_place.cluster
        || handle.clique != sim_fabric_place.clique) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    snprintf(path, sizeof(path), "%s/%d/fd/%d", processes, handle.pid, handle.fd);
    *fd_p = open(path, O_RDWR | O_CLOEXEC);
    *id_p = handle.id;
    return *fd_p >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
