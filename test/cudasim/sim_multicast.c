/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Multicast objects.
 *
 * Owns the objects: which GPUs are in a team, and which memory of each is bound where. Does not own the checks of the
 * driver's calls (drv_multicast.c), the addresses at which objects are mapped (drv_map.c), or what
 * kernels do there (sim_launch.c).
 *
 * An object is a file without a name, which each process of the team has open and mapped; its descriptor is what
 * cuMemExportToShareableHandle gives. A binding names the process that made it and that process's descriptor of the
 * memory's file, which others open through /proc/PID/fd/N. So a killed process leaves nothing behind, and what it
 * had bound can no longer be reached by those that have not mapped it yet.
 *
 * Each process maps what is bound into a view of its own, one copy after the other:
 *
 *     view:   | member 0: object's bytes | member 1: object's bytes | ..
 *
 * and brings it up to date when a kernel asks and the object's count of changes is not the one that it has seen. The
 * addresses that programs see (cuMemMap) stay inaccessible: what is no multimem instruction faults there.
 */
#include "sim_multicast.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sim_context.h"
#include "sim_counters.h"
#include "sim_ipc.h"
#include "sim_model.h"
#include "sim_window.h"

#define HANDLE_MAGIC 0x6d637431u
#define FILE_MAGIC 0x6375646173666d31ull
#define MAX_BINDINGS 128 /* of one object */
#define MAX_OBJECTS 128  /* that a process has bound memory to: the slots of an NVSwitch (NVIDIA/nccl issue 2077) */
#define SAY_AFTER_NS 10000000000ull

/* Memory of one member at a place of the object. */
struct binding {
    uint64_t id; /* never used again; 0: free */
    uint64_t offset, bytes;
    int32_t member;
    int32_t pid, fd; /* the process that bound it, and its descriptor of the memory's file */
    int32_t window_fd;
    uint64_t inode; /* of the memory's file: tells it from what a later process has under that number */
    uint64_t file_offset;
    uint64_t word; /* of the process's memory file, whose head has the GPU's ports */
};

/* The file of an object. Written under its lock; the counts are read without it. */
struct shared {
    uint64_t magic, node;
    CUmulticastObjectProp properties;
    pthread_mutex_t lock; /* robust: its holder may be killed */
    _Atomic uint32_t nmembers;
    _Atomic uint64_t changes; /* of bindings */
    uint64_t last_id;
    int32_t members[SIM_MAX_GPUS]; /* physical numbers */
    struct binding bindings[MAX_BINDINGS];
};

struct sim_multicast {
    uint32_t magic;
    unsigned handles, mappings;
    int fd;
    struct shared *shared;
    uint64_t seen;                      /* changes that the view shows */
    unsigned char *view;                /* NULL: not yet made */
    struct binding shown[MAX_BINDINGS]; /* id 0: nothing */
    bool failed[MAX_BINDINGS];          /* it could not be mapped: its process is gone */
    struct physical *own[MAX_BINDINGS]; /* memory that this process has bound, by slot */
    unsigned nown;
    void *peers[SIM_MAX_GPUS]; /* model: of members that other processes bound first */
    struct sim_gpu_ports *ports[SIM_MAX_GPUS];
};

static unsigned nbound; /* objects with bindings of this process */

static void object_lock(struct shared *shared)
{
    if (EOWNERDEAD == pthread_mutex_lock(&shared->lock)) {
        pthread_mutex_consistent(&shared->lock); /* an id is written last, so no half a binding counts */
    }
}

static void object_unlock(struct shared *shared)
{
    pthread_mutex_unlock(&shared->lock);
}

bool sim_multicast_supported(int device)
{
    return sim_driver.topology.multicast && '\0' == sim_driver.topology.gpus[device].slice[0]
           && (!sim_model.on || sim_model.multicast_rate > 0);
}

struct sim_multicast *sim_multicast_of(CUmemGenericAllocationHandle handle)
{
    struct sim_multicast *object = (struct sim_multicast *) (uintptr_t) handle;

    return NULL != object && HANDLE_MAGIC == object->magic ? object : NULL;
}

size_t sim_multicast_bytes(const struct sim_multicast *object)
{
    return object->shared->properties.size;
}

unsigned long long sim_multicast_handle_types(const struct sim_multicast *object)
{
    return object->shared->properties.handleTypes;
}

/* The number of a GPU in the team, or -1. */
static int member_of(const struct shared *shared, int device)
{
    const int n = (int) atomic_load(&shared->nmembers);

    for (int i = 0; i < n; i++) {
        if (device == shared->members[i]) {
            return i;
        }
    }
    return -1;
}

bool sim_multicast_has(const struct sim_multicast *object, int device)
{
    return member_of(object->shared, device) >= 0;
}

/* ---- making, opening, closing ---- */

static CUresult object_open(int fd, CUmemGenericAllocationHandle *handle_p)
{
    struct sim_multicast *object = calloc(1, sizeof(*object));

    if (NULL == object) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    object->shared = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (MAP_FAILED == (void *) object->shared) {
        free(object);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    object->fd = fd;
    object->handles = 1;
    object->magic = HANDLE_MAGIC;
    *handle_p = (CUmemGenericAllocationHandle) (uintptr_t) object;
    sim_count(multicast_live);
    return CUDA_SUCCESS;
}

CUresult sim_multicast_new(const CUmulticastObjectProp *properties, CUmemGenericAllocationHandle *handle_p)
{
    const int fd = memfd_create("cudasim-multicast", MFD_CLOEXEC);
    CUmemGenericAllocationHandle handle = 0;
    pthread_mutexattr_t attributes;
    struct shared *shared;
    CUresult rc;

    rc = fd >= 0 && 0 == ftruncate(fd, sizeof(struct shared)) ? object_open(fd, &handle) : CUDA_ERROR_OUT_OF_MEMORY;
    if (CUDA_SUCCESS != rc) {
        if (fd >= 0) {
            close(fd);
        }
        return rc;
    }
    shared = sim_multicast_of(handle)->shared;
    shared->node = sim_driver.topology.node;
    shared->properties = *properties;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&shared->lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
    shared->magic = FILE_MAGIC;
    *handle_p = handle;
    return CUDA_SUCCESS;
}

int sim_multicast_file(const struct sim_multicast *object)
{
    return 0 != object->shared->properties.handleTypes ? object->fd : -1;
}

bool sim_multicast_is_file(int fd)
{
    uint64_t magic;

    return (ssize_t) sizeof(magic) == pread(fd, &magic, sizeof(magic), 0) && FILE_MAGIC == magic;
}

CUresult sim_multicast_import(int fd, CUmemGenericAllocationHandle *handle_p)
{
    uint64_t node;
    CUresult rc;
    int own;

    if ((ssize_t) sizeof(node) != pread(fd, &node, sizeof(node), offsetof(struct shared, node))
        || sim_driver.topology.node != node) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own < 0) {
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    rc = object_open(own, handle_p);
    if (CUDA_SUCCESS != rc) {
        close(own);
        return rc;
    }
    sim_count(ipc_opens);
    return CUDA_SUCCESS;
}

/* Under the memory lock: ends a binding of this process. */
static void own_drop(struct sim_multicast *object, int slot)
{
    object_lock(object->shared);
    object->shared->bindings[slot].id = 0;
    atomic_fetch_add(&object->shared->changes, 1);
    object_unlock(object->shared);
    sim_backing_release(object->own[slot]);
    object->own[slot] = NULL;
    if (0 == --object->nown) {
        nbound--;
    }
}

static void object_drop(struct sim_multicast *object)
{
    const uint32_t members = object->shared->properties.numDevices;

    if (object->handles > 0 || object->mappings > 0) {
        return;
    }
    for (int slot = 0; slot < MAX_BINDINGS; slot++) {
        if (NULL != object->own[slot]) {
            own_drop(object, slot);
        }
    }
    for (uint32_t i = 0; i < members; i++) {
        if (NULL != object->peers[i]) {
            sim_ipc_peer_release(object->peers[i]);
        }
    }
    if (NULL != object->view) {
        munmap(object->view, members * sim_multicast_bytes(object));
    }
    munmap(object->shared, sizeof(struct shared));
    close(object->fd);
    object->magic = 0;
    free(object);
    sim_uncount(multicast_live);
}

CUresult sim_multicast_release(struct sim_multicast *object)
{
    if (0 == object->handles) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    object->handles--;
    object_drop(object);
    return CUDA_SUCCESS;
}

void sim_multicast_map(struct sim_multicast *object)
{
    object->mappings++;
}

void sim_multicast_unmap(struct sim_multicast *object)
{
    object->mappings--;
    object_drop(object);
}

/* ---- the team and its memory ---- */

CUresult sim_multicast_add(struct sim_multicast *object, int device)
{
    struct shared *shared = object->shared;
    CUresult rc = CUDA_SUCCESS;

    object_lock(shared);
    const uint32_t n = atomic_load(&shared->nmembers);
    if (n == shared->properties.numDevices || member_of(shared, device) >= 0) {
        rc = CUDA_ERROR_INVALID_VALUE;
    } else {
        shared->members[n] = device;
        atomic_store(&shared->nmembers, n + 1);
    }
    object_unlock(shared);
    return rc;
}

void sim_multicast_await(struct sim_multicast *object)
{
    const struct timespec pause = {.tv_nsec = 200000};
    const uint32_t wanted = object->shared->properties.numDevices;
    uint64_t waited = 0;

    while (atomic_load(&object->shared->nmembers) < wanted) {
        nanosleep(&pause, NULL);
        waited += (uint64_t) pause.tv_nsec;
        if (SAY_AFTER_NS == waited) {
            fprintf(stderr, "cudasim: a call waits until %u devices are in a multicast team, which has %u\n", wanted,
                    atomic_load(&object->shared->nmembers));
        }
    }
}

/* Under both locks: a slot for a binding at a place where the member has none yet. */
static CUresult slot_find(const struct shared *shared, int member, size_t offset, size_t bytes, int *slot_p)
{
    *slot_p = -1;
    for (int i = 0; i < MAX_BINDINGS; i++) {
        const struct binding *other = &shared->bindings[i];
        if (0 == other->id) {
            *slot_p = *slot_p < 0 ? i : *slot_p;
        } else if (member == other->member && offset < other->offset + other->bytes && other->offset < offset + bytes) {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    return *slot_p < 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult sim_multicast_bind(struct sim_multicast *object, size_t offset, const struct sim_backing *memory,
                            size_t memory_offset, size_t bytes)
{
    struct shared *shared = object->shared;
    const int member = member_of(shared, memory->device);
    struct binding *binding;
    struct stat file;
    CUresult rc;
    int slot;

    if (0 == object->nown && MAX_OBJECTS == nbound) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (0 != fstat(memory->fd, &file)) {
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    object_lock(shared);
    rc = slot_find(shared, member, offset, bytes, &slot);
    if (CUDA_SUCCESS == rc) {
        binding = &shared->bindings[slot];
        binding->offset = offset;
        binding->bytes = bytes;
        binding->member = member;
        binding->pid = sim_ipc_pid();
        binding->fd = memory->fd;
        binding->window_fd = sim_window.fd;
        binding->inode = (uint64_t) file.st_ino;
        binding->file_offset = memory->offset + memory_offset;
        binding->word = sim_window.shared->word;
        binding->id = ++shared->last_id;
        atomic_fetch_add(&shared->changes, 1);
    }
    object_unlock(shared);
    if (CUDA_SUCCESS != rc) {
        return rc;
    }
    sim_backing_hold(memory->physical);
    object->own[slot] = memory->physical;
    nbound += 0 == object->nown++;
    return CUDA_SUCCESS;
}

CUresult sim_multicast_unbind(struct sim_multicast *object, int device, size_t offset, size_t bytes)
{
    const int member = member_of(object->shared, device);

    for (int slot = 0; slot < MAX_BINDINGS; slot++) {
        const struct binding *binding = &object->shared->bindings[slot];
        if (NULL != object->own[slot] && member == binding->member && offset == binding->offset
            && bytes == binding->bytes) {
            own_drop(object, slot);
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_VALUE;
}

/* ---- what kernels see ---- */

/* Under the memory lock: the ports of a member, those of the process that bound memory of it first. */
static void ports_find(struct sim_multicast *object, const struct binding *binding)
{
    const int device = object->shared->members[binding->member];
    struct sim_shared *head = sim_window.shared;

    if (!sim_model.on || NULL != object->ports[binding->member]) {
        return;
    }
    if (binding->word != head->word) {
        head = sim_ipc_peer_hold(binding->pid, binding->window_fd, binding->word, &object->peers[binding->member]);
    }
    object->ports[binding->member] = NULL == head ? NULL : &head->ports[device];
}

/* Maps a binding's memory into the view. Returns 0, or -1 when its process is gone. */
static int view_show(const struct sim_multicast *object, const struct binding *binding)
{
    unsigned char *where =
        object->view + (size_t) binding->member * sim_multicast_bytes(object) + (size_t) binding->offset;
    char path[64];
    struct stat file;
    void *got = MAP_FAILED;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/fd/%d", binding->pid, binding->fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    if (0 == fstat(fd, &file) && binding->inode == (uint64_t) file.st_ino) {
        got = mmap(where, binding->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd,
                   (off_t) binding->file_offset);
    }
    close(fd);
    if (MAP_FAILED == got) {
        return -1;
    }
    madvise(where, binding->bytes, MADV_DONTDUMP);
    return 0;
}

/* Under the memory lock: makes the view show what is bound. A binding that has ended stays in it until another takes
 * its slot, since a kernel may still be at work there. Returns 0, or -1 without memory. */
static int view_refresh(struct sim_multicast *object)
{
    struct shared *shared = object->shared;
    const size_t all = shared->properties.numDevices * sim_multicast_bytes(object);

    if (NULL == object->view) {
        object->view = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (MAP_FAILED == (void *) object->view) {
            object->view = NULL;
            return -1;
        }
        madvise(object->view, all, MADV_DONTDUMP);
    }
    object_lock(shared);
    for (int slot = 0; slot < MAX_BINDINGS; slot++) {
        const struct binding *binding = &shared->bindings[slot];
        if (binding->id == object->shown[slot].id) {
            continue;
        }
        object->shown[slot] = *binding;
        if (0 != binding->id) {
            object->failed[slot] = 0 != view_show(object, binding);
            ports_find(object, binding);
        }
    }
    object->seen = atomic_load(&shared->changes);
    object_unlock(shared);
    return 0;
}

/* Under the memory lock: whether each member has memory behind all of the range. */
static bool view_covers(const struct sim_multicast *object, size_t offset, size_t bytes)
{
    const uint32_t members = object->shared->properties.numDevices;
    size_t covered[SIM_MAX_GPUS] = {0};

    for (int slot = 0; slot < MAX_BINDINGS; slot++) {
        const struct binding *binding = &object->shown[slot];
        const size_t from = binding->offset > offset ? binding->offset : offset;
        const size_t end = binding->offset + binding->bytes, stop = end < offset + bytes ? end : offset + bytes;
        if (0 != binding->id && !object->failed[slot] && from < stop) {
            covered[binding->member] += stop - from;
        }
    }
    for (uint32_t i = 0; i < members; i++) {
        if (covered[i] != bytes || (sim_model.on && NULL == object->ports[i])) {
            return false;
        }
    }
    return true;
}

bool sim_multicast_reach(uintptr_t address, size_t bytes, int device, struct sim_team *team_p)
{
    const struct sim_alloc *alloc;
    struct sim_multicast *object;
    bool reached = false;

    sim_memory_lock();
    alloc = sim_memory_find(address);
    if (NULL != alloc && SIM_KIND_MULTICAST == alloc->kind && 0 != bytes && 0 != (alloc->access & (1 << device))
        && bytes <= alloc->base + alloc->size - address) {
        const size_t offset = address - alloc->base;
        object = alloc->owner;
        reached = (object->seen == atomic_load(&object->shared->changes) || 0 == view_refresh(object))
                  && view_covers(object, offset, bytes);
        team_p->count = reached ? (int) object->shared->properties.numDevices : 0;
        for (int i = 0; i < team_p->count; i++) {
            team_p->devices[i] = object->shared->members[i];
            team_p->copies[i] = object->view + (size_t) i * sim_multicast_bytes(object) + offset;
        }
        team_p->ports = object->ports;
    }
    sim_memory_unlock();
    return reached;
}
