/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Reserved and mapped memory, pools, entry points, and what faults.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "contract.h"

void contract_mapped(void)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle, other, again = 0;
    CUdeviceptr range, base = 0;
    CUcontext ctx = (CUcontext) 1;
    CUipcMemHandle ipc;
    size_t unit = 0, bytes = 0;
    unsigned char capable = 9, mapped = 9;
    int value = 0;

    PART("reserved and mapped memory");
    CALL(cuMemGetAllocationGranularity(&unit, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    HOLDS("the unit is 2 MiB", 2097152 == unit);
    CALL(cuMemAddressReserve(&range, 4 * unit, 0, 0, 0));
    CALL(cuMemAddressReserve(&base, 100, 0, 0, 0));
    CALL(cuMemCreate(&handle, 100, &properties, 0));
    CALL(cuMemCreate(&handle, 2 * unit, &properties, 0));
    CALL(cuMemCreate(&other, unit, &properties, 0));
    CALL(cuMemMap(range, 2 * unit, 0, handle, 0));
    CALL(cuMemMap(range, 2 * unit, 0, handle, 0));
    CALL(cuMemMap(range + 2 * unit, unit, 0, other, 0));
    CALL(cuMemSetAccess(range, 3 * unit, &access, 1));
    CALL(cuMemsetD32(range, 9, 3 * unit / 4));
    CALL(cuMemcpyDtoH(&value, range + 3 * unit - 4, 4));
    HOLDS("a fill across two mappings", 9 == value);
    CALL(cuMemcpyDtoH(&value, range + 3 * unit, 4));
    CALL(cuPointerGetAttribute(&ctx, CU_POINTER_ATTRIBUTE_CONTEXT, range));
    HOLDS("it belongs to no context", NULL == ctx);
    CALL(cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, range));
    HOLDS("legacy IPC cannot export it", 0 == capable);
    CALL(cuIpcGetMemHandle(&ipc, range));
    CALL(cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, range));
    HOLDS("mapped", 1 == mapped);
    CALL(cuMemRetainAllocationHandle(&again, (void *) (size_t) (range + 64)));
    HOLDS("the handle comes back", again == handle);
    CALL(cuMemRelease(again));
    CALL(cuMemRelease(handle));
    CALL(cuMemRelease(other));
    CALL(cuMemFree(range));
    CALL(cuMemAddressFree(range, 4 * unit));
    CALL(cuMemUnmap(range, unit));
    CALL(cuMemUnmap(range, 3 * unit));
    CALL(cuMemGetAddressRange(&base, &bytes, range));
    CALL(cuMemAddressFree(range, 4 * unit));
    CALL(cuMemRetainAllocationHandle(&again, &value));
}

void contract_pools(void)
{
    CUmemoryPool pool, mine, of_pointer = NULL;
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemLocation where = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    CUdeviceptr pointer, plain, second;
    CUipcMemHandle ipc;
    CUstream stream;
    int values[4] = {0};

    PART("pools");
    CALL(cuDeviceGetDefaultMemPool(&pool, 0));
    CALL(cuMemPoolGetAccess(&flags, pool, &where));
    HOLDS("its own device may access it", CU_MEM_ACCESS_FLAGS_PROT_READWRITE == flags);
    CALL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CALL(cuMemAllocAsync(&pointer, 1000, stream));
    CALL(cuMemsetD32Async(pointer, 6, 250, stream));
    CALL(cuMemcpyDtoHAsync(values, pointer, 16, stream));
    HOLDS("it holds what was written", 6 == values[3]);
    CALL(cuPointerGetAttribute(&of_pointer, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, pointer));
    HOLDS("it is of the default pool", pool == of_pointer);
    CALL(cuIpcGetMemHandle(&ipc, pointer));
    CALL(cuMemFreeAsync(pointer, stream));
    CALL(cuStreamSynchronize(stream));
    CALL(cuMemPoolCreate(&mine, &properties));
    CALL(cuMemAllocFromPoolAsync(&second, 5000, mine, stream));
    CALL(cuMemFreeAsync(second, stream));
    CALL(cuStreamSynchronize(stream));
    CALL(cuMemPoolDestroy(mine));
    CALL(cuMemPoolDestroy(pool));
    CALL(cuMemAlloc(&plain, 1000));
    CALL(cuPointerGetAttribute(&of_pointer, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, plain));
    CALL(cuMemFree(plain));
    CALL(cuStreamDestroy(stream));
}

void contract_entry_points(void)
{
    CUdriverProcAddressQueryResult status;
    CUresult (*init)(unsigned) = NULL;
    CUresult (*alloc)(CUdeviceptr *, size_t) = NULL;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    void *none = &status;
    CUdeviceptr pointer = 0;

    PART("entry points");
    CALL(cuGetProcAddress("cuInit", (void **) &init, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &status));
    HOLDS("it works", NULL != init && CUDA_SUCCESS == init(0));
    CALL(cuGetProcAddress("cuMemAlloc", (void **) &alloc, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &status));
    HOLDS("it is the version of today", NULL != alloc && CUDA_SUCCESS == alloc(&pointer, 64));
    CALL(cuMemFree(pointer));
    CALL(cuGetProcAddress("cuNoSuchCall", &none, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &status));
    HOLDS("there is no such call", NULL == none && CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND == status);
    CALL(cuThreadExchangeStreamCaptureMode(&mode));
    HOLDS("the mode was global", CU_STREAM_CAPTURE_MODE_GLOBAL == mode);
    CALL(cuThreadExchangeStreamCaptureMode(&mode));
    HOLDS("the mode was relaxed", CU_STREAM_CAPTURE_MODE_RELAXED == mode);
}

/* How a forked child ends that does this: 0, an exit code, or minus a signal's number. */
static int in_child(int what, CUdeviceptr pointer)
{
    int status = 0, count;
    pid_t pid = fork();

    if (0 == pid) {
        signal(SIGSEGV, SIG_DFL); /* libraries and sanitizers like to catch it */
        if (0 == what) {
            _exit(CUDA_ERROR_NOT_INITIALIZED == cuDeviceGetCount(&count) ? 0 : 1);
        } else if (1 == what) {
            _exit(CUDA_ERROR_NOT_INITIALIZED == cuInit(0) ? 0 : 1);
        } else if (2 == what) {
            _exit(*(volatile char *) (size_t) pointer & 1);
        } else {
            *(volatile char *) (size_t) pointer = 1;
            _exit(0);
        }
    }
    waitpid(pid, &status, 0);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

void contract_faults(void)
{
    CUdeviceptr pointer;
    char local[8];
    struct iovec here = {local, sizeof(local)}, there;
    int null = open("/dev/null", O_WRONLY), pipes[2];

    PART("what faults");
    CALL(cuMemAlloc(&pointer, 4096));
    HOLDS("a forked child cannot use the driver", 0 == in_child(0, 0));
    HOLDS("nor start it anew", 0 == in_child(1, 0));
    HOLDS("the host cannot read device memory", -SIGSEGV == in_child(2, pointer));
    HOLDS("the host cannot write device memory", -SIGSEGV == in_child(3, pointer));
    if (0 != pipe(pipes)) {
        return;
    }
    errno = 0;
    HOLDS("write() from it fails with EFAULT", -1 == write(pipes[1], (void *) (size_t) pointer, 8) && EFAULT == errno);
    there.iov_base = (void *) (size_t) pointer;
    there.iov_len = sizeof(local);
    errno = 0;
    HOLDS("process_vm_readv from it fails with EFAULT",
          -1 == process_vm_readv(getpid(), &here, 1, &there, 1, 0) && EFAULT == errno);
    close(pipes[0]);
    close(pipes[1]);
    close(null);
    CALL(cuMemFree(pointer));
}
