/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the environment and the counters do: one small check per name.
 *
 *   limits_test NAME      status 0 if it holds
 */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../cudasim.h"

#define MIB ((size_t) 1 << 20)

static int failures;

static void expect(int holds, const char *what, int line)
{
    if (!holds) {
        fprintf(stderr, "line %d: does not hold: %s\n", line, what);
        failures++;
    }
}

#define EXPECT(condition) expect(condition, #condition, __LINE__)

static CUcontext start(void)
{
    CUcontext ctx = NULL;

    EXPECT(CUDA_SUCCESS == cuInit(0));
    EXPECT(CUDA_SUCCESS == cuDevicePrimaryCtxRetain(&ctx, 0));
    EXPECT(CUDA_SUCCESS == cuCtxSetCurrent(ctx));
    return ctx;
}

static unsigned long long counter(const char *name)
{
    unsigned long long value = 0;

    if (0 != cudasim_counter(name, &value)) {
        fprintf(stderr, "no counter %s\n", name);
        failures++;
    }
    return value;
}

static void inits(void)
{
    start();
}

static void init_fails(void)
{
    CUresult rc = cuInit(0);

    EXPECT(CUDA_SUCCESS != rc);
    EXPECT(rc == cuInit(0)); /* and says so only once */
}

static void memory_limit(void)
{
    CUdeviceptr pointer, second;
    size_t free_bytes = 0, total = 0;
    CUcontext ctx;

    setenv("CUDASIM_MEMORY", "64M", 1);
    ctx = start();
    EXPECT(CUDA_SUCCESS == cuMemGetInfo(&free_bytes, &total));
    EXPECT(64 * MIB == total && 64 * MIB == free_bytes);
    EXPECT(CUDA_SUCCESS == cuMemAlloc(&pointer, 40 * MIB));
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY == cuMemAlloc(&second, 40 * MIB));
    EXPECT(CUDA_SUCCESS == cuMemFree(pointer));
    EXPECT(CUDA_SUCCESS == cuMemAlloc(&second, 64 * MIB));
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY == cuMemAlloc(&pointer, 1));
    EXPECT(CUDA_SUCCESS == cuDevicePrimaryCtxReset(0)); /* frees all */
    EXPECT(CUDA_SUCCESS == cuCtxSetCurrent(ctx));
    EXPECT(CUDA_SUCCESS == cuMemAlloc(&second, 64 * MIB));
}

/* Much more than the machine has, since untouched memory costs nothing. */
static void sparse(void)
{
    CUdeviceptr pointers[16];
    int i, value = 0;

    setenv("CUDASIM_MEMORY", "80G", 1);
    start();
    for (i = 0; i < 16; i++) {
        EXPECT(CUDA_SUCCESS == cuMemAlloc(&pointers[i], 4096 * MIB));
        EXPECT(CUDA_SUCCESS == cuMemsetD32(pointers[i] + 4095 * MIB, (unsigned) i, 1));
    }
    for (i = 0; i < 16; i++) {
        EXPECT(CUDA_SUCCESS == cuMemcpyDtoH(&value, pointers[i] + 4095 * MIB, 4) && i == value);
    }
}

static void visible(void)
{
    CUuuid uuids[4], uuid;
    char text[80], list[400] = "";
    int count = 0, i, j, status = 0;
    pid_t pid;

    /* The identities come from a process of its own: the variable is read once. */
    int fds[2];
    EXPECT(0 == pipe(fds));
    setenv("CUDASIM_GPUS", "4", 1);
    pid = fork();
    if (0 == pid) {
        start();
        for (i = 0; i < 4; i++) {
            cuDeviceGetUuid(&uuids[i], i);
        }
        _exit(sizeof(uuids) == (size_t) write(fds[1], uuids, sizeof(uuids)) ? failures : 1);
    }
    EXPECT(pid == waitpid(pid, &status, 0) && 0 == status);
    EXPECT((ssize_t) sizeof(uuids) == read(fds[0], uuids, sizeof(uuids)));
    for (i = 3; i >= 2; i--) {
        snprintf(text, sizeof(text), "%sGPU-", 3 == i ? "" : ",");
        strcat(list, text);
        for (j = 0; j < 6; j++) { /* a beginning is enough */
            snprintf(text, sizeof(text), 4 == j ? "-%02x" : "%02x", (unsigned char) uuids[i].bytes[j]);
            strcat(list, text);
        }
    }
    strcat(list, ",0");
    setenv("CUDA_VISIBLE_DEVICES", list, 1);
    start();
    EXPECT(CUDA_SUCCESS == cuDeviceGetCount(&count) && 3 == count);
    EXPECT(CUDA_SUCCESS == cuDeviceGetUuid(&uuid, 0) && 0 == memcmp(&uuid, &uuids[3], sizeof(uuid)));
    EXPECT(CUDA_SUCCESS == cuDeviceGetUuid(&uuid, 1) && 0 == memcmp(&uuid, &uuids[2], sizeof(uuid)));
    EXPECT(CUDA_SUCCESS == cuDeviceGetUuid(&uuid, 2) && 0 == memcmp(&uuid, &uuids[0], sizeof(uuid)));
}

static void none_visible(void)
{
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    EXPECT(CUDA_ERROR_NO_DEVICE == cuInit(0));
}

static void disabled(void)
{
    setenv("CUDASIM_DISABLE", "1", 1);
    EXPECT(CUDA_ERROR_NO_DEVICE == cuInit(0));
}

/* CUDASIM_FAIL is read when the library is loaded, so the test's list sets it. */
static void faults(void)
{
    CUdeviceptr pointer;
    CUstream stream;
    void *memory;

    start();
    EXPECT(CUDA_SUCCESS == cuMemAlloc(&pointer, 16));
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY == cuMemAlloc(&pointer, 16));
    EXPECT(CUDA_SUCCESS == cuMemAlloc(&pointer, 16));
    EXPECT(CUDA_ERROR_MAP_FAILED == cuStreamCreate(&stream, 0));
    EXPECT(CUDA_ERROR_MAP_FAILED == cuStreamCreate(&stream, 0));
    EXPECT(cudaErrorMemoryAllocation == cudaMalloc(&memory, 16));
    EXPECT(cudaErrorMemoryAllocation == cudaGetLastError());
    EXPECT(cudaSuccess == cudaGetLastError());
    EXPECT(cudaSuccess == cudaMalloc(&memory, 16));
}

static void counters(void)
{
    CUdeviceptr a, b;
    CUcontext first, second;
    unsigned long long value;
    static char host[1000];

    setenv("CUDASIM_GPUS", "2", 1);
    first = start();
    EXPECT(CUDA_SUCCESS == cuDevicePrimaryCtxRetain(&second, 1));
    EXPECT(CUDA_SUCCESS == cuMemAlloc(&a, 4096));
    EXPECT(CUDA_SUCCESS == cuCtxSetCurrent(second));
    EXPECT(CUDA_SUCCESS == cuMemAlloc(&b, 4096));
    EXPECT(CUDA_SUCCESS == cuCtxSetCurrent(first));
    EXPECT(2 == counter("allocs") && 2 == counter("allocs_live"));
    cudasim_counters_reset();
    EXPECT(0 == counter("allocs") && 2 == counter("allocs_live"));
    EXPECT(CUDA_SUCCESS == cuMemcpyHtoD(a, host, 1000));
    EXPECT(CUDA_SUCCESS == cuMemcpyDtoD(b, a, 300));
    EXPECT(CUDA_SUCCESS == cuMemcpyDtoD(a, a + 2048, 70));
    EXPECT(CUDA_SUCCESS == cuMemcpyDtoH(host, b, 5));
    EXPECT(CUDA_SUCCESS == cuCtxSynchronize());
    EXPECT(1000 == counter("link.host.0"));
    EXPECT(300 == counter("link.0.1"));
    EXPECT(70 == counter("link.0.0"));
    EXPECT(5 == counter("link.1.host"));
    EXPECT(0 == counter("link.1.0") && 0 == counter("link.host.host"));
    EXPECT(4 == counter("copies") && 1 == counter("syncs"));
    EXPECT(-1 == cudasim_counter("link.0", &value) && -1 == cudasim_counter("no such", &value));
    EXPECT(-1 == cudasim_counter("link.0.x", &value) && -1 == cudasim_counter("link.-1.0", &value));
}

/* Functions that UCX hooks by rewriting their first bytes must begin with what it can move: mov imm32 to a register. */
static void hookable(void)
{
    static const char *const names[] = {"cuMemAlloc_v2", "cuMemAllocPitch_v2", "cuMemAllocManaged", "cuMemFree_v2",
                                        "cuMemFreeHost"};
    const unsigned char *code;
    size_t i, at;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        code = dlsym(RTLD_DEFAULT, names[i]);
        EXPECT(NULL != code);
        for (at = 0; NULL != code && at < 12; at += 5) {
            EXPECT(0xb8 == (code[at] & 0xf8));
        }
    }
}

static void hang(void *unused)
{
    (void) unused;
    sleep(200);
}

/* Another node's memory cannot be opened, whatever the process number says. */
static void other_node(void)
{
    CUipcMemHandle handle;
    CUdeviceptr pointer;
    int down[2], up[2], status = 0;
    char byte;
    pid_t pid;

    EXPECT(0 == pipe(down) && 0 == pipe(up));
    pid = fork();
    if (0 == pid) {
        setenv("CUDASIM_NODE", "other", 1);
        EXPECT((ssize_t) sizeof(handle) == read(down[0], &handle, sizeof(handle)));
        start();
        EXPECT(CUDA_ERROR_INVALID_VALUE == cuIpcOpenMemHandle(&pointer, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
        _exit(1 == write(up[1], "x", 1) ? failures : 1);
    }
    setenv("CUDASIM_NODE", "this", 1);
    start();
    EXPECT(CUDA_SUCCESS == cuMemAlloc(&pointer, 4 * MIB));
    EXPECT(CUDA_SUCCESS == cuIpcGetMemHandle(&handle, pointer));
    EXPECT((ssize_t) sizeof(handle) == write(down[1], &handle, sizeof(handle)));
    EXPECT(1 == read(up[0], &byte, 1));
    EXPECT(pid == waitpid(pid, &status, 0) && 0 == status);
}

/*
 * Memory that another process has open is not reused when it is freed, and is when that process has gone: 40 of
 * 64 MiB, freed while open, then 40 again.
 */
static void freed_while_open_by(int killed)
{
    CUipcMemHandle handle;
    CUdeviceptr pointer, opened;
    int down[2], up[2], status = 0;
    char byte = 0;
    pid_t pid;

    setenv("CUDASIM_MEMORY", "64M", 1);
    EXPECT(0 == pipe(down) && 0 == pipe(up));
    pid = fork();
    if (0 == pid) {
        EXPECT((ssize_t) sizeof(handle) == read(down[0], &handle, sizeof(handle)));
        start();
        EXPECT(CUDA_SUCCESS == cuIpcOpenMemHandle(&opened, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
        EXPECT(1 == write(up[1], "o", 1));
        EXPECT(1 == read(down[0], &byte, 1));
        if (killed) {
            raise(SIGKILL);
        }
        EXPECT(CUDA_SUCCESS == cuMemcpyDtoH(&byte, opened, 1) && 9 == byte);
        EXPECT(CUDA_SUCCESS == cuIpcCloseMemHandle(opened));
        EXPECT(1 == write(up[1], "c", 1));
        _exit(failures);
    }
    start();
    EXPECT(CUDA_SUCCESS == cuMemAlloc(&pointer, 40 * MIB));
    EXPECT(CUDA_SUCCESS == cuMemsetD8(pointer, 9, 100));
    EXPECT(CUDA_SUCCESS == cuIpcGetMemHandle(&handle, pointer));
    EXPECT((ssize_t) sizeof(handle) == write(down[1], &handle, sizeof(handle)));
    EXPECT(1 == read(up[0], &byte, 1));
    EXPECT(CUDA_SUCCESS == cuMemFree(pointer));
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY == cuMemAlloc(&pointer, 40 * MIB));
    EXPECT(1 == write(down[1], "f", 1));
    EXPECT(pid == waitpid(pid, &status, 0) && (killed ? SIGKILL : 0) == status);
    EXPECT(CUDA_SUCCESS == cuMemAlloc(&pointer, 40 * MIB));
}

static void freed_while_open(void)
{
    freed_while_open_by(0);
}

static void freed_while_open_by_killed(void)
{
    freed_while_open_by(1);
}

/* No process waits for an event whose recorder died. */
static void dead_recorder(void)
{
    CUipcEventHandle handle;
    CUevent event;
    int down[2], up[2], status = 0;
    char byte = 0;
    pid_t pid;

    setenv("CUDASIM_ASYNC", "lazy", 1);
    setenv("CUDASIM_LAZY_MS", "100000", 1);
    EXPECT(0 == pipe(down) && 0 == pipe(up));
    pid = fork();
    if (0 == pid) {
        CUstream stream;

        EXPECT((ssize_t) sizeof(handle) == read(down[0], &handle, sizeof(handle)));
        start();
        EXPECT(CUDA_SUCCESS == cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        EXPECT(CUDA_SUCCESS == cuLaunchHostFunc(stream, hang, NULL));
        EXPECT(CUDA_SUCCESS == cuIpcOpenEventHandle(&event, handle));
        EXPECT(CUDA_SUCCESS == cuEventRecord(event, stream));
        EXPECT(1 == write(up[1], 0 == failures ? "y" : "n", 1));
        pause();
    }
    start();
    EXPECT(CUDA_SUCCESS == cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    EXPECT(CUDA_SUCCESS == cuIpcGetEventHandle(&handle, event));
    EXPECT((ssize_t) sizeof(handle) == write(down[1], &handle, sizeof(handle)));
    EXPECT(1 == read(up[0], &byte, 1) && 'y' == byte);
    EXPECT(CUDA_ERROR_NOT_READY == cuEventQuery(event));
    kill(pid, SIGKILL);
    EXPECT(pid == waitpid(pid, &status, 0));
    EXPECT(CUDA_SUCCESS == cuEventSynchronize(event));
    EXPECT(CUDA_SUCCESS == cuEventQuery(event));
}

/* Exports memory and events, then waits to be killed. */
static void hold(void)
{
    CUipcMemHandle handle;
    CUipcEventHandle event_handle;
    CUdeviceptr pointer;
    CUevent event;

    start();
    EXPECT(CUDA_SUCCESS == cuMemAlloc(&pointer, 4 * MIB));
    EXPECT(CUDA_SUCCESS == cuIpcGetMemHandle(&handle, pointer));
    EXPECT(CUDA_SUCCESS == cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    EXPECT(CUDA_SUCCESS == cuIpcGetEventHandle(&event_handle, event));
    puts(0 == failures ? "holding" : "failed");
    fflush(stdout);
    sleep(200);
}

/* A kernel that waits for a word that the host writes after the launch: the launch must return, in every mode. */
static void waiting_kernel(void)
{
    CUmodule module;
    CUfunction function;
    CUstream stream, other;
    CUevent event;
    uint64_t *words;
    CUdeviceptr data;

    start();
    EXPECT(CUDA_SUCCESS == cuModuleLoad(&module, "contract_kernels.fatbin"));
    EXPECT(CUDA_SUCCESS == cuModuleGetFunction(&function, module, "contract_wait"));
    EXPECT(CUDA_SUCCESS == cuMemAllocHost((void **) &words, 4096));
    EXPECT(CUDA_SUCCESS == cuMemAlloc(&data, 64));
    EXPECT(CUDA_SUCCESS == cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    EXPECT(CUDA_SUCCESS == cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    EXPECT(CUDA_SUCCESS == cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    memset(words, 0, 4096);
    uint64_t *flag = words, *out = words + 8, copied = 0;
    void *params[] = {&flag, &out};
    EXPECT(CUDA_SUCCESS == cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
    EXPECT(CUDA_SUCCESS == cuMemcpyHtoDAsync(data, out, sizeof(*out), stream));
    EXPECT(CUDA_SUCCESS == cuEventRecord(event, stream));
    EXPECT(CUDA_SUCCESS == cuStreamWaitEvent(other, event, 0));
    EXPECT(CUDA_SUCCESS == cuMemsetD8Async(data + 32, 1, 32, other));
    EXPECT(CUDA_ERROR_NOT_READY == cuStreamQuery(stream));
    EXPECT(CUDA_ERROR_NOT_READY == cuStreamQuery(stream));
    EXPECT(CUDA_ERROR_NOT_READY == cuEventQuery(event));
    EXPECT(CUDA_ERROR_NOT_READY == cuStreamQuery(other));
    EXPECT(0 == __atomic_load_n(out, __ATOMIC_ACQUIRE));
    __atomic_store_n(flag, 17, __ATOMIC_RELEASE);
    EXPECT(CUDA_SUCCESS == cuStreamSynchronize(other));
    EXPECT(CUDA_SUCCESS == cuStreamSynchronize(stream));
    EXPECT(CUDA_SUCCESS == cuMemcpyDtoH(&copied, data, sizeof(copied)));
    EXPECT(17 == *out && 17 == copied);
    EXPECT(CUDA_SUCCESS == cuStreamDestroy(stream));
}

/* Adds one, by a kernel on GPU 0, to the first word of memory that another GPU has; returns what a copy shows then. */
static int added(CUfunction add, CUcontext ctx, CUdeviceptr memory)
{
    int value = 0, count = 1, term = 1;
    void *params[] = {&memory, &count, &term};

    EXPECT(CUDA_SUCCESS == cuCtxSetCurrent(ctx));
    EXPECT(CUDA_SUCCESS == cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
    EXPECT(CUDA_SUCCESS == cuCtxSynchronize());
    EXPECT(CUDA_SUCCESS == cuMemcpyDtoH(&value, memory, sizeof(value)));
    return value;
}

/* With CUDASIM_DAMAGE=0:1:stale,0:2:shifted,0:3:lost and five GPUs: kernels of GPU 0 see it, copies and others do not.
 */
static void damage(void)
{
    const int words[] = {100, 200};
    CUdeviceptr memory[5], out;
    CUfunction add, wait;
    CUcontext ctx[5];
    CUmodule module;
    CUdevice device;
    int value = 0, i;

    ctx[0] = start();
    EXPECT(CUDA_SUCCESS == cuModuleLoad(&module, "contract_kernels.fatbin"));
    EXPECT(CUDA_SUCCESS == cuModuleGetFunction(&add, module, "contract_add"));
    EXPECT(CUDA_SUCCESS == cuModuleGetFunction(&wait, module, "contract_wait"));
    EXPECT(CUDA_SUCCESS == cuMemAlloc(&out, 64));
    for (i = 1; i < 5; i++) {
        EXPECT(CUDA_SUCCESS == cuDeviceGet(&device, i));
        EXPECT(CUDA_SUCCESS == cuDevicePrimaryCtxRetain(&ctx[i], device));
        EXPECT(CUDA_SUCCESS == cuCtxSetCurrent(ctx[i]));
        EXPECT(CUDA_SUCCESS == cuMemAlloc(&memory[i], 2 * MIB));
        EXPECT(CUDA_SUCCESS == cuMemcpyHtoD(memory[i], &words[0], sizeof(int)));
        EXPECT(CUDA_SUCCESS == cuMemcpyHtoD(memory[i] + 4096, &words[1], sizeof(int)));
        EXPECT(CUDA_SUCCESS == cuCtxSetCurrent(ctx[0]));
        EXPECT(CUDA_SUCCESS == cuCtxEnablePeerAccess(ctx[i], 0));
    }
    for (i = 2; i < 5; i++) { /* reads */
        void *params[] = {&memory[i], &out};
        EXPECT(CUDA_SUCCESS == cuLaunchKernel(wait, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
        EXPECT(CUDA_SUCCESS == cuCtxSynchronize());
        EXPECT(CUDA_SUCCESS == cuMemcpyDtoH(&value, out, sizeof(value)));
        EXPECT((2 == i ? 200 : 100) == value);
    }
    for (i = 1; i < 4; i++) { /* writes are lost */
        EXPECT(100 == added(add, ctx[0], memory[i]));
    }
    EXPECT(101 == added(add, ctx[0], memory[4]));
    /* The kernel of GPU 0 reads its own write, which is in no memory; stale memory held zero. */
    for (i = 1; i < 4; i += 2) {
        void *params[] = {&memory[i], &out};
        EXPECT(CUDA_SUCCESS == cuLaunchKernel(wait, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
        EXPECT(CUDA_SUCCESS == cuCtxSynchronize());
        EXPECT(CUDA_SUCCESS == cuMemcpyDtoH(&value, out, sizeof(value)));
        EXPECT((1 == i ? 1 : 101) == value);
    }
    /* Other memory of GPU 1 takes the blocks again. */
    EXPECT(CUDA_SUCCESS == cuCtxSetCurrent(ctx[1]));
    EXPECT(CUDA_SUCCESS == cuMemFree(memory[1]));
    EXPECT(CUDA_SUCCESS == cuMemAlloc(&memory[1], 2 * MIB));
    EXPECT(CUDA_SUCCESS == cuMemcpyHtoD(memory[1], &words[0], sizeof(int)));
    EXPECT(100 == added(add, ctx[0], memory[1]));
}

static const struct {
    const char *name;
    void (*run)(void);
} checks[] = {
    {"init-fails", init_fails},
    {"inits", inits},
    {"memory-limit", memory_limit},
    {"sparse", sparse},
    {"visible", visible},
    {"none-visible", none_visible},
    {"disabled", disabled},
    {"faults", faults},
    {"counters", counters},
    {"hookable", hookable},
    {"other-node", other_node},
    {"freed-while-open", freed_while_open},
    {"freed-while-open-by-killed", freed_while_open_by_killed},
    {"dead-recorder", dead_recorder},
    {"damage", damage},
    {"waiting-kernel", waiting_kernel},
    {"hold", hold},
};

int main(int argc, char **argv)
{
    size_t i;

    for (i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
        if (2 == argc && 0 == strcmp(argv[1], checks[i].name)) {
            checks[i].run();
            return failures > 0;
        }
    }
    fprintf(stderr, "usage: limits_test NAME\n");
    return 2;
}
