/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Makes a process look like one with another version of gpuhier: with GPUHIER_SABOTAGE_VERSION=N in its
 * environment, what the component publishes at start begins with the number N. Open MPI publishes through
 * PMIx_Put() of a shared library, which this one, preloaded, stands in front of.
 *
 * Makes Open MPI look like another release, too: with GPUHIER_SABOTAGE_RELEASE=TEXT, TEXT is what the component gets
 * from PMPI_Get_library_version().
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* pmix_value_t as far as a byte object goes. */
typedef struct value {
    uint16_t type;
    struct {
        char *bytes;
        size_t size;
    } object;
} value_t;

typedef int (*put_fn_t)(uint8_t scope, const char *key, value_t *value);

int PMIx_Put(uint8_t scope, const char *key, value_t *value);

__attribute__((visibility("default"))) int PMIx_Put(uint8_t scope, const char *key, value_t *value)
{
    const char *version = getenv("GPUHIER_SABOTAGE_VERSION");
    void *place = dlsym(RTLD_NEXT, "PMIx_Put");
    put_fn_t put;

    memcpy(&put, &place, sizeof(put));
    if (NULL != version && NULL != strstr(key, "gpuhier") && value->object.size >= sizeof(uint32_t)) {
        uint32_t number = (uint32_t) strtoul(version, NULL, 10);
        memcpy(value->object.bytes, &number, sizeof(number));
    }
    return put(scope, key, value);
}

int PMPI_Get_library_version(char *text, int *length_p);

__attribute__((visibility("default"))) int PMPI_Get_library_version(char *text, int *length_p)
{
    const char *release = getenv("GPUHIER_SABOTAGE_RELEASE");
    void *place = dlsym(RTLD_NEXT, "PMPI_Get_library_version");
    int (*get)(char *text, int *length_p);

    memcpy(&get, &place, sizeof(get));
    int rc = get(text, length_p);
    if (NULL != release) {
        strcpy(text, release);
        *length_p = (int) strlen(text);
    }
    return rc;
}
