/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The engine: queues of work, which thread executes it, and when.
 *
 * Owns the queues and the three modes. Does not own what the work is (sim_copy.c,
 * sim_launch.c), its memory (sim_item.c), stream objects (sim_stream.c), queries (sim_query.c) nor events
 * (sim_event.c). Every piece of work has a number in its stream and names the work of other streams that it must
 * follow: what an event stood for when it was waited for, and the legacy default stream's implicit order. These always
 * point to work submitted before, so there are no cycles.
 *
 *   eager   submit() executes what it queued, on the spot
 *   thread  one worker per stream; a seeded random delay before one piece of work in four. A
 *           thread that waits for work executes what the worker has not begun, without delays.
 *           With CUDASIM_MAX_DELAY_US a worker executes all work, each piece after a delay.
 *   lazy    nothing is executed until a thread waits; then what is waited for, and
 *           what that must follow, is executed by the waiting thread, and no more.
 *           A query that finds work undone answers so; asked again, it executes what it
 *           asks for. Work that was left alone for CUDASIM_LAZY_MS is executed by a
 *           background thread, since a GPU gets there sometime without being asked.
 *
 * A kernel that waits (cudasim_twin.h) is executed by a worker in lazy mode too, and so is what is queued behind it. In
 * eager mode threads take turns at it (sim_waiting.c).
 *
 * One lock guards all queues; work is executed outside it, with the stream marked busy.
 */
#include "sim_engine.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim_fiber.h"
#include "sim_model.h"
#include "sim_trace.h"
#include "sim_waiting.h"

#define DEFAULT_MAX_DELAY_US 200
#define DEFAULT_LAZY_MS 50
#define WORKER_STACK ((size_t) 1 << 20)
#define AGER_NS 5000000
#define LOOKS 8 /* a worker whose kernel waited looks so many times for the next one */

/* Held for moments: a thread that finds it taken looks for a while before it sleeps. */
static pthread_mutex_t engine_mutex = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
static enum sim_mode mode;
static uint64_t seed, max_delay_us, lazy_ns;
static uint64_t delay_every = 4; /* thread mode: one piece of work in so many is delayed. 1: and only workers work */
static bool ager_started;
static pthread_cond_t ager_wake = PTHREAD_COND_INITIALIZER;

void sim_engine_lock(void)
{
    pthread_mutex_lock(&engine_mutex);
}

void sim_engine_unlock(void)
{
    pthread_mutex_unlock(&engine_mutex);
}

enum sim_mode sim_engine_mode(void)
{
    return mode;
}

uint64_t sim_engine_seed(void)
{
    return seed;
}

uint64_t sim_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}

static int read_number(const char *name, uint64_t otherwise, uint64_t *value_p)
{
    const char *text = getenv(name);
    char *end = NULL;

    *value_p = otherwise;
    if (NULL == text || '\0' == text[0]) {
        return 0;
    }
    *value_p = strtoull(text, &end, 0);
    if ('\0' != *end || '-' == text[0]) {
        fprintf(stderr, "cudasim: %s is '%s'; a number is expected\n", name, text);
        return -1;
    }
    return 0;
}

int sim_engine_setup(void)
{
    const char *text = getenv("CUDASIM_ASYNC");

    if (NULL == text || '\0' == text[0] || 0 == strcmp(text, "eager")) {
        mode = SIM_EAGER;
    } else if (0 == strcmp(text, "thread")) {
        mode = SIM_THREAD;
    } else if (0 == strcmp(text, "lazy")) {
        mode = SIM_LAZY;
    } else {
        fprintf(stderr, "cudasim: CUDASIM_ASYNC is '%s'; eager, thread or lazy is expected\n", text);
        return -1;
    }
    if (0 != read_number("CUDASIM_SEED", 1, &seed)
        || 0 != read_number("CUDASIM_MAX_DELAY_US", DEFAULT_MAX_DELAY_US, &max_delay_us)
        || 0 != read_number("CUDASIM_LAZY_MS", DEFAULT_LAZY_MS, &lazy_ns)) {
        return -1;
    }
    text = getenv("CUDASIM_MAX_DELAY_US");
    if (NULL != text && '\0' != text[0]) {
        delay_every = 1;
    }
    if (0 != sim_query_setup()) {
        return -1;
    }
    lazy_ns *= 1000000u;
    if (sim_model.on) {
        mode = SIM_THREAD; /* work takes time, which a thread of its own must spend */
        max_delay_us = 0;
        delay_every = 1;
    }
    return 0;
}

/* ---- execution ---- */

static uint64_t stream_random(CUstream stream)
{
    stream->random ^= stream->random << 13;
    stream->random ^= stream->random >> 7;
    stream->random ^= stream->random << 17;
    return stream->random;
}

void sim_nap(uint64_t us)
{
    struct timespec time = {.tv_sec = (time_t) (us / 1000000u), .tv_nsec = (long) (us % 1000000u) * 1000};

    nanosleep(&time, NULL);
}

/* Another process's record: it makes progress by itself, so we look again and again. */
static void await_slot(const struct sim_item *item)
{
    uint64_t us = 1;
    const uint64_t most = sim_model.on ? 20 : 200;

    while (NULL != item->slot && sim_event_slot_open(item->slot, item->slot_value)) {
        sim_nap(us);
        us = us < most ? 2 * us : us;
    }
}

/* The head of the queue was executed. */
void sim_stream_advance(CUstream stream, struct sim_item *item)
{
    stream->busy = false;
    stream->queries = 0;
    atomic_store_explicit(&stream->completed, item->seq, memory_order_release);
    sim_item_free(item);
    pthread_cond_broadcast(&stream->done);
    stream->threaded = stream->threaded && NULL != stream->head;
    if (stream->threaded || (SIM_THREAD == mode && NULL != stream->head)) {
        pthread_cond_signal(&stream->work);
    }
    if (stream->destroyed && NULL == stream->head) {
        sim_stream_retire(stream);
    }
}

struct sim_item *sim_stream_pop(CUstream stream)
{
    struct sim_item *item = stream->head;

    stream->head = item->next;
    if (NULL == stream->head) {
        stream->tail = NULL;
    }
    stream->busy = true;
    return item;
}

enum runner { WORKER, HOST };

/* Under the lock: executes the stream's work up to number seq, or awaits another thread that does. */
static void stream_run(CUstream stream, uint64_t seq, enum runner runner)
{
    const bool awaits = SIM_THREAD == mode && (WORKER == runner || 1 == delay_every);
    struct sim_item *item;
    unsigned i;

    while (atomic_load_explicit(&stream->completed, memory_order_acquire) < seq) {
        if (awaits || stream->threaded || stream->busy) {
            pthread_cond_wait(&stream->done, &engine_mutex);
            continue;
        }
        item = sim_stream_pop(stream);
        for (i = 0; i < item->ndeps; i++) {
            stream_run(item->deps[i].stream, item->deps[i].seq, runner);
        }
        sim_engine_unlock();
        await_slot(item);
        item->run(item);
        sim_engine_lock();
        sim_stream_advance(stream, item);
    }
}

/* Under the lock: waits to be woken, for so many nanoseconds at most. */
static void rest(pthread_cond_t *wake, uint64_t ns)
{
    const uint64_t end = sim_now_ns() + ns;
    const struct timespec until = {.tv_sec = (time_t) (end / 1000000000u), .tv_nsec = (long) (end % 1000000000u)};

    pthread_cond_clockwait(wake, &engine_mutex, CLOCK_MONOTONIC, &until);
}

/* Under the lock: the worker waits for news of its queue; ns: for no longer than that, 0: for ever. */
void sim_worker_rest(CUstream stream, uint64_t ns)
{
    if (0 == ns) {
        stream->asleep = true;
        pthread_cond_wait(&stream->work, &engine_mutex);
        stream->asleep = false;
        return;
    }
    rest(&stream->work, ns);
}

/*
 * Model: the work starts when the GPU has got it, and a moment after all that it follows has ended. What the worker
 * waited for without knowing its end (another process's record) ended now.
 */
static void model_start(struct sim_item *item)
{
    const uint64_t gap = (uint64_t) (item->is_kernel ? sim_model.gap : 0);
    uint64_t start = item->ready_ns;

    if (item->seq > 1) {
        const uint64_t before = sim_stream_end(item->stream, item->seq - 1) + gap;
        start = before > start ? before : start;
    }
    for (unsigned i = 0; i < item->ndeps; i++) {
        const uint64_t before = sim_stream_end(item->deps[i].stream, item->deps[i].seq) + gap;
        start = before > start ? before : start;
    }
    if (NULL != item->slot && sim_now_ns() > start) {
        start = sim_now_ns();
    }
    item->start_ns = start;
    item->end_ns = start;
    sim_model_sleep(start, false);
}

/* Model: the work is done when its time is over. */
static void model_end(struct sim_item *item)
{
    sim_model_sleep(item->end_ns, !item->is_mark);
    atomic_store_explicit(&item->stream->ends[item->seq % SIM_ENDS], item->end_ns, memory_order_relaxed);
    if (NULL != item->name) {
        sim_trace_work(item->name, item->stream->id, item->start_ns, item->end_ns);
    }
}

/* A stream's own thread. */
static void *worker(void *argument)
{
    CUstream stream = argument;
    struct sim_item *item;
    uint64_t delay;
    unsigned i, looks = 0;

    if (sim_model.on) {
        /* Where we may: a busy machine wakes such a thread at once, others after milliseconds. */
        const struct sched_param least = {.sched_priority = 1};
        pthread_setschedparam(pthread_self(), SCHED_RR, &least);
    }
    sim_engine_lock();
    for (;;) {
        if (NULL != stream->left) {
            sim_waiting_attend(stream);
            looks = LOOKS;
            continue;
        }
        if (NULL == stream->head || stream->busy || (SIM_THREAD != mode && !stream->threaded)) {
            if (NULL == stream->head && stream->destroyed) {
                break;
            }
            sim_worker_rest(stream,
                            looks > 0 ? SIM_LOOK_NS : 0); /* to wake it for the next kernel costs more than the looks */
            looks -= looks > 0;
            continue;
        }
        item = sim_stream_pop(stream);
        for (i = 0; i < item->ndeps; i++) {
            stream_run(item->deps[i].stream, item->deps[i].seq, WORKER);
        }
        delay = 0;
        if (SIM_THREAD == mode && max_delay_us > 0 && 0 == stream_random(stream) % delay_every) {
            delay = stream_random(stream) % (max_delay_us + 1);
        }
        sim_engine_unlock();
        await_slot(item);
        if (delay > 0) {
            sim_nap(delay);
        }
        if (sim_model.on) {
            model_start(item);
        }
        item->run(item);
        if (sim_model.on) {
            model_end(item);
        }
        sim_engine_lock();
        sim_stream_advance(stream, item);
    }
    stream->has_worker = false;
    sim_stream_reuse(stream);
    sim_engine_unlock();
    return NULL;
}

static int thread_start(void *(*main)(void *), void *argument)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, saved;
    int rc;

    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, WORKER_STACK);
    sigfillset(&all); /* the program's signals are for its own threads */
    pthread_sigmask(SIG_SETMASK, &all, &saved);
    rc = pthread_create(&thread, &attributes, main, argument);
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
    pthread_attr_destroy(&attributes);
    if (0 != rc) {
        fprintf(stderr, "cudasim: cannot start a thread: %s\n", strerror(rc));
        abort();
    }
    return rc;
}

/* Lazy mode's background thread: does what has waited too long, and what another process may wait for. */
static void *ager(void *unused)
{
    CUstream stream;
    uint64_t now, target;

    (void) unused;
    sim_engine_lock();
    for (;;) {
        now = sim_now_ns();
        for (stream = sim_all_streams; NULL != stream; stream = stream->all_next) {
            target = stream->kicked;
            if (NULL != stream->head && now > stream->head->queued_ns + lazy_ns && target < stream->head->seq) {
                target = stream->head->seq;
            }
            stream_run(stream, target, HOST);
        }
        rest(&ager_wake, AGER_NS);
    }
    return NULL;
}

/* The legacy default stream and the blocking streams of a context follow each other. */
static void legacy_order(CUstream stream, struct sim_item *item)
{
    CUstream legacy = stream->ctx->legacy, other;

    if (stream == legacy) {
        for (other = stream->ctx->streams; NULL != other; other = other->next) {
            if (other != stream && other->blocking) {
                sim_item_depend(item, other, other->submitted);
            }
        }
    } else if (stream->blocking && NULL != legacy) {
        sim_item_depend(item, legacy, legacy->submitted);
    }
}

/* Work that must follow a kernel that may wait for the host must not hold the host up either. */
static bool follows_threaded(const struct sim_item *item)
{
    for (unsigned i = 0; i < item->ndeps; i++) {
        if (item->deps[i].stream->threaded && !sim_stream_done(item->deps[i].stream, item->deps[i].seq)) {
            return true;
        }
    }
    return false;
}

/* is_awaited: by the caller, which executes it if it can, so the worker is not woken for it. */
static uint64_t submit(CUstream stream, struct sim_item *item, bool is_awaited)
{
    uint64_t seq = ++stream->submitted;

    item->seq = seq;
    item->stream = stream;
    item->next = NULL;
    if (sim_model.on) {
        item->ready_ns = sim_now_ns() + (uint64_t) sim_model.start;
    }
    legacy_order(stream, item);
    if (NULL == stream->tail) {
        stream->head = item;
    } else {
        stream->tail->next = item;
    }
    stream->tail = item;
    stream->threaded = stream->threaded || follows_threaded(item);
    if (SIM_HAS_FIBERS && SIM_EAGER == mode && item->waits && !stream->threaded && !stream->busy) {
        sim_waiting_begin(stream);
        if (sim_stream_done(stream, seq)) {
            return seq;
        }
    }
    stream->threaded = stream->threaded || item->waits;
    if (SIM_EAGER == mode && !stream->threaded) {
        stream_run(stream, seq, HOST);
    } else if (SIM_THREAD == mode || stream->threaded) {
        if (is_awaited && !stream->threaded && delay_every > 1) {
            return seq;
        }
        if (!stream->has_worker) {
            stream->has_worker = true;
            thread_start(worker, stream);
        } else if (stream->asleep || NULL != stream->head) {
            pthread_cond_signal(&stream->work);
        }
    } else {
        item->queued_ns = sim_now_ns();
        if (!ager_started) {
            ager_started = true;
            thread_start(ager, NULL);
        }
    }
    return seq;
}

uint64_t sim_submit_locked(CUstream stream, struct sim_item *item)
{
    return submit(stream, item, false);
}

uint64_t sim_submit(CUstream stream, struct sim_item *item)
{
    uint64_t seq;

    sim_engine_lock();
    seq = submit(stream, item, false);
    sim_engine_unlock();
    return seq;
}

/* Model: the host learns a little later than it happens that work has ended. */
static void model_await(CUstream stream, uint64_t seq)
{
    if (sim_model.on && seq > 0) {
        sim_model_await(sim_stream_end(stream, seq));
    }
}

void sim_submit_and_wait(CUstream stream, struct sim_item *item)
{
    uint64_t seq;

    sim_engine_lock();
    seq = submit(stream, item, true);
    stream_run(stream, seq, HOST);
    sim_engine_unlock();
    model_await(stream, seq);
}

void sim_stream_wait(CUstream stream, uint64_t seq)
{
    if (!sim_stream_done(stream, seq)) {
        sim_engine_lock();
        stream_run(stream, seq, HOST);
        sim_engine_unlock();
    }
    model_await(stream, seq);
}

bool sim_stream_done(CUstream stream, uint64_t seq)
{
    return atomic_load_explicit(&stream->completed, memory_order_acquire) >= seq;
}

void sim_stream_drain(CUstream stream)
{
    sim_engine_lock();
    const uint64_t seq = stream->submitted;
    stream_run(stream, seq, HOST);
    sim_engine_unlock();
    model_await(stream, seq);
}

/*
 * Under the lock: all that the chosen streams have now; what is submitted meanwhile is not waited for. The lock is open
 * now and then, and other threads may drain other streams, so each drain has a list of its own.
 */
static void drain_locked(CUcontext ctx, int physical)
{
    struct sim_dep *targets;
    size_t most = 0, n = 0;
    CUstream stream;

    for (stream = sim_all_streams; NULL != stream; stream = stream->all_next) {
        most++;
    }
    if (0 == most) {
        return;
    }
    targets = sim_must(malloc(most * sizeof(*targets)));
    for (stream = sim_all_streams; NULL != stream; stream = stream->all_next) {
        if (0 != stream->magic && stream->submitted > 0 && (NULL == ctx || stream->ctx == ctx)
            && (physical < 0 || stream->ctx->physical == physical)) {
            targets[n++] = (struct sim_dep){.stream = stream, .seq = stream->submitted};
        }
    }
    for (size_t i = 0; i < n; i++) {
        stream_run(targets[i].stream, targets[i].seq, HOST);
        if (sim_model.on) {
            const uint64_t end = sim_stream_end(targets[i].stream, targets[i].seq);
            sim_engine_unlock();
            sim_model_await(end);
            sim_engine_lock();
        }
    }
    free(targets);
}

void sim_context_drain(CUcontext ctx)
{
    sim_engine_lock();
    drain_locked(ctx, -1);
    sim_engine_unlock();
}

void sim_device_drain(int physical)
{
    sim_engine_lock();
    drain_locked(NULL, physical);
    sim_engine_unlock();
}

bool sim_stream_ask(CUstream stream, uint64_t seq)
{
    bool runs = false;

    if (SIM_LAZY == mode) {
        sim_engine_lock();
        runs = ++stream->queries > 1 && !stream->threaded;
        if (runs) {
            stream_run(stream, seq, HOST);
        }
        sim_engine_unlock();
    }
    return runs;
}

void sim_stream_kick(CUstream stream, uint64_t seq)
{
    sim_engine_lock();
    if (SIM_LAZY == mode && stream->kicked < seq) {
        stream->kicked = seq;
        pthread_cond_signal(&ager_wake);
    }
    sim_engine_unlock();
}
