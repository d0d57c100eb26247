/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * IPC between two processes: the parent exports, the child opens.
 *
 * The child tells what happened through the pipe, line by line, and the parent
 * prints it where it belongs. A step is one message each way.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "contract.h"

#define MIB ((size_t) 1 << 20)
#define LARGE (4 * MIB)

/* What the parent hands over in a step. */
struct step {
    int number;
    CUipcMemHandle memory[2];
    CUipcEventHandle event;
    unsigned long long offset;
};

static void get(int fd, void *data, size_t bytes)
{
    size_t done = 0;
    ssize_t got;

    while (done < bytes) {
        got = read(fd, (char *) data + done, bytes - done);
        if (got <= 0) {
            fprintf(stderr, "contract: the other process is gone\n");
            exit(1);
        }
        done += (size_t) got;
    }
}

static void put(int fd, const void *data, size_t bytes)
{
    if ((ssize_t) bytes != write(fd, data, bytes)) {
        exit(1);
    }
}

/* Sends a step and prints the child's lines up to the empty one. */
static void run_step(int to_child, int from_child, const struct step *step)
{
    char line[256];
    size_t used = 0;

    put(to_child, step, sizeof(*step));
    for (;;) {
        get(from_child, line + used, 1);
        if ('\n' != line[used]) {
            used += used < sizeof(line) - 2;
            continue;
        }
        line[used] = '\0';
        if (0 == used) {
            break;
        }
        printf("child: %s\n", line);
        used = 0;
    }
}

/* Sends a descriptor, which the child gets by descriptor_get(). */
static void descriptor_put(int to_child, int fd)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    char byte = 'd';
    struct iovec data = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};

    memset(&control, 0, sizeof(control));
    control.head.cmsg_level = SOL_SOCKET;
    control.head.cmsg_type = SCM_RIGHTS;
    control.head.cmsg_len = CMSG_LEN(sizeof(fd));
    memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
    if (1 != sendmsg(to_child, &message, 0)) {
        exit(1);
    }
}

static int descriptor_get(int from_parent)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    char byte;
    int fd = -1;
    struct iovec data = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};

    if (1 == recvmsg(from_parent, &message, MSG_CMSG_CLOEXEC) && message.msg_controllen > 0) {
        memcpy(&fd, CMSG_DATA(&control.head), sizeof(fd));
    }
    return fd;
}

/* Memory of cuMemCreate that the child maps by a descriptor. */
static void parent_shares(int to_child, int from_child)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    const CUmemAllocationHandleType type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUmemGenericAllocationHandle plain, handle, here;
    CUdeviceptr range, other, small;
    struct step step = {.number = 4};
    unsigned long long types = 9, id = 0, same = 1;
    int fd = -1, value = 0;

    CALL(cuMemCreate(&plain, LARGE, &properties, 0));
    CALL(cuMemExportToShareableHandle(&fd, plain, type, 0));
    properties.requestedHandleTypes = type;
    CALL(cuMemCreate(&handle, LARGE, &properties, 0));
    CALL(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_NONE, 0));
    CALL(cuMemExportToShareableHandle(&fd, handle, type, 1));
    CALL(cuMemExportToShareableHandle(&fd, handle, type, 0));
    CALL(cuMemAddressReserve(&range, 2 * LARGE, 0, 0, 0));
    CALL(cuMemMap(range, LARGE, 0, handle, 0));
    CALL(cuMemMap(range + LARGE, LARGE, 0, plain, 0));
    CALL(cuMemSetAccess(range, 2 * LARGE, &access, 1));
    CALL(cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, range + 100));
    HOLDS("it may be exported as a descriptor", (unsigned long long) type == types);
    CALL(cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, range + LARGE));
    HOLDS("its neighbour may not", 0 == types);
    CALL(cuMemAlloc(&small, 1000));
    CALL(cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, small));
    HOLDS("nor may memory of cuMemAlloc", 0 == types);
    CALL(cuMemFree(small));
    CALL(cuMemImportFromShareableHandle(&here, (void *) (size_t) fd, type));
    CALL(cuMemAddressReserve(&other, LARGE, 0, 0, 0));
    CALL(cuMemMap(other, LARGE, 0, here, 0));
    CALL(cuMemSetAccess(other, LARGE, &access, 1));
    CALL(cuMemRelease(here));
    CALL(cuMemsetD32(range, 0x44, LARGE / 4));
    CALL(cuMemcpyDtoH(&value, other + LARGE - 4, 4));
    HOLDS("a second mapping shows the same memory", 0x44 == value);
    CALL(cuMemUnmap(other, LARGE));
    CALL(cuMemMap(other, LARGE, 0, handle, 0));
    CALL(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, range));
    CALL(cuPointerGetAttribute(&same, CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, other + 8));
    HOLDS("memory has one id wherever it is mapped", id == same);
    CALL(cuPointerGetAttribute(&same, CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, range + LARGE));
    HOLDS("other memory has another", id != same);
    CALL(cuMemUnmap(other, LARGE));
    CALL(cuMemAddressFree(other, LARGE));
    put(to_child, &step, sizeof(step));
    descriptor_put(to_child, fd);
    close(fd);
    step.number = 5;
    run_step(to_child, from_child, &step);
    CALL(cuMemcpyDtoH(&value, range + 64, 4));
    HOLDS("what the child wrote is here", 0x66 == value);
    CALL(cuMemUnmap(range, 2 * LARGE));
    CALL(cuMemAddressFree(range, 2 * LARGE));
    CALL(cuMemRelease(handle));
    CALL(cuMemRelease(plain));
    step.number = 6;
    run_step(to_child, from_child, &step);
}

void contract_ipc_parent(int to_child, int from_child)
{
    CUdeviceptr large, small, neighbour, own = 0;
    struct step step = {0};
    CUipcMemHandle first;
    CUevent event;
    CUstream stream;
    int value = 0;

    PART("IPC");
    CALL(cuMemAlloc(&large, LARGE));
    CALL(cuMemAlloc(&small, 1000));
    CALL(cuMemAlloc(&neighbour, 1000));
    CALL(cuMemsetD32(large, 0x11, LARGE / 4));
    CALL(cuMemsetD32(small, 0x22, 250));
    CALL(cuMemsetD32(neighbour, 0x33, 250));
    CALL(cuCtxSynchronize());
    CALL(cuIpcGetMemHandle(&step.memory[0], large + 4096));
    CALL(cuIpcGetMemHandle(&first, large));
    HOLDS("a handle is of the allocation, wherever the pointer", 0 == memcmp(&first, &step.memory[0], sizeof(first)));
    CALL(cuIpcGetMemHandle(&step.memory[1], (CUdeviceptr) (size_t) &value));
    CALL(cuIpcGetMemHandle(&step.memory[1], neighbour));
    CALL(cuIpcOpenMemHandle(&own, first, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    step.number = 1;
    run_step(to_child, from_child, &step);
    CALL(cuMemcpyDtoH(&value, large + 64, 4));
    HOLDS("what the child wrote is here", 0x77 == value);
    CALL(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
    CALL(cuIpcGetEventHandle(&step.event, event));
    CALL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CALL(cuMemsetD32Async(large, 0x55, LARGE / 4, stream));
    CALL(cuEventRecord(event, stream));
    step.number = 2;
    run_step(to_child, from_child, &step);
    CALL(cuStreamSynchronize(stream));
    CALL(cuMemFree(large));
    step.number = 3;
    run_step(to_child, from_child, &step);
    CALL(cuEventDestroy(event));
    CALL(cuStreamDestroy(stream));
    CALL(cuMemFree(small));
    CALL(cuMemFree(neighbour));
    parent_shares(to_child, from_child);
}

/* ---- the child ---- */

static FILE *out;

#define TELL(call) fprintf(out, "%s: %s\n", #call, contract_name(call))
#define TRUE_THAT(text, condition) fprintf(out, "  %s: %s\n", text, (condition) ? "yes" : "NO")

static void child_opens(const struct step *step, CUcontext primary)
{
    CUdeviceptr large = 0, again = 0, small = 0, base = 0;
    CUipcMemHandle broken = step->memory[0];
    CUcontext second;
    size_t bytes = 0;
    unsigned type = 0;
    unsigned char capable = 9;
    CUipcMemHandle exported;
    int value = 0;

    TELL(cuIpcOpenMemHandle(&large, step->memory[0], 0));
    TELL(cuIpcOpenMemHandle(&large, step->memory[0], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    TELL(cuMemcpyDtoH(&value, large + LARGE - 4, 4));
    TRUE_THAT("it reads what the parent wrote", 0x11 == value);
    TELL(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, large));
    TRUE_THAT("it is device memory", CU_MEMORYTYPE_DEVICE == type);
    TELL(cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, large));
    TELL(cuIpcGetMemHandle(&exported, large));
    TELL(cuMemGetAddressRange(&base, &bytes, large + 100));
    TRUE_THAT("the range is what was opened", base == large && LARGE == bytes);
    TELL(cuIpcOpenMemHandle(&again, step->memory[0], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    TRUE_THAT("opened twice, it is at the same place", again == large);
    TELL(cuCtxCreate(&second, NULL, 0, 0));
    TELL(cuIpcOpenMemHandle(&again, step->memory[0], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    TELL(cuCtxDestroy(second));
    TELL(cuCtxSetCurrent(primary));
    TELL(cuIpcCloseMemHandle(large));
    TELL(cuMemsetD32(large + 64, 0x77, 1));
    TELL(cuCtxSynchronize());
    TELL(cuMemFree(large));
    TELL(cuIpcCloseMemHandle(large));
    TELL(cuIpcCloseMemHandle(large));
    TELL(cuMemcpyDtoH(&value, large, 4));
    TELL(cuIpcOpenMemHandle(&small, step->memory[1], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    TELL(cuMemcpyDtoH(&value, small + 996, 4));
    TRUE_THAT("a small allocation is found in its block", 0x33 == value);
    TELL(cuIpcCloseMemHandle(small));
    memset(&broken, 0x5a, sizeof(broken));
    TELL(cuIpcOpenMemHandle(&again, broken, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
}

static void child_waits(const struct step *step)
{
    CUdeviceptr large = 0;
    CUstream stream;
    CUevent event;
    int value = 0;

    TELL(cuIpcOpenMemHandle(&large, step->memory[0], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    TELL(cuIpcOpenEventHandle(&event, step->event));
    TELL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    TELL(cuStreamWaitEvent(stream, event, 0));
    TELL(cuMemcpyDtoHAsync(&value, large + 256, 4, stream));
    TRUE_THAT("the parent's work came first", 0x55 == value);
    TELL(cuEventSynchronize(event));
    TELL(cuEventQuery(event));
    TELL(cuEventDestroy(event));
    TELL(cuStreamDestroy(stream));
    TELL(cuIpcCloseMemHandle(large));
}

static void child_maps(int fd, CUdeviceptr *range_p)
{
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    const CUmemAllocationHandleType type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp properties;
    CUdeviceptr range = 0;
    int value = 0;

    TELL(cuMemImportFromShareableHandle(&handle, (void *) (size_t) fd, type));
    close(fd);
    memset(&properties, 0, sizeof(properties));
    TELL(cuMemGetAllocationPropertiesFromHandle(&properties, handle));
    TRUE_THAT("it is memory of GPU 0",
              CU_MEM_LOCATION_TYPE_DEVICE == properties.location.type && 0 == properties.location.id);
    TELL(cuMemAddressReserve(&range, LARGE, 0, 0, 0));
    TELL(cuMemMap(range, LARGE, 0, handle, 0));
    TELL(cuMemcpyDtoH(&value, range, 4));
    TELL(cuMemSetAccess(range, LARGE, &access, 1));
    TELL(cuMemRelease(handle));
    TELL(cuMemcpyDtoH(&value, range + LARGE - 4, 4));
    TRUE_THAT("it reads what the parent wrote", 0x44 == value);
    TELL(cuMemsetD32(range + 64, 0x66, 1));
    TELL(cuCtxSynchronize());
    *range_p = range;
}

/* The parent has let go of the memory. */
static void child_keeps(CUdeviceptr range)
{
    int value = 0;

    TELL(cuMemcpyDtoH(&value, range + LARGE - 4, 4));
    TRUE_THAT("the memory stays while it is mapped here", 0x44 == value);
    TELL(cuMemUnmap(range, LARGE));
    TELL(cuMemcpyDtoH(&value, range, 4));
    TELL(cuMemAddressFree(range, LARGE));
}

int contract_ipc_child(int from_parent, int to_parent)
{
    CUdeviceptr range = 0;
    int fd = -1;
    CUcontext primary = NULL;
    CUdeviceptr pointer;
    struct step step;
    int number;

    out = fdopen(to_parent, "w");
    if (NULL == out) {
        return 1;
    }
    for (number = 1; number <= 6; number++) {
        get(from_parent, &step, sizeof(step));
        if (1 == number) {
            TELL(cuInit(0));
            TELL(cuDevicePrimaryCtxRetain(&primary, 0));
            TELL(cuCtxSetCurrent(primary));
            child_opens(&step, primary);
        } else if (2 == number) {
            child_waits(&step);
        } else if (4 == number) {
            fd = descriptor_get(from_parent);
            continue;
        } else if (5 == number) {
            child_maps(fd, &range);
        } else if (6 == number) {
            child_keeps(range);
        } else {
            TELL(cuIpcOpenMemHandle(&pointer, step.memory[0], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
        }
        fprintf(out, "\n");
        fflush(out);
    }
    get(from_parent, &step, 0);
    return 0;
}
