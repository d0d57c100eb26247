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

#include "base/coll_gpuhier_help.h"
#include "base/coll_gpuhier_params.h"

#include "base/coll_gpuhier_limits.h"
#include "opal/mca/base/mca_base_var.h"

#define SLICE_BYTES_MIN ((size_t) GPUHIER_SLICE_BYTES_MIN)
#define SLICE_BYTES_UNIT ((size_t) 128)     /* keeps what follows a slice buffer aligned for kernels */
#define SLICE_BYTES_MOST ((size_t) 1 << 40) /* more than any GPU has; a few times this does not overflow */
#define SMALL_BYTES_MAX ((size_t) 1 << 20)  /* each rank has two areas of that length in each communicator */

#define STANDARD(name, type, standard, ...) .name = standard,
gpuhier_params_t gpuhier_params = {GPUHIER_PARAMS(STANDARD)};

#define CHOICES_MAX 15
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Names of values; the last one is NULL. That of algorithms is filled at registration. */
static const char *const ipc_names[] = {GPUHIER_IPC_NAMES, NULL};
static const char *const net_names[] = {GPUHIER_NET_NAMES, NULL};
static const char *algorithm_names[CHOICES_MAX + 1];

#define FIXED MCA_BASE_VAR_SCOPE_READONLY
#define OPEN MCA_BASE_VAR_SCOPE_ALL
#define USER OPAL_INFO_LVL_1
#define SITE OPAL_INFO_LVL_3
#define TUNER OPAL_INFO_LVL_5
#define EXPERT OPAL_INFO_LVL_9
#define ANY NULL
#define IPC ipc_names
#define NET net_names
#define ALGORITHM algorithm_names

static const struct param {
    const char *name;
    mca_base_var_type_t type;
    mca_base_var_info_lvl_t level; /* its audience: ompi_info shows level 1 by default */
    mca_base_var_scope_t scope;
    void *storage;
    const char *const *choices; /* NULL: any value of the type */
    const char *text;
} params[] = {
#define PARAM(name, type, standard, path, level, scope, choices, text) \
    {#name, MCA_BASE_VAR_TYPE_##type, level, scope, &gpuhier_params.name, choices, text},
    GPUHIER_PARAMS(PARAM)
#undef PARAM
};

static const struct tune_key {
    const char *name;
    double standard, least, most; /* values beyond are clamped */
    int *whole;                   /* where the value is stored: here or in `real`; the other is NULL */
    double *real;
} tune_keys[] = {
#define WHOLE(value) _Generic((value), int : &(value), default : NULL)
#define REAL(value) _Generic((value), double : &(value), default : NULL)
#define TUNE_KEY(key, type, standard, least, most, path) \
    {#key, standard, least, most, WHOLE(gpuhier_params.key), REAL(gpuhier_params.key)},
    GPUHIER_TUNE_KEYS(TUNE_KEY)
#undef TUNE_KEY
};

/* If Open MPI refuses the value that the user gave, the parameter is registered all the same and keeps its default. */
static int param_register(const mca_base_component_t *component, const struct param *p, bool *refused_p)
{
    mca_base_var_enum_t *values = NULL;
    if (NULL != p->choices) {
        mca_base_var_enum_value_t choices[CHOICES_MAX + 1] = {{0, NULL}}; /* Open MPI copies them */
        for (int i = 0; NULL != p->choices[i]; ++i) {
            choices[i] = (mca_base_var_enum_value_t){i, p->choices[i]};
        }
        int rc = mca_base_var_enum_create(p->name, choices, &values);
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
        gpuhier_help("bad value", names);
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
    char *list = strdup(NULL != gpuhier_params.tune ? gpuhier_params.tune : ""), *rest = NULL;
    if (NULL == list) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    for (char *entry = strtok_r(list, ", ", &rest); NULL != entry; entry = strtok_r(NULL, ", ", &rest)) {
        if (!tune_entry(entry)) {
            gpuhier_help("bad tune", entry);
        }
    }
    free(list);
    return OMPI_SUCCESS;
}

static size_t within(size_t value, size_t least, size_t most)
{
    return value < least ? least : value > most ? most : value;
}

int gpuhier_params_register(const mca_base_component_t *component, const char *const *names, int count)
{
    gpuhier_params_t *p = &gpuhier_params;
    if (count > CHOICES_MAX) {
        return OMPI_ERR_BAD_PARAM;
    }
    for (int i = 0; i < count; ++i) {
        algorithm_names[i] = names[i];
    }
    int rc = params_register(component);
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    if (NULL != p->trace && '\0' == *p->trace) {
        p->trace = NULL; /* empty: no trace. Open MPI owns the string */
    }
    p->slice_bytes = within(p->slice_bytes, SLICE_BYTES_MIN, SLICE_BYTES_MOST) / SLICE_BYTES_UNIT * SLICE_BYTES_UNIT;
    p->slice_bytes_max = within(p->slice_bytes_max, 0, SLICE_BYTES_MOST) / SLICE_BYTES_UNIT * SLICE_BYTES_UNIT;
    if (p->slice_bytes_max < p->slice_bytes || (was_set("slice_bytes") && !was_set("slice_bytes_max"))) {
        p->slice_bytes_max = p->slice_bytes; /* set alone, slice_bytes holds for long messages, too */
    }
    p->small_bytes = within(p->small_bytes, 0, SMALL_BYTES_MAX);
    return tune_read();
}

uint64_t gpuhier_params_hash(void)
{
#define OWN(name)
#define EQUAL(name) (uint64_t) gpuhier_params.name,
#define GIVEN(name) NULL != gpuhier_params.name,
#define PARAM(name, type, standard, path, ...) path(name)
#define TUNE_KEY(name, type, standard, least, most, path) path(name)
    const uint64_t values[] = {GPUHIER_PARAMS(PARAM) GPUHIER_TUNE_KEYS(TUNE_KEY)};
    return gpuhier_hash(values, sizeof(values));
}
