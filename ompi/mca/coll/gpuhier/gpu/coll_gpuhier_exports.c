/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns what this process exports: a hash table. Does not own what it has mapped of others (ipc_cache), nor the socket
 * by which descriptors leave (fd_passing). The engine and the device decide what is exported, under the engine's lock.
 *
 * Memory of cuMemCreate is mapped by file descriptors. A descriptor keeps the memory, so its owner closes it as soon as
 * it is sent, and makes a new one for a peer that has closed its mapping. Memory of gpuhier's own with a fabric handle
 * needs none: the handle is in its reference.
 */
#include "ompi_config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/coll_gpuhier_exports.h"
#include "opal/class/opal_hash_table.h"

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
#define TABLE_ENTRIES 32 /* at first; the table grows */

static opal_hash_table_t exports;
static bool ready;

/* The entry behind the one at *node_p in the table; behind NULL the first one. NULL at the end. */
static exported_t *exported_next(void **node_p)
{
    void *key, *value = NULL;
    size_t key_bytes;
    const int rc = NULL == *node_p
                       ? opal_hash_table_get_first_key_ptr(&exports, &key, &key_bytes, &value, node_p)
                       : opal_hash_table_get_next_key_ptr(&exports, &key, &key_bytes, &value, *node_p, node_p);
    return OPAL_SUCCESS == rc ? value : NULL;
}

static void exports_forget(void)
{
    void *node = NULL;
    exported_t *entry;
    while (NULL != (entry = exported_next(&node))) {
        free(entry->receivers);
        free(entry);
    }
    opal_hash_table_remove_all(&exports);
}

/* Remembers memory that is exported. NULL without memory for that. */
static exported_t *exported_add(const gpuhier_memref_t *ref)
{
    exported_t *entry = calloc(1, sizeof(*entry));
    if (NULL == entry) {
        return NULL;
    }
    if (!ready) {
        OBJ_CONSTRUCT(&exports, opal_hash_table_t);
        opal_hash_table_init(&exports, TABLE_ENTRIES);
        ready = true;
    }
    entry->ref = *ref;
    if (opal_hash_table_get_size(&exports) >= EXPORTS_MAX) {
        exports_forget();
    }
    export_key_t key = {ref->base, ref->id};
    opal_hash_table_set_value_ptr(&exports, &key, sizeof(key), entry);
    return entry;
}

/* What this process remembers of memory that it has exported, or NULL. */
static exported_t *exported_find(uint64_t base, uint64_t id)
{
    export_key_t key = {base, id};
    void *entry = NULL;
    return ready && OPAL_SUCCESS == opal_hash_table_get_value_ptr(&exports, &key, sizeof(key), &entry) ? entry : NULL;
}

static int export_make(CUdeviceptr base, size_t bytes, const gpuhier_buffer_t *buffer, exported_t **entry_p)
{
    gpuhier_memref_t ref = {.process = gpuhier_process_word(),
                            .base = base,
                            .bytes = bytes,
                            .id = buffer->id,
                            .shared = buffer->ipc_capable ? GPUHIER_SHARED_IPC : GPUHIER_SHARED_FILE};
    unsigned yes = 1; /* SYNC_MEMOPS is for memory with a handle of legacy IPC only */
    if (buffer->ipc_capable
        && (OMPI_SUCCESS != GPUHIER_CU(cuIpcGetMemHandle, &ref.handle, base)
            || OMPI_SUCCESS != GPUHIER_CU(cuPointerSetAttribute, &yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, base))) {
        return OMPI_ERR_NOT_SUPPORTED;
    }
    *entry_p = exported_add(&ref);
    return NULL == *entry_p ? OMPI_ERR_OUT_OF_RESOURCE : OMPI_SUCCESS;
}

int gpuhier_export(const void *address, const gpuhier_buffer_t *buffer, gpuhier_memref_t *ref_p, unsigned *uses_p)
{
    if (GPUHIER_BUFFER_DEVICE != buffer->kind || (!buffer->ipc_capable && !buffer->shareable)) {
        return OMPI_ERR_NOT_SUPPORTED;
    }
    CUdeviceptr base, place = (CUdeviceptr) (uintptr_t) address;
    size_t bytes;
    int rc = GPUHIER_CU(cuMemGetAddressRange, &base, &bytes, place);
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    exported_t *entry = exported_find(base, buffer->id);
    rc = NULL != entry ? OMPI_SUCCESS : export_make(base, bytes, buffer, &entry);
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    if (entry->failures >= FAILURES_MAX) {
        return OMPI_ERR_NOT_SUPPORTED;
    }
    *ref_p = entry->ref;
    ref_p->offset = place - base;
    *uses_p = ++entry->uses;
    return OMPI_SUCCESS;
}

#define OWN_ID ((uint64_t) 1 << 62) /* no allocation of the driver's has such an id */

void gpuhier_export_scratch(CUdeviceptr base, size_t bytes, gpuhier_memref_t *ref_p)
{
    const void *address = (const void *) (uintptr_t) base;
    gpuhier_buffer_t buffer;
    unsigned uses;
    gpuhier_buffer_inspect(address, &buffer);
    if (OMPI_SUCCESS != gpuhier_export(address, &buffer, ref_p, &uses)) {
        const CUresult why = buffer.ipc_capable ? gpuhier_cuda_last_error() : CUDA_ERROR_NOT_SUPPORTED;
        *ref_p = (gpuhier_memref_t){.process = gpuhier_process_word(),
                                    .base = base,
                                    .bytes = bytes,
                                    .id = buffer.id,
                                    .shared = GPUHIER_SHARED_NONE + (uint64_t) why};
    }
}

void gpuhier_export_own(CUdeviceptr base, size_t bytes, const gpuhier_fabric_handle_t *handle, gpuhier_memref_t *ref_p)
{
    static uint64_t exported;
    *ref_p = (gpuhier_memref_t){.process = gpuhier_process_word(),
                                .base = base,
                                .bytes = bytes,
                                .id = OWN_ID | ++exported,
                                .shared = NULL == handle ? GPUHIER_SHARED_FILE : GPUHIER_SHARED_FABRIC};
    _Static_assert(sizeof(*handle) == sizeof(ref_p->handle), "one field of a reference has either handle");
    if (NULL != handle) {
        memcpy(&ref_p->handle, handle, sizeof(*handle));
    }
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

static void receiver_forget(exported_t *entry, uint64_t process)
{
    const size_t i = receiver_find(entry, process);
    if (i < entry->nreceivers) {
        entry->receivers[i] = entry->receivers[--entry->nreceivers];
    }
}

void gpuhier_export_send(const gpuhier_memref_t *ref, const gpuhier_memref_t *peers, int n)
{
    exported_t *entry = GPUHIER_SHARED_FILE == ref->shared ? exported_find(ref->base, ref->id) : NULL;
    if (NULL == entry && GPUHIER_SHARED_FILE == ref->shared) {
        entry = exported_add(ref); /* memory of gpuhier's own */
    }
    const gpuhier_fd_key_t fd_key = {ref->process, ref->base, ref->id};
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
        if (OMPI_SUCCESS == gpuhier_fd_send(&fd_key, file, to)) {
            entry->receivers[entry->nreceivers++] = to;
        }
    }
    if (file >= 0) {
        close(file);
    }
}

void gpuhier_export_unmapped(const gpuhier_memref_t *ref, const gpuhier_memref_t *peer)
{
    exported_t *entry = exported_find(ref->base, ref->id);
    if (NULL != entry) {
        receiver_forget(entry, peer->process);
    }
}

void gpuhier_export_tried(const gpuhier_memref_t *ref, bool all)
{
    exported_t *entry = exported_find(ref->base, ref->id);
    if (NULL != entry) {
        entry->failures = all ? 0 : entry->failures + 1;
    }
}

void gpuhier_exports_unsent(uint64_t process)
{
    void *node = NULL;
    exported_t *entry;
    while (ready && NULL != (entry = exported_next(&node))) {
        if (OWN_ID == (entry->ref.id & ~(OWN_ID - 1))) {
            receiver_forget(entry, process);
        }
    }
}

void gpuhier_exports_finalize(void)
{
    if (ready) {
        exports_forget();
        OBJ_DESTRUCT(&exports);
        ready = false;
    }
}
