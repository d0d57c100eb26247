/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Items: pieces of work before they are queued.
 *
 * Owns their memory, which small ones give back to a list, and the list of what an item must follow. Does not own when
 * they are executed (sim_engine.c). Called by all that submits work.
 */
#include "sim_engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEEP_PAYLOAD 2048 /* items with a payload up to this are kept for reuse */

static struct sim_item *free_items;

void *sim_must(void *memory)
{
    if (NULL == memory) {
        fprintf(stderr, "cudasim: out of host memory\n");
        abort();
    }
    return memory;
}

struct sim_item *sim_item_new(sim_run_fn_t run, size_t payload_bytes)
{
    struct sim_item *item = NULL;

    if (payload_bytes <= KEEP_PAYLOAD) {
        sim_engine_lock();
        item = free_items;
        if (NULL != item) {
            free_items = item->next;
        }
        sim_engine_unlock();
    }
    if (NULL == item) {
        item = sim_must(malloc(sizeof(*item) + (payload_bytes > KEEP_PAYLOAD ? payload_bytes : KEEP_PAYLOAD)));
    }
    memset(item, 0, sizeof(*item));
    item->run = run;
    item->deps = item->deps_inline;
    item->deps_room = SIM_DEPS_INLINE;
    item->payload_bytes = payload_bytes;
    return item;
}

void sim_item_free(struct sim_item *item)
{
    if (item->deps != item->deps_inline) {
        free(item->deps);
    }
    if (item->payload_bytes > KEEP_PAYLOAD) {
        free(item);
        return;
    }
    item->next = free_items;
    free_items = item;
}

void sim_item_drop(struct sim_item *item)
{
    sim_engine_lock();
    sim_item_free(item);
    sim_engine_unlock();
}

void sim_item_depend(struct sim_item *item, CUstream stream, uint64_t seq)
{
    struct sim_dep *grown;

    if (atomic_load_explicit(&stream->completed, memory_order_acquire) >= seq) {
        return;
    }
    if (item->ndeps == item->deps_room) {
        grown = sim_must(malloc(2 * item->deps_room * sizeof(*grown)));
        memcpy(grown, item->deps, item->ndeps * sizeof(*grown));
        if (item->deps != item->deps_inline) {
            free(item->deps);
        }
        item->deps = grown;
        item->deps_room *= 2;
    }
    item->deps[item->ndeps].stream = stream;
    item->deps[item->ndeps].seq = seq;
    item->ndeps++;
}
