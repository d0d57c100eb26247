/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fabric handles: a child, which is another node, maps memory of its parent by such a handle, or must not.
 *
 *   fabric_test shared      of one domain: both see the same bytes, they are counted, memory stays while it is mapped
 *   fabric_test apart       the child is in another clique
 *   fabric_test forbidden   there is no IMEX channel
 *   fabric_test none        the machine has no such domain
 *
 * Both run this program; the child has exec'ed it with the parent's handle as its input, and has another CUDASIM_NODE.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../cudasim.h"
#include "../sim_fabric.h"

#define BYTES ((size_t) 4 << 20)

static int failures;

static void expect(int holds, const char *what, int line)
{
    if (!holds) {
        fprintf(stderr, "line %d: does not hold: %s\n", line, what);
        failures++;
    }
}

#define EXPECT(condition) expect(!!(condition), #condition, __LINE__)
#define GOOD(call) EXPECT(CUDA_SUCCESS == (call))

static const CUmemAllocationHandleType fabric = (CUmemAllocationHandleType) CU_MEM_HANDLE_TYPE_FABRIC;

/* Shows memory at an address and lets go of its handle. */
static CUdeviceptr show(CUmemGenericAllocationHandle memory)
{
    const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr range = 0;

    GOOD(cuMemAddressReserve(&range, BYTES, 0, 0, 0));
    GOOD(cuMemMap(range, BYTES, 0, memory, 0));
    GOOD(cuMemSetAccess(range, BYTES, &access, 1));
    GOOD(cuMemRelease(memory));
    return range;
}

static void hide(CUdeviceptr range)
{
    GOOD(cuMemUnmap(range, BYTES));
    GOOD(cuMemAddressFree(range, BYTES));
}

static CUresult create(CUmemAllocationHandleType type, CUmemGenericAllocationHandle *memory_p)
{
    const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                            .requestedHandleTypes = type};

    return cuMemCreate(memory_p, BYTES, &properties, 0);
}

static void context_make(void)
{
    CUcontext context = NULL;

    GOOD(cuInit(0));
    GOOD(cuDevicePrimaryCtxRetain(&context, 0));
    GOOD(cuCtxSetCurrent(context));
}

/* As the child: the handle comes by standard input, and so does a byte when the parent has let go of the memory. */
static int child(const char *what)
{
    CUmemFabricHandle handle;
    CUmemGenericAllocationHandle memory = 0;
    unsigned long long far = 0, back = 0;
    unsigned value = 0;
    char byte;

    context_make();
    EXPECT(sizeof(handle) == read(STDIN_FILENO, &handle, sizeof(handle)));
    if (0 == strcmp(what, "apart")) {
        EXPECT(CUDA_ERROR_INVALID_VALUE == cuMemImportFromShareableHandle(&memory, &handle, fabric));
        return failures > 0;
    }
    GOOD(cuMemImportFromShareableHandle(&memory, &handle, fabric));
    const CUdeviceptr range = show(memory);
    GOOD(cuMemcpyDtoH(&value, range + BYTES - 4, 4));
    EXPECT(0x1234 == value);
    GOOD(cuMemsetD32(range + 64, 0x5678, 1));
    const CUdeviceptr own = show((GOOD(create(CU_MEM_HANDLE_TYPE_NONE, &memory)), memory));
    GOOD(cuMemcpyDtoD(own, range, BYTES));
    GOOD(cuMemcpyDtoD(range + 4096, own, 4096));
    GOOD(cuCtxSynchronize());
    EXPECT(0 == cudasim_counter("link.fabric.0", &far) && BYTES == far);
    EXPECT(0 == cudasim_counter("link.0.fabric", &back) && 4096 == back);
    EXPECT(1 == write(STDOUT_FILENO, "1", 1) && 1 == read(STDIN_FILENO, &byte, 1));
    GOOD(cuMemcpyDtoH(&value, range + BYTES - 4, 4));
    EXPECT(0x1234 == value);                                                          /* it stays while it is mapped */
    EXPECT(CUDA_SUCCESS != cuMemImportFromShareableHandle(&memory, &handle, fabric)); /* but its handle is no good */
    hide(range);
    hide(own);
    return failures > 0;
}

/* Starts the child, which is another node. Returns its process number. */
static pid_t child_start(const char *program, const char *what, int to[2], int from[2])
{
    EXPECT(0 == pipe(to) && 0 == pipe(from));
    const pid_t pid = fork();
    if (0 == pid) {
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        close(to[1]);
        close(from[0]);
        setenv("CUDASIM_NODE", "other", 1);
        if (0 == strcmp(what, "apart")) {
            setenv("CUDASIM_CLIQUE", "2", 1);
        }
        execl(program, program, "child", what, (char *) NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    return pid;
}

static void parent(const char *program, const char *what)
{
    CUmemGenericAllocationHandle memory = 0, plain = 0;
    CUmemFabricHandle handle;
    int to[2], from[2], status = -1, fd;
    unsigned value = 0;
    char byte;

    GOOD(create(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, &plain));
    EXPECT(CUDA_ERROR_INVALID_VALUE == cuMemExportToShareableHandle(&handle, plain, fabric, 0));
    GOOD(cuMemRelease(plain));
    GOOD(create(fabric, &memory));
    EXPECT(CUDA_ERROR_INVALID_VALUE
           == cuMemExportToShareableHandle(&fd, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    GOOD(cuMemExportToShareableHandle(&handle, memory, fabric, 0));
    const CUdeviceptr range = show(memory);
    GOOD(cuMemsetD32(range, 0x1234, BYTES / 4));
    GOOD(cuCtxSynchronize());
    const pid_t pid = child_start(program, what, to, from);
    EXPECT(sizeof(handle) == write(to[1], &handle, sizeof(handle)));
    const int shares = 0 == strcmp(what, "shared");
    if (shares) {
        EXPECT(1 == read(from[0], &byte, 1));
        GOOD(cuMemcpyDtoH(&value, range + 64, 4));
        EXPECT(0x5678 == value);
    }
    hide(range);
    EXPECT(!shares || 1 == write(to[1], "1", 1));
    EXPECT(pid == waitpid(pid, &status, 0) && 0 == status);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    CUmemGenericAllocationHandle memory;
    CUmemFabricHandle handle = {{0}};
    int supported = -1;

    if (0 == strcmp(what, "child")) {
        return child(argv[2]);
    }
    context_make();
    GOOD(cuDeviceGetAttribute(&supported, (CUdevice_attribute) CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 0));
    EXPECT((0 != strcmp(what, "none")) == supported);
    if (0 == strcmp(what, "shared") || 0 == strcmp(what, "apart")) {
        parent(argv[0], what);
    } else {
        const CUresult no = 0 == strcmp(what, "none") ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_NOT_PERMITTED;
        EXPECT(no == create(fabric, &memory));
        EXPECT(no == cuMemImportFromShareableHandle(&memory, &handle, fabric));
    }
    return failures > 0;
}
