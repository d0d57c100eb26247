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
#include <stdio.h>

#define SIM_MAX_GPUS 32
#define SIM_MAX_NICS 40
#define SIM_MAX_SWITCHES 32
#define SIM_MAX_NUMAS 64
#define SIM_MAX_LINKS_PER_GPU 18
#define SIM_UUID_BYTES 16

typedef struct sim_pci {
    uint32_t domain;
    uint32_t bus;
    uint32_t device;
    uint32_t function;
} sim_pci_t;

/* A PCI switch: one upstream port, and a port below it for each device. */
typedef struct sim_switch {
    char name[16];
    int numa;
    int root;  /* host bridge of the NUMA node */
    int below; /* the switch that it hangs on, -1: the host bridge */
} sim_switch_t;

typedef struct sim_gpu {
    sim_pci_t pci;
    int numa;
    int root;       /* host bridge of the NUMA node */
    int on;         /* PCI switch, -1: the host bridge */
    size_t memory;  /* bytes */
    char slice[16]; /* MIG profile; empty: a whole GPU */
    uint8_t uuid[SIM_UUID_BYTES];
} sim_gpu_t;

/* What programs can do with a NIC: an RDMA port of libibverbs; an EFA port; an Ethernet interface. */
typedef enum sim_nic_kind { SIM_NIC_ETHERNET, SIM_NIC_RDMA, SIM_NIC_EFA, SIM_NIC_KINDS } sim_nic_kind_t;

typedef struct sim_nic {
    sim_pci_t pci;
    int numa;
    int root;
    int on;
    int gbit; /* 0: not said */
    sim_nic_kind_t kind;
    char interface[16];
} sim_nic_t;

/* Constant once built; each library of this folder holds its own copy. */
typedef struct sim_topology {
    int ngpus;
    int nnics;
    int nnumas;
    int nswitches;
    int nodes;             /* nodes of this kind that the description means, 1 or more */
    int nvlink_generation; /* 0: not said */
    int pcie_generation;
    int nvswitch;               /* links of each GPU to NVSwitches, 0: none */
    int is_fabric;              /* 1: the NVSwitches reach the GPUs of all nodes */
    int multicast;              /* 1: and they reduce and multicast (the third generation and later) */
    char title[96];             /* for people; may be empty */
    int package[SIM_MAX_NUMAS]; /* of each NUMA node */
    sim_switch_t switches[SIM_MAX_SWITCHES];
    uint64_t node; /* hash of the node's name */
    sim_gpu_t gpus[SIM_MAX_GPUS];
    sim_nic_t nics[SIM_MAX_NICS];
    uint8_t nvlinks[SIM_MAX_GPUS][SIM_MAX_GPUS]; /* links between two GPUs */
    uint8_t peers[SIM_MAX_GPUS][SIM_MAX_GPUS];   /* 1: a may access b's memory */
    int slow[SIM_MAX_GPUS][SIM_MAX_GPUS];        /* a link is held to so many MB/s, 0: as fast as it gets */
} sim_topology_t;

/* Who speaks in messages: "cudasim", unless a program that reads descriptions for itself sets it. */
extern const char *sim_topology_speaker;

extern const char *const sim_nic_kinds[SIM_NIC_KINDS];

/*
 * For what fills a topology in. clear: the defaults, without a device. finish: what the description leaves open, which
 * is identities and the number of NUMA nodes.
 */
void sim_topology_clear(sim_topology_t *topology_p);
void sim_topology_finish(sim_topology_t *topology_p);

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

/* NVLink links between two GPUs: direct ones, else those that both have to NVSwitches. */
int sim_topology_links(const sim_topology_t *topology, int a, int b);

/*
 * Writes the machine as hwloc's XML (version 2); for_rails: NICs that would carry a job's data are called rail0, rail1
 * and so on, and the others are left out.
 */
void sim_topology_xml(FILE *out, const sim_topology_t *topology, int for_rails);

/* Is this NIC one of those that carry a job's data: RDMA or EFA ports where there are any, else all? */
int sim_nic_is_rail(const sim_topology_t *topology, int nic);

/* Writes "GPU-xxxxxxxx-..." and "dddd:bb:dd.f"; both buffers hold at least 48 bytes. */
void sim_uuid_print(const uint8_t *uuid, char *text_p);
void sim_pci_print(const sim_pci_t *pci, char *text_p);
int sim_pci_parse(const char *text, sim_pci_t *pci_p);

/* Reads a number of bytes with an optional suffix K, M, G or T. Returns 0, or -1. */
int sim_bytes_parse(const char *text, size_t *bytes_p);

#endif /* SIM_TOPOLOGY_H */
