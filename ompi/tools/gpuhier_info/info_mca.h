/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The MCA settings that a job started from here would have, found without Open MPI.
 */
#ifndef INFO_MCA_H
#define INFO_MCA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INFO_MCA_OPTIONS_MAX 64

/* The parameters of coll_gpuhier that the tool needs, by the bounds of coll_gpuhier_params.c. */
typedef struct info_mca {
    const char *option[INFO_MCA_OPTIONS_MAX][2]; /* --mca NAME VALUE, in order */
    int options;
    uint64_t small_bytes;
    uint64_t slice_bytes;
    uint64_t slice_bytes_max;
    int slices_in_flight;
    int oneshot_bytes;
    int levels_bytes;
    int host_shard_bytes;
    int algorithm; /* gpuhier_algorithm_t */
    int net;       /* 0 auto, 1 direct, 2 staged */
    int priority;
    bool enable;
    int probe;
    const char *devices; /* NULL: none named */
} info_mca_t;

/*
 * The value of any MCA parameter, "coll_gpuhier_probe", and where it was set: --mca, the environment, a file. NULL: it
 * is not set. The pointers stay valid.
 */
const char *info_mca_find(const info_mca_t *mca, const char *name, const char **where_p);

/* Fills in the parameters. Returns 0, or 2 after a message about a name or a value that gpuhier does not know. */
int info_mca_load(info_mca_t *mca);

/* The setting that keeps gpuhier from running any call; NULL: there is none. */
const char *info_mca_off(const info_mca_t *mca);

/* Open MPI's folder with openmpi-mca-params.conf. */
const char *info_mca_folder(void);

#endif /* INFO_MCA_H */
