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
    int failure; /* OMPI_SUCCESS, or the code with which a message of gpuhier's own has failed on the communicator */
} gpuhier_saved_t;

/*
 * The collectives that gpuhier calls for itself. Once one has failed, here or where messages go another way, they send
 * nothing and return `failure`, which is the result of the program's call: another rank may still be in any earlier
 * collective, and a later message would reach it there.
 *
 * least: the lowest value of all ranks; type: MPI_INT or MPI_INT64_T. vote: true on all ranks when it was true on all.
 * gather: `bytes` of each rank; mine may be MPI_IN_PLACE. They return Open MPI codes. Allgatherv would not do: that of
 * Open MPI may return success although its broadcast has failed.
 */
int gpuhier_saved_least(gpuhier_saved_t *saved, struct ompi_communicator_t *comm, const void *mine, void *all,
                        struct ompi_datatype_t *type);
bool gpuhier_saved_vote(gpuhier_saved_t *saved, struct ompi_communicator_t *comm, bool mine);
int gpuhier_saved_gather(gpuhier_saved_t *saved, struct ompi_communicator_t *comm, const void *mine, void *all,
                         size_t bytes);

#endif /* GPUHIER_SAVED_H */
