/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Kernels that wait (cudasim_twin.h).
 *
 * Owns their turns, and the words for which they sleep. Does not own queues nor workers (sim_engine.c), nor stacks
 * (sim_fiber.c). In eager mode such a kernel runs on a stack of its own, so that threads can take turns at it: first
 * the one that submits it. This one stays with it while it waits for other GPUs' kernels, for ATTEND_NS at most, and
 * leaves it at once when it waits for the host. A kernel that was left goes on when a thread asks the driver whether
 * work is done, and by a worker, which sleeps until the word that the kernel waits for changes, or looks at it at
 * times.
 */
#include "sim_waiting.h"

#include <linux/futex.h>
#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sim_fiber.h"

#define ATTEND_NS 500000 /* how long a launch stays with a kernel that waits for others */
#define ATTEND_YIELDS 8  /* .. and yields that often before it sleeps */

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
        sim_nap(20);
    } else {
        word_sleep(word, seen, SIM_LOOK_NS);
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
        sim_stream_advance(stream, item);
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
void sim_waiting_begin(CUstream stream)
{
    struct sim_item *item = sim_stream_pop(stream);
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

/* Under the lock: the worker looks at a kernel that was left, and sleeps. */
void sim_waiting_attend(CUstream stream)
{
    left_turn(stream);
    if (NULL == stream->left) {
        return;
    }
    _Atomic uint64_t *word = stream->resumed ? NULL : stream->left->word;
    const uint32_t seen = stream->left->seen;
    if (NULL == word) {
        sim_worker_rest(stream, SIM_LOOK_NS);
    } else if (word_changed(word, seen)) {
        sim_worker_rest(stream, SIM_LOOK_NS / 20); /* the push is under way */
    } else {
        sim_engine_unlock();
        word_sleep(word, seen, SIM_LOOK_NS);
        sim_engine_lock();
    }
}
