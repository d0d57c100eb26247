/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What UCX says of a machine, and how data goes between groups.
 */
#ifndef INFO_UCX_H
#define INFO_UCX_H

#include "info_machine.h"
#include "net/coll_gpuhier_net.h"

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

/* How data goes between groups. ucx: NULL for a described machine. */
#define INFO_PATH_ROOM 256
void info_path_text(const info_machine_t *machine, const info_ucx_t *ucx, char *text, size_t room);

#endif /* INFO_UCX_H */
