/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the counters and their MPI_T performance variables. Registered once, with the component.
 */
#include "ompi_config.h"

#include "base/coll_gpuhier_counters.h"
#include "opal/mca/base/mca_base_pvar.h"

gpuhier_counters_t gpuhier_counters;

static const struct counter {
    const char *name, *text;
    _Atomic uint64_t *counter;
} counters[] = {
#define COUNTER(name, text) {#name, text, &gpuhier_counters.name},
    GPUHIER_COUNTERS(COUNTER)
#undef COUNTER
};

static int counter_read(const mca_base_pvar_t *pvar, void *value, void *obj)
{
    (void) obj;
    *(unsigned long long *) value = gpuhier_counted(pvar->ctx);
    return OPAL_SUCCESS;
}

unsigned long long gpuhier_calls_saved(void)
{
    unsigned long long sum = 0;
    for (int i = 0; i < GPUHIER_REASON_COUNT; ++i) {
        sum += gpuhier_counted(&gpuhier_counters.saved_because[i]);
    }
    return sum;
}

static int saved_read(const mca_base_pvar_t *pvar, void *value, void *obj)
{
    (void) pvar;
    (void) obj;
    *(unsigned long long *) value = gpuhier_calls_saved();
    return OPAL_SUCCESS;
}

/* counter: the counter that `read` reads; NULL for saved_read. */
static int counter_register(const mca_base_component_t *component, const char *name, const char *text,
                            mca_base_get_value_fn_t read, _Atomic uint64_t *counter)
{
    int index = mca_base_component_pvar_register(
        component, name, text, OPAL_INFO_LVL_4, MCA_BASE_PVAR_CLASS_COUNTER, MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL,
        MCA_BASE_VAR_BIND_NO_OBJECT, MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS, read, NULL, NULL,
        (void *) counter);
    return index < 0 ? index : OMPI_SUCCESS;
}

#define REASON_NAME(name, text, remedy) "saved_" #name,

int gpuhier_counters_register(const mca_base_component_t *component)
{
    int rc = OMPI_SUCCESS;
    for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]) && OMPI_SUCCESS == rc; ++i) {
        rc = counter_register(component, counters[i].name, counters[i].text, counter_read, counters[i].counter);
    }
    rc = OMPI_SUCCESS != rc ? rc
                            : counter_register(component, "calls_saved",
                                               "Calls left to the collective that Open MPI would use without gpuhier",
                                               saved_read, NULL);
    static const char *const names[] = {GPUHIER_REASONS(REASON_NAME)};
    for (int i = 0; i < GPUHIER_REASON_COUNT && OMPI_SUCCESS == rc; ++i) {
        char text[160];
        snprintf(text, sizeof(text), "Of calls_saved: %s", gpuhier_reason_text((gpuhier_reason_t) i));
        rc = counter_register(component, names[i], text, counter_read, &gpuhier_counters.saved_because[i]);
    }
    for (int rail = 0; rail < GPUHIER_RAILS_MAX && OMPI_SUCCESS == rc; ++rail) {
        char name[32], text[64];
        snprintf(name, sizeof(name), "net_bytes_sent_%d", rail);
        snprintf(text, sizeof(text), "Payload bytes handed to UCX on rail %d", rail);
        rc = counter_register(component, name, text, counter_read, &gpuhier_counters.net_bytes_sent[rail]);
    }
    return rc;
}
