/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A coll component with the highest priority, which takes MPI_Allreduce on communicators of two and more ranks, as UCC
 * does where its guide is followed. It reduces host memory only. Rank 0 prints each call that it serves.
 */
#include "ompi_config.h"

#include "base/coll_gpuhier_compat.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/mca/coll/base/coll_base_functions.h"
#include "opal/util/output.h"

static int priority = 100;

static int shadow_allreduce(const void *in, void *out, gpuhier_count_t count, struct ompi_datatype_t *dtype,
                            struct ompi_op_t *op, struct ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
    if (0 == ompi_comm_rank(comm)) {
        opal_output(0, "shadow: %llu elements of %s", (unsigned long long) count, dtype->name);
    }
    return ompi_coll_base_allreduce_intra_recursivedoubling(in, out, count, dtype, op, comm, module);
}

static int shadow_enable(mca_coll_base_module_t *module, struct ompi_communicator_t *comm)
{
#if GPUHIER_COLL_INSTALLS_ITSELF
    comm->c_coll->coll_allreduce = module->coll_allreduce;
    comm->c_coll->coll_allreduce_module = module;
#else
    (void) module;
    (void) comm;
#endif
    return OMPI_SUCCESS;
}

static mca_coll_base_module_t *shadow_comm_query(struct ompi_communicator_t *comm, int *priority_p)
{
    if (OMPI_COMM_IS_INTER(comm) || ompi_comm_size(comm) < 2) {
        return NULL;
    }
    mca_coll_base_module_t *module = OBJ_NEW(mca_coll_base_module_t);
    if (NULL != module) {
        *priority_p = priority;
        module->coll_module_enable = shadow_enable;
        module->coll_allreduce = shadow_allreduce;
    }
    return module;
}

static int shadow_init_query(bool progress_threads, bool mpi_threads)
{
    (void) progress_threads;
    (void) mpi_threads;
    return OMPI_SUCCESS;
}

static int shadow_register(void);

__attribute__((visibility("default"))) mca_coll_base_component_t mca_coll_shadow_component = {
    .collm_version =
        {
            GPUHIER_COLL_VERSION,
            .mca_component_name = "shadow",
            MCA_BASE_MAKE_VERSION(component, 1, 0, 0),
            .mca_register_component_params = shadow_register,
        },
    .collm_data = {.param_field = MCA_BASE_METADATA_PARAM_CHECKPOINT},
    .collm_init_query = shadow_init_query,
    .collm_comm_query = shadow_comm_query,
};

static int shadow_register(void)
{
    const int index = mca_base_component_var_register(&mca_coll_shadow_component.collm_version, "priority", "Priority",
                                                      MCA_BASE_VAR_TYPE_INT, NULL, 0, 0, OPAL_INFO_LVL_9,
                                                      MCA_BASE_VAR_SCOPE_READONLY, &priority);
    return index < 0 ? index : OMPI_SUCCESS;
}
