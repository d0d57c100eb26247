/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Host memory that stands for a device buffer while code runs that cannot touch
 * device memory, and the copies between the two.
 */
#ifndef GPUHIER_STAGING_H
#define GPUHIER_STAGING_H

#include "base/coll_gpuhier_compat.h"
#include "gpu/coll_gpuhier_cuda.h"

struct ompi_datatype_t;

/*
 * One buffer of a call: `count` elements of `dtype` at `user`. Owned by its
 * caller, from open to close, and used by one thread.
 */
typedef struct gpuhier_staging {
    const char *user;
    size_t count;
    struct ompi_datatype_t *dtype;
    gpuhier_buffer_t place;
    ptrdiff_t gap;                 /* bytes from user to the first byte that the type touches */
    size_t bytes;                  /* from that byte to the last one that it touches; 0: nothing to stage */
    bool dense;                    /* the type touches all of them, in order */
    bool is_packed;                /* in host memory, elements lie end to end and without gaps */
    char *host;                    /* stands for the first byte; NULL: the user's buffer is used itself */
    struct gpuhier_locked *locked; /* the page-locked block that host lies in, to be given back */
    void *own;                     /* the memory that host lies in, to be freed */
} gpuhier_staging_t;

/* Fills in all fields that follow from the arguments alone. */
void gpuhier_staging_shape(gpuhier_staging_t *s, const void *user, size_t count, struct ompi_datatype_t *dtype);

/* Makes the host copy, as yet without contents. Returns an Open MPI code. */
int gpuhier_staging_open(gpuhier_staging_t *s);

/*
 * Copies device to host, or back, behind all earlier work of the program on the default stream of the buffer's context.
 * The copy is complete on return. In device memory, bytes that the type does not touch are not written. A copy that
 * fails is tried again in the simplest way, since the first error may belong to earlier work of the program. A packed
 * copy may be one of host memory. Returns an Open MPI code.
 */
int gpuhier_staging_copy(const gpuhier_staging_t *s, bool to_host);

/* Lets go of the host copy, if there is one. */
void gpuhier_staging_close(gpuhier_staging_t *s);

#endif /* GPUHIER_STAGING_H */
