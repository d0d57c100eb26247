/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns page-locked blocks of host memory, at most coll_gpuhier_stage_bytes in all,
 * and the list of unused ones. Called by staging.
 *
 * A block is ordinary memory that is registered with the driver. When the context that
 * registered it ends during a call, the block is still valid memory, only slower.
 */
#include "ompi_config.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/coll_gpuhier_end.h"
#include "base/coll_gpuhier_params.h"
#include "host/coll_gpuhier_locked.h"

/* The length of a block is a multiple of this, so that similar lengths share a block. It is a multiple of every page
 * size, since the driver locks whole pages. */
#define BLOCK_ROUND ((size_t) 64 << 10)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the next two */
static gpuhier_locked_t *unused;
static size_t locked_bytes; /* of all blocks, used or not */

static bool block_is_locked(const gpuhier_locked_t *block)
{
    return !gpuhier_buffer_is_gone((CUdeviceptr) (uintptr_t) block->memory, block->id);
}

static void block_free(gpuhier_locked_t *block)
{
    gpuhier_cuda_scope_t scope;
    if (block_is_locked(block) && OMPI_SUCCESS == gpuhier_cuda_enter(block->context, &scope)) {
        (void) gpuhier_cu.cuMemHostUnregister(block->memory);
        gpuhier_cuda_leave(&scope);
    }
    locked_bytes -= block->bytes;
    (void) madvise(block->memory, block->bytes, MADV_DOFORK);
    free(block->memory);
    free(block);
}

/* Removes the smallest block that is long enough from the list. NULL if there is none. */
static gpuhier_locked_t *unused_take(size_t bytes)
{
    gpuhier_locked_t **best = NULL;
    for (gpuhier_locked_t **at = &unused; NULL != *at; at = &(*at)->next) {
        if ((*at)->bytes >= bytes && (NULL == best || (*at)->bytes < (*best)->bytes)) {
            best = at;
        }
    }
    gpuhier_locked_t *block = NULL != best ? *best : NULL;
    if (NULL != block) {
        *best = block->next;
    }
    return block;
}

/* The context is current. Returns NULL where memory or the driver's locked memory is short. */
static gpuhier_locked_t *block_make(size_t bytes, CUcontext context)
{
    gpuhier_locked_t *block = calloc(1, sizeof(*block));
    if (NULL == block || 0 != posix_memalign((void **) &block->memory, (size_t) sysconf(_SC_PAGESIZE), bytes)) {
        free(block);
        return NULL;
    }
    if (OMPI_SUCCESS != GPUHIER_CU(cuMemHostRegister, block->memory, bytes, CU_MEMHOSTREGISTER_PORTABLE)) {
        free(block->memory);
        free(block);
        return NULL;
    }
    /* After a fork, the first write to a page would move it to another place, and the GPU would not know. Linux
     * prevents that from 5.9 on. */
    (void) madvise(block->memory, bytes, MADV_DONTFORK);
    CUpointer_attribute name = CU_POINTER_ATTRIBUTE_BUFFER_ID;
    unsigned long long id = 0;
    void *value = &id;
    (void) gpuhier_cu.cuPointerGetAttributes(1, &name, &value, (CUdeviceptr) (uintptr_t) block->memory);
    block->id = id;
    block->bytes = bytes;
    block->context = context;
    locked_bytes += bytes;
    return block;
}

gpuhier_locked_t *gpuhier_locked_take(size_t bytes, CUcontext context)
{
    const size_t budget = gpuhier_params.stage_bytes, rounded = (bytes + BLOCK_ROUND - 1) / BLOCK_ROUND * BLOCK_ROUND;
    if (bytes > budget || OMPI_SUCCESS != gpuhier_end_arm()) {
        return NULL;
    }
    pthread_mutex_lock(&lock);
    gpuhier_locked_t *block = unused_take(bytes);
    while (NULL != block && !block_is_locked(block)) {
        block_free(block); /* its context has ended, so it is no longer page-locked */
        block = unused_take(bytes);
    }
    while (NULL == block && locked_bytes + rounded > budget && NULL != unused) {
        block_free(unused_take(0)); /* the smallest first: many blocks of one length are rare */
    }
    if (NULL == block && locked_bytes + rounded <= budget) {
        block = block_make(rounded, context);
    }
    pthread_mutex_unlock(&lock);
    return block;
}

void gpuhier_locked_give(gpuhier_locked_t *block)
{
    pthread_mutex_lock(&lock);
    block->next = unused;
    unused = block;
    pthread_mutex_unlock(&lock);
}

void gpuhier_locked_finalize(void)
{
    pthread_mutex_lock(&lock);
    while (NULL != unused) {
        block_free(unused_take(0));
    }
    pthread_mutex_unlock(&lock);
}
