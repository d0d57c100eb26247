/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * cuInit, versions and errors.
 *
 * Owns the driver's state: before cuInit, after it, in a forked child (where
 * nothing works, as with the real driver), and while the process ends.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "sim_context.h"
#include "sim_damage.h"
#include "sim_engine.h"
#include "sim_fabric.h"
#include "sim_fault.h"
#include "sim_launch.h"
#include "sim_model.h"
#include "sim_trace.h"
#include "sim_window.h"

struct sim_driver sim_driver = {.state = CUDA_ERROR_NOT_INITIALIZED};

static pthread_mutex_t init_mutex = PTHREAD_MUTEX_INITIALIZER;
static bool init_tried;
static CUresult init_result;
static bool forked; /* this process is a fork of one in which cuInit had been called */

static const struct {
    CUresult error;
    const char *name;
    const char *text;
} errors[] = {
#define ERROR(name, text) {name, #name, text},
#include "cuda_errors.def"
#undef ERROR
};

CUresult sim_cuGetErrorString(CUresult error, const char **text_p)
{
    size_t i;

    for (i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (error == errors[i].error) {
            *text_p = errors[i].text;
            return CUDA_SUCCESS;
        }
    }
    *text_p = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuGetErrorName(CUresult error, const char **text_p)
{
    size_t i;

    for (i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (error == errors[i].error) {
            *text_p = errors[i].name;
            return CUDA_SUCCESS;
        }
    }
    *text_p = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

int sim_error_number(const char *name)
{
    char *end = NULL;
    long number = strtol(name, &end, 10);
    size_t i;

    if (end != name && '\0' == *end) {
        return (int) number;
    }
    if (0 == strcmp(name, "CUDA_ERROR_MAP_BUFFER_OBJECT_FAILED")) {
        return CUDA_ERROR_MAP_FAILED; /* the runtime's word for it */
    }
    for (i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (0 == strcmp(errors[i].name, name)) {
            return (int) errors[i].error;
        }
    }
    return -1;
}

CUresult sim_cuDriverGetVersion(int *version_p)
{
    if (NULL == version_p) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *version_p = SIM_DRIVER_VERSION;
    return CUDA_SUCCESS;
}

static void after_fork(void)
{
    atomic_store(&sim_driver.state, CUDA_ERROR_NOT_INITIALIZED);
    forked = true;
}

__attribute__((destructor)) static void at_end(void)
{
    int working = CUDA_SUCCESS;

    atomic_compare_exchange_strong(&sim_driver.state, &working, CUDA_ERROR_DEINITIALIZED);
    if (!forked) {
        sim_trace_flush();
    }
}

static CUresult init_once(void)
{
    const char *disable = getenv("CUDASIM_DISABLE");
    int physical[SIM_MAX_GPUS];
    int i;

    if (NULL != disable && '\0' != disable[0] && 0 != strcmp(disable, "0")) {
        return CUDA_ERROR_NO_DEVICE;
    }
    if (0 != sim_topology_load(&sim_driver.topology) || 0 != sim_model_setup() || 0 != sim_trace_setup()
        || 0 != sim_engine_setup() || 0 != sim_launch_setup()) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sim_driver.ndevices = sim_topology_visible(&sim_driver.topology, physical);
    if (0 == sim_driver.ndevices) {
        return CUDA_ERROR_NO_DEVICE;
    }
    for (i = 0; i < sim_driver.ndevices; i++) {
        sim_driver.devices[i].physical = physical[i];
    }
    if (0 != sim_fabric_setup() || 0 != sim_window_setup(sim_driver.topology.node) || 0 != sim_damage_setup()) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_atfork(NULL, NULL, after_fork);
    return CUDA_SUCCESS;
}

__attribute__((constructor)) static void at_start(void)
{
    /* Here, since cuInit itself can be made to fail. */
    if (0 != sim_fault_setup()) {
        init_tried = true;
        init_result = CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult sim_cuInit(unsigned int flags)
{
    CUresult rc;

    if (0 != flags) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (forked) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    pthread_mutex_lock(&init_mutex);
    if (!init_tried) {
        init_tried = true;
        init_result = init_once();
        if (CUDA_SUCCESS == init_result) {
            atomic_store_explicit(&sim_driver.state, CUDA_SUCCESS, memory_order_release);
        }
    }
    rc = init_result;
    pthread_mutex_unlock(&init_mutex);
    return rc;
}
