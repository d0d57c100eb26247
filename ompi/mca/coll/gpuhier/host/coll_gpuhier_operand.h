/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A collective's buffers as it uses them, and the host copies that stand for those in GPU memory. An operand is one
 * buffer argument: the blocks of elements that the call's counts, displacements and types name in it, and which of them
 * the collective reads and writes on this rank.
 */
#ifndef GPUHIER_OPERAND_H
#define GPUHIER_OPERAND_H

#include "base/coll_gpuhier_compat.h"
#include "host/coll_gpuhier_staging.h"

typedef enum gpuhier_layout {
    GPUHIER_LAYOUT_EQUAL,  /* blocks of `count` elements of `dtype`, end to end */
    GPUHIER_LAYOUT_LISTED, /* blocks of counts[] elements of `dtype`, at disps[] times its extent */
    GPUHIER_LAYOUT_TYPED,  /* blocks of counts[] elements of dtypes[], at disps[] bytes */
    GPUHIER_LAYOUT_FAR     /* the same, at aints[] bytes */
} gpuhier_layout_t;

/* Valid during the call, as the arguments are. All zero: the collective does not use the argument on this rank. */
typedef struct gpuhier_operand {
    const void *user; /* not MPI_IN_PLACE */
    gpuhier_layout_t layout;
    size_t count;
    struct ompi_datatype_t *dtype;
    gpuhier_counts_t counts;
    gpuhier_disps_t disps;
    gpuhier_aints_t aints;
    struct ompi_datatype_t *const *dtypes;
    size_t read_from, read_end;   /* the blocks that it reads; none where both are equal */
    size_t write_from, write_end; /* the blocks that it writes */
} gpuhier_operand_t;

/* Is it GPU memory? Looks at the first byte that the blocks touch, or, in MPI_BOTTOM, at the first one of each block.
 */
bool gpuhier_operand_on_device(const gpuhier_operand_t *operand);

/* Elements that lie end to end. */
typedef struct gpuhier_region {
    ptrdiff_t at;  /* bytes from the address that the user has passed */
    size_t packed; /* bytes from the begin of a packed copy */
    size_t count;
    struct ompi_datatype_t *dtype; /* retained unless predefined */
} gpuhier_region_t;

/* The host copy of an operand. Owned by its caller; zeroed, or opened. */
typedef struct gpuhier_hosted {
    gpuhier_staging_t whole; /* from the first byte that a region touches to the last one; or packed */
    const char *user;
    ptrdiff_t low;             /* bytes from user to the first byte; of a packed copy: 0 */
    gpuhier_region_t few[2];   /* room for the regions of equal blocks */
    gpuhier_region_t *regions; /* of other blocks, allocated; NULL: in `few` */
    size_t nreads, nregions;   /* regions to read come first, then those to write */
} gpuhier_hosted_t;

/* The host copies of one call. Owned by its caller; zeroed, or made by gpuhier_staged_open(). */
typedef struct gpuhier_staged {
    gpuhier_hosted_t send, recv;
} gpuhier_staged_t;

/*
 * Makes host copies for the operands that are GPU memory, still without contents. Each has its own. With one for both,
 * this rank would reduce in place, and other ranks, which may pass host memory, would not. Returns an Open MPI code;
 * the caller calls gpuhier_staged_close() in any case.
 */
int gpuhier_staged_open(gpuhier_staged_t *staged, const gpuhier_operand_t *send, const gpuhier_operand_t *recv);

/*
 * The same, packed: all blocks of an operand, from block 0 on, lie end to end in its host copy, without gaps. Operands
 * in host memory have one, too. NULL: an operand that needs none.
 */
int gpuhier_staged_pack(gpuhier_staged_t *staged, const gpuhier_operand_t *send, const gpuhier_operand_t *recv);
void gpuhier_staged_close(gpuhier_staged_t *staged);

static inline bool gpuhier_staged_any(const gpuhier_staged_t *staged)
{
    return NULL != staged->send.whole.host || NULL != staged->recv.whole.host;
}

static inline size_t gpuhier_staged_bytes(const gpuhier_staged_t *staged)
{
    return NULL != staged->recv.whole.host ? staged->recv.whole.bytes : staged->send.whole.bytes;
}

/* What to pass to the collective in place of the user's buffer. */
static inline void *gpuhier_hosted_address(const gpuhier_hosted_t *hosted, const void *user)
{
    return NULL != hosted->whole.host ? hosted->whole.host - hosted->low : (char *) (uintptr_t) user;
}

/* Brings the input to the host copies, and the result back from them, and touches no other byte. Return Open MPI
 * codes. */
int gpuhier_staged_read(const gpuhier_staged_t *staged);
int gpuhier_staged_write(const gpuhier_staged_t *staged);

/* After a call with this code: brings the result back if there is one. Returns the code, or that of the copy. */
int gpuhier_staged_end(const gpuhier_staged_t *staged, int code);

/* Fills the host copies with ones, which are no numbers, after the input could not be read. */
void gpuhier_staged_spoil(const gpuhier_staged_t *staged);

#endif /* GPUHIER_OPERAND_H */
