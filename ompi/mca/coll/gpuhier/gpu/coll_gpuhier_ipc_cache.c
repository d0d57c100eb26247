/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns what this process has mapped of others: a hash table and a list in order of use. The device decides how much
 * stays mapped.
 *
 * A mapping keeps memory that its owner has freed, which the owner's user would see as a leak. So user memory stays
 * mapped within a budget and for a while only; the least recently used mapping goes first. Scratch stays mapped while a
 * team holds its owner, or until the owner is known to have lost it. From then on it counts as user memory, since the
 * owner may be gone. All calls are made under the engine's lock.
 *
 * Memory of cuMemCreate is mapped by file descriptors, or by fabric handles. Such a mapping belongs to no context, and
 * is shown to one GPU of this process after the other.
 */
#include "ompi_config.h"

#include <string.h>
#include <unistd.h>

#include "base/coll_gpuhier_clock.h"
#include "gpu/coll_gpuhier_ipc_cache.h"
#include "opal/class/opal_hash_table.h"
#include "opal/class/opal_list.h"

/* Identifies an allocation of a process as mapped in a context; 0: memory of cuMemCreate, for all contexts. */
typedef struct map_key {
    uint64_t process, base, bytes, id;
    uint64_t context;
} map_key_t;

struct gpuhier_mapping {
    opal_list_item_t super; /* in `recent`, least recently used first */
    map_key_t key;
    CUcontext context;   /* in which it was opened, and is closed */
    CUdeviceptr address; /* of the allocation's base in this process */
    double used;         /* time of the last gpuhier_map(), in seconds */
    int pins;
    bool keep;
    bool shared;      /* memory of cuMemCreate: an address range of this process, which belongs to no context ... */
    uint64_t devices; /* ... and that these GPUs, by their numbers, may work on */
    bool gone;        /* forgotten while it was pinned: in no table or list, and freed with the last pin */
};
OBJ_CLASS_INSTANCE(gpuhier_mapping_t, opal_list_item_t, NULL, NULL);

#define TABLE_ENTRIES 32 /* at first; a table grows */

static opal_hash_table_t mappings, holders; /* holders: a process's word -> number of holds */
static opal_list_t recent;
static size_t user_bytes; /* mapped, of user memory */
static uint64_t epoch;    /* mappings closed or lost so far */
static bool ready;

bool gpuhier_kernel_waits;
_Atomic bool gpuhier_default_waits;

static void tables_make(void)
{
    if (!ready) {
        OBJ_CONSTRUCT(&mappings, opal_hash_table_t);
        OBJ_CONSTRUCT(&holders, opal_hash_table_t);
        OBJ_CONSTRUCT(&recent, opal_list_t);
        opal_hash_table_init(&mappings, TABLE_ENTRIES);
        opal_hash_table_init(&holders, TABLE_ENTRIES);
        ready = true;
    }
}

static map_key_t key_of(const gpuhier_memref_t *ref)
{
    CUcontext context = NULL;
    if (GPUHIER_SHARED_IPC == ref->shared) {
        (void) gpuhier_cu.cuCtxGetCurrent(&context);
    }
    return (map_key_t){ref->process, ref->base, ref->bytes, ref->id, (uint64_t) (uintptr_t) context};
}

static gpuhier_mapping_t *mapping_find(const map_key_t *key)
{
    void *found = NULL;
    tables_make();
    return OPAL_SUCCESS == opal_hash_table_get_value_ptr(&mappings, key, sizeof(*key), &found) ? found : NULL;
}

/* Ends the life of a mapping that no call uses. */
static void mapping_free(gpuhier_mapping_t *mapping)
{
    if (mapping->shared) {
        gpuhier_vmm_unmap(mapping->address, mapping->key.bytes); /* no GPU work on it is left */
    }
    OBJ_RELEASE(mapping);
}

static void mapping_drop(gpuhier_mapping_t *mapping)
{
    opal_hash_table_remove_value_ptr(&mappings, &mapping->key, sizeof(mapping->key));
    opal_list_remove_item(&recent, &mapping->super);
    ++epoch;
    user_bytes -= mapping->keep ? 0 : mapping->key.bytes;
    mapping->gone = mapping->pins > 0; /* a call uses it */
    if (!mapping->gone) {
        mapping_free(mapping);
    }
}

static void mapping_close(gpuhier_mapping_t *mapping)
{
    gpuhier_cuda_scope_t scope;
    if (!mapping->shared && OMPI_SUCCESS == gpuhier_cuda_enter(mapping->context, &scope)) {
        GPUHIER_CU_FREE(cuIpcCloseMemHandle, mapping->address);
        gpuhier_cuda_leave(&scope);
    }
    mapping_drop(mapping);
}

/*
 * Closes mappings of allocations that their owner has freed: those whose addresses the new allocation has. Only then is
 * the owner's memory free, and the driver may refuse to map the new allocation beside the old one. Returns false if
 * there is such a mapping and none may be closed.
 */
static bool stale_close(const map_key_t *key, bool may_close)
{
    gpuhier_mapping_t *mapping, *next;
    OPAL_LIST_FOREACH_SAFE (mapping, next, &recent, gpuhier_mapping_t) {
        const map_key_t *old = &mapping->key;
        if (0 == mapping->pins && key->process == old->process && key->context == old->context
            && key->base < old->base + old->bytes && old->base < key->base + key->bytes) {
            if (!may_close) {
                return false;
            }
            mapping_close(mapping);
        }
    }
    return true;
}

/* The bit of the current context's GPU; 0 if it is not known. */
static uint64_t device_bit(void)
{
    CUdevice device;
    return CUDA_SUCCESS == gpuhier_cu.cuCtxGetDevice(&device) && device < 64 ? (uint64_t) 1 << device : 0;
}

/* Shows memory of cuMemCreate at an address of this process, for the current context's GPU. */
static int shared_map(const gpuhier_memref_t *ref, CUdeviceptr *address_p)
{
    if (GPUHIER_SHARED_FABRIC == ref->shared) {
        gpuhier_fabric_handle_t handle;
        memcpy(&handle, &ref->handle, sizeof(handle));
        return gpuhier_vmm_open(&handle, CU_MEM_HANDLE_TYPE_FABRIC, ref->bytes, address_p);
    }
    const gpuhier_fd_key_t fd_key = {ref->process, ref->base, ref->id};
    const int file = gpuhier_fd_take(&fd_key, gpuhier_process_word());
    if (file < 0) {
        return GPUHIER_FD_MISSING == file ? OMPI_ERR_NOT_FOUND : OMPI_ERR_NOT_AVAILABLE;
    }
    int rc =
        gpuhier_vmm_open((void *) (intptr_t) file, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, ref->bytes, address_p);
    close(file);
    return rc;
}

/* Closes all mappings of a process's user memory that no call uses. */
static bool unused_close(const map_key_t *key)
{
    gpuhier_mapping_t *mapping, *next;
    bool any = false;
    OPAL_LIST_FOREACH_SAFE (mapping, next, &recent, gpuhier_mapping_t) {
        if (0 == mapping->pins && !mapping->keep && key->process == mapping->key.process
            && key->context == mapping->key.context) {
            mapping_close(mapping);
            any = true;
        }
    }
    return any;
}

/* Has another context of this process opened the allocation? */
static bool is_open_elsewhere(const map_key_t *key)
{
    const gpuhier_mapping_t *mapping;
    OPAL_LIST_FOREACH (mapping, &recent, gpuhier_mapping_t) {
        const map_key_t *other = &mapping->key;
        if (0 == memcmp(key, other, offsetof(map_key_t, context)) && 0 != other->context) {
            return true;
        }
    }
    return false;
}

/*
 * The driver exports whole blocks, in which several allocations may lie. When a new block takes the place of one that
 * the owner has freed, an old mapping is in the way even if its allocation does not overlap the new one.
 */
static int handle_open(const gpuhier_memref_t *ref, const map_key_t *key, bool may_close, CUdeviceptr *address_p)
{
    if (is_open_elsewhere(key)) {
        return gpuhier_cuda_error(CUDA_ERROR_ALREADY_MAPPED, "opening memory in a second context");
    }
    CUresult result = gpuhier_cu.cuIpcOpenMemHandle(address_p, ref->handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (CUDA_ERROR_ALREADY_MAPPED == result && !may_close) {
        return OMPI_ERR_NOT_AVAILABLE;
    }
    if (CUDA_ERROR_ALREADY_MAPPED == result && unused_close(key)) {
        result = gpuhier_cu.cuIpcOpenMemHandle(address_p, ref->handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    }
    return gpuhier_cuda_error(result, "cuIpcOpenMemHandle");
}

static int mapping_open(const gpuhier_memref_t *ref, const map_key_t *key, bool keep, gpuhier_mapping_t **mapping_p)
{
    const bool may_close = keep || !gpuhier_kernel_waits;
    if (!stale_close(key, may_close)) {
        return OMPI_ERR_NOT_AVAILABLE;
    }
    gpuhier_mapping_t *mapping = OBJ_NEW(gpuhier_mapping_t);
    if (NULL == mapping) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    mapping->key = *key;
    mapping->context = (CUcontext) (uintptr_t) key->context;
    mapping->used = gpuhier_clock_coarse();
    mapping->pins = 0;
    mapping->keep = keep;
    mapping->gone = false;
    mapping->shared = GPUHIER_SHARED_IPC != ref->shared;
    mapping->devices = mapping->shared ? device_bit() : 0;
    int rc = mapping->shared ? shared_map(ref, &mapping->address) : handle_open(ref, key, may_close, &mapping->address);
    if (OMPI_SUCCESS != rc) {
        OBJ_RELEASE(mapping);
        return rc;
    }
    opal_hash_table_set_value_ptr(&mappings, &mapping->key, sizeof(mapping->key), mapping);
    opal_list_append(&recent, &mapping->super);
    user_bytes += keep ? 0 : ref->bytes;
    *mapping_p = mapping;
    return OMPI_SUCCESS;
}

int gpuhier_map_received(const gpuhier_memref_t *ref)
{
    const gpuhier_fd_key_t fd_key = {ref->process, ref->base, ref->id};
    const map_key_t key = key_of(ref);
    gpuhier_mapping_t *mapping = mapping_find(&key);
    if (NULL == mapping) {
        return mapping_open(ref, &key, true, &mapping);
    }
    const int file = gpuhier_fd_take(&fd_key, gpuhier_process_word());
    if (GPUHIER_FD_MISSING == file) {
        return OMPI_ERR_NOT_FOUND;
    }
    if (file >= 0) {
        close(file);
    }
    return OMPI_SUCCESS;
}

/* Lets the current context's GPU work on memory of cuMemCreate that is mapped. */
static int mapping_allow(gpuhier_mapping_t *mapping)
{
    const uint64_t device = device_bit();
    if (0 != device && 0 != (device & mapping->devices)) {
        return OMPI_SUCCESS;
    }
    int rc = gpuhier_vmm_allow(mapping->address, mapping->key.bytes);
    mapping->devices |= OMPI_SUCCESS == rc ? device : 0;
    return rc;
}

int gpuhier_map(const gpuhier_memref_t *ref, bool keep, gpuhier_mapping_t **mapping_p, CUdeviceptr *address_p)
{
    if (ref->offset >= ref->bytes) {
        return OMPI_ERR_BAD_PARAM; /* a broken record of a peer */
    }
    if (gpuhier_process_word() == ref->process) {
        *mapping_p = NULL;
        *address_p = ref->base + ref->offset;
        return OMPI_SUCCESS;
    }
    if (ref->shared >= GPUHIER_SHARED_NONE) {
        return gpuhier_cuda_failed((CUresult) (ref->shared - GPUHIER_SHARED_NONE), "the export of a peer's memory");
    }
    map_key_t key = key_of(ref);
    gpuhier_mapping_t *mapping = mapping_find(&key);
    int rc = NULL == mapping   ? mapping_open(ref, &key, keep, &mapping)
             : mapping->shared ? mapping_allow(mapping)
                               : OMPI_SUCCESS;
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    opal_list_remove_item(&recent, &mapping->super);
    opal_list_append(&recent, &mapping->super);
    if (keep && !mapping->keep) { /* no team held the owner, or the owner seemed to have lost the memory */
        mapping->keep = true;
        user_bytes -= mapping->key.bytes;
    }
    mapping->used = gpuhier_clock_coarse();
    ++mapping->pins;
    *mapping_p = mapping;
    *address_p = mapping->address + ref->offset;
    return OMPI_SUCCESS;
}

uint64_t gpuhier_ipc_epoch(void)
{
    return epoch;
}

void gpuhier_map_again(gpuhier_mapping_t *const *mappings, int n)
{
    const double time = gpuhier_clock_coarse();
    for (int i = 0; i < n; ++i) {
        gpuhier_mapping_t *mapping = mappings[i];
        if (NULL == mapping) {
            continue;
        }
        if (time != mapping->used) { /* the clock is coarse, so frequent use moves it seldom */
            opal_list_remove_item(&recent, &mapping->super);
            opal_list_append(&recent, &mapping->super);
            mapping->used = time;
        }
        ++mapping->pins;
    }
}

void gpuhier_unmap(gpuhier_mapping_t *mapping)
{
    if (NULL != mapping && 0 == --mapping->pins && mapping->gone) {
        mapping_free(mapping);
    }
}

void gpuhier_ipc_forget(CUcontext context, int ordinal)
{
    gpuhier_mapping_t *mapping, *next;
    if (!ready) {
        return;
    }
    OPAL_LIST_FOREACH_SAFE (mapping, next, &recent, gpuhier_mapping_t) {
        if (mapping->shared) {
            mapping->devices &= ~(ordinal < 64 ? (uint64_t) 1 << ordinal : 0); /* what it may do now is not known */
            ++epoch;
        } else if (context == mapping->context) {
            mapping_drop(mapping);
        }
    }
}

/* The next mapping that gpuhier_ipc_trim() closes; NULL when there is none. */
static gpuhier_mapping_t *excess_find(size_t budget, double idle)
{
    gpuhier_mapping_t *mapping;
    if (!ready) {
        return NULL;
    }
    const double oldest = idle > 0 ? gpuhier_clock_coarse() - idle : 0;
    OPAL_LIST_FOREACH (mapping, &recent, gpuhier_mapping_t) {
        if (user_bytes <= budget && mapping->used >= oldest) {
            return NULL;
        }
        if (0 == mapping->pins && !mapping->keep) {
            return mapping;
        }
    }
    return NULL;
}

bool gpuhier_ipc_exceeds(size_t budget, double idle)
{
    return NULL != excess_find(budget, idle);
}

void gpuhier_ipc_trim(size_t budget, double idle)
{
    gpuhier_mapping_t *mapping;
    while (NULL != (mapping = excess_find(budget, idle))) {
        mapping_close(mapping);
    }
}

static void unkeep(gpuhier_mapping_t *mapping)
{
    user_bytes += mapping->keep ? mapping->key.bytes : 0;
    mapping->keep = false;
}

void gpuhier_ipc_unkeep(const gpuhier_memref_t *ref)
{
    map_key_t key = key_of(ref);
    gpuhier_mapping_t *mapping = mapping_find(&key);
    if (NULL != mapping) {
        unkeep(mapping);
    }
}

void gpuhier_ipc_unkeep_all(uint64_t process)
{
    gpuhier_mapping_t *mapping;
    if (!ready) {
        return;
    }
    OPAL_LIST_FOREACH (mapping, &recent, gpuhier_mapping_t) {
        if (process == mapping->key.process) {
            unkeep(mapping);
        }
    }
}

void gpuhier_ipc_hold(uint64_t process)
{
    void *count = NULL;
    tables_make();
    (void) opal_hash_table_get_value_uint64(&holders, process, &count);
    if (NULL == count) {
        gpuhier_exports_unsent(process); /* no team held it, so it may have closed what it had mapped */
    }
    opal_hash_table_set_value_uint64(&holders, process, (void *) ((uintptr_t) count + 1));
}

void gpuhier_ipc_release(uint64_t process)
{
    void *count = NULL;
    if (!ready || OPAL_SUCCESS != opal_hash_table_get_value_uint64(&holders, process, &count)) {
        return; /* gpuhier_ipc_finalize() was called meanwhile */
    }
    if ((uintptr_t) count > 1) {
        opal_hash_table_set_value_uint64(&holders, process, (void *) ((uintptr_t) count - 1));
        return;
    }
    opal_hash_table_remove_value_uint64(&holders, process);
    gpuhier_ipc_unkeep_all(process);
}

void gpuhier_ipc_finalize(void)
{
    gpuhier_mapping_t *mapping, *next;
    gpuhier_exports_finalize();
    gpuhier_fd_passing_finalize();
    if (!ready) {
        return;
    }
    OPAL_LIST_FOREACH_SAFE (mapping, next, &recent, gpuhier_mapping_t) {
        mapping_close(mapping);
    }
    OBJ_DESTRUCT(&recent);
    OBJ_DESTRUCT(&holders);
    OBJ_DESTRUCT(&mappings);
    ready = false;
}
