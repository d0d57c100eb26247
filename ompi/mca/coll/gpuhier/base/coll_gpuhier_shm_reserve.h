/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Reserves room for files in shared memory. A lack of room is then an error at once, and no later access ends the
 * process with SIGBUS.
 */
#ifndef GPUHIER_SHM_RESERVE_H
#define GPUHIER_SHM_RESERVE_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>

/*
 * Reserves `bytes` bytes of the file from `begin` on. Returns 0 or an errno value.
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

#endif /* GPUHIER_SHM_RESERVE_H */
