/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the MCA parameters of the component: their defaults, names, texts and bounds.
 * Called once, when the component is registered.
 */
#include "ompi_config.h"

#include <stdlib.h>

#include "base/coll_gpuhier_params.h"

#include "base/coll_gpuhier_hash.h"
#include "opal/mca/base/mca_base_var.h"

#define SMALL_BYTES_MAX ((size_t) 1 << 20) /* each rank has two areas of that length in each communicator */

gpuhier_params_t gpuhier_params = {
    .priority = 95,
    .enable = true,
    .slice_bytes = 4u << 20,
    .slice_bytes_max = 16u << 20,
    .slices_in_flight = 3,
    .small_bytes = 8u << 10,
    .probe = 1,
    .ipc_uses = 3,
    .ipc_idle = 10.0,
    .stage_bytes = (size_t) 64 << 20,
    .report_after = 30.0,
};

static mca_base_var_enum_value_t ipc_modes[] = {
    {GPUHIER_IPC_AUTO, "auto"}, {GPUHIER_IPC_SCRATCH, "scratch"}, {GPUHIER_IPC_USER, "user"}, {0, NULL}};
static mca_base_var_enum_value_t net_modes[] = {
    {GPUHIER_NET_AUTO, "auto"}, {GPUHIER_NET_DIRECT, "direct"}, {GPUHIER_NET_STAGED, "staged"}, {0, NULL}};

static const mca_base_component_t *owner; /* the component that they are registered for */

static int reg(const char *name, const char *text, mca_base_var_type_t type, mca_base_var_enum_t *values,
               mca_base_var_scope_t scope, void *storage)
{
    /* Open MPI 5 writes those only that say so. */
    const int flags = MCA_BASE_VAR_SCOPE_ALL == scope ? MCA_BASE_VAR_FLAG_SETTABLE : 0;
    int index = mca_base_component_var_register(owner, name, text, type, values, 0, (mca_base_var_flag_t) flags,
                                                OPAL_INFO_LVL_5, scope, storage);
    return index < 0 ? index : OMPI_SUCCESS;
}

static int reg_choice(const char *name, const char *text, mca_base_var_enum_value_t *choices, int *storage)
{
    mca_base_var_enum_t *values = NULL;
    int rc = mca_base_var_enum_create(name, choices, &values);
    if (OPAL_SUCCESS != rc) {
        return rc;
    }
    rc = reg(name, text, MCA_BASE_VAR_TYPE_INT, values, MCA_BASE_VAR_SCOPE_READONLY, storage);
    OBJ_RELEASE(values);
    return rc;
}

static int reg_algorithm(const char *const *names, int count, int *storage)
{
    mca_base_var_enum_value_t *choices = calloc((size_t) count + 1, sizeof(*choices));
    if (NULL == choices) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    for (int i = 0; i < count; ++i) {
        choices[i] = (mca_base_var_enum_value_t){i, names[i]};
    }
    int rc = reg_choice("algorithm",
                        "Exchange between groups of ranks; auto goes by their number and the message's bytes "
                        "(gpuhier_info shows how); alike on all ranks",
                        choices, storage);
    free(choices);
    return rc;
}

/* By whatever means: a file, the environment, the command line. */
static bool was_set(const char *name)
{
    const int index = mca_base_var_find("ompi", "coll", "gpuhier", name);
    mca_base_var_source_t source = MCA_BASE_VAR_SOURCE_DEFAULT;
    return index >= 0 && OPAL_SUCCESS == mca_base_var_get_value(index, NULL, &source, NULL)
           && MCA_BASE_VAR_SOURCE_DEFAULT != source;
}

int gpuhier_params_register(const mca_base_component_t *component, const char *const *algorithms, int count)
{
    owner = component;
    gpuhier_params_t *p = &gpuhier_params;
    const mca_base_var_scope_t fixed = MCA_BASE_VAR_SCOPE_READONLY;
    const struct {
        const char *name, *text;
        mca_base_var_type_t type;
        mca_base_var_scope_t scope;
        void *storage;
    } plain[] = {
        {"priority", "Priority of the component; below 0 it is not used; alike on all ranks", MCA_BASE_VAR_TYPE_INT,
         fixed, &p->priority},
        {"enable", "Take part in communicators made from now on (may be changed through MPI_T, alike on all ranks)",
         MCA_BASE_VAR_TYPE_BOOL, MCA_BASE_VAR_SCOPE_ALL, &p->enable},
        {"devices", "Rails by UCX's device names, e.g. mlx5_0:1,mlx5_1:1 (default: the nearest to each GPU)",
         MCA_BASE_VAR_TYPE_STRING, fixed, &p->devices},
        {"slice_bytes",
         "Bytes of the message in one slice of the pipeline at most; between groups shorter messages have "
         "shorter slices; alike on all ranks",
         MCA_BASE_VAR_TYPE_SIZE_T, fixed, &p->slice_bytes},
        {"slice_bytes_max",
         "The same for long messages between groups, whose scratch is made when the first one comes (default: "
         "16777216, or slice_bytes where that is set); alike on all ranks",
         MCA_BASE_VAR_TYPE_SIZE_T, fixed, &p->slice_bytes_max},
        {"slices_in_flight", "Slices in the pipeline at once, 2 to 4; alike on all ranks", MCA_BASE_VAR_TYPE_INT, fixed,
         &p->slices_in_flight},
        {"small_bytes",
         "Messages of at most that many bytes are copied to the host and reduced there, 0 to 1048576; 0: none; "
         "alike on all ranks",
         MCA_BASE_VAR_TYPE_SIZE_T, fixed, &p->small_bytes},
        {"probe", "Ask, now and then, whether all ranks pass device memory; 0 never accelerates; alike on all ranks",
         MCA_BASE_VAR_TYPE_INT, fixed, &p->probe},
        {"ipc_uses", "With ipc=auto, uses of a buffer before the peers map it directly", MCA_BASE_VAR_TYPE_INT, fixed,
         &p->ipc_uses},
        {"ipc_cache_bytes", "Bytes of peers' user buffers kept mapped; 0: a quarter of the GPU's memory",
         MCA_BASE_VAR_TYPE_SIZE_T, fixed, &p->ipc_cache_bytes},
        {"ipc_idle", "Seconds after which peers' user buffers are unmapped if they were not used; 0: only to make room",
         MCA_BASE_VAR_TYPE_DOUBLE, fixed, &p->ipc_idle},
        {"stage_bytes",
         "Bytes of page-locked host memory kept for staging; longer messages are copied through two slices of it",
         MCA_BASE_VAR_TYPE_SIZE_T, fixed, &p->stage_bytes},
        {"timeout", "Seconds without progress after which a call fails; 0: wait for late ranks for ever, as MPI allows",
         MCA_BASE_VAR_TYPE_DOUBLE, fixed, &p->timeout},
        {"report_after", "Seconds without progress after which the state of all ranks is printed; 0: never",
         MCA_BASE_VAR_TYPE_DOUBLE, fixed, &p->report_after},
        {"sync_before", "Synchronise the device before reading the send buffer: finds programs that forgot to",
         MCA_BASE_VAR_TYPE_BOOL, fixed, &p->sync_before},
        {"print_info", "Print groups, rails and the path that each kind of call takes", MCA_BASE_VAR_TYPE_BOOL, fixed,
         &p->print_info},
    };
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); ++i) {
        int rc = reg(plain[i].name, plain[i].text, plain[i].type, NULL, plain[i].scope, plain[i].storage);
        if (OMPI_SUCCESS != rc) {
            return rc;
        }
    }
    int rc =
        reg_choice("ipc", "How peers reach a user's buffer: auto, scratch (copied through ours), user (mapped at once)",
                   ipc_modes, &p->ipc);
    rc = OMPI_SUCCESS != rc
             ? rc
             : reg_choice(
                 "net",
                 "How shards reach the network: auto, direct (from GPU memory), staged (through pinned host memory)",
                 net_modes, &p->net);
    rc = OMPI_SUCCESS != rc ? rc : reg_algorithm(algorithms, count, &p->algorithm);
    if (p->slices_in_flight < 2) {
        p->slices_in_flight = 2;
    } else if (p->slices_in_flight > 4) {
        p->slices_in_flight = 4;
    }
    if (p->slice_bytes < 4096) {
        p->slice_bytes = 4096;
    }
    if (p->slice_bytes_max < p->slice_bytes || (was_set("slice_bytes") && !was_set("slice_bytes_max"))) {
        p->slice_bytes_max = p->slice_bytes; /* a length that the user chose is the length of all */
    }
    if (p->small_bytes > SMALL_BYTES_MAX) {
        p->small_bytes = SMALL_BYTES_MAX;
    }
    return rc;
}

uint64_t gpuhier_params_hash(void)
{
    const uint64_t values[] = {(uint64_t) gpuhier_params.priority,  gpuhier_params.enable,
                               (uint64_t) gpuhier_params.algorithm, gpuhier_params.slice_bytes,
                               gpuhier_params.slice_bytes_max,      (uint64_t) gpuhier_params.slices_in_flight,
                               (uint64_t) gpuhier_params.probe,     gpuhier_params.small_bytes};
    return gpuhier_hash(values, sizeof(values));
}
