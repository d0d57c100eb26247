/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Measures what the component pays for on this machine: the host's cost of each driver function that a call uses, the
 * time from a submission to its visible end, memory and copy engines, and what another process sees of this one's
 * memory through CUDA IPC. It uses the component's own table of driver functions and its own kernels.
 *
 *   calibrate [--model FILE]
 *
 * One line a figure: key, median, unit, the 10th and the 90th percentile, what it is. --model writes the medians as
 * "key = value" under a heading with the hardware and the date. Returns 77 without a GPU. On an emulated driver the
 * lines say so: they show that the program works, and tell nothing about hardware.
 */
#include "gpu/coll_gpuhier_gdr.h"
#include "kernel_driver.h"

#include <dlfcn.h>
#include <signal.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ompi/constants.h"

/* Driver functions that the component does not call. An older driver may lack one: its lines are left out. */
#define MORE_FUNCTIONS(X)        \
    X(cuEventElapsedTime)        \
    X(cuMemHostGetDevicePointer) \
    X(cuMemcpyDtoHAsync)         \
    X(cuMemcpyHtoDAsync)         \
    X(cuStreamWriteValue64)      \
    X(cuStreamWaitValue64)       \
    X(cuDeviceCanAccessPeer)     \
    X(cuCtxEnablePeerAccess)

#define FIELD(symbol) __typeof__(symbol) *symbol;
static struct {
    MORE_FUNCTIONS(FIELD)
} more;
#undef FIELD

#define STRING(text) #text
#define NAME(symbol) STRING(symbol) /* cuda.h maps some names to a newer version */

enum { ROUNDS = 200, COPIES = 12 };
static const size_t block = (size_t) 64 << 20; /* bytes of one large transfer */

static FILE *model;
static bool emulated;
static CUstream stream;
static CUcontext context;
static gpuhier_reduce_t kernels;
static CUdeviceptr memory;         /* nine blocks */
static volatile uint64_t *word;    /* pinned host memory */
static CUdeviceptr word_on_device; /* the same, as kernels see it */

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double) t.tv_sec + 1e-3 * (double) t.tv_nsec;
}

static int rising(const void *a, const void *b)
{
    const double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

/* Sorts the samples, prints their median, and keeps it for the model. */
static void tell(const char *key, const char *unit, double *sample, int samples, const char *what)
{
    qsort(sample, (size_t) samples, sizeof(*sample), rising);
    printf("%-26s %10.3f %-5s %10.3f .. %-10.3f %s\n", key, sample[samples / 2], unit, sample[samples / 10],
           sample[samples - 1 - samples / 10], what);
    if (NULL != model) {
        fprintf(model, "%s = %.3f  # %s, %s\n", key, sample[samples / 2], unit, what);
    }
}

/* Nanoseconds of the host for one call of `what`, which leaves no more than a little work on the stream. */
static void host_cost(const char *key, void (*what)(void), const char *text)
{
    enum { CALLS = 16 };
    double sample[ROUNDS];
    for (int i = 0; i < ROUNDS; ++i) {
        must(gpuhier_cu.cuStreamSynchronize(stream), "wait");
        const double begin = now_us();
        for (int k = 0; k < CALLS; ++k) {
            what();
        }
        sample[i] = 1e3 * (now_us() - begin) / CALLS;
    }
    must(gpuhier_cu.cuStreamSynchronize(stream), "wait");
    tell(key, "ns", sample, ROUNDS, text);
}

/* Microseconds from the call of `what` to its return, with an idle stream before it. */
static void latency(const char *key, void (*what)(void), const char *text)
{
    double sample[ROUNDS];
    for (int i = 0; i < ROUNDS + 10; ++i) {
        must(gpuhier_cu.cuStreamSynchronize(stream), "wait");
        const double begin = now_us();
        what();
        sample[i < 10 ? 0 : i - 10] = now_us() - begin; /* the first ten warm up */
    }
    tell(key, "us", sample, ROUNDS, text);
}

/* GB/s by the GPU's clock, counting `bytes` for one call of `what`. */
static void rate(const char *key, void (*what)(void), double bytes, const char *text)
{
    double sample[COPIES];
    CUevent from, to;
    must(gpuhier_cu.cuEventCreate(&from, CU_EVENT_DEFAULT), "make an event");
    must(gpuhier_cu.cuEventCreate(&to, CU_EVENT_DEFAULT), "make an event");
    for (int i = 0; i < COPIES + 2; ++i) {
        float ms = 0;
        must(gpuhier_cu.cuEventRecord(from, stream), "record");
        what();
        must(gpuhier_cu.cuEventRecord(to, stream), "record");
        must(gpuhier_cu.cuCtxSynchronize(), "wait");
        must(more.cuEventElapsedTime(&ms, from, to), "measure");
        sample[i < 2 ? 0 : i - 2] = ms > 0 ? 1e-6 * bytes / ms : 0;
    }
    gpuhier_cu.cuEventDestroy(from);
    gpuhier_cu.cuEventDestroy(to);
    tell(key, "GB/s", sample, COPIES, text);
}

/* The things that are measured. */
static CUevent event;

static void launch_of(CUdeviceptr to, CUdeviceptr from, uint64_t bytes)
{
    const gpuhier_kernel_args_t args = {.src = {from}, .dst = {to}, .nsrc = 1, .ndst = 1, .count = bytes};
    if (OMPI_SUCCESS != gpuhier_reduce_push(&kernels, GPUHIER_REDUCE_bor_uint8, &args, stream)) {
        fprintf(stderr, "calibrate: a kernel cannot be launched\n");
        exit(1);
    }
}

static void sum_of(uint32_t nsrc, CUdeviceptr from, size_t stride, CUdeviceptr to)
{
    gpuhier_kernel_args_t args = {.dst = {to}, .nsrc = nsrc, .ndst = 1, .count = block / sizeof(float)};
    for (uint32_t i = 0; i < nsrc; ++i) {
        args.src[i] = from + i * stride;
    }
    if (OMPI_SUCCESS != gpuhier_reduce_launch(&kernels, GPUHIER_REDUCE_sum_float, &args, stream)) {
        fprintf(stderr, "calibrate: a kernel cannot be launched\n");
        exit(1);
    }
}

static void do_nothing(void)
{
}

static void do_inspect(void)
{
    gpuhier_buffer_t buffer;
    gpuhier_buffer_inspect((const void *) (uintptr_t) memory, &buffer);
}

static void do_enter(void)
{
    gpuhier_cuda_scope_t scope;
    if (OMPI_SUCCESS == gpuhier_cuda_enter(context, &scope)) {
        gpuhier_cuda_leave(&scope);
    }
}

static void do_stream_query(void)
{
    (void) gpuhier_cu.cuStreamQuery(stream);
}

static void do_event_query(void)
{
    (void) gpuhier_cu.cuEventQuery(event);
}

static void do_event_record(void)
{
    must(gpuhier_cu.cuEventRecord(event, stream), "record");
}

static void do_stream_wait(void)
{
    must(gpuhier_cu.cuStreamWaitEvent(stream, event, 0), "wait for an event");
}

static void do_launch(void)
{
    launch_of(memory + 64, memory, 8);
}

static void do_copy_to_host(void)
{
    must(more.cuMemcpyDtoHAsync((void *) word, memory, 8, stream), "copy");
}

static void do_copy_to_device(void)
{
    must(more.cuMemcpyHtoDAsync(memory, (const void *) word, 8, stream), "copy");
}

static void do_copy_and_wait(void)
{
    do_copy_to_host();
    must(gpuhier_cu.cuStreamSynchronize(stream), "wait");
}

static void do_copy_in_and_wait(void)
{
    do_copy_to_device();
    must(gpuhier_cu.cuStreamSynchronize(stream), "wait");
}

static void do_legacy_copy(void)
{
    must(gpuhier_cu.cuMemcpyDtoH((void *) word, memory, 8), "copy");
}

static void do_launch_and_wait(void)
{
    do_launch();
    must(gpuhier_cu.cuStreamSynchronize(stream), "wait");
}

static void do_launch_and_poll(void)
{
    do_launch();
    do_event_record();
    while (CUDA_ERROR_NOT_READY == gpuhier_cu.cuEventQuery(event)) {
    }
}

/* A kernel stores the word that the host looks at. */
static void do_launch_and_see(void)
{
    *word = 0;
    launch_of(word_on_device, memory + 128, 8);
    while (0 == *word) {
    }
}

static void do_write_value(void)
{
    must(more.cuStreamWriteValue64(stream, word_on_device, 1, 0), "write a word");
}

static void do_write_and_see(void)
{
    *word = 0;
    do_write_value();
    while (0 == *word) {
    }
}

/* The stream waits for the host's word, then stores the next one. */
static void do_wait_and_write(void)
{
    word[0] = word[1] = 0;
    must(more.cuStreamWaitValue64(stream, word_on_device, 1, CU_STREAM_WAIT_VALUE_EQ), "wait for a word");
    must(more.cuStreamWriteValue64(stream, word_on_device + 8, 1, 0), "write a word");
    const double settle = now_us() + 20;
    while (now_us() < settle) {
    }
    word[0] = 1;
    while (0 == word[1]) {
    }
}

static void do_device_copy(void)
{
    must(gpuhier_cu.cuMemcpyAsync(memory + block, memory, block, stream), "copy");
}

static void do_kernel_copy(void)
{
    launch_of(memory + block, memory, block);
}

static void do_sum_8(void)
{
    sum_of(8, memory, block, memory + 8 * block);
}

static void *pinned;

static void do_block_to_host(void)
{
    must(more.cuMemcpyDtoHAsync(pinned, memory, block, stream), "copy");
}

static void do_block_to_device(void)
{
    must(more.cuMemcpyHtoDAsync(memory, pinned, block, stream), "copy");
}

/* What another process exports. */
static CUipcMemHandle exported;
static CUdeviceptr mapped;

static void do_map(void)
{
    must(gpuhier_cu.cuIpcOpenMemHandle(&mapped, exported, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
         "map another process's memory");
}

static void do_unmap(void)
{
    must(gpuhier_cu.cuIpcCloseMemHandle(mapped), "unmap");
}

static void do_mapped_copy(void)
{
    must(gpuhier_cu.cuMemcpyAsync(memory, mapped, block, stream), "copy");
}

static void do_mapped_kernel(void)
{
    launch_of(memory, mapped, block);
}

static void do_mapped_push(void)
{
    launch_of(mapped, memory, block);
}

static void do_mapped_word(void)
{
    launch_of(memory, mapped, 8);
    must(gpuhier_cu.cuStreamSynchronize(stream), "wait");
}

/* The other process: exports a block of the last GPU (the only one, if there is one), and waits until it may go. */
static int export_block(int out, int in)
{
    CUdevice device;
    CUcontext own;
    CUdeviceptr given;
    CUipcMemHandle handle;
    char byte;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int gpus = gpus_found();
    if (0 == gpus) {
        return 77;
    }
    must(gpuhier_cu.cuDeviceGet(&device, gpus - 1), "take the last GPU");
    must(gpuhier_cu.cuDevicePrimaryCtxRetain(&own, device), "make a context");
    must(gpuhier_cu.cuCtxPushCurrent(own), "enter the context");
    must(gpuhier_cu.cuMemAlloc(&given, block), "allocate");
    must(gpuhier_cu.cuIpcGetMemHandle(&handle, given), "export memory");
    if (sizeof(handle) != write(out, &handle, sizeof(handle))) {
        return 1;
    }
    (void) !read(in, &byte, 1);
    return 0;
}

/* Maps what the child exports, and measures it, with the child's GPU named in the text. */
static void measure_ipc(int child_out, int child_in)
{
    double sample[COPIES], closed[COPIES];
    if (sizeof(exported) != read(child_out, &exported, sizeof(exported))) {
        printf("# no figures of CUDA IPC: the other process could not export its memory\n");
        return;
    }
    for (int i = 0; i < COPIES; ++i) {
        double begin = now_us();
        do_map();
        sample[i] = now_us() - begin;
        begin = now_us();
        do_unmap();
        closed[i] = now_us() - begin;
    }
    tell("ipc_open_us", "us", sample, COPIES, "cuIpcOpenMemHandle of 64 MiB");
    tell("ipc_close_us", "us", closed, COPIES, "cuIpcCloseMemHandle");
    do_map();
    latency("ipc_kernel_read_us", do_mapped_word, "a kernel that reads 8 bytes of another process, and synchronise");
    rate("ipc_copy_gbs", do_mapped_copy, (double) block, "a copy of 64 MiB from another process");
    rate("ipc_read_gbs", do_mapped_kernel, (double) block, "a kernel that reads 64 MiB of another process");
    rate("ipc_write_gbs", do_mapped_push, (double) block, "a kernel that writes 64 MiB to another process");
    do_unmap();
    (void) !write(child_in, "", 1);
}

static gpuhier_buffer_t memory_is;
static char by_host[4096];

static void do_gdr_read_8(void)
{
    (void) gpuhier_gdr_read(by_host, memory, 8, memory_is.id);
}

static void do_gdr_read_1k(void)
{
    (void) gpuhier_gdr_read(by_host, memory, 1024, memory_is.id);
}

static void do_gdr_read_4k(void)
{
    (void) gpuhier_gdr_read(by_host, memory, 4096, memory_is.id);
}

static void do_gdr_write_8(void)
{
    (void) gpuhier_gdr_write(memory, by_host, 8, memory_is.id);
}

static void do_gdr_write_4k(void)
{
    (void) gpuhier_gdr_write(memory, by_host, 4096, memory_is.id);
}

static void measure_host_costs(void)
{
    host_cost("loop_ns", do_nothing, "the measurement itself");
    host_cost("pointer_attributes_ns", do_inspect, "what is this pointer: gpuhier_buffer_inspect()");
    host_cost("context_switch_ns", do_enter, "enter and leave a context, with the capture mode");
    host_cost("stream_query_ns", do_stream_query, "cuStreamQuery of an idle stream");
    must(gpuhier_cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "make an event");
    do_event_record();
    must(gpuhier_cu.cuStreamSynchronize(stream), "wait");
    host_cost("event_query_ns", do_event_query, "cuEventQuery of an event that has passed");
    host_cost("event_record_ns", do_event_record, "cuEventRecord");
    host_cost("stream_wait_ns", do_stream_wait, "cuStreamWaitEvent");
    host_cost("launch_ns", do_launch, "cuLaunchKernel with 1,040 bytes of arguments");
    host_cost("copy_to_host_ns", do_copy_to_host, "cuMemcpyDtoHAsync of 8 bytes into pinned memory");
    host_cost("copy_to_device_ns", do_copy_to_device, "cuMemcpyHtoDAsync of 8 bytes from pinned memory");
    if (NULL != more.cuStreamWriteValue64) {
        host_cost("write_value_ns", do_write_value, "cuStreamWriteValue64");
    }
}

static void measure_latencies(void)
{
    latency("launch_wait_us", do_launch_and_wait, "launch, cuStreamSynchronize");
    latency("launch_poll_us", do_launch_and_poll, "launch, event, poll it");
    latency("launch_see_us", do_launch_and_see, "launch, see the word that the kernel stores in host memory");
    latency("copy_to_host_us", do_copy_and_wait, "8 bytes to the host, cuStreamSynchronize");
    latency("copy_to_device_us", do_copy_in_and_wait, "8 bytes to the GPU, cuStreamSynchronize");
    latency("legacy_copy_us", do_legacy_copy, "cuMemcpyDtoH of 8 bytes");
    if (NULL != more.cuStreamWriteValue64 && NULL != more.cuStreamWaitValue64) {
        latency("write_value_us", do_write_and_see, "cuStreamWriteValue64, see it in host memory");
        latency("wait_write_us", do_wait_and_write, "20 us, then the host's word through a waiting stream and back");
    }
}

static void measure_rates(void)
{
    rate("device_copy_gbs", do_device_copy, 2.0 * (double) block, "copy of 64 MiB in device memory, read and written");
    rate("kernel_copy_gbs", do_kernel_copy, 2.0 * (double) block, "the same by gpuhier_copy");
    rate("kernel_sum8_gbs", do_sum_8, 9.0 * (double) block, "sum of 8 sources of 64 MiB each");
    rate("to_host_gbs", do_block_to_host, (double) block, "64 MiB to pinned host memory");
    rate("to_device_gbs", do_block_to_device, (double) block, "64 MiB from pinned host memory");
}

/* By GDRCopy, where it is installed. Also what a query of the default stream means, which decides how short calls wait.
 */
static void measure_gdr(void)
{
    double covers = gpuhier_gdr_query_suffices();
    tell("default_query", "", &covers, 1, "1: a query of the default stream tells of the blocking streams as well");
    gpuhier_buffer_inspect((const void *) (uintptr_t) memory, &memory_is);
    const double begin = now_us();
    if (!gpuhier_gdr_map((const void *) (uintptr_t) memory, 4096, &memory_is, 0)) {
        printf("# the host cannot read and write GPU memory: no GDRCopy\n");
        return;
    }
    double open_us = now_us() - begin;
    tell("gdr_open_us", "us", &open_us, 1, "a page pinned and mapped for the host, with the library's start");
    latency("gdr_read_8_us", do_gdr_read_8, "8 bytes read by the host, in 16");
    latency("gdr_read_1k_us", do_gdr_read_1k, "1 KiB read by the host");
    latency("gdr_read_4k_us", do_gdr_read_4k, "4 KiB");
    latency("gdr_write_8_us", do_gdr_write_8, "8 bytes written by the host");
    latency("gdr_write_4k_us", do_gdr_write_4k, "4 KiB");
    gpuhier_gdr_finalize();
}

/* Kernels and copies between GPU 0 and the last one, by one process. */
static void describe(int gpus)
{
    CUdevice device;
    char name[128] = "";
    char today[32];
    int driver = 0;
    const time_t now = time(NULL);
    must(gpuhier_cu.cuDeviceGet(&device, 0), "take GPU 0");
    must(gpuhier_cu.cuDeviceGetName(name, sizeof(name), device), "name GPU 0");
    (void) gpuhier_cu.cuDriverGetVersion(&driver);
    strftime(today, sizeof(today), "%Y-%m-%d", gmtime(&now));
    printf("# %s%s, %d GPU(s), CUDA driver %d.%d, %s; %s\n", emulated ? "EMULATED, no hardware: " : "", name, gpus,
           driver / 1000, driver % 1000 / 10, today,
           gpus > 1 ? "the other process uses the last GPU" : "both processes share the GPU: no NVLink in the figures");
    if (NULL != model) {
        fprintf(model, "# Measured by test/gpu/calibrate on %s%s, %d GPU(s), CUDA driver %d.%d, %s\n",
                emulated ? "an EMULATED GPU: " : "", name, gpus, driver / 1000, driver % 1000 / 10, today);
    }
}

int main(int argc, char **argv)
{
    int to_parent[2], to_child[2];
    if ((1 != argc && 3 != argc) || (3 == argc && 0 != strcmp(argv[1], "--model"))) {
        fprintf(stderr, "usage: calibrate [--model FILE]\n");
        return 2;
    }
    if (0 != pipe(to_parent) || 0 != pipe(to_child)) {
        perror("calibrate: pipe");
        return 1;
    }
    /* The other process begins before this one knows CUDA: a driver does not survive a fork. */
    const pid_t child = fork();
    if (0 == child) {
        close(to_parent[0]);
        close(to_child[1]);
        _exit(export_block(to_parent[1], to_child[0]));
    }
    close(to_parent[1]);
    close(to_child[0]);
    const int gpus = gpus_found();
    if (0 == gpus) {
        printf("no GPU\n");
        return 77;
    }
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    emulated = NULL != dlsym(library, "cudasim_counter");
#define FIND(symbol) *(void **) &more.symbol = dlsym(library, NAME(symbol));
    MORE_FUNCTIONS(FIND)
#undef FIND
    if (3 == argc && NULL == (model = fopen(argv[2], "w"))) {
        perror(argv[2]);
        return 1;
    }
    describe(gpus);

    CUdevice device;
    must(gpuhier_cu.cuDeviceGet(&device, 0), "take GPU 0");
    must(gpuhier_cu.cuDevicePrimaryCtxRetain(&context, device), "make a context");
    must(gpuhier_cu.cuCtxPushCurrent(context), "enter the context");
    if (OMPI_SUCCESS != gpuhier_reduce_open(&kernels)) {
        fprintf(stderr, "calibrate: the kernels cannot be loaded\n");
        return 1;
    }
    kernels.enough_blocks = UINT_MAX; /* what the whole GPU's memory gives is asked, not what the links need */
    must(gpuhier_cu.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0), "make a stream");
    must(gpuhier_cu.cuMemAlloc(&memory, 9 * block), "allocate");
    must(gpuhier_cu.cuMemHostAlloc((void **) &word, 4096, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
         "allocate pinned memory");
    must(gpuhier_cu.cuMemHostAlloc(&pinned, block, CU_MEMHOSTALLOC_PORTABLE), "allocate pinned memory");
    must(more.cuMemHostGetDevicePointer(&word_on_device, (void *) word, 0), "map pinned memory");
    *word = 1;
    must(gpuhier_cu.cuMemcpyHtoD(memory + 128, (const void *) word, 8), "copy");
    must(gpuhier_cu.cuCtxSynchronize(), "wait");

    measure_host_costs();
    measure_latencies();
    measure_rates();
    measure_gdr();
    measure_ipc(to_parent[0], to_child[1]);

    int status = 0;
    close(to_child[1]);
    (void) waitpid(child, &status, 0);
    if (NULL != model && 0 != fclose(model)) {
        perror(argv[2]);
        return 1;
    }
    return WIFEXITED(status) && 0 == WEXITSTATUS(status) ? 0 : 1;
}
