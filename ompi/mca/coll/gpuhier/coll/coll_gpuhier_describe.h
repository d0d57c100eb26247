/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What gpuhier has made of a communicator, for `gpuhier_info job`: a program in the job finds the function in the
 * loaded component by its name.
 */
#ifndef GPUHIER_DESCRIBE_H
#define GPUHIER_DESCRIBE_H

#include <mpi.h>
#include <stdint.h>

#include "base/coll_gpuhier_reasons.h"
#include "base/coll_gpuhier_served.h"

#define GPUHIER_DESCRIPTION_VERSION 5 /* of the struct: a program cannot read a later version than its own */
#define GPUHIER_DESCRIBED_RAILS 8
#define GPUHIER_DESCRIBED_SIZES 48

/* The description for one rank. Ranks send it as bytes. */
typedef struct gpuhier_description {
    uint32_t version, bytes;
    gpuhier_served_t served[GPUHIER_SERVED_COUNT];
    int32_t enable, priority; /* parameters */
    int32_t serves;   /* gpuhier has the communicator's MPI_Allreduce; if not, all below but the counters is 0 */
    int32_t has_team; /* a call has run on the GPUs, or could; if not, all below but the counters is 0 */
    int32_t ngroups, group, index;
    int32_t gpu;     /* CUDA's number in this process */
    int32_t on_host; /* the group works through scratch in host memory */
    int32_t reserved;
    int32_t nrails, nsizes;
    char members[64];  /* "rank 3 has other parameters": a member that keeps all from the GPUs; or empty */
    uint32_t driven;   /* rails that this rank drives, by bit; none with one group */
    char pci[16];      /* of the GPU: 0000:3b:00.0 */
    char between[128]; /* what carries data between groups, in words */
    char rail[GPUHIER_DESCRIBED_RAILS][24];
    uint64_t from[GPUHIER_DESCRIBED_SIZES];  /* bytes of the shortest message of each row */
    char path[GPUHIER_DESCRIBED_SIZES][128]; /* what messages of these lengths get, in words */
    /* Counters of this process, on all communicators. */
    uint64_t accelerated, small, staged;
    uint64_t left[GPUHIER_REASON_COUNT]; /* to Open MPI, by reason */
} gpuhier_description_t;

/* Local. Returns 0. */
typedef int gpuhier_describe_fn(MPI_Comm comm, gpuhier_description_t *description_p);
gpuhier_describe_fn gpuhier_describe;

/* Tells the report which components serve MPI_COMM_WORLD, and with print_info prints a line about any communicator on
 * its rank 0. Local. */
void gpuhier_serving_tell(struct ompi_communicator_t *comm);

#endif /* GPUHIER_DESCRIBE_H */
