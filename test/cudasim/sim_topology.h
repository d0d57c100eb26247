/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The emulated machine as its description file gives it.
 */
#ifndef SIM_TOPOLOGY_H
#define SIM_TOPOLOGY_H

#include <stddef.h>
#include <stdint.h>

#define SIM_MAX_GPUS 32
#define SIM_MAX_NICS 32
#define SIM_MAX_LINKS_PER_GPU 18
#define SIM_UUID_BYTES 16

typedef struct sim_pci {
    uint32_t domain;
    uint32_t bus;
    uint32_t device;
    uint32_t function;
} sim_pci_t;

typedef struct sim_gpu {
    sim_pci_t pci;
    int numa;
    size_t memory; /* bytes */
    uint8_t uuid[SIM_UUID_BYTES];
} sim_gpu_t;

typedef struct sim_nic {
    sim_pci_t pci;
    int numa;
    char interface[16];
} sim_nic_t;

/* Constant once built; each library of this folder holds its own copy. */
typedef struct sim_topology {
    int ngpus;
    int nnics;
    int nnumas;
    uint64_t node; /* hash of the node's name */
    sim_gpu_t gpus[SIM_MAX_GPUS];
    sim_nic_t nics[SIM_MAX_NICS];
    uint8_t nvlinks[SIM_MAX_GPUS][SIM_MAX_GPUS]; /* links between two GPUs */
    uint8_t peers[SIM_MAX_GPUS][SIM_MAX_GPUS];   /* 1: a may access b's memory */
} sim_topology_t;

/*
 * Builds the topology that the environment asks for (CUDASIM_TOPOLOGY, else
 * CUDASIM_GPUS, CUDASIM_MEMORY, CUDASIM_NODE). Returns 0, or -1 after one
 * message on stderr that names what is wrong and what is expected.
 */
int sim_topology_load(sim_topology_t *topology_p);

/* Reads one description file, as above; environment variables are not looked at. */
int sim_topology_read(const char *path, sim_topology_t *topology_p);

/*
 * The GPUs that CUDA_VISIBLE_DEVICES lets a process see, as physical indices in
 * the order in which the process counts them. Returns their number.
 */
int sim_topology_visible(const sim_topology_t *topology, int physical_p[SIM_MAX_GPUS]);

/* The processors (first to last) of a NUMA node when the machine has cpus of them, or one per node if it has fewer. */
void sim_topology_cpus(const sim_topology_t *topology, int numa, long cpus, long *first_p, long *last_p);

/* Writes "GPU-xxxxxxxx-..." and "dddd:bb:dd.f"; both buffers hold at least 48 bytes. */
void sim_uuid_print(const uint8_t *uuid, char *text_p);
void sim_pci_print(const sim_pci_t *pci, char *text_p);
int sim_pci_parse(const char *text, sim_pci_t *pci_p);

/* Reads a number of bytes with an optional suffix K, M, G or T. Returns 0, or -1. */
int sim_bytes_parse(const char *text, size_t *bytes_p);

#endif /* SIM_TOPOLOGY_H */
