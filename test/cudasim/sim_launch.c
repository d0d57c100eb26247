/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Launches.
 *
 * Owns the twin libraries (CUDASIM_TWINS) and the work item of a launch: copies of
 * the parameters, and the account of bytes that the twin reports. Does not own
 * modules and functions (drv_module.c). A twin is trusted with addresses as a kernel
 * is; an access outside every allocation or to a GPU that is not reachable poisons
 * the context, as it does on the real GPU.
 */
#include "sim_launch.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cudasim.h"
#include "sim_counters.h"
#include "sim_damage.h"
#include "sim_engine.h"
#include "sim_memory.h"
#include "sim_model.h"
#include "sim_multicast.h"
#include "sim_pool.h"

#define MAX_TWIN_LIBRARIES 16
#define MAX_PARAMS 64

struct launch_work {
    cudasim_launch_t launch; /* first: the twin hands it back to traffic() */
    const cudasim_kernel_t *kernel;
    CUcontext ctx;
    struct sim_kernel_time *time; /* NULL without a model */
    uint64_t order;               /* in which a multicast address gives its copies */
    uint32_t nparams;
    /* nparams offsets, then the values */
    uint32_t offsets[];
};

static const cudasim_twin_table_t *tables[MAX_TWIN_LIBRARIES];
static int ntables;
static int exact;

static int twin_load(const char *path)
{
    const cudasim_twin_table_t *table;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (NULL == library) {
        fprintf(stderr, "cudasim: CUDASIM_TWINS: %s\n", dlerror());
        return -1;
    }
    table = dlsym(library, "cudasim_twins");
    if (NULL == table || CUDASIM_TWIN_ABI != table->abi) {
        fprintf(stderr, "cudasim: CUDASIM_TWINS: %s has no table cudasim_twins of version %d\n", path,
                CUDASIM_TWIN_ABI);
        return -1;
    }
    if (MAX_TWIN_LIBRARIES == ntables) {
        fprintf(stderr, "cudasim: CUDASIM_TWINS: more than %d libraries\n", MAX_TWIN_LIBRARIES);
        return -1;
    }
    tables[ntables++] = table;
    return 0;
}

int sim_launch_setup(void)
{
    const char *list = getenv("CUDASIM_TWINS"), *mode = getenv("CUDASIM_EXACT");
    char *text, *save = NULL, *path;
    int rc = 0;

    exact = NULL != mode && '\0' != mode[0] && 0 != strcmp(mode, "0");
    if (NULL == list) {
        return 0;
    }
    text = strdup(list);
    if (NULL == text) {
        return -1;
    }
    for (path = strtok_r(text, ":", &save); NULL != path && 0 == rc; path = strtok_r(NULL, ":", &save)) {
        rc = twin_load(path);
    }
    free(text);
    return rc;
}

const cudasim_kernel_t *sim_launch_find(const char *name)
{
    uint32_t i;
    int t;

    for (t = 0; t < ntables; t++) {
        for (i = 0; i < tables[t]->nkernels; i++) {
            if (0 == strcmp(name, tables[t]->kernels[i].name)) {
                return &tables[t]->kernels[i];
            }
        }
    }
    return NULL;
}

/* Whether the launching context's GPU may access the allocation. */
static bool reachable(CUcontext ctx, const struct sim_alloc *alloc)
{
    if (alloc->kind >= SIM_KIND_HOST || SIM_KIND_IMPORT == alloc->kind) {
        return true; /* opening a handle brings peer access with it */
    }
    if (SIM_KIND_RESERVED == alloc->kind || SIM_KIND_MULTICAST == alloc->kind) {
        return false;
    }
    if (SIM_KIND_MAPPED == alloc->kind) {
        return 0 != (alloc->access & (1 << ctx->physical));
    }
    if (SIM_KIND_POOL == alloc->kind) {
        return sim_pool_access(alloc, ctx->physical);
    }
    return alloc->device == ctx->physical || 0 != atomic_load(&ctx->peers[alloc->device]);
}

/* One access, or as much of it as lies in one allocation: mapped chunks may follow each other. Returns the bytes
 * checked, 0 for an illegal access. */
static size_t traffic_piece(const struct launch_work *work, uintptr_t address, size_t bytes, int is_write)
{
    const struct sim_alloc *alloc = sim_memory_find(address);
    const size_t room = NULL == alloc ? 0 : alloc->base + alloc->size - address;
    char text[200];

    if (NULL == alloc || (bytes > room && SIM_KIND_MAPPED != alloc->kind) || !reachable(work->ctx, alloc)) {
        snprintf(text, sizeof(text), "kernel %s %s %zu bytes at %p, which is %s", work->kernel->name,
                 is_write ? "writes" : "reads", bytes, (void *) address,
                 NULL == alloc                       ? "no memory that a GPU can access"
                 : SIM_KIND_MULTICAST == alloc->kind ? "a multicast address, for multimem instructions only"
                 : reachable(work->ctx, alloc)       ? "beyond the end of an allocation"
                                                     : "memory of a GPU without peer access to it");
        sim_context_poison(work->ctx, CUDA_ERROR_ILLEGAL_ADDRESS, text);
        return 0;
    }
    const size_t length = bytes < room ? bytes : room;
    if (NULL != work->time) {
        sim_kernel_flow(work->time, address, length, 0 != is_write);
    }
    const int place = sim_memory_place(alloc);
    if (is_write) {
        sim_count_link(work->launch.device, place, length);
    } else {
        sim_count_link(place, work->launch.device, length);
    }
    return length;
}

static void traffic(const cudasim_launch_t *launch, uintptr_t address, size_t bytes, int is_write)
{
    size_t length;

    do {
        length = traffic_piece((const void *) launch, address, bytes, is_write);
        address += length;
        bytes -= length;
    } while (length > 0 && bytes > 0);
}

/* What a multimem instruction reaches; false after the launch was stopped. */
static bool team_of(const struct launch_work *work, uintptr_t address, size_t bytes, struct sim_team *team_p)
{
    char text[200];

    if (sim_multicast_reach(address, bytes, work->launch.device, team_p)) {
        return true;
    }
    snprintf(text, sizeof(text),
             "kernel %s accesses %zu bytes at %p by a multimem instruction, behind which not every GPU of a multicast "
             "team has memory",
             work->kernel->name, bytes, (void *) address);
    sim_context_poison(work->ctx, CUDA_ERROR_ILLEGAL_ADDRESS, text);
    return false;
}

static void count_team(int device, const struct sim_team *team, size_t bytes, bool is_write)
{
    for (int i = 0; i < team->count; i++) {
        sim_count_link(is_write ? SIM_SWITCH : team->devices[i], is_write ? team->devices[i] : SIM_SWITCH, bytes);
    }
    sim_count_link(is_write ? device : SIM_SWITCH, is_write ? SIM_SWITCH : device, bytes);
}

static int multicast(const cudasim_launch_t *launch, uintptr_t address, size_t bytes, void **copies, int max)
{
    const struct launch_work *work = (const void *) launch;
    uint64_t order = work->order;
    struct sim_team team;

    if (!team_of(work, address, bytes, &team)) {
        return 0;
    }
    if (team.count > max) {
        sim_context_poison(work->ctx, CUDA_ERROR_ILLEGAL_ADDRESS, "a twin takes fewer copies than its team has GPUs");
        return 0;
    }
    /* A shuffle, so that no kernel can rely on an order. */
    for (int i = 0; i < team.count; i++) {
        const int k = (int) (order % (uint64_t) (i + 1));
        order /= (uint64_t) (i + 1);
        if (k < i) {
            copies[i] = copies[k];
        }
        copies[k] = team.copies[i];
    }
    return team.count;
}

static void multimem(const cudasim_launch_t *launch, uintptr_t address, size_t bytes, int is_write)
{
    const struct launch_work *work = (const void *) launch;
    struct sim_team team;

    if (!team_of(work, address, bytes, &team)) {
        return;
    }
    count_team(launch->device, &team, bytes, 0 != is_write);
    if (NULL != work->time) {
        sim_kernel_multicast(work->time, &team, bytes, 0 != is_write);
    }
}

/* A push to a multicast address: all members see the words. */
static void push_team(const struct launch_work *work, uintptr_t to, const void *from, size_t bytes)
{
    struct sim_team team;

    if (!team_of(work, to, bytes, &team)) {
        return;
    }
    count_team(work->launch.device, &team, bytes, true);
    if (NULL != work->time) {
        sim_kernel_push_multicast(work->time, &team, from, bytes);
        return;
    }
    for (int i = 0; i < team.count; i++) {
        sim_deliver(team.copies[i], from, bytes);
    }
}

static void push(const cudasim_launch_t *launch, uintptr_t to, const void *from, size_t bytes)
{
    const struct launch_work *work = (const void *) launch;
    const struct sim_alloc *alloc = sim_memory_find(to);
    unsigned char *view = cudasim_host_view(launch, to);

    if (NULL != alloc && SIM_KIND_MULTICAST == alloc->kind) {
        push_team(work, to, from, bytes);
        return;
    }
    struct sim_kernel_time *time = work->time;
    struct launch_work counted = *work;

    counted.time = NULL; /* a push has its own time: its bytes are only counted */
    traffic(&counted.launch, to, bytes, 1);
    if (CUDA_SUCCESS != atomic_load(&work->ctx->sticky)) {
        return; /* an illegal write is not done */
    }
    if (NULL != time) {
        sim_kernel_push(time, to, from, bytes);
    } else {
        uint64_t first;
        if (NULL == alloc || alloc->kind >= SIM_KIND_HOST || 0 != to % sizeof(first) || bytes < sizeof(first)) {
            sim_deliver(view, from, bytes);
            return;
        }
        memcpy(&first, from, sizeof(first));
        const bool sleeps = sim_word_push(view, first);
        sim_deliver(view + sizeof(first), (const unsigned char *) from + sizeof(first), bytes - sizeof(first));
        if (sleeps) {
            sim_word_wake(view);
        }
    }
}

/* The piece of work that a launch is. */
static struct sim_item *item_of(const struct launch_work *work)
{
    return (struct sim_item *) ((uintptr_t) work - offsetof(struct sim_item, payload));
}

static void wait(const cudasim_launch_t *launch)
{
    const struct launch_work *work = (const void *) launch;

    if (NULL != work->time) {
        sim_kernel_wait(work->time);
    } else {
        sim_item_wait(item_of(work), NULL, 0);
    }
}

static void await(const cudasim_launch_t *launch, uintptr_t address, uint32_t seen)
{
    const struct launch_work *work = (const void *) launch;
    unsigned char *view = cudasim_host_view(launch, address);

    if (NULL != work->time) {
        sim_kernel_wait(work->time);
    } else {
        sim_item_wait(item_of(work), (_Atomic uint64_t *) (void *) view, seen);
    }
}

static void shape(const cudasim_launch_t *launch, const cudasim_shape_t *given)
{
    const struct launch_work *work = (const void *) launch;

    if (NULL != work->time) {
        work->time->shape = *given;
    }
}

static void run_launch(struct sim_item *item)
{
    struct launch_work *work = (void *) item->payload;
    const uint32_t *grid = work->launch.grid, *block = work->launch.block;
    struct sim_kernel_time time;
    void *params[MAX_PARAMS];
    uint32_t i;

    if (CUDA_SUCCESS != atomic_load(&work->ctx->sticky)) {
        return; /* after an illegal access nothing else runs */
    }
    for (i = 0; i < work->nparams; i++) {
        params[i] = (unsigned char *) work + work->offsets[i];
    }
    if (sim_model.on) {
        sim_kernel_begin(&time, &sim_window.shared->ports[work->launch.device], item->start_ns,
                         grid[0] * grid[1] * grid[2], block[0] * block[1] * block[2]);
        work->time = &time;
    }
    work->kernel->run(&work->launch, params);
    if (sim_model.on) {
        item->end_ns = sim_kernel_end(&time);
    }
}

static uint64_t gpu_clock(void)
{
    return sim_model.on ? cudasim_model_ns() : sim_now_ns();
}

/* A number for a launch, from the seed, the GPU and the launches before: splitmix64. */
static uint64_t order_of(int device)
{
    static _Atomic uint64_t launches;
    uint64_t value =
        sim_engine_seed() + 0x9e3779b97f4a7c15ull * (32 * (atomic_fetch_add(&launches, 1) + 1) + (uint64_t) device);

    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
    return value ^ (value >> 31);
}

/* The alignment that a parameter of that size can have at most: its largest power of two, up to 16. */
static size_t alignment_of(size_t bytes)
{
    size_t alignment = bytes & (~bytes + 1);

    return alignment > 16 ? 16 : alignment;
}

CUresult sim_launch(const cudasim_kernel_t *kernel, const uint32_t grid[3], const uint32_t block[3],
                    size_t shared_bytes, CUstream stream, void **params, const void *packed, size_t packed_bytes)
{
    size_t head = sizeof(struct launch_work) + kernel->nparams * sizeof(uint32_t), total = (head + 15) & ~(size_t) 15;
    size_t from = 0, bytes;
    struct launch_work *work;
    struct sim_item *item;
    uint32_t i;

    if (kernel->nparams > MAX_PARAMS || (kernel->nparams > 0 && NULL == params && NULL == packed)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (i = 0; i < kernel->nparams; i++) {
        total += (kernel->param_bytes[i] + 15) & ~(size_t) 15;
    }
    item = sim_item_new(run_launch, total);
    item->waits = 0 != kernel->waits;
    work = (void *) item->payload;
    memset(&work->launch, 0, sizeof(work->launch));
    memcpy(work->launch.grid, grid, sizeof(work->launch.grid));
    memcpy(work->launch.block, block, sizeof(work->launch.block));
    work->launch.shared_bytes = shared_bytes;
    work->launch.window_base = sim_window.base;
    work->launch.window_size = sim_window.size;
    work->launch.alias_offset = sim_damage_alias(stream->ctx->physical);
    work->launch.device = stream->ctx->physical;
    work->launch.exact = exact;
    work->launch.timed = sim_model.on;
    work->launch.traffic = traffic;
    work->launch.push = push;
    work->launch.wait = wait;
    work->launch.await = await;
    work->launch.shape = shape;
    work->launch.multicast = multicast;
    work->launch.multimem = multimem;
    work->launch.clock = gpu_clock;
    work->kernel = kernel;
    work->order = order_of(stream->ctx->physical);
    work->time = NULL;
    item->name = kernel->name;
    item->is_kernel = true;
    work->ctx = stream->ctx;
    work->nparams = kernel->nparams;
    total = (head + 15) & ~(size_t) 15;
    for (i = 0; i < kernel->nparams; i++) {
        bytes = kernel->param_bytes[i];
        work->offsets[i] = (uint32_t) total;
        if (NULL != params) {
            memcpy((unsigned char *) work + total, params[i], bytes);
        } else {
            from = (from + alignment_of(bytes) - 1) & ~(alignment_of(bytes) - 1);
            if (from + bytes > packed_bytes) {
                sim_item_drop(item);
                return CUDA_ERROR_INVALID_VALUE;
            }
            memcpy((unsigned char *) work + total, (const unsigned char *) packed + from, bytes);
            from += bytes;
        }
        total += (bytes + 15) & ~(size_t) 15;
    }
    sim_count(launches);
    sim_submit(stream, item);
    return (CUresult) atomic_load_explicit(&stream->ctx->sticky, memory_order_relaxed);
}
