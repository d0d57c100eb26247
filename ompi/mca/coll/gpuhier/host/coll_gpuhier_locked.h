/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Page-locked host memory that is kept from call to call.
 */
#ifndef GPUHIER_LOCKED_H
#define GPUHIER_LOCKED_H

#include <stddef.h>
#include <stdint.h>

#include "gpu/coll_gpuhier_cuda.h"

/* The caller of gpuhier_locked_take() owns the block until it gives it back; then the block is on the list. Members
 * other than next are constant. */
typedef struct gpuhier_locked {
    struct gpuhier_locked *next;
    char *memory;
    size_t bytes;
    CUcontext context; /* in which it was registered */
    uint64_t id;       /* CUDA's id of the registration, which ends with the context */
} gpuhier_locked_t;

/* A block of at least `bytes`; NULL when the budget or the driver does not allow it. The context is current. Any thread
 * may call these functions. */
gpuhier_locked_t *gpuhier_locked_take(size_t bytes, CUcontext context);
void gpuhier_locked_give(gpuhier_locked_t *block);

/* Frees all blocks that are not in use. */
void gpuhier_locked_finalize(void);

#endif /* GPUHIER_LOCKED_H */
