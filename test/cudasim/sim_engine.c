/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The engine: queues of work, which thread executes it, and when.
 *
 * Owns the queues and the three modes. Does not own what the work is (sim_copy.c,
 * sim_launch.c), stream objects (sim_stream.c) nor events (sim_event.c). Every piece of work has a
 * number in its stream and names the work of other streams that it must follow:
 * what an event stood for when it was waited for, and the legacy default stream's
 * implicit order. These always point to work submitted before, so there are no cycles.
 *
 *   eager   submit() executes what it queued, on the spot
 *   thread  one worker per stream; a seeded random delay before each piece of work
 *   lazy    nothing is executed until a thread waits; then what is waited for, and
 *           what that must follow, is executed by the waiting thread, and no more.
 *           A query that finds work undone answers so; asked again, it executes what it
 *           asks for. Work that was left alone for CUDASIM_LAZY_MS is executed by a
 *           background thread, since a GPU gets there sometime without being asked.
 *
 * A kernel that waits (cudasim_twin.h) is executed by a worker in lazy mode too, and so is what is queued behind it. In
 * eager mode it runs on a stack of its own (sim_fiber.c), so that threads can take turns at it: first the one that
 * submits it. This one stays with it while it waits for other GPUs' kernels, for ATTEND_NS at most, and leaves it at
 * once when it waits for the host. A kernel that was left goes on when a thread asks the driver whether work is done,
 * and by a worker, which sleeps until the word that the kernel waits for changes, or looks at it at times.
 *
 * One lock guards all queues; work is executed outside it, with the stream marked busy.
 */
#include "sim_engine.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sim_fiber.h"
#include "sim_model.h"
#include "sim_trace.h"

#define DEFAULT_MAX_DELAY_US 200
#define DEFAULT_LAZY_MS 50
#define WORKER_STACK ((size_t) 1 << 20)
#define KEEP_PAYLOAD 2048 /* items with a payload up to this are kept for reuse */
#define ATTEND_NS 500000  /* how long a launch stays with a kernel that waits for others */
#define ATTEND_YIELDS 8   /* .. and yields that often before it sleeps */
#define LOOK_NS 1000000   /* a worker looks so often at a kernel that was left, */
#define LOOKS 8           /* and so many times for the next one */

static pthread_mutex_t engine_mutex = PTHREAD_MUTEX_INITIALIZER;
static enum sim_mode mode;
static uint64_t seed, max_delay_us, lazy_ns;
static struct sim_item *free_items;
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

static bool wide_query; /* a query of the legacy default stream looks at the blocking streams as well */

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
    text = getenv("CUDASIM_LEGACY_QUERY");
    wide_query = NULL != text && 0 == strcmp(text, "blocking");
    if (NULL != text && '\0' != text[0] && !wide_query && 0 != strcmp(text, "alone")) {
        fprintf(stderr, "cudasim: CUDASIM_LEGACY_QUERY is '%s'; alone or blocking is expected\n", text);
        return -1;
    }
    lazy_ns *= 1000000u;
    if (sim_model.on) {
        mode = SIM_THREAD; /* work takes time, which a thread of its own must spend */
        max_delay_us = 0;
    }
    return 0;
}

static void *must(void *memory)
{
    if (NULL == memory) {
        fprintf(stderr, "cudasim: out of host memory\n");
        abort();
    }
    return memory;
}

/* ---- items ---- */

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
        item = must(malloc(sizeof(*item) + (payload_bytes > KEEP_PAYLOAD ? payload_bytes : KEEP_PAYLOAD)));
    }
    memset(item, 0, sizeof(*item));
    item->run = run;
    item->deps = item->deps_inline;
    item->deps_room = SIM_DEPS_INLINE;
    item->payload_bytes = payload_bytes;
    return item;
}

static void item_free(struct sim_item *item)
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
    item_free(item);
    sim_engine_unlock();
}

void sim_item_depend(struct sim_item *item, CUstream stream, uint64_t seq)
{
    struct sim_dep *grown;

    if (atomic_load_explicit(&stream->completed, memory_order_acquire) >= seq) {
        return;
    }
    if (item->ndeps == item->deps_room) {
        grown = must(malloc(2 * item->deps_room * sizeof(*grown)));
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

/* ---- execution ---- */

static uint64_t stream_random(CUstream stream)
{
    stream->random ^= stream->random << 13;
    stream->random ^= stream->random >> 7;
    stream->random ^= stream->random << 17;
    return stream->random;
}

static void nap(uint64_t us)
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
        nap(us);
        us = us < most ? 2 * us : us;
    }
}

/* The head of the queue was executed. */
static void stream_advance(CUstream stream, struct sim_item *item)
{
    stream->busy = false;
    stream->queries = 0;
    atomic_store_explicit(&stream->completed, item->seq, memory_order_release);
    item_free(item);
    pthread_cond_broadcast(&stream->done);
    stream->threaded = stream->threaded && NULL != stream->head;
    if (stream->threaded) {
        pthread_cond_signal(&stream->work);
    }
    if (stream->destroyed && NULL == stream->head) {
        sim_stream_retire(stream);
    }
}

static struct sim_item *stream_pop(CUstream stream)
{
    struct sim_item *item = stream->head;

    stream->head = item->next;
    if (NULL == stream->head) {
        stream->tail = NULL;
    }
    stream->busy = true;
    return item;
}

/* Under the lock: executes (or, with workers, awaits) the stream's work up to number seq. */
static void stream_run(CUstream stream, uint64_t seq)
{
    struct sim_item *item;
    unsigned i;

    while (atomic_load_explicit(&stream->completed, memory_order_acquire) < seq) {
        if (SIM_THREAD == mode || stream->threaded || stream->busy) {
            pthread_cond_wait(&stream->done, &engine_mutex);
            continue;
        }
        item = stream_pop(stream);
        for (i = 0; i < item->ndeps; i++) {
            stream_run(item->deps[i].stream, item->deps[i].seq);
        }
        sim_engine_unlock();
        await_slot(item);
        item->run(item);
        sim_engine_lock();
        stream_advance(stream, item);
    }
}

/* ---- kernels that wait ---- */

static _Atomic unsigned nleft; /* streams with a kernel that waits; changed under the lock */

/* In the lower half of a word for which a kernel sleeps; its upper half is what the kernel waits for. */
#define SLEEPER 0x7a7a5eedu

static bool word_changed(const _Atomic uint64_t *word, uint32_t seen)
{
    return seen != (uint32_t) (atomic_load_explicit(word, memory_order_acquire) >> 32);
}

static void word_sleep(_Atomic uint64_t *word, uint32_t seen, uint64_t ns)
{
    const struct timespec most = {.tv_sec = (time_t) (ns / 1000000000u), .tv_nsec = (long) (ns % 1000000000u)};
    uint64_t was = atomic_load_explicit(word, memory_order_relaxed);

    /* The push whose exchange finds the mark wakes; one that came before it makes the wait return at once. */
    if (seen == (uint32_t) (was >> 32) && atomic_compare_exchange_strong(word, &was, (uint64_t) seen << 32 | SLEEPER)) {
        syscall(SYS_futex, (uint32_t *) (void *) word + 1, FUTEX_WAIT, seen, &most, NULL, 0);
    }
}

bool sim_word_push(void *to, uint64_t word)
{
    return SLEEPER == (uint32_t) atomic_exchange_explicit((_Atomic uint64_t *) to, word, memory_order_seq_cst);
}

void sim_word_wake(void *to)
{
    syscall(SYS_futex, (uint32_t *) to + 1, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void sim_item_wait(struct sim_item *item, _Atomic uint64_t *word, uint32_t seen)
{
    if (NULL != item->fiber) {
        item->word = word;
        item->seen = seen;
        sim_fiber_park(item->fiber);
    } else if (NULL == word || word_changed(word, seen)) {
        nap(20);
    } else {
        word_sleep(word, seen, LOOK_NS);
    }
}

static void fiber_main(void *argument)
{
    struct sim_item *item = argument;

    item->run(item);
}

/* Under the lock: a turn of the stream's kernel, at which no other thread is. Returns whether it has ended. */
static bool left_resume(CUstream stream)
{
    struct sim_item *item = stream->left;
    bool ended;

    sim_engine_unlock();
    ended = sim_fiber_resume(item->fiber);
    sim_engine_lock();
    if (ended) {
        stream->left = NULL;
        nleft--;
        stream_advance(stream, item);
    }
    return ended;
}

/* Under the lock: one turn, unless another thread is at it. */
static void left_turn(CUstream stream)
{
    if (NULL != stream->left && !stream->resumed) {
        stream->resumed = true;
        left_resume(stream);
        stream->resumed = false;
    }
}

void sim_kernels_turn(void)
{
    CUstream stream;

    if (0 == atomic_load_explicit(&nleft, memory_order_relaxed)) {
        return;
    }
    sim_engine_lock();
    for (stream = sim_all_streams; NULL != stream; stream = stream->all_next) {
        left_turn(stream);
    }
    sim_engine_unlock();
}

/* Under the lock: the thread that submits a kernel that waits, with nothing before it in its stream, begins it. */
static void stream_attend(CUstream stream)
{
    struct sim_item *item = stream_pop(stream);
    const uint64_t until = sim_now_ns() + ATTEND_NS;
    unsigned turns = 0;
    uint64_t now;

    item->fiber = sim_fiber_new(fiber_main, item);
    stream->left = item;
    stream->resumed = true;
    nleft++;
    /* Another kernel that was left may be the one that this one waits for. */
    while (!left_resume(stream) && NULL != item->word && 1 == nleft && (now = sim_now_ns()) < until) {
        sim_engine_unlock();
        if (turns++ < ATTEND_YIELDS || word_changed(item->word, item->seen)) {
            sched_yield();
        } else {
            word_sleep(item->word, item->seen, until - now);
        }
        sim_engine_lock();
    }
    stream->resumed = false;
}

/* Under the lock: the worker waits for news of its queue; ns: for no longer than that, 0: for ever. */
static void worker_rest(CUstream stream, uint64_t ns)
{
    struct timespec until;

    if (0 == ns) {
        stream->asleep = true;
        pthread_cond_wait(&stream->work, &engine_mutex);
        stream->asleep = false;
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long) ns;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_cond_clockwait(&stream->work, &engine_mutex, CLOCK_MONOTONIC, &until);
}

/* Under the lock: the worker looks at a kernel that was left, and sleeps. */
static void left_attend(CUstream stream)
{
    left_turn(stream);
    if (NULL == stream->left) {
        return;
    }
    _Atomic uint64_t *word = stream->resumed ? NULL : stream->left->word;
    const uint32_t seen = stream->left->seen;
    if (NULL == word) {
        worker_rest(stream, LOOK_NS);
    } else if (word_changed(word, seen)) {
        worker_rest(stream, LOOK_NS / 20); /* the push is under way */
    } else {
        sim_engine_unlock();
        word_sleep(word, seen, LOOK_NS);
        sim_engine_lock();
    }
}

static uint64_t end_of(CUstream stream, uint64_t seq)
{
    return atomic_load_explicit(&stream->ends[seq % SIM_ENDS], memory_order_relaxed);
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
        const uint64_t before = end_of(item->stream, item->seq - 1) + gap;
        start = before > start ? before : start;
    }
    for (unsigned i = 0; i < item->ndeps; i++) {
        const uint64_t before = end_of(item->deps[i].stream, item->deps[i].seq) + gap;
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
            left_attend(stream);
            looks = LOOKS;
            continue;
        }
        if (NULL == stream->head || stream->busy || (SIM_THREAD != mode && !stream->threaded)) {
            if (NULL == stream->head && stream->destroyed) {
                break;
            }
            worker_rest(stream, looks > 0 ? LOOK_NS : 0); /* to wake it for the next kernel costs more than the looks */
            looks -= looks > 0;
            continue;
        }
        item = stream_pop(stream);
        for (i = 0; i < item->ndeps; i++) {
            stream_run(item->deps[i].stream, item->deps[i].seq);
        }
        delay = (0 == max_delay_us || SIM_THREAD != mode) ? 0 : stream_random(stream) % (max_delay_us + 1);
        sim_engine_unlock();
        await_slot(item);
        if (delay > 0) {
            nap(delay);
        }
        if (sim_model.on) {
            model_start(item);
        }
        item->run(item);
        if (sim_model.on) {
            model_end(item);
        }
        sim_engine_lock();
        stream_advance(stream, item);
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
    struct timespec until;
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
            stream_run(stream, target);
        }
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += 5000000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
        pthread_cond_clockwait(&ager_wake, &engine_mutex, CLOCK_MONOTONIC, &until);
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

uint64_t sim_submit_locked(CUstream stream, struct sim_item *item)
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
        stream_attend(stream);
        if (sim_stream_done(stream, seq)) {
            return seq;
        }
    }
    stream->threaded = stream->threaded || item->waits;
    if (SIM_EAGER == mode && !stream->threaded) {
        stream_run(stream, seq);
    } else if (SIM_THREAD == mode || stream->threaded) {
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

uint64_t sim_submit(CUstream stream, struct sim_item *item)
{
    uint64_t seq;

    sim_engine_lock();
    seq = sim_submit_locked(stream, item);
    sim_engine_unlock();
    return seq;
}

/* Model: the host learns a little later than it happens that work has ended. */
static void model_await(CUstream stream, uint64_t seq)
{
    if (sim_model.on && seq > 0) {
        sim_model_await(end_of(stream, seq));
    }
}

void sim_stream_wait(CUstream stream, uint64_t seq)
{
    if (!sim_stream_done(stream, seq)) {
        sim_engine_lock();
        stream_run(stream, seq);
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
    stream_run(stream, seq);
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
    targets = must(malloc(most * sizeof(*targets)));
    for (stream = sim_all_streams; NULL != stream; stream = stream->all_next) {
        if (0 != stream->magic && stream->submitted > 0 && (NULL == ctx || stream->ctx == ctx)
            && (physical < 0 || stream->ctx->physical == physical)) {
            targets[n++] = (struct sim_dep){.stream = stream, .seq = stream->submitted};
        }
    }
    for (size_t i = 0; i < n; i++) {
        stream_run(targets[i].stream, targets[i].seq);
        if (sim_model.on) {
            const uint64_t end = end_of(targets[i].stream, targets[i].seq);
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

bool sim_stream_poll(CUstream stream, uint64_t seq)
{
    bool done =
        sim_stream_done(stream, seq) && (!sim_model.on || 0 == seq || sim_model_is_visible(end_of(stream, seq)));

    if (!done && SIM_LAZY == mode) {
        sim_engine_lock();
        if (++stream->queries > 1 && !stream->threaded) {
            stream_run(stream, seq);
            done = true;
        }
        sim_engine_unlock();
    }
    return done;
}

bool sim_stream_query(CUstream stream)
{
    uint64_t seq;

    sim_engine_lock();
    seq = stream->submitted;
    sim_engine_unlock();
    return sim_stream_poll(stream, seq);
}

/* A blocking stream of the context with work under way, and its last piece. */
static CUstream busy_blocking(CUcontext ctx, uint64_t *seq_p)
{
    CUstream stream;

    sim_engine_lock();
    for (stream = ctx->streams; NULL != stream; stream = stream->next) {
        *seq_p = stream->submitted;
        if (stream->blocking && stream != ctx->legacy
            && (!sim_stream_done(stream, *seq_p)
                || (sim_model.on && 0 != *seq_p && !sim_model_is_visible(end_of(stream, *seq_p))))) {
            break;
        }
    }
    sim_engine_unlock();
    return stream;
}

bool sim_stream_query_all(CUstream legacy)
{
    uint64_t seq;
    CUstream stream;

    while (wide_query && NULL != (stream = busy_blocking(legacy->ctx, &seq))) {
        if (!sim_stream_poll(stream, seq)) {
            return false;
        }
    }
    return sim_stream_query(legacy);
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
