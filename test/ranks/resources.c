/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Counts what this process holds of everything that can leak: from /proc, /dev/shm, the CUDA runtime and the emulator.
 * Its callers judge the numbers.
 * Called by: soak_watch.c; fault_leaks.c of test/fault.
 */
#include "resources.h"

#include <cuda_runtime_api.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "buffers.h"

const char *const resource_names[RESOURCES] = {"descriptors",       "mappings",
                                               "files in /dev/shm", "bytes of GPU memory",
                                               "GPU allocations",   "pieces of others' GPU memory",
                                               "GPU events",        "KiB of private memory"};

static long entries(const char *path)
{
    DIR *folder = opendir(path);
    long count = 0;
    while (NULL != folder && NULL != readdir(folder)) {
        ++count;
    }
    if (NULL != folder) {
        closedir(folder);
    }
    return count;
}

/* Not of shared memory: more and more pages of a piece are touched, and a piece that leaks is a mapping. */
static long private_kib(void)
{
    long size, pages = 0, shared = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (NULL == file || 3 != fscanf(file, "%ld %ld %ld", &size, &pages, &shared)) {
        pages = shared;
    }
    if (NULL != file) {
        fclose(file);
    }
    return (pages - shared) * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Of shared memory and files: malloc's own come and go. */
static long mappings(void)
{
    char line[512];
    long count = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    while (NULL != file && NULL != fgets(line, sizeof(line), file)) {
        count += NULL != strchr(line, '/') && NULL == strstr(line, "/memfd:");
    }
    if (NULL != file) {
        fclose(file);
    }
    return count;
}

/* By the emulator; 0 on a real GPU. */
static long gauge(const char *name)
{
    unsigned long long value = 0;
    return buffer_emulator_count(name, &value) ? (long) value : 0;
}

void resources_read(long found[RESOURCES])
{
    size_t free_bytes, all_bytes;
    CUDA_MUST(cudaMemGetInfo(&free_bytes, &all_bytes));
    found[RESOURCE_DESCRIPTORS] = entries("/proc/self/fd");
    found[RESOURCE_MAPPINGS] = mappings();
    found[RESOURCE_SHM_FILES] = entries("/dev/shm");
    found[RESOURCE_GPU_BYTES] = (long) (all_bytes - free_bytes);
    found[RESOURCE_GPU_ALLOCATIONS] = gauge("allocs_live");
    found[RESOURCE_IPC_OPEN] = gauge("ipc_live");
    found[RESOURCE_GPU_EVENTS] = gauge("events_live");
    found[RESOURCE_PRIVATE_KIB] = private_kib();
}
