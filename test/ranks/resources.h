/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What this process holds of everything that can leak; see resources.c.
 */
#ifndef GPUHIER_TEST_RESOURCES_H
#define GPUHIER_TEST_RESOURCES_H

typedef enum resource {
    RESOURCE_DESCRIPTORS,
    RESOURCE_MAPPINGS,  /* of shared memory and files */
    RESOURCE_SHM_FILES, /* of all processes of the node */
    RESOURCE_GPU_BYTES, /* of all processes on the current GPU */
    RESOURCE_GPU_ALLOCATIONS,
    RESOURCE_IPC_OPEN,
    RESOURCE_GPU_EVENTS,
    RESOURCE_PRIVATE_KIB,
    RESOURCES
} resource_t;

extern const char *const resource_names[RESOURCES];

/* Counts. Allocations, opened memory and events are known of emulated GPUs only, and 0 on a real one. */
void resources_read(long found[RESOURCES]);

#endif /* GPUHIER_TEST_RESOURCES_H */
