/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A UCX that copies GPU memory through the processor (cuda_copy), on rails that have no NIC: it takes GPU memory, but
 * must not be given any unless that is forced. Then there are NICs (made_up_nic.c): with and without keys for GPU
 * memory, and without the transport rc. The program runs with a UCX that is built with CUDA.
 */
#include "ompi_config.h"

#include <limits.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>
#include <ucp/api/ucp.h>

#include "net/coll_gpuhier_net.h"
#include "ompi/constants.h"

#define CHECK(condition)                                                                   \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                                       \
        }                                                                                  \
    } while (0)

/* Calls a function of the driver that UCX loads as well. */
#define DRIVER(name, ...)                                                       \
    do {                                                                        \
        __typeof__(name) *function = (__typeof__(name) *) dlsym(driver, #name); \
        CHECK(NULL != function && CUDA_SUCCESS == function(__VA_ARGS__));       \
    } while (0)

static void *driver;

static size_t free_bytes(void)
{
    size_t bytes = 0, total = 0;
    __typeof__(cuMemGetInfo) *info = (__typeof__(cuMemGetInfo) *) dlsym(driver, "cuMemGetInfo_v2");
    CHECK(NULL != info && CUDA_SUCCESS == info(&bytes, &total));
    return bytes;
}

/* UCX itself says that it takes GPU memory, or the test shows nothing. */
static void ucx_takes(void)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_context_attr_t attr = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};
    ucp_context_h context;
    CHECK(UCS_OK == ucp_init(&params, NULL, &context));
    CHECK(UCS_OK == ucp_context_query(context, &attr));
    ucp_cleanup(context);
    CHECK(0 != (attr.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)));
}

/* The answer of a net on all devices, with a NIC of this kind. */
static gpuhier_net_gpu_t answer(const char *kind)
{
    gpuhier_net_t *net = NULL;
    setenv("MADE_UP_NIC", kind, 1);
    CHECK(OMPI_SUCCESS == gpuhier_net_open(NULL, 0, UINT_MAX, GPUHIER_NET_AUTO, &net, &(const char *){NULL}));
    const gpuhier_net_gpu_t found = gpuhier_net_gpu(net);
    gpuhier_net_close(net);
    unsetenv("MADE_UP_NIC");
    return found;
}

/* Does a net on the device give GPU memory to UCX? NULL: UCX chooses devices. */
static bool gives(const char *device, gpuhier_net_mode_t mode)
{
    gpuhier_net_t *net = NULL;
    const char *why = "";
    if (OMPI_SUCCESS != gpuhier_net_open(&device, NULL == device ? 0 : 1, UINT_MAX, mode, &net, &why)) {
        fprintf(stderr, "open: %s\n", why);
        exit(1);
    }
    const bool can = gpuhier_net_gpu_is_yes(gpuhier_net_gpu(net));
    gpuhier_net_close(net);
    return can;
}

int main(void)
{
    CUdevice device;
    CUcontext context;
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    CHECK(NULL != driver);
    DRIVER(cuInit, 0);
    DRIVER(cuDeviceGet, &device, 0);
    DRIVER(cuDevicePrimaryCtxRetain, &context, device);
    DRIVER(cuCtxSetCurrent, context);
    const size_t bytes = free_bytes();

    ucx_takes();
    CHECK(!gives("lo", GPUHIER_NET_AUTO));
    CHECK(!gives(NULL, GPUHIER_NET_AUTO));
    CHECK(gives("lo", GPUHIER_NET_DIRECT));
    CHECK(!gives("lo", GPUHIER_NET_STAGED));

    CHECK(GPUHIER_NET_GPU_NO_REGISTRATION == answer("host"));
    CHECK(GPUHIER_NET_GPU_YES == answer("gpu"));
    CHECK(GPUHIER_NET_GPU_NO_RC == answer("dc"));
    CHECK(bytes == free_bytes());
    return 0;
}
