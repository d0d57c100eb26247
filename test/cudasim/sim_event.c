/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Events.
 *
 * Owns event objects: what a record stands for, time stamps, interprocess slots.
 * Does not own the mapping of another process's slots (sim_ipc.c) or the queues.
 * An event stands for a number in a stream; an interprocess event for a number
 * of records in a slot that all its users share, written by the process that records it.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sim_counters.h"
#include "sim_engine.h"
#include "sim_ipc.h"
#include "sim_model.h"

static CUevent free_events, all_events;

struct record {
    CUevent event;
    uint64_t slot_value;
};

CUevent sim_event_new(CUcontext ctx, unsigned flags)
{
    CUevent event, after;

    sim_engine_lock();
    event = free_events;
    if (NULL != event) {
        free_events = event->next;
    } else {
        event = calloc(1, sizeof(*event));
        if (NULL != event) {
            event->all_next = all_events;
            all_events = event;
        }
    }
    sim_engine_unlock();
    if (NULL == event) {
        return NULL;
    }
    after = event->all_next;
    memset(event, 0, sizeof(*event));
    event->all_next = after;
    event->ctx = ctx;
    event->flags = flags;
    event->magic = SIM_EVENT_MAGIC;
    sim_count(events_live);
    return event;
}

/* Under the lock: nothing refers to the event. Returns the mapping that the caller must let go of without the lock. */
static void *event_release(CUevent event)
{
    event->next = free_events;
    free_events = event;
    return event->slot_map;
}

void sim_event_destroy(CUevent event)
{
    void *slot_map = NULL;

    sim_engine_lock();
    event->magic = 0;
    event->destroyed = true;
    if (NULL != event->slot && !event->imported) {
        atomic_store(&event->slot->id, 0);
    }
    if (0 == event->pending) {
        slot_map = event_release(event);
    }
    sim_engine_unlock();
    if (NULL != slot_map) {
        sim_ipc_event_release(slot_map);
    }
    sim_uncount(events_live);
}

/* Their handles stay invalid for good: a program that still uses one is told so, not given another's event. */
void sim_events_context_clear(CUcontext ctx)
{
    CUevent event;

    sim_engine_lock();
    for (event = all_events; NULL != event; event = event->all_next) {
        if (ctx == event->ctx && SIM_EVENT_MAGIC == event->magic && !event->imported) {
            event->magic = 0;
            event->destroyed = true;
            if (NULL != event->slot) {
                atomic_store(&event->slot->id, 0);
            }
            sim_uncount(events_live);
        }
    }
    sim_engine_unlock();
}

CUresult sim_event_check(CUevent event)
{
    if (NULL == event || SIM_EVENT_MAGIC != event->magic) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    return CUDA_SUCCESS;
}

bool sim_event_slot_open(struct sim_shared_event *slot, uint64_t value)
{
    pid_t recorder;

    if (atomic_load_explicit(&slot->completed, memory_order_acquire) >= value) {
        return false;
    }
    recorder = (pid_t) atomic_load(&slot->recorder);
    return 0 == recorder || 0 == kill(recorder, 0) || ESRCH != errno;
}

static void slot_complete(struct sim_shared_event *slot, uint64_t value)
{
    uint64_t seen = atomic_load(&slot->completed);

    while (seen < value && !atomic_compare_exchange_weak(&slot->completed, &seen, value)) {
    }
}

static void run_record(struct sim_item *item)
{
    const struct record *record = (const void *) item->payload;
    CUevent event = record->event;
    uint64_t now = sim_now_ns();
    void *slot_map = NULL;

    if (sim_model.on) {
        item->end_ns = item->start_ns + (uint64_t) sim_model.event;
        sim_model_sleep(item->end_ns, false); /* before another process can see it */
        now = (uint64_t) ((double) item->end_ns / sim_model.dilation);
    }
    sim_engine_lock();
    if (NULL != event->slot && (event->imported || !event->destroyed)) {
        slot_complete(event->slot, record->slot_value);
    }
    event->time_ns = now;
    event->time_seq = item->seq;
    event->time_stream = item->stream;
    if (0 == --event->pending && event->destroyed) {
        slot_map = event_release(event);
    }
    sim_engine_unlock();
    if (NULL != slot_map) {
        sim_ipc_event_release(slot_map);
    }
}

void sim_event_record(CUevent event, CUstream stream)
{
    struct sim_item *item = sim_item_new(run_record, sizeof(struct record));
    struct record *record = (void *) item->payload;
    uint64_t seq;

    item->is_mark = true;
    item->name = "event";
    record->event = event;
    record->slot_value = 0;
    sim_engine_lock();
    if (NULL != event->slot) {
        atomic_store(&event->slot->recorder, (uint64_t) getpid());
        record->slot_value = atomic_fetch_add(&event->slot->recorded, 1) + 1;
    }
    event->pending++;
    event->stream = stream;
    event->seq = stream->submitted + 1;
    seq = sim_submit_locked(stream, item);
    sim_engine_unlock();
    if (NULL != event->slot) {
        sim_stream_kick(stream, seq); /* another process may wait for it, which is not known here */
    }
    sim_count(event_records);
}

static void run_nothing(struct sim_item *item)
{
    (void) item;
}

void sim_event_wait_on_stream(CUstream stream, CUevent event)
{
    struct sim_item *item;
    bool open;

    sim_engine_lock();
    open = NULL != event->stream && !sim_stream_done(event->stream, event->seq) && event->stream != stream;
    open = open || (NULL != event->slot && atomic_load(&event->slot->completed) < atomic_load(&event->slot->recorded));
    sim_engine_unlock();
    if (!open) {
        return;
    }
    item = sim_item_new(run_nothing, 0);
    item->is_mark = true;
    sim_engine_lock();
    if (NULL != event->stream && event->stream != stream) {
        sim_item_depend(item, event->stream, event->seq);
    }
    if (NULL != event->slot) {
        item->slot = event->slot;
        item->slot_value = atomic_load(&event->slot->recorded);
    }
    sim_submit_locked(stream, item);
    sim_engine_unlock();
}

bool sim_event_query(CUevent event)
{
    CUstream stream;
    uint64_t seq, value;

    sim_engine_lock();
    stream = event->stream;
    seq = event->seq;
    value = (NULL != event->slot) ? atomic_load(&event->slot->recorded) : 0;
    sim_engine_unlock();
    if (NULL != stream && !sim_stream_poll(stream, seq)) {
        return false;
    }
    return NULL == event->slot || !sim_event_slot_open(event->slot, value);
}

void sim_event_synchronize(CUevent event)
{
    struct timespec pause = {.tv_nsec = 1000};
    CUstream stream;
    uint64_t seq, value;

    sim_engine_lock();
    stream = event->stream;
    seq = event->seq;
    value = (NULL != event->slot) ? atomic_load(&event->slot->recorded) : 0;
    sim_engine_unlock();
    if (NULL != stream) {
        sim_stream_wait(stream, seq);
    }
    while (NULL != event->slot && sim_event_slot_open(event->slot, value)) {
        nanosleep(&pause, NULL);
        pause.tv_nsec = pause.tv_nsec < 200000 ? 2 * pause.tv_nsec : pause.tv_nsec;
    }
}
