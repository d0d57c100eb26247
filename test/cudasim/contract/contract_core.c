/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Initialisation, devices, contexts, memory and pointer attributes.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "contract.h"

#define MIB ((size_t) 1 << 20)

void contract_before_init(void)
{
    CUdevice device;
    CUcontext ctx;
    CUdeviceptr pointer;
    unsigned type;
    int count, version = 0;

    PART("before cuInit");
    CALL(cuDeviceGetCount(&count));
    CALL(cuDeviceGet(&device, 0));
    CALL(cuCtxGetCurrent(&ctx));
    CALL(cuMemAlloc(&pointer, 16));
    CALL(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 4096));
    CALL(cuDriverGetVersion(&version));
    HOLDS("the version is at least 12.0", version >= 12000);
    CALL(cuInit(1));
    CALL(cuInit(0));
    CALL(cuInit(0));
}

void contract_devices(void)
{
    CUdevice device = -1, again = -1;
    CUuuid uuid, other;
    char name[64] = "", bus[32] = "";
    size_t bytes = 0;
    int count = 0, value = -1;

    PART("devices");
    CALL(cuDeviceGetCount(&count));
    HOLDS("there is a device", count > 0);
    CALL(cuDeviceGetCount(NULL));
    CALL(cuDeviceGet(&device, 0));
    CALL(cuDeviceGet(&again, 4711));
    CALL(cuDeviceGet(&again, -1));
    CALL(cuDeviceGetName(name, sizeof(name), device));
    HOLDS("the name is not empty", '\0' != name[0]);
    CALL(cuDeviceGetUuid(&uuid, device));
    CALL(cuDeviceGetUuid(&other, device));
    HOLDS("the identity is the same twice", 0 == memcmp(&uuid, &other, sizeof(uuid)));
    CALL(cuDeviceTotalMem(&bytes, device));
    HOLDS("the memory is at least 64 MiB", bytes >= 64 * MIB);
    CALL(cuDeviceGetPCIBusId(bus, sizeof(bus), device));
    CALL(cuDeviceGetByPCIBusId(&again, bus));
    HOLDS("the same device is at that place", again == device);
    CALL(cuDeviceGetByPCIBusId(&again, "no place"));
    CALL(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device));
    HOLDS("a warp has 32 threads", 32 == value);
    CALL(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, device));
    HOLDS("addresses are unified", 1 == value);
    CALL(cuDeviceGetAttribute(&value, (CUdevice_attribute) 100000, device));
    CALL(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 4711));
    CALL(cuDeviceCanAccessPeer(&value, device, device));
    HOLDS("a device is no peer of itself", 0 == value);
}

void contract_contexts(void)
{
    CUcontext primary = NULL, same = NULL, made = NULL, popped = NULL;
    CUdevice device;
    CUdeviceptr pointer;
    unsigned flags, version = 0;
    int active = -1, least = -1, greatest = 1;
    size_t limit = 0;

    PART("contexts");
    CALL(cuCtxGetCurrent(&popped));
    HOLDS("none is current", NULL == popped);
    CALL(cuCtxGetDevice(&device));
    CALL(cuMemAlloc(&pointer, 16));
    CALL(cuCtxSynchronize());
    CALL(cuCtxPopCurrent(&popped));
    CALL(cuDevicePrimaryCtxGetState(0, &flags, &active));
    HOLDS("the primary context is not active", 0 == active);
    CALL(cuDevicePrimaryCtxRelease(0));
    CALL(cuDevicePrimaryCtxRetain(&primary, 0));
    CALL(cuDevicePrimaryCtxRetain(&same, 0));
    HOLDS("it is the same", primary == same);
    CALL(cuDevicePrimaryCtxGetState(0, &flags, &active));
    HOLDS("the primary context is active", 1 == active);
    CALL(cuDevicePrimaryCtxRelease(0));
    CALL(cuCtxPushCurrent(primary));
    CALL(cuCtxGetDevice(&device));
    HOLDS("its device is 0", 0 == device);
    CALL(cuCtxCreate(&made, NULL, 0, 0));
    CALL(cuCtxGetCurrent(&popped));
    HOLDS("a created context is current", popped == made && made != primary);
    CALL(cuCtxGetApiVersion(made, &version));
    CALL(cuCtxPopCurrent(&popped));
    HOLDS("the created one was popped", popped == made);
    CALL(cuCtxGetCurrent(&popped));
    HOLDS("the primary one is current", popped == primary);
    CALL(cuCtxSetCurrent(made));
    CALL(cuCtxPopCurrent(&popped));
    HOLDS("set replaced the top", popped == made);
    CALL(cuCtxPopCurrent(&popped));
    CALL(cuCtxDestroy(made));
    CALL(cuCtxPushCurrent(NULL));
    CALL(cuCtxDestroy(NULL));
    CALL(cuCtxPushCurrent(primary));
    CALL(cuCtxGetStreamPriorityRange(&least, &greatest));
    HOLDS("lower numbers are more urgent", 0 == least && greatest < 0);
    CALL(cuCtxGetLimit(&limit, CU_LIMIT_STACK_SIZE));
    HOLDS("the stack has a size", limit > 0);
    CALL(cuCtxSetLimit((CUlimit) 1000, 1));
    CALL(cuCtxEnablePeerAccess(primary, 0));
    CALL(cuCtxPopCurrent(&popped));
    CALL(cuDevicePrimaryCtxRelease(0));
    CALL(cuDevicePrimaryCtxGetState(0, &flags, &active));
    HOLDS("the last release ends it", 0 == active);
    CALL(cuDevicePrimaryCtxRetain(&primary, 0)); /* for all that follows */
    CALL(cuCtxPushCurrent(primary));
}

void contract_memory(void)
{
    CUdeviceptr small[3] = {0}, large = 0, base = 0, huge;
    size_t bytes = 0, total = 0, before = 0, after = 0, pitch = 0;
    int i;

    PART("device memory");
    CALL(cuMemAlloc(&large, 0));
    CALL(cuMemAlloc(NULL, 16));
    CALL(cuMemGetInfo(&before, &total));
    CALL(cuMemAlloc(&large, 32 * MIB));
    HOLDS("aligned to 2 MiB", 0 == large % (2 * MIB));
    CALL(cuMemGetInfo(&after, &total));
    HOLDS("there is less free than before", before - after >= 32 * MIB);
    CALL(cuMemGetAddressRange(&base, &bytes, large + 12345));
    HOLDS("the range is the allocation", base == large && 32 * MIB == bytes);
    CALL(cuMemGetAddressRange(&base, &bytes, 4096));
    CALL(cuMemFree(large + 256));
    CALL(cuMemFree(large));
    CALL(cuMemFree(large));
    CALL(cuMemGetAddressRange(&base, &bytes, large));
    CALL(cuMemFree(0));
    for (i = 0; i < 3; i++) {
        CALL(cuMemAlloc(&small[i], 100));
    }
    HOLDS("small ones are aligned to 256", 0 == small[0] % 256 && 0 == small[1] % 256);
    HOLDS("small ones share 2 MiB", small[0] / (2 * MIB) == small[1] / (2 * MIB));
    CALL(cuMemGetAddressRange(&base, &bytes, small[1] + 99));
    HOLDS("the range is the small allocation", base == small[1] && 100 == bytes);
    for (i = 0; i < 3; i++) {
        CALL(cuMemFree(small[i]));
    }
    CALL(cuMemAlloc(&huge, total + 2 * MIB));
    CALL(cuMemAllocPitch(&large, &pitch, 1000, 3, 4));
    HOLDS("the pitch is at least the width", pitch >= 1000 && 0 == pitch % 4);
    CALL(cuMemFree(large));
}

void contract_host_memory(void)
{
    void *pinned = NULL, *pages;
    CUdeviceptr device = 0;
    unsigned flags = 0;

    PART("host memory");
    CALL(cuMemAllocHost(&pinned, 10000));
    memset(pinned, 1, 10000);
    CALL(cuMemHostGetDevicePointer(&device, pinned, 0));
    HOLDS("its device address is the same", (CUdeviceptr) (size_t) pinned == device);
    CALL(cuMemFree((CUdeviceptr) (size_t) pinned));
    CALL(cuMemFreeHost(pinned));
    CALL(cuMemHostAlloc(&pinned, 10000, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    CALL(cuMemHostGetFlags(&flags, pinned));
    HOLDS("portable", 0 != (flags & CU_MEMHOSTALLOC_PORTABLE));
    CALL(cuMemFreeHost(pinned));
    CALL(cuMemHostAlloc(&pinned, 10000, 0x1000));
    pages = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CALL(cuMemHostGetDevicePointer(&device, pages, 0));
    CALL(cuMemHostRegister(pages, 65536, CU_MEMHOSTREGISTER_PORTABLE));
    CALL(cuMemHostRegister(pages, 4096, 0));
    CALL(cuMemHostGetDevicePointer(&device, (char *) pages + 100, 0));
    HOLDS("registered memory has its own address", (CUdeviceptr) (size_t) pages + 100 == device);
    CALL(cuMemFreeHost(pages));
    CALL(cuMemHostUnregister(pages));
    CALL(cuMemHostUnregister(pages));
    munmap(pages, 65536);
}

/* What an address is, in one line. */
static void describe(const char *what, CUdeviceptr pointer)
{
    unsigned type = 99;
    unsigned char managed = 9, capable = 9, mapped = 9;
    int ordinal = 99;
    CUcontext ctx = NULL, current = NULL;
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_CONTEXT};
    unsigned type2 = 99;
    int managed2 = 0, ordinal2 = 99;
    CUcontext ctx2 = NULL;
    void *values[] = {&type2, &managed2, &ordinal2, &ctx2};

    printf("-- %s\n", what);
    cuCtxGetCurrent(&current);
    CALL(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer));
    CALL(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, pointer));
    CALL(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer));
    CALL(cuPointerGetAttribute(&ctx, CU_POINTER_ATTRIBUTE_CONTEXT, pointer));
    CALL(cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, pointer));
    CALL(cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, pointer));
    printf("  type %u managed %u ordinal %d context %s ipc %u mapped %u\n", type, managed, ordinal,
           NULL == ctx ? "none" : (ctx == current ? "current" : "other"), capable, mapped);
    CALL(cuPointerGetAttributes(4, names, values, pointer));
    printf("  together: type %u managed %d ordinal %d context %s\n", type2, managed2, ordinal2,
           NULL == ctx2 ? "none" : (ctx2 == current ? "current" : "other"));
}

void contract_attributes(void)
{
    CUdeviceptr device, second, managed, start = 0, back = 0;
    void *pinned, *pages, *host = NULL;
    unsigned long long id = 0, id2 = 0;
    size_t bytes = 0;
    unsigned char sync = 9;
    unsigned on = 1;
    CUmemoryPool pool;
    int local = 0;

    PART("pointer attributes");
    CALL(cuMemAlloc(&device, 3 * MIB));
    CALL(cuMemAlloc(&second, 100));
    CALL(cuMemAllocHost(&pinned, 4096));
    CALL(cuMemAllocManaged(&managed, 8192, CU_MEM_ATTACH_GLOBAL));
    *(volatile int *) (size_t) managed = 5;
    HOLDS("the host reads and writes managed memory", 5 == *(volatile int *) (size_t) managed);
    pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CALL(cuMemHostRegister(pages, 8192, 0));
    describe("device memory, interior", device + 77);
    describe("small device memory", second);
    describe("pinned", (CUdeviceptr) (size_t) pinned);
    describe("registered", (CUdeviceptr) (size_t) pages);
    describe("managed", managed);
    describe("pageable", (CUdeviceptr) (size_t) &local);
    CALL(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, device + 77));
    CALL(cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, device + 77));
    HOLDS("the range is the allocation", start == device && 3 * MIB == bytes);
    CALL(cuPointerGetAttribute(&back, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, device + 77));
    HOLDS("a device pointer is itself", back == device + 77);
    CALL(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, device));
    CALL(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, (CUdeviceptr) (size_t) pinned));
    HOLDS("a pinned pointer's host address is itself", host == pinned);
    CALL(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, device));
    CALL(cuPointerGetAttribute(&id2, CU_POINTER_ATTRIBUTE_BUFFER_ID, second));
    HOLDS("buffer ids differ", id != id2);
    CALL(cuPointerGetAttribute(&sync, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, device));
    HOLDS("operations need not be synchronous", 0 == sync);
    CALL(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, device));
    CALL(cuPointerGetAttribute(&sync, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, device));
    HOLDS("now they must", 1 == sync);
    CALL(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_BUFFER_ID, device));
    CALL(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, (CUdeviceptr) (size_t) &local));
    CALL(cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, (CUdeviceptr) (size_t) &local));
    CALL(cuMemHostUnregister(pages));
    munmap(pages, 8192);
    CALL(cuMemFree(managed));
    CALL(cuMemFreeHost(pinned));
    CALL(cuMemFree(device));
    CALL(cuMemAlloc(&device, 3 * MIB));
    CALL(cuPointerGetAttribute(&id2, CU_POINTER_ATTRIBUTE_BUFFER_ID, device));
    HOLDS("a new allocation has a new buffer id", id != id2);
    CALL(cuMemFree(device));
    CALL(cuMemFree(second));
}
