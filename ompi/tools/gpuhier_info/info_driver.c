/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Finds the CUDA driver, as the component does: libcuda.so.1, by dlopen.
 */
#include "info_driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define TEXT(name) #name
#define EXPANDED_TEXT(name) TEXT(name)

static info_driver_t driver;
static char reason[256];
static bool tried;
static bool found;

static void load(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    void *symbol;

    if (NULL == library) {
        snprintf(reason, sizeof(reason), "no CUDA driver: %s", dlerror());
        return;
    }
#define LOAD(name)                                                                                      \
    symbol = dlsym(library, EXPANDED_TEXT(name));                                                       \
    if (NULL == symbol) {                                                                               \
        snprintf(reason, sizeof(reason), "the CUDA driver is too old: it has no " EXPANDED_TEXT(name)); \
        return;                                                                                         \
    }                                                                                                   \
    memcpy(&driver.name, &symbol, sizeof(symbol));
    INFO_DRIVER_FUNCTIONS(LOAD)
#undef LOAD
    driver.is_emulated = NULL != dlsym(library, "cudasim_counter");
    const CUresult result = driver.cuInit(0);
    if (CUDA_SUCCESS != result) {
        snprintf(reason, sizeof(reason), "cuInit returns %s", info_driver_error(result));
        return;
    }
    found = CUDA_SUCCESS == driver.cuDriverGetVersion(&driver.version);
}

const info_driver_t *info_driver(const char **why_p)
{
    if (!tried) {
        tried = true;
        load();
    }
    if (NULL != why_p) {
        *why_p = reason;
    }
    return found ? &driver : NULL;
}

const char *info_driver_error(CUresult result)
{
    const char *name = NULL;

    if (NULL == driver.cuGetErrorName || CUDA_SUCCESS != driver.cuGetErrorName(result, &name) || NULL == name) {
        static char number[32];
        snprintf(number, sizeof(number), "error %d", (int) result);
        return number;
    }
    return name;
}

int info_driver_attribute(CUdevice device, CUdevice_attribute name)
{
    int value = 0;

    return (CUDA_SUCCESS == driver.cuDeviceGetAttribute(&value, name, device)) ? value : 0;
}
