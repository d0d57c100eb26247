/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns what this process exports and what it has mapped of others: two hash tables and a list in order of use. The
 * engine decides what is exported, and the device how much stays mapped.
 *
 * A mapping keeps memory that its owner has freed, which the owner's user would see as a leak. So user memory stays
 * mapped within a budget and for a while only; the least recently used mapping goes first. Scratch stays mapped while a
 * team holds its owner, or until the owner is known to have lost it. From then on it counts as user memory, since the
 * owner may be gone. All calls are made under the engine's lock.
 *
 * A program's memory of cuMemCreate is mapped by file descriptors. A descriptor keeps the memory, too, so its owner
 * closes it as soon as it is sent, and makes a new one for a peer that has closed its mapping. Memory of gpuhier's own
 * with a fabric handle needs none: the handle is in its reference.
 */
#include "ompi_config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/coll_gpuhier_compat.h"
#include "gpu/coll_gpuhier_ipc_cache.h"
#include "gpu/coll_gpuhier_parcels.h"
#include "opal/class/opal_hash_table.h"
#include "opal/class/opal_list.h"

/* Identifies an allocation of a process as mapped in a context. */
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
    bool shared; /* memory of cuMemCreate: an address range of this process, which belongs to no context */
    bool gone;   /* forgotten while it was pinned: in no table or list, and freed with the last pin */
};
OBJ_CLASS_INSTANCE(gpuhier_mapping_t, opal_list_item_t, NULL, NULL);

typedef struct export_key {
    uint64_t base, id;
} export_key_t;

typedef struct exported {
    gpuhier_memref_t ref; /* offset 0 */
    unsigned uses;
    unsigned failures;   /* calls in a row after which a peer said that it could not map the memory */
    uint64_t *receivers; /* words of the processes that were sent a descriptor and have not lost it */
    size_t nreceivers;
} exported_t;

#define FAILURES_MAX 16 /* calls in a row in which a peer could not map an allocation; then it is not offered again */

#define EXPORTS_MAX 4096 /* remembered allocations; a full table is emptied */
#define TABLE_ENTRIES 32 /* at first; a table grows */

static opal_hash_table_t exports, mappings, holders; /* holders: a process's word -> number of holds */
static opal_list_t recent;
static size_t user_bytes; /* mapped, of user memory */
static uint64_t epoch;    /* mappings closed or lost so far */
static bool ready;
static uint64_t process_word;

uint64_t gpuhier_process_word(void)
{
    while (0 == process_word) {
        if (sizeof(process_word) != getrandom(&process_word, sizeof(process_word), 0)) {
            process_word = 0;
        }
    }
    return process_word;
}

static void tables_make(void)
{
    if (!ready) {
        OBJ_CONSTRUCT(&exports, opal_hash_table_t);
        OBJ_CONSTRUCT(&mappings, opal_hash_table_t);
        OBJ_CONSTRUCT(&holders, opal_hash_table_t);
        OBJ_CONSTRUCT(&recent, opal_list_t);
        opal_hash_table_init(&exports, TABLE_ENTRIES);
        opal_hash_table_init(&mappings, TABLE_ENTRIES);
        opal_hash_table_init(&holders, TABLE_ENTRIES);
        ready = true;
    }
}

static void exports_forget(void)
{
    void *key, *node = NULL, *value;
    size_t key_bytes;
    int rc = opal_hash_table_get_first_key_ptr(&exports, &key, &key_bytes, &value, &node);
    while (OPAL_SUCCESS == rc) {
        free(((exported_t *) value)->receivers);
        free(value);
        rc = opal_hash_table_get_next_key_ptr(&exports, &key, &key_bytes, &value, node, &node);
    }
    opal_hash_table_remove_all(&exports);
}

/* The handle of legacy IPC. SYNC_MEMOPS is for memory with such a handle only. */
static int handle_make(CUdeviceptr base, CUipcMemHandle *handle_p)
{
    unsigned yes = 1;
    int rc = gpuhier_cuda_error(gpuhier_cu.cuIpcGetMemHandle(handle_p, base), "cuIpcGetMemHandle");
    return OMPI_SUCCESS != rc
               ? rc
               : gpuhier_cuda_error(gpuhier_cu.cuPointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, base),
                                    "cuPointerSetAttribute(SYNC_MEMOPS)");
}

static int export_make(CUdeviceptr base, size_t bytes, const gpuhier_buffer_t *buffer, exported_t **entry_p)
{
    exported_t *entry = calloc(1, sizeof(*entry));
    if (NULL == entry) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    entry->ref.shared = buffer->ipc_capable ? GPUHIER_SHARED_IPC : GPUHIER_SHARED_FILE;
    int rc = GPUHIER_SHARED_IPC != entry->ref.shared ? OMPI_SUCCESS : handle_make(base, &entry->ref.handle);
    if (OMPI_SUCCESS != rc) {
        free(entry);
        return OMPI_ERR_NOT_SUPPORTED;
    }
    entry->ref.process = gpuhier_process_word();
    entry->ref.base = base;
    entry->ref.bytes = bytes;
    entry->ref.id = buffer->id;
    if (opal_hash_table_get_size(&exports) >= EXPORTS_MAX) {
        exports_forget();
    }
    export_key_t key = {base, buffer->id};
    opal_hash_table_set_value_ptr(&exports, &key, sizeof(key), entry);
    *entry_p = entry;
    return OMPI_SUCCESS;
}

int gpuhier_export(const void *address, const gpuhier_buffer_t *buffer, gpuhier_memref_t *ref_p, unsigned *uses_p)
{
    if (GPUHIER_BUFFER_DEVICE != buffer->kind || (!buffer->ipc_capable && !buffer->shareable)) {
        return OMPI_ERR_NOT_SUPPORTED;
    }
    tables_make();
    CUdeviceptr base, place = (CUdeviceptr) (uintptr_t) address;
    size_t bytes;
    int rc = gpuhier_cuda_error(gpuhier_cu.cuMemGetAddressRange(&base, &bytes, place), "cuMemGetAddressRange");
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    export_key_t key = {base, buffer->id};
    exported_t *entry = NULL;
    if (OPAL_SUCCESS != opal_hash_table_get_value_ptr(&exports, &key, sizeof(key), (void **) &entry)) {
        rc = export_make(base, bytes, buffer, &entry);
        if (OMPI_SUCCESS != rc) {
            return rc;
        }
    }
    if (entry->failures >= FAILURES_MAX) {
        return OMPI_ERR_NOT_SUPPORTED;
    }
    *ref_p = entry->ref;
    ref_p->offset = place - base;
    *uses_p = ++entry->uses;
    return OMPI_SUCCESS;
}

void gpuhier_export_fabric(CUdeviceptr base, size_t bytes, const gpuhier_fabric_handle_t *handle,
                           gpuhier_memref_t *ref_p)
{
    static uint64_t exported; /* no allocation of the driver's has such an id */
    *ref_p = (gpuhier_memref_t){.process = gpuhier_process_word(),
                                .base = base,
                                .bytes = bytes,
                                .id = (uint64_t) 1 << 62 | ++exported,
                                .shared = GPUHIER_SHARED_FABRIC};
    _Static_assert(sizeof(*handle) == sizeof(ref_p->handle), "one field of a reference has either handle");
    memcpy(&ref_p->handle, handle, sizeof(*handle));
}

/* What this process remembers of memory that it has exported, or NULL. */
static exported_t *exported_find(const gpuhier_memref_t *ref)
{
    export_key_t key = {ref->base, ref->id};
    exported_t *entry = NULL;
    if (!ready || OPAL_SUCCESS != opal_hash_table_get_value_ptr(&exports, &key, sizeof(key), (void **) &entry)) {
        return NULL;
    }
    return entry;
}

/* Place of a process among those that were sent a descriptor; their number when it is not there. */
static size_t receiver_find(const exported_t *entry, uint64_t process)
{
    size_t i = 0;
    while (i < entry->nreceivers && process != entry->receivers[i]) {
        ++i;
    }
    return i;
}

void gpuhier_export_send(const gpuhier_memref_t *ref, const gpuhier_memref_t *peers, int n)
{
    exported_t *entry = GPUHIER_SHARED_FILE == ref->shared ? exported_find(ref) : NULL;
    const gpuhier_parcel_t parcel = {ref->process, ref->base, ref->id};
    int file = -1;
    for (int i = 0; NULL != entry && i < n; ++i) {
        const uint64_t to = peers[i].process;
        if (gpuhier_process_word() == to || receiver_find(entry, to) < entry->nreceivers) {
            continue;
        }
        uint64_t *more = realloc(entry->receivers, sizeof(*more) * (entry->nreceivers + 1));
        if (NULL == more) {
            break;
        }
        entry->receivers = more;
        file = file < 0 ? gpuhier_vmm_file_make(ref->base) : file;
        if (file < 0) {
            break;
        }
        if (gpuhier_parcel_send(&parcel, file, to)) {
            entry->receivers[entry->nreceivers++] = to;
        }
    }
    if (file >= 0) {
        close(file);
    }
}

void gpuhier_export_unmapped(const gpuhier_memref_t *ref, const gpuhier_memref_t *peer)
{
    exported_t *entry = exported_find(ref);
    if (NULL == entry) {
        return;
    }
    const size_t i = receiver_find(entry, peer->process);
    if (i < entry->nreceivers) {
        entry->receivers[i] = entry->receivers[--entry->nreceivers];
    }
}

void gpuhier_export_failed(const gpuhier_memref_t *ref)
{
    exported_t *entry = exported_find(ref);
    if (NULL != entry) {
        ++entry->failures;
    }
}

void gpuhier_export_mapped(const gpuhier_memref_t *ref)
{
    exported_t *entry = exported_find(ref);
    if (NULL != entry) {
        entry->failures = 0;
    }
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    return (double) time.tv_sec + 1e-9 * (double) time.tv_nsec;
}

static map_key_t key_of(const gpuhier_memref_t *ref)
{
    CUcontext context = NULL;
    (void) gpuhier_cu.cuCtxGetCurrent(&context);
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
        gpuhier_vmm_hide(mapping->address, mapping->key.bytes); /* no GPU work on it is left */
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
        CUresult result = gpuhier_cu.cuIpcCloseMemHandle(mapping->address);
        if (!gpuhier_cuda_gone(result)) {
            (void) gpuhier_cuda_error(result, "cuIpcCloseMemHandle");
        }
        gpuhier_cuda_leave(&scope);
    }
    mapping_drop(mapping);
}

/*
 * Closes mappings of allocations that their owner has freed: those whose addresses the new allocation has. Only then is
 * the owner's memory free, and the driver may refuse to map the new allocation beside the old one.
 */
static void stale_close(const map_key_t *key)
{
    gpuhier_mapping_t *mapping, *next;
    OPAL_LIST_FOREACH_SAFE (mapping, next, &recent, gpuhier_mapping_t) {
        const map_key_t *old = &mapping->key;
        if (0 == mapping->pins && key->process == old->process && key->context == old->context
            && key->base < old->base + old->bytes && old->base < key->base + key->bytes) {
            mapping_close(mapping);
        }
    }
}

/* Shows memory of cuMemCreate at an address of this process, for the current context's GPU. */
static int shared_map(const gpuhier_memref_t *ref, CUdeviceptr *address_p)
{
    if (GPUHIER_SHARED_FABRIC == ref->shared) {
        gpuhier_fabric_handle_t handle;
        memcpy(&handle, &ref->handle, sizeof(handle));
        return gpuhier_vmm_fabric_open(&handle, ref->bytes, address_p);
    }
    const gpuhier_parcel_t parcel = {ref->process, ref->base, ref->id};
    const int file = gpuhier_parcel_take(&parcel, gpuhier_process_word());
    if (file < 0) {
        return OMPI_ERR_NOT_FOUND;
    }
    int rc = gpuhier_vmm_file_open(file, ref->bytes, address_p);
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

/*
 * The driver exports whole blocks, in which several allocations may lie. When a new block takes the place of one that
 * the owner has freed, an old mapping is in the way even if its allocation does not overlap the new one.
 */
static int handle_open(const gpuhier_memref_t *ref, const map_key_t *key, CUdeviceptr *address_p)
{
    CUresult result = gpuhier_cu.cuIpcOpenMemHandle(address_p, ref->handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (CUDA_ERROR_ALREADY_MAPPED == result && unused_close(key)) {
        result = gpuhier_cu.cuIpcOpenMemHandle(address_p, ref->handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    }
    return gpuhier_cuda_error(result, "cuIpcOpenMemHandle");
}

static int mapping_open(const gpuhier_memref_t *ref, const map_key_t *key, bool keep, gpuhier_mapping_t **mapping_p)
{
    gpuhier_mapping_t *mapping = OBJ_NEW(gpuhier_mapping_t);
    if (NULL == mapping) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    stale_close(key);
    mapping->key = *key;
    mapping->context = (CUcontext) (uintptr_t) key->context;
    mapping->pins = 0;
    mapping->keep = keep;
    mapping->gone = false;
    mapping->shared = GPUHIER_SHARED_IPC != ref->shared;
    int rc = mapping->shared ? shared_map(ref, &mapping->address) : handle_open(ref, key, &mapping->address);
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
    map_key_t key = key_of(ref);
    gpuhier_mapping_t *mapping = mapping_find(&key);
    if (NULL == mapping) {
        int rc = mapping_open(ref, &key, keep, &mapping);
        if (OMPI_SUCCESS != rc) {
            return rc;
        }
    } else {
        opal_list_remove_item(&recent, &mapping->super);
        opal_list_append(&recent, &mapping->super);
        if (keep && !mapping->keep) { /* no team held the owner, or the owner seemed to have lost the memory */
            mapping->keep = true;
            user_bytes -= mapping->key.bytes;
        }
    }
    mapping->used = now();
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
    const double time = now();
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

void gpuhier_ipc_forget(CUcontext context)
{
    gpuhier_mapping_t *mapping, *next;
    if (!ready) {
        return;
    }
    OPAL_LIST_FOREACH_SAFE (mapping, next, &recent, gpuhier_mapping_t) {
        if (context == mapping->context) {
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
    const double oldest = idle > 0 ? now() - idle : 0;
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
    if (!ready) {
        return;
    }
    OPAL_LIST_FOREACH_SAFE (mapping, next, &recent, gpuhier_mapping_t) {
        mapping_close(mapping);
    }
    exports_forget();
    gpuhier_parcels_finalize();
    OBJ_DESTRUCT(&recent);
    OBJ_DESTRUCT(&holders);
    OBJ_DESTRUCT(&mappings);
    OBJ_DESTRUCT(&exports);
    ready = false;
}
