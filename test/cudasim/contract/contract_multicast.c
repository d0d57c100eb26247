/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Multicast objects of two GPUs in one process.
 *
 * Without two GPUs that can be in a team, it prints only how the calls refuse, and contract.sh compares that with
 * another golden file.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "contract.h"

#define MIB ((size_t) 1 << 20)
#define BYTES (4 * MIB)

static CUmemGenericAllocationHandle team, memory[2];
static CUdeviceptr own[2], all;
static CUcontext contexts[2];

static bool supported(void)
{
    int devices = 0, can, all_can = 1;

    cuDeviceGetCount(&devices);
    for (int i = 0; i < devices && i < 2; i++) {
        can = 0;
        cuDeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, i);
        all_can = all_can && 0 != can;
    }
    return devices >= 2 && all_can;
}

/* Properties that are valid until the next call. */
static const CUmulticastObjectProp *with(unsigned devices, size_t bytes, unsigned long long flags)
{
    static CUmulticastObjectProp properties;

    properties = (CUmulticastObjectProp){.numDevices = devices, .size = bytes, .flags = flags};
    return &properties;
}

static void no_multicast(void)
{
    size_t unit = 0;

    CALL(cuMulticastGetGranularity(&unit, with(2, BYTES, 0), CU_MULTICAST_GRANULARITY_MINIMUM));
    CALL(cuMulticastCreate(&team, with(2, BYTES, 0)));
    CALL(cuMulticastAddDevice(0, 0));
    CALL(cuMulticastBindMem(0, 0, 0, 0, BYTES, 0));
    CALL(cuMulticastBindAddr(0, 0, 0, BYTES, 0));
    CALL(cuMulticastUnbind(0, 0, 0, BYTES));
}

static void entry_points(void)
{
    static const char *const names[] = {"cuMulticastCreate",   "cuMulticastAddDevice", "cuMulticastBindMem",
                                        "cuMulticastBindAddr", "cuMulticastUnbind",    "cuMulticastGetGranularity"};
    CUdriverProcAddressQueryResult status;
    void *function;
    int there = 0, early = 0;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        there += CUDA_SUCCESS == cuGetProcAddress(names[i], &function, 12010, 0, &status) && NULL != function;
        cuGetProcAddress(names[i], &function, 12000, 0, &status);
        early += CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT == status;
    }
    HOLDS("CUDA 12.1 has the six calls", 6 == there);
    HOLDS("CUDA 12.0 has none of them", 6 == early);
}

static void create(void)
{
    size_t unit = 0, better = 0;

    CALL(cuMulticastGetGranularity(&unit, with(2, BYTES, 0), CU_MULTICAST_GRANULARITY_MINIMUM));
    HOLDS("the unit is 2 MiB", 2 * MIB == unit);
    CALL(cuMulticastGetGranularity(&better, with(2, BYTES, 0), CU_MULTICAST_GRANULARITY_RECOMMENDED));
    HOLDS("the better unit is a multiple of it", better >= unit && 0 == better % unit);
    CALL(cuMulticastGetGranularity(NULL, with(2, BYTES, 0), CU_MULTICAST_GRANULARITY_MINIMUM));
    CALL(cuMulticastGetGranularity(&unit, NULL, CU_MULTICAST_GRANULARITY_MINIMUM));
    CALL(cuMulticastCreate(NULL, with(2, BYTES, 0)));
    CALL(cuMulticastCreate(&team, NULL));
    CALL(cuMulticastCreate(&team, with(0, BYTES, 0)));
    CALL(cuMulticastCreate(&team, with(1, BYTES, 0)));
    CALL(cuMulticastCreate(&team, with(4711, BYTES, 0)));
    CALL(cuMulticastCreate(&team, with(2, MIB, 0)));
    CALL(cuMulticastCreate(&team, with(2, 0, 0)));
    CALL(cuMulticastCreate(&team, with(2, BYTES, 1)));
    CALL(cuMulticastCreate(&team, with(2, BYTES, 0)));
}

static _Atomic int bound;

static void *bind_early(void *rc_p)
{
    *(CUresult *) rc_p = cuMulticastBindMem(team, 0, memory[0], 0, BYTES, 0);
    atomic_store(&bound, 1);
    return NULL;
}

/* Devices are added; a bind that comes too early waits. */
static void add(void)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUresult early = CUDA_ERROR_UNKNOWN;
    pthread_t thread;

    for (int i = 0; i < 2; i++) {
        properties.location.id = i;
        CALL(cuMemCreate(&memory[i], BYTES, &properties, 0));
    }
    CALL(cuMulticastAddDevice(team, 4711));
    CALL(cuMulticastAddDevice(memory[0], 0));
    CALL(cuMulticastAddDevice(team, 0));
    CALL(cuMulticastAddDevice(team, 0));
    pthread_create(&thread, NULL, bind_early, &early);
    usleep(100000);
    HOLDS("a bind waits until all devices are in the team", 0 == atomic_load(&bound));
    CALL(cuMulticastAddDevice(team, 1));
    pthread_join(thread, NULL);
    HOLDS("then it succeeds", CUDA_SUCCESS == early);
    CALL(cuMulticastAddDevice(team, 1));
}

static CUdeviceptr map(CUmemGenericAllocationHandle handle, int device, int devices)
{
    CUmemAccessDesc access[2];
    CUdeviceptr at = 0;

    for (int i = 0; i < devices; i++) {
        access[i] = (CUmemAccessDesc){.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device + i},
                                      .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    }
    CALL(cuMemAddressReserve(&at, BYTES, 0, 0, 0));
    CALL(cuMemMap(at, BYTES, 0, handle, 0));
    CALL(cuMemSetAccess(at, BYTES, access, (size_t) devices));
    return at;
}

static void bind(void)
{
    CUdeviceptr plain = 0;

    own[0] = map(memory[0], 0, 1);
    own[1] = map(memory[1], 1, 1);
    CALL(cuMulticastBindMem(team, 0, memory[1], 0, BYTES, 1));
    CALL(cuMulticastBindMem(team, 0, memory[1], 0, 0, 0));
    CALL(cuMulticastBindMem(team, 0, memory[1], 0, MIB, 0));
    CALL(cuMulticastBindMem(team, MIB, memory[1], 0, 2 * MIB, 0));
    CALL(cuMulticastBindMem(team, 0, memory[1], MIB, 2 * MIB, 0));
    CALL(cuMulticastBindMem(team, 2 * MIB, memory[1], 0, BYTES, 0));
    CALL(cuMulticastBindMem(team, 0, memory[1], 2 * MIB, BYTES, 0));
    CALL(cuMulticastBindMem(team, 0, 0, 0, BYTES, 0));
    CALL(cuMulticastBindMem(team, 0, team, 0, BYTES, 0));
    CALL(cuMulticastBindMem(memory[0], 0, memory[1], 0, BYTES, 0));
    CALL(cuMulticastBindMem(team, 0, memory[0], 0, BYTES, 0));
    CALL(cuMemAlloc(&plain, 2 * MIB));
    CALL(cuMulticastBindAddr(team, 0, plain, 2 * MIB, 0));
    CALL(cuMemFree(plain));
    CALL(cuMulticastBindAddr(team, 0, own[1] + 2 * MIB, BYTES, 0));
    CALL(cuMulticastBindAddr(team, 0, own[1] + 2 * MIB, 2 * MIB, 0));
    CALL(cuMulticastBindMem(team, 2 * MIB, memory[1], 0, 2 * MIB, 0));
    CALL(cuMulticastUnbind(team, 1, 0, MIB));
    CALL(cuMulticastUnbind(team, 4711, 0, 2 * MIB));
    CALL(cuMulticastUnbind(team, 1, 2 * MIB, 2 * MIB));
    CALL(cuMulticastBindMem(team, 2 * MIB, memory[1], 0, 2 * MIB, 0));
}

/* The object was made without handle types, so it cannot be exported. */
static void export(void)
{
    int fd = -1;

    CALL(cuMemExportToShareableHandle(&fd, team, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
}

/* The object is mapped for both GPUs, and a kernel of each reduces half of the first 4 KiB. */
static void reduce(const char *fatbin)
{
    unsigned values[1024];
    CUfunction function = NULL;
    CUmodule module = NULL;
    bool right = true;

    all = map(team, 0, 2);
    CALL(cuMemRelease(team));
    for (int i = 0; i < 2; i++) {
        cuCtxSetCurrent(contexts[i]);
        for (unsigned k = 0; k < 1024; k++) {
            values[k] = (unsigned) (i + 1) * (k + 1);
        }
        /* GPU 1 has its halves the other way round. */
        CALL(cuMemcpyHtoD(own[i] + (0 == i ? 0 : 2 * MIB), values, sizeof(values)));
        CALL(cuCtxSynchronize());
    }
    for (int i = 0; i < 2; i++) {
        CUdeviceptr at = all + (CUdeviceptr) (2048 * i);
        int count = 512;
        void *params[] = {&at, &count};
        cuCtxSetCurrent(contexts[i]);
        CALL(cuModuleLoad(&module, fatbin));
        CALL(cuModuleGetFunction(&function, module, "contract_multicast"));
        CALL(cuLaunchKernel(function, 2, 1, 1, 64, 1, 1, 0, NULL, params, NULL));
        CALL(cuCtxSynchronize());
    }
    for (int i = 0; i < 2; i++) {
        cuCtxSetCurrent(contexts[i]);
        CALL(cuMemcpyDtoH(values, own[i] + (0 == i ? 0 : 2 * MIB), sizeof(values)));
        for (unsigned k = 0; k < 1024; k++) {
            right = right && 3 * (k + 1) == values[k];
        }
        HOLDS("its memory has the sums", right);
    }
    cuCtxSetCurrent(contexts[0]);
}

static void end(void)
{
    CUdeviceptr where[] = {all, own[0], own[1]};

    CALL(cuMemRelease(memory[0]));
    CALL(cuMemRelease(memory[1]));
    CALL(cuMemFree(all));
    for (int i = 0; i < 3; i++) {
        CALL(cuMemUnmap(where[i], BYTES));
        CALL(cuMemAddressFree(where[i], BYTES));
    }
}

int contract_multicast(const char *fatbin)
{
    cuInit(0);
    PART("multicast objects");
    HOLDS("two GPUs can be in a team", supported());
    entry_points();
    if (!supported()) {
        no_multicast();
        return 77;
    }
    for (int i = 0; i < 2; i++) {
        CALL(cuDevicePrimaryCtxRetain(&contexts[i], i));
    }
    cuCtxSetCurrent(contexts[0]);
    create();
    add();
    bind();
    export();
    reduce(fatbin);
    end();
    return 0;
}
