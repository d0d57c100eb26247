/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory that processes share: its name, room for it, and its order.
 *
 * A progress word is (sequence number of the call << 24 | progress in it). 40 bits count calls of 10 microseconds each
 * for 127 days. One process writes the word, with release. A process that reads it with acquire therefore also sees all
 * that was written before: the arrival record, and the stores of kernels that the writer's host has seen end.
 */
#ifndef GPUHIER_SYNC_H
#define GPUHIER_SYNC_H

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#define GPUHIER_SHM_NAME_BYTES 48

/* The name of a file in shared memory: "/gpuhier-", what kind of file it is, and a word. */
static inline void gpuhier_shm_name(char name[GPUHIER_SHM_NAME_BYTES], const char *kind, uint64_t word)
{
    snprintf(name, GPUHIER_SHM_NAME_BYTES, "/gpuhier-%s%016" PRIx64, kind, word);
}

/*
 * Reserves `bytes` bytes of a file in shared memory, from `begin` on. A lack of room is then an error at once, and no
 * later access ends the process with SIGBUS. Returns 0 or an errno value.
 *
 * On many kernels a pending signal ends the reservation with EINTR, and tmpfs gives back what it had reserved. A
 * profiler's timer may fire before each attempt is complete, so all signals are blocked meanwhile. Then only a signal
 * that cannot be blocked, such as a debugger's stop, interrupts an attempt, and the loop makes another one.
 */
static inline int gpuhier_shm_reserve(int file, off_t begin, off_t bytes)
{
    sigset_t all, before;
    int problem;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    do {
        problem = posix_fallocate(file, begin, bytes);
    } while (EINTR == problem);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return problem;
}

typedef _Atomic uint64_t gpuhier_word_t;

#define GPUHIER_WORD_PROGRESS_BITS 24
#define GPUHIER_WORD_PROGRESS_MAX ((UINT64_C(1) << GPUHIER_WORD_PROGRESS_BITS) - 1)
#define GPUHIER_WORD_SEQUENCE_MAX (UINT64_MAX >> GPUHIER_WORD_PROGRESS_BITS)

static inline uint64_t gpuhier_word(uint64_t sequence, uint64_t progress)
{
    return sequence << GPUHIER_WORD_PROGRESS_BITS | progress;
}

static inline void gpuhier_word_publish(gpuhier_word_t *word, uint64_t sequence, uint64_t progress)
{
    atomic_store_explicit(word, gpuhier_word(sequence, progress), memory_order_release);
}

/* Has the writer reached `progress` in call `sequence`, or a later call? The word of an earlier call is smaller. */
static inline bool gpuhier_word_reached(gpuhier_word_t *word, uint64_t sequence, uint64_t progress)
{
    return atomic_load_explicit(word, memory_order_acquire) >= gpuhier_word(sequence, progress);
}

static inline uint64_t gpuhier_word_read(gpuhier_word_t *word)
{
    return atomic_load_explicit(word, memory_order_acquire);
}

/*
 * Sets a word to (sequence, progress) unless it has reached (sequence, bar) already. Several processes may try at once.
 * Returns the word as it is afterwards.
 */
static inline uint64_t gpuhier_word_advance(gpuhier_word_t *word, uint64_t sequence, uint64_t progress, uint64_t bar)
{
    uint64_t seen = atomic_load_explicit(word, memory_order_acquire);
    const uint64_t wanted = gpuhier_word(sequence, progress);
    while (seen < gpuhier_word(sequence, bar)) {
        if (atomic_compare_exchange_weak_explicit(word, &seen, wanted, memory_order_acq_rel, memory_order_acquire)) {
            return wanted;
        }
    }
    return seen;
}

#endif /* GPUHIER_SYNC_H */
