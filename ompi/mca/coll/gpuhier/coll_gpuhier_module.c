/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the life of a module: query, enable, disable, destruction. Costs nothing
 * until a collective is called: no CUDA, no message.
 * Called by Open MPI when communicators are made and freed.
 */
#include "ompi_config.h"

#include "base/coll_gpuhier_help.h"
#include "base/coll_gpuhier_lock.h"
#include "base/coll_gpuhier_params.h"
#include "base/coll_gpuhier_trace.h"
#include "coll/coll_gpuhier_module.h"
#include "team/coll_gpuhier_team.h"
#include "ompi/mca/coll/base/coll_base_functions.h"
#include "opal/util/output.h"

/* Saves the communicator's collectives. Afterwards Open MPI installs the module's own, unless
 * GPUHIER_COLL_INSTALLS_ITSELF. */
static int module_enable(mca_coll_base_module_t *base, struct ompi_communicator_t *comm)
{
    gpuhier_module_t *module = (gpuhier_module_t *) base;
    if (NULL == comm->c_coll->coll_allreduce || NULL == comm->c_coll->coll_allreduce_module) {
        return OMPI_ERR_NOT_AVAILABLE; /* nothing to fall back to */
    }
#define SAVE(name)                                                                         \
    if (NULL != comm->c_coll->coll_##name && NULL != comm->c_coll->coll_##name##_module) { \
        module->saved.name = comm->c_coll->coll_##name;                                    \
        module->saved.name##_module = comm->c_coll->coll_##name##_module;                  \
        OBJ_RETAIN(module->saved.name##_module);                                           \
    } else {                                                                               \
        module->super.coll_##name = NULL;                                                  \
    }
    GPUHIER_ALL_COLLECTIVES(SAVE)
#undef SAVE
#if GPUHIER_COLL_INSTALLS_ITSELF
#    define INSTALL(name)                                          \
        if (NULL != module->super.coll_##name) {                   \
            comm->c_coll->coll_##name = module->super.coll_##name; \
            comm->c_coll->coll_##name##_module = base;             \
        }
    GPUHIER_ALL_COLLECTIVES(INSTALL)
#    undef INSTALL
#endif
    atomic_store_explicit(&module->enabled, true, memory_order_release);
    return OMPI_SUCCESS;
}

static void saved_release(gpuhier_module_t *module)
{
#define RELEASE(name)                             \
    if (NULL != module->saved.name##_module) {    \
        OBJ_RELEASE(module->saved.name##_module); \
        module->saved.name##_module = NULL;       \
    }
    GPUHIER_ALL_COLLECTIVES(RELEASE)
#undef RELEASE
}

static int module_disable(mca_coll_base_module_t *base, struct ompi_communicator_t *comm)
{
    gpuhier_module_t *module = (gpuhier_module_t *) base;
#if GPUHIER_COLL_INSTALLS_ITSELF
#    define RESTORE(name)                                                     \
        if (base == comm->c_coll->coll_##name##_module) {                     \
            comm->c_coll->coll_##name = module->saved.name;                   \
            comm->c_coll->coll_##name##_module = module->saved.name##_module; \
        }
    GPUHIER_ALL_COLLECTIVES(RESTORE)
#    undef RESTORE
#else
    (void) comm;
#endif
    saved_release(module);
    return OMPI_SUCCESS;
}

static void module_construct(gpuhier_module_t *module)
{
    module->saved = (gpuhier_saved_t){.failure = OMPI_SUCCESS};
    module->agree = GPUHIER_AGREE_UNKNOWN;
    module->last = (gpuhier_found_t){.dtype = NULL};
    module->team = NULL;
    module->team_failed = module->has_pairs = false;
    module->why = GPUHIER_REASON_not_tried;
    module->rest = 0;
    module->is_watched = gpuhier_trace_is_on() || gpuhier_params.report;
    module->nnotes = 0;
    atomic_init(&module->told, 0);
    atomic_init(&module->enabled, false);
    gpuhier_modes_init(&module->modes);
}

static void module_destruct(gpuhier_module_t *module)
{
    if (NULL != module->team) { /* else Open MPI may free the communicator in a thread that has the lock */
        gpuhier_engine_lock();
        gpuhier_team_destroy(module->team);
        gpuhier_engine_unlock();
    }
    gpuhier_modes_fini(&module->modes);
    saved_release(module);
}

OBJ_CLASS_INSTANCE(gpuhier_module_t, mca_coll_base_module_t, module_construct, module_destruct);

mca_coll_base_module_t *gpuhier_comm_query(struct ompi_communicator_t *comm, int *priority)
{
    *priority = gpuhier_params.priority;
    if (!gpuhier_params.enable || gpuhier_params.priority < 0) {
        return NULL;
    }
    char preference[256] = "";
    if (gpuhier_comm_preference(comm, preference, sizeof(preference)) && NULL == strstr(preference, "gpuhier")) {
        opal_output_verbose(9, gpuhier_output(), "coll:gpuhier: communicator %s prefers %s", comm->c_name, preference);
        return NULL;
    }
    gpuhier_module_t *module = OBJ_NEW(gpuhier_module_t);
    if (NULL == module) {
        /* The other ranks know that this one has gpuhier, and would wait for its answer forever. */
        gpuhier_help("no memory", "gpuhier could not serve a new communicator", ompi_process_info.nodename,
                     ompi_comm_rank(comm), sizeof(*module));
        ompi_mpi_abort(comm, MPI_ERR_NO_MEM);
        return NULL;
    }
    if (OMPI_COMM_IS_INTER(comm) || ompi_comm_size(comm) < 2) {
        module->agree = GPUHIER_AGREE_NO; /* there is nothing to speed up, but device buffers must be staged */
        module->why = GPUHIER_REASON_alone;
    }
    module->super.coll_module_enable = module_enable;
    module->super.coll_module_disable = module_disable;
    gpuhier_family_offer(&module->super);
    return &module->super;
}
