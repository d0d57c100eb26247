/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The collectives that a communicator had before gpuhier took their place. They serve every call that gpuhier leaves
 * alone, and gpuhier's own set-up.
 */
#ifndef GPUHIER_SAVED_H
#define GPUHIER_SAVED_H

#include "base/coll_gpuhier_compat.h"

/* Calls X(name) for each collective that gpuhier takes over. */
#define GPUHIER_COLLECTIVES(X) \
    X(allreduce)               \
    X(iallreduce)              \
    X(allreduce_init)          \
    X(barrier)

/*
 * Owned by the communicator's module, which retains these modules while it is enabled. Both fields of a collective are
 * NULL where the communicator had no such collective; then gpuhier does not offer it either.
 */
typedef struct gpuhier_saved {
#define GPUHIER_SAVED_FIELDS(name)           \
    mca_coll_base_module_##name##_fn_t name; \
    mca_coll_base_module_t *name##_module;
    GPUHIER_COLLECTIVES(GPUHIER_SAVED_FIELDS)
#undef GPUHIER_SAVED_FIELDS
} gpuhier_saved_t;

#endif /* GPUHIER_SAVED_H */
