/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the MCA parameters of the component: their defaults, names, texts and bounds. Called once, when the component
 * is registered.
 *
 * One table lists the parameters. Settings for experts are keys of the parameter `tune`, in a second table.
 */
#include "ompi_config.h"

#include <float.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/coll_gpuhier_params.h"

#include "base/coll_gpuhier_hash.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/util/show_help.h"

#define SLICE_BYTES_MIN ((size_t) 4096)
#define SLICE_BYTES_UNIT ((size_t) 128)     /* keeps what follows a slice buffer aligned for kernels */
#define SLICE_BYTES_MOST ((size_t) 1 << 40) /* more than any GPU has; a few times this does not overflow */
#define SMALL_BYTES_MAX ((size_t) 1 << 20)  /* each rank has two areas of that length in each communicator */
#define ALGORITHMS_MAX 15

gpuhier_params_t gpuhier_params = {
    .priority = 100,
    .enable = true,
    .slice_bytes = 4u << 20,
    .slice_bytes_max = 8u << 20,
    .small_bytes = 8u << 10,
    .probe = 1,
    .reproducible = true,
    .stage_bytes = (size_t) 64 << 20,
    .report_after = 30.0,
};

static char *tune; /* as the user writes it */

static mca_base_var_enum_value_t ipc_modes[] = {
    {GPUHIER_IPC_AUTO, "auto"}, {GPUHIER_IPC_SCRATCH, "scratch"}, {GPUHIER_IPC_USER, "user"}, {0, NULL}};
static mca_base_var_enum_value_t net_modes[] = {
    {GPUHIER_NET_AUTO, "auto"}, {GPUHIER_NET_DIRECT, "direct"}, {GPUHIER_NET_STAGED, "staged"}, {0, NULL}};
static mca_base_var_enum_value_t algorithms[ALGORITHMS_MAX + 1]; /* filled at registration */

#define FIXED MCA_BASE_VAR_SCOPE_READONLY
#define USER OPAL_INFO_LVL_1
#define SITE OPAL_INFO_LVL_3
#define TUNER OPAL_INFO_LVL_5
#define EXPERT OPAL_INFO_LVL_9

static const struct param {
    const char *name;
    mca_base_var_type_t type;
    mca_base_var_info_lvl_t level; /* its audience: ompi_info shows level 1 by default */
    mca_base_var_scope_t scope;
    void *storage;
    mca_base_var_enum_value_t *choices; /* NULL: any value of the type */
    const char *text;
} params[] = {
    {"priority", MCA_BASE_VAR_TYPE_INT, SITE, FIXED, &gpuhier_params.priority, NULL,
     "Priority among Open MPI's coll components: the highest gets the calls, of equal ones gpuhier. More than 100 is "
     "100. Below 0 gpuhier is not used. Must be equal on all ranks"},
    {"enable", MCA_BASE_VAR_TYPE_BOOL, USER, MCA_BASE_VAR_SCOPE_ALL, &gpuhier_params.enable, NULL,
     "Whether gpuhier serves communicators made from now on. MPI_T may change it, on all ranks at once"},
    {"probe", MCA_BASE_VAR_TYPE_INT, SITE, FIXED, &gpuhier_params.probe, NULL,
     "Whether to ask all ranks now and then if they pass device memory (1), or never (0), so that no call runs on the "
     "GPUs. Must be equal on all ranks"},
    {"print_info", MCA_BASE_VAR_TYPE_BOOL, USER, FIXED, &gpuhier_params.print_info, NULL,
     "Print groups, rails, what messages of each size get, and why calls are left to Open MPI, for each communicator"},
    {"report", MCA_BASE_VAR_TYPE_BOOL, USER, FIXED, &gpuhier_params.report, NULL,
     "Print a page at the end: rank 0's calls by path, size and time, and why calls were left to Open MPI"},
    {"trace", MCA_BASE_VAR_TYPE_STRING, USER, FIXED, &gpuhier_params.trace, NULL,
     "Write a timeline of all ranks' calls into this file at the end, for Perfetto or chrome://tracing. Must be set on "
     "all ranks or on none"},
    {"devices", MCA_BASE_VAR_TYPE_STRING, SITE, FIXED, &gpuhier_params.devices, NULL,
     "Network devices to use, by UCX's names, for example mlx5_0:1,mlx5_1:1. Default: the nearest to each GPU"},
    {"net", MCA_BASE_VAR_TYPE_INT, TUNER, FIXED, &gpuhier_params.net, net_modes,
     "How data reaches the network: from GPU memory (direct), through page-locked host memory (staged), or direct if "
     "the NICs of all ranks reach GPU memory (auto)"},
    {"ipc", MCA_BASE_VAR_TYPE_INT, TUNER, FIXED, &gpuhier_params.ipc, ipc_modes,
     "How peers on the node reach a user's buffer: through a copy in scratch memory (scratch), mapped at its first use "
     "(user), or mapped once it was used a few times (auto)"},
    {"algorithm", MCA_BASE_VAR_TYPE_INT, TUNER, FIXED, &gpuhier_params.algorithm, algorithms,
     "Exchange between groups of GPUs. auto chooses by the number of groups and the length of the message; "
     "gpuhier_info shows the choice. Must be equal on all ranks"},
    {"reproducible", MCA_BASE_VAR_TYPE_BOOL, USER, FIXED, &gpuhier_params.reproducible, NULL,
     "Whether results have the same bits in every run with the same ranks on the same nodes. If not, NVSwitches may "
     "add floating-point numbers, in an order of their own. Must be equal on all ranks"},
    {"slice_bytes", MCA_BASE_VAR_TYPE_SIZE_T, TUNER, FIXED, &gpuhier_params.slice_bytes, NULL,
     "Messages pass in slices of at most this many bytes, at least 4096. Each GPU spends eight of them on scratch "
     "memory. Must be equal on all ranks"},
    {"slice_bytes_max", MCA_BASE_VAR_TYPE_SIZE_T, TUNER, FIXED, &gpuhier_params.slice_bytes_max, NULL,
     "As slice_bytes, for long messages between groups of GPUs. The first one spends 16 of them on scratch memory. "
     "Default: 8388608, or slice_bytes where that is set. Must be equal on all ranks"},
    {"small_bytes", MCA_BASE_VAR_TYPE_SIZE_T, TUNER, FIXED, &gpuhier_params.small_bytes, NULL,
     "Messages of at most this many bytes, 0 to 1048576, are reduced by the host. Must be equal on all ranks"},
    {"ipc_cache_bytes", MCA_BASE_VAR_TYPE_SIZE_T, TUNER, FIXED, &gpuhier_params.ipc_cache_bytes, NULL,
     "Bytes of peers' buffers that stay mapped from call to call. 0: a quarter of the GPU's memory"},
    {"stage_bytes", MCA_BASE_VAR_TYPE_SIZE_T, TUNER, FIXED, &gpuhier_params.stage_bytes, NULL,
     "Bytes of page-locked host memory kept for calls that run in host memory. 0: none"},
    {"timeout", MCA_BASE_VAR_TYPE_DOUBLE, SITE, FIXED, &gpuhier_params.timeout, NULL,
     "Seconds without progress after which a call fails. 0: never, since MPI lets a rank be late"},
    {"report_after", MCA_BASE_VAR_TYPE_DOUBLE, SITE, FIXED, &gpuhier_params.report_after, NULL,
     "Seconds without progress after which the state of all ranks is printed. 0: never"},
    {"sync_before", MCA_BASE_VAR_TYPE_BOOL, USER, FIXED, &gpuhier_params.sync_before, NULL,
     "Synchronise the device before the send buffer is read. This finds programs that forgot to"},
    {"tune", MCA_BASE_VAR_TYPE_STRING, EXPERT, FIXED, &tune, NULL,
     "For experts: KEY=NUMBER,... Keys are slices_in_flight, oneshot_bytes, oneshot_shared, gdr_bytes, levels_bytes, "
     "host_shard_bytes and switch_bytes, which must be equal on all ranks, ipc_uses and ipc_idle; docs/tuning.md "
     "explains them"},
};

static const struct tune_key {
    const char *name;
    double standard, least, most; /* values beyond are clamped */
    int *whole;                   /* where the value is stored: here or in `real`; the other is NULL */
    double *real;
} tune_keys[] = {
    {"slices_in_flight", 4, 2, 4, &gpuhier_params.slices_in_flight, NULL},
    {"oneshot_bytes", 256 << 10, 0, 1 << 20, &gpuhier_params.oneshot_bytes, NULL},
    {"oneshot_shared", 0, 0, 1, &gpuhier_params.oneshot_shared, NULL},
    {"gdr_bytes", 1024, 0, 65536, &gpuhier_params.gdr_bytes, NULL},
    {"levels_bytes", 512 << 10, 0, INT_MAX, &gpuhier_params.levels_bytes, NULL},
    {"host_shard_bytes", 64 << 10, 0, 1 << 20, &gpuhier_params.host_shard_bytes, NULL},
    {"switch_bytes", -1, -1, INT_MAX, &gpuhier_params.switch_bytes, NULL},
    {"ipc_uses", 3, 0, INT_MAX, &gpuhier_params.ipc_uses, NULL},
    {"ipc_idle", 10, 0, DBL_MAX, NULL, &gpuhier_params.ipc_idle},
};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* If Open MPI refuses the value that the user gave, the parameter is registered all the same and keeps its default. */
static int param_register(const mca_base_component_t *component, const struct param *p, bool *refused_p)
{
    mca_base_var_enum_t *values = NULL;
    if (NULL != p->choices) {
        int rc = mca_base_var_enum_create(p->name, p->choices, &values);
        if (OPAL_SUCCESS != rc) {
            return rc;
        }
    }
    /* Open MPI 5 lets MPI_T write only parameters with this flag. */
    const int flags = MCA_BASE_VAR_SCOPE_ALL == p->scope ? MCA_BASE_VAR_FLAG_SETTABLE : 0;
    int index = mca_base_component_var_register(component, p->name, p->text, p->type, values, 0,
                                                (mca_base_var_flag_t) flags, p->level, p->scope, p->storage);
    if (NULL != values) {
        OBJ_RELEASE(values);
    }
    *refused_p = index < 0 && mca_base_var_find("ompi", "coll", "gpuhier", p->name) >= 0;
    return index < 0 && !*refused_p ? index : OMPI_SUCCESS;
}

/* Registers all parameters, and names those whose values Open MPI refuses. */
static int params_register(const mca_base_component_t *component)
{
    char names[512] = "";
    for (size_t i = 0; i < COUNT_OF(params); ++i) {
        bool refused;
        int rc = param_register(component, &params[i], &refused);
        if (OMPI_SUCCESS != rc) {
            return rc;
        }
        if (refused) {
            const size_t length = strlen(names);
            (void) snprintf(names + length, sizeof(names) - length, " coll_gpuhier_%s", params[i].name);
        }
    }
    if ('\0' != names[0]) {
        opal_show_help("help-coll-gpuhier.txt", "bad value", true, names);
    }
    return OMPI_SUCCESS;
}

/* Was the parameter set, in a file, in the environment or on the command line? */
static bool was_set(const char *name)
{
    const int index = mca_base_var_find("ompi", "coll", "gpuhier", name);
    mca_base_var_source_t source = MCA_BASE_VAR_SOURCE_DEFAULT;
    return index >= 0 && OPAL_SUCCESS == mca_base_var_get_value(index, NULL, &source, NULL)
           && MCA_BASE_VAR_SOURCE_DEFAULT != source;
}

static void tune_set(const struct tune_key *key, double value)
{
    value = value < key->least ? key->least : value > key->most ? key->most : value;
    if (NULL != key->whole) {
        *key->whole = (int) value;
    } else {
        *key->real = value;
    }
}

/* Reads one KEY=NUMBER. Returns false, and sets nothing, if the entry is not one. */
static bool tune_entry(const char *entry)
{
    const char *sign = strchr(entry, '=');
    for (size_t i = 0; NULL != sign && i < COUNT_OF(tune_keys); ++i) {
        const struct tune_key *key = &tune_keys[i];
        if (strlen(key->name) == (size_t) (sign - entry) && 0 == strncmp(key->name, entry, strlen(key->name))) {
            char *end;
            const double value = strtod(sign + 1, &end);
            if (end == sign + 1 || '\0' != *end || value != value) {
                return false;
            }
            tune_set(key, value);
            return true;
        }
    }
    return false;
}

/* Sets all keys, to their defaults where `tune` does not name them. */
static int tune_read(void)
{
    for (size_t i = 0; i < COUNT_OF(tune_keys); ++i) {
        tune_set(&tune_keys[i], tune_keys[i].standard);
    }
    char *list = strdup(NULL != tune ? tune : ""), *rest = NULL;
    if (NULL == list) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    for (char *entry = strtok_r(list, ", ", &rest); NULL != entry; entry = strtok_r(NULL, ", ", &rest)) {
        if (!tune_entry(entry)) {
            opal_show_help("help-coll-gpuhier.txt", "bad tune", true, entry);
        }
    }
    free(list);
    return OMPI_SUCCESS;
}

int gpuhier_params_register(const mca_base_component_t *component, const char *const *names, int count)
{
    gpuhier_params_t *p = &gpuhier_params;
    if (count > ALGORITHMS_MAX) {
        return OMPI_ERR_BAD_PARAM;
    }
    for (int i = 0; i < count; ++i) {
        algorithms[i] = (mca_base_var_enum_value_t){i, names[i]};
    }
    int rc = params_register(component);
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    if (NULL != p->trace && '\0' == *p->trace) {
        p->trace = NULL; /* empty: no trace. Open MPI owns the string */
    }
    if (p->slice_bytes < SLICE_BYTES_MIN) {
        p->slice_bytes = SLICE_BYTES_MIN;
    }
    if (p->slice_bytes > SLICE_BYTES_MOST) {
        p->slice_bytes = SLICE_BYTES_MOST;
    }
    if (p->slice_bytes_max > SLICE_BYTES_MOST) {
        p->slice_bytes_max = SLICE_BYTES_MOST;
    }
    p->slice_bytes -= p->slice_bytes % SLICE_BYTES_UNIT;
    p->slice_bytes_max -= p->slice_bytes_max % SLICE_BYTES_UNIT;
    if (p->slice_bytes_max < p->slice_bytes || (was_set("slice_bytes") && !was_set("slice_bytes_max"))) {
        p->slice_bytes_max = p->slice_bytes; /* set alone, slice_bytes holds for long messages, too */
    }
    if (p->small_bytes > SMALL_BYTES_MAX) {
        p->small_bytes = SMALL_BYTES_MAX;
    }
    return tune_read();
}

uint64_t gpuhier_params_hash(void)
{
    const uint64_t values[] = {(uint64_t) gpuhier_params.priority,
                               gpuhier_params.enable,
                               (uint64_t) gpuhier_params.algorithm,
                               gpuhier_params.slice_bytes,
                               gpuhier_params.slice_bytes_max,
                               (uint64_t) gpuhier_params.slices_in_flight,
                               (uint64_t) gpuhier_params.probe,
                               gpuhier_params.small_bytes,
                               (uint64_t) gpuhier_params.oneshot_bytes,
                               (uint64_t) gpuhier_params.oneshot_shared,
                               (uint64_t) gpuhier_params.gdr_bytes,
                               (uint64_t) gpuhier_params.levels_bytes,
                               (uint64_t) gpuhier_params.host_shard_bytes,
                               (uint64_t) gpuhier_params.switch_bytes,
                               gpuhier_params.reproducible,
                               NULL != gpuhier_params.trace};
    return gpuhier_hash(values, sizeof(values));
}
