/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The component's counters and switches, read the way any tool would: through MPI_T.
 *
 * Owns: an MPI_T session (opened at the first use, closed by pvars_close).
 * Called by: the functional tests and the benchmark.
 */
#ifndef GPUHIER_TEST_PVARS_H
#define GPUHIER_TEST_PVARS_H

#include <stdbool.h>
#include <stdint.h>

#define PVARS_MAX_RAILS 16

/* A snapshot of this process's counters; all of them only grow. */
typedef struct pvars {
    bool present; /* the component is loaded and exports them */
    uint64_t accelerated;
    uint64_t small;          /* of those, reduced by the host */
    uint64_t mapped;         /* of those, where the host read and wrote GPU memory itself */
    uint64_t oneshot;        /* of accelerated, by kernels that wait for each other */
    uint64_t in_long_slices; /* of those */
    uint64_t nonblocking;    /* of those */
    uint64_t on_host;        /* nonblocking, voted down and ended in host memory */
    uint64_t saved;
    uint64_t staged;
    uint64_t probes;
    int nrails;
    uint64_t net_bytes_sent[PVARS_MAX_RAILS];
    uint64_t net_steps_sent; /* 0 where there is no such counter */
} pvars_t;

void pvars_read(pvars_t *p);

/* One counter by its whole name, from its first reading on; false when there is none. */
bool pvars_counter(const char *name, uint64_t *value_p);

/* Bytes that all rails of this process sent between two snapshots. */
uint64_t pvars_net_bytes(const pvars_t *before, const pvars_t *after);

/*
 * Sets the switch coll_gpuhier_enable, which counts for communicators made from then on.
 * Returns false when there is no such variable.
 */
bool pvars_enable(bool on);

/* The value of a control variable of 4 or 8 bytes, such as coll_gpuhier_slice_bytes; false when there is none. */
bool pvars_number(const char *name, uint64_t *value_p);

/* Before MPI_Finalize. */
void pvars_close(void);

#endif /* GPUHIER_TEST_PVARS_H */
