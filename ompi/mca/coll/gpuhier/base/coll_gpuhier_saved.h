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

/* Calls X(name) for each collective that gpuhier has on the GPUs, or serves for their sake. */
#define GPUHIER_COLLECTIVES(X) \
    X(allreduce)               \
    X(iallreduce)              \
    X(allreduce_init)          \
    X(barrier)

/* Calls X(name) for each collective of which gpuhier only copies GPU buffers to host memory and back. */
#define GPUHIER_STAGED_COLLECTIVES(X)         \
    GPUHIER_EACH_WAY(X, allgather)            \
    GPUHIER_EACH_WAY(X, allgatherv)           \
    GPUHIER_EACH_WAY(X, alltoall)             \
    GPUHIER_EACH_WAY(X, alltoallv)            \
    GPUHIER_EACH_WAY(X, alltoallw)            \
    GPUHIER_EACH_WAY(X, bcast)                \
    GPUHIER_EACH_WAY(X, exscan)               \
    GPUHIER_EACH_WAY(X, gather)               \
    GPUHIER_EACH_WAY(X, gatherv)              \
    GPUHIER_EACH_WAY(X, reduce)               \
    GPUHIER_EACH_WAY(X, reduce_scatter)       \
    GPUHIER_EACH_WAY(X, reduce_scatter_block) \
    GPUHIER_EACH_WAY(X, scan)                 \
    GPUHIER_EACH_WAY(X, scatter)              \
    GPUHIER_EACH_WAY(X, scatterv)             \
    GPUHIER_EACH_NEIGHBOR_WAY(X, allgather)   \
    GPUHIER_EACH_NEIGHBOR_WAY(X, allgatherv)  \
    GPUHIER_EACH_NEIGHBOR_WAY(X, alltoall)    \
    GPUHIER_EACH_NEIGHBOR_WAY(X, alltoallv)   \
    GPUHIER_EACH_NEIGHBOR_WAY(X, alltoallw)   \
    X(reduce_local)

/* Blocking, nonblocking and persistent. */
#define GPUHIER_EACH_WAY(X, name) X(name) X(i##name) X(name##_init)
#define GPUHIER_EACH_NEIGHBOR_WAY(X, name) X(neighbor_##name) X(ineighbor_##name) X(neighbor_##name##_init)

#define GPUHIER_ALL_COLLECTIVES(X) \
    GPUHIER_COLLECTIVES(X)         \
    GPUHIER_STAGED_COLLECTIVES(X)

/*
 * Owned by the communicator's module, which retains these modules while it is enabled. Both fields of a collective are
 * NULL where the communicator had no such collective; then gpuhier does not offer it either.
 */
typedef struct gpuhier_saved {
#define GPUHIER_SAVED_FIELDS(name)                                   \
    __typeof__(((mca_coll_base_module_t *) NULL)->coll_##name) name; \
    mca_coll_base_module_t *name##_module;
    GPUHIER_ALL_COLLECTIVES(GPUHIER_SAVED_FIELDS)
#undef GPUHIER_SAVED_FIELDS
    int failure; /* OMPI_SUCCESS, or the code with which a message of gpuhier's own has failed on the communicator */
} gpuhier_saved_t;

/*
 * How many saved functions this thread is in. They may call a communicator's collectives, and so come back to gpuhier:
 * a call that finds this above 0 goes straight to the saved function, with its buffers as they are. Each thread has its
 * own, since Open MPI calls collectives in whichever thread drives its progress.
 */
extern _Thread_local int gpuhier_inside_saved;

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
