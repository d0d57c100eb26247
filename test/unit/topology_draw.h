/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A machine drawn for hwloc: what is where on its PCI buses. Used by the tests of the topology.
 */
#ifndef GPUHIER_TEST_TOPOLOGY_DRAW_H
#define GPUHIER_TEST_TOPOLOGY_DRAW_H

#include "ompi_config.h"

#include "topology/coll_gpuhier_topology_internal.h"

/*
 * packages, in each some host bridges, below each some PCI switches, below each
 * GPUs and RDMA devices (mlx5_0, mlx5_1, ... in this order); and after these in
 * each package RDMA devices below a host bridge of their own. Buses are numbered
 * through; the GPUs' PCI addresses are kept.
 */
typedef struct {
    int packages;
    int host_bridges; /* per package */
    int switches;     /* per host bridge */
    int gpus;         /* per switch */
    int nics;         /* per switch */
    int lone_nics;    /* per package */
    int ngpus;
    int nnics;
    gpuhier_pci_id_t gpu[64];
} machine_t;

/* Draws it; the caller destroys the topology. The machine's ngpus, nnics and gpu are set. */
hwloc_topology_t topology_draw(machine_t *machine);

/* Devices mlx5_0:1, mlx5_1:1 ... as the search for network devices gives them. */
void topology_name_nics(gpuhier_found_nic_t *nics, int count);

#endif /* GPUHIER_TEST_TOPOLOGY_DRAW_H */
