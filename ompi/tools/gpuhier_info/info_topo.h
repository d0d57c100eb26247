/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What topo shares with the other verbs that look at a machine.
 */
#ifndef INFO_TOPO_H
#define INFO_TOPO_H

#include "info_machine.h"
#include "net/coll_gpuhier_net_gpu.h"

/* What UCX answers to the question that the component would ask. */
typedef struct info_ucx {
    char version[32];
    bool asked; /* whether it takes GPU memory; over tcp rails it is not asked */
    bool takes_gpu_memory;
    gpuhier_net_gpu_t gpu; /* why so */
    char no_rdma[256];     /* why it cannot use the RDMA ports, so that a job goes on over TCP; empty: it can */
    char failure[256];     /* empty: it opens the rails, or else those over TCP */
} info_ucx_t;

void info_ask_ucx(const info_machine_t *machine, const info_options_t *options, info_ucx_t *ucx_p);

/* "NV4", or the name of the PCI way. */
const char *info_way_text(const info_machine_t *machine, int gpu, int other, char text[8]);

/* How data goes between groups. ucx: NULL for a described machine. */
#define INFO_PATH_ROOM 256
void info_path_text(const info_machine_t *machine, const info_ucx_t *ucx, char *text, size_t room);

/* How data goes between groups of one node, of which there are several. gpus: of the ranks in `h`. */
const char *info_node_path_text(const info_machine_t *machine, const gpuhier_hierarchy_t *h, const int *gpus);

/* Draws the machine into a file. Returns an exit status, after a message if it fails. */
int info_svg(const info_machine_t *machine, const info_ucx_t *ucx, const char *path);

#endif /* INFO_TOPO_H */
