/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory of cuMemCreate that may be exported as a file descriptor, in ranges of several chunks as growing allocators
 * make them. Messages lie in a chunk, or cross from one to the next. Single ranks replace the memory of a chunk, at the
 * same address. One chunk of a range may not be exported, and some buffers are cudaMalloc's. Whatever peers have mapped
 * before, every result must be right, and in the end no descriptor is left.
 *
 *   buffers_shared mapped|evicted|copied|across
 *
 * mapped: calls on the same chunks again are reduced in place, without a copy. evicted: mappings do not stay. copied:
 * nothing is mapped. across: between nodes, where shards are copied; mapped in each node.
 */
#include "calls.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CALLS 90
#define BUFFERS 3
#define CHUNKS 3
#define ELEMENTS 16384 /* longer than the form of short messages, which maps nothing */
#define BYTES (ELEMENTS * sizeof(double))

#define FUNCTIONS(X)                 \
    X(cuMemGetAllocationGranularity) \
    X(cuMemAddressReserve)           \
    X(cuMemAddressFree)              \
    X(cuMemCreate)                   \
    X(cuMemRelease)                  \
    X(cuMemMap)                      \
    X(cuMemUnmap)                    \
    X(cuMemSetAccess)

#define FIELD(name) __typeof__(&(name)) name;
static struct {
    FUNCTIONS(FIELD)
} cu;

static size_t chunk; /* bytes */
static int device;

static void driver_find(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (NULL == library) {
        fprintf(stderr, "no driver\n");
        _Exit(3);
    }
#define FIND(name) cu.name = (__typeof__(cu.name)) dlsym(library, #name);
    FUNCTIONS(FIND)
}

static CUmemAllocationProp properties_of(bool shareable)
{
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .requestedHandleTypes =
                                     shareable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
}

static void chunk_map(CUdeviceptr at, bool shareable)
{
    const CUmemAllocationProp properties = properties_of(shareable);
    const CUmemAccessDesc access = {.location = properties.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle memory;
    CUDA_MUST(cu.cuMemCreate(&memory, chunk, &properties, 0));
    CUDA_MUST(cu.cuMemMap(at, chunk, 0, memory, 0));
    CUDA_MUST(cu.cuMemRelease(memory));
    CUDA_MUST(cu.cuMemSetAccess(at, chunk, &access, 1));
}

/* Other memory at the same address. */
static void chunk_replace(CUdeviceptr at)
{
    CUDA_MUST(cudaDeviceSynchronize());
    CUDA_MUST(cu.cuMemUnmap(at, chunk));
    chunk_map(at, true);
}

static unsigned draw(unsigned below) /* the same on all ranks */
{
    static unsigned long long state = 20262;
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned) (state >> 33) % below;
}

static void call(suite_t *suite, double *from, double *to, double *host)
{
    const double salt = (double) ++suite->salt, ranks = 0.5 * suite->nranks * (suite->nranks + 1);
    for (int i = 0; i < ELEMENTS; ++i) {
        host[i] = (suite->rank + 1) * (salt + i % 1021);
    }
    CUDA_MUST(cudaMemcpy(from, host, BYTES, cudaMemcpyHostToDevice));
    ++suite->calls;
    if (MPI_SUCCESS
        != MPI_Allreduce(from == to ? MPI_IN_PLACE : from, to, ELEMENTS, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD)) {
        suite_fail(suite, "call %lu: an error", suite->calls);
    }
    CUDA_MUST(cudaMemcpy(host, to, BYTES, cudaMemcpyDeviceToHost));
    for (int i = 0; i < ELEMENTS; ++i) {
        if (ranks * (salt + i % 1021) != host[i]) {
            suite_fail(suite, "call %lu: element %d is %g and not %g", suite->calls, i, host[i],
                       ranks * (salt + i % 1021));
            break;
        }
    }
}

/* Bytes from the start of a range to a message: in a chunk, or across the end of one. */
static size_t place(void)
{
    const size_t in = draw(CHUNKS), across = draw(CHUNKS - 1), offset = draw(8) * 64;
    return 0 == draw(6) ? (across + 1) * chunk - BYTES / 2 + offset : in * chunk + offset;
}

/* Calls in turn, while ranks replace chunks. */
static void run_changing(suite_t *suite, const CUdeviceptr *range, double *host)
{
    for (int i = 0; i < CALLS; ++i) {
        const unsigned from = draw(BUFFERS), to = draw(BUFFERS), old = draw(BUFFERS - 1),
                       who = draw((unsigned) suite->nranks);
        const size_t in = place(), out = from == to ? in : place(), which = draw(CHUNKS);
        call(suite, (double *) (uintptr_t) (range[from] + in), (double *) (uintptr_t) (range[to] + out), host);
        if (0 == draw(6) && (int) who == suite->rank) {
            chunk_replace(range[old] + which * chunk);
        }
    }
}

/* The same call again and again, without any copy of this program: then all copies are the component's. Counts those,
 * and the mappings opened, in the last 8 calls. */
static void run_again(suite_t *suite, const CUdeviceptr *range, unsigned long long *copies_p,
                      unsigned long long *opens_p)
{
    unsigned long long copies = 0, opens = 0;
    for (int i = 0; i < 16; ++i) {
        if (8 == i) {
            (void) buffer_emulator_count("copies", &copies);
            (void) buffer_emulator_count("ipc_opens", &opens);
        }
        ++suite->calls;
        if (MPI_SUCCESS
            != MPI_Allreduce((void *) (uintptr_t) range[0], (void *) (uintptr_t) (range[1] + chunk), ELEMENTS,
                             MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD)) {
            suite_fail(suite, "call %lu: an error", suite->calls);
        }
    }
    (void) buffer_emulator_count("copies", copies_p);
    (void) buffer_emulator_count("ipc_opens", opens_p);
    *copies_p -= copies;
    *opens_p -= opens;
}

/* Is this socket, as /proc/self/fd names it, one of the component's? */
static bool is_component_socket(const char *name)
{
    char line[300], inode[40];
    bool found = false;
    FILE *file = fopen("/proc/net/unix", "r");
    while (!found && NULL != file && NULL != fgets(line, sizeof(line), file)) {
        if (NULL != strstr(line, " @gpuhier-") && 1 == sscanf(line, "%*s %*s %*s %*s %*s %*s %30s", inode)) {
            found = 0 == strncmp(name, "socket:[", 8) && 0 == strncmp(name + 8, inode, strlen(inode))
                    && ']' == name[8 + strlen(inode)];
        }
    }
    if (NULL != file) {
        fclose(file);
    }
    return found;
}

/* Descriptors of this process that lead to memory which may be exported, or to a socket of the component. */
static int descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int n = 0;
    for (struct dirent *entry = NULL; NULL != folder && NULL != (entry = readdir(folder));) {
        char path[300], where[300];
        snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
        const ssize_t length = readlink(path, where, sizeof(where) - 1);
        where[length > 0 ? length : 0] = '\0';
        n += NULL != strstr(where, "cudasim-shared") || is_component_socket(where);
    }
    if (NULL != folder) {
        closedir(folder);
    }
    return n;
}

int main(int argc, char **argv)
{
    suite_t suite;
    pvars_t before, after;
    CUdeviceptr range[BUFFERS];
    double *host = malloc(BYTES);
    unsigned long long copies = 0, opens = 0, live = 0;
    const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};

    suite_begin(&suite, "buffers_shared", &argc, &argv);
    const char *what = argc > 1 ? argv[1] : "mapped";
    driver_find();
    CUDA_MUST(cudaGetDevice(&device));
    CUDA_MUST(cu.cuMemGetAllocationGranularity(&chunk, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    for (int i = 0; i < BUFFERS; ++i) {
        if (BUFFERS - 1 == i && 1 == suite.rank) {
            CUDA_MUST(cudaMalloc((void **) &range[i], CHUNKS * chunk));
            continue;
        }
        CUDA_MUST(cu.cuMemAddressReserve(&range[i], CHUNKS * chunk, 0, 0, 0));
        for (size_t c = 0; c < CHUNKS; ++c) {
            chunk_map(range[i] + c * chunk, i < BUFFERS - 1 || c < CHUNKS - 1);
        }
    }
    pvars_read(&before);
    run_changing(&suite, range, host);
    run_again(&suite, range, &copies, &opens);
    const bool emulated = buffer_emulator_count("ipc_live", &live);
    pvars_read(&after);
    if (CALLS + 16 != after.accelerated - before.accelerated) {
        suite_fail(&suite, "%llu of %d calls were accelerated",
                   (unsigned long long) (after.accelerated - before.accelerated), CALLS + 16);
    }
    if (0 == strcmp(what, "mapped") && emulated && 0 != copies) {
        suite_fail(&suite, "%llu copies in 8 calls on the same memory: it was not mapped", copies);
    }
    if (0 == strcmp(what, "copied") && emulated && 0 == copies) {
        suite_fail(&suite, "no copies in 8 calls: memory was mapped");
    }
    if (emulated && (0 == strcmp(what, "evicted")) != (opens > 0)) {
        suite_fail(&suite, "%llu mappings were opened in 8 calls on the same memory", opens);
    }
    CUDA_MUST(cudaDeviceSynchronize());
    for (int i = 0; i < BUFFERS; ++i) {
        if (BUFFERS - 1 == i && 1 == suite.rank) {
            CUDA_MUST(cudaFree((void *) (uintptr_t) range[i]));
            continue;
        }
        for (size_t c = 0; c < CHUNKS; ++c) {
            CUDA_MUST(cu.cuMemUnmap(range[i] + c * chunk, chunk));
        }
        CUDA_MUST(cu.cuMemAddressFree(range[i], CHUNKS * chunk));
    }
    const bool used = descriptors() > 0;
    if (emulated && !used && 0 != strcmp(what, "copied")) {
        suite_fail(&suite, "no descriptor is open before the end: the check after it says nothing");
    }
    const int status = suite_end(&suite), left = descriptors();
    if (0 != left || (buffer_emulator_count("ipc_live", &live) && 0 != live)) {
        suite_fail(&suite, "%d descriptors and %llu mappings are left at the end", left, live);
    }
    free(host);
    return 0 != status || suite.failures > 0;
}
