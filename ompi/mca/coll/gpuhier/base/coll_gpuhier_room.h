/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Room for files in shared memory. What the file system cannot give is then known at once, and no later access ends
 * the process.
 */
#ifndef GPUHIER_ROOM_H
#define GPUHIER_ROOM_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>

/*
 * Reserves the part of the file. Returns 0 or an errno value.
 *
 * On many kernels a pending signal ends the reservation with EINTR, and tmpfs gives back what it had. A profiler's
 * timer may be shorter than the whole takes, so signals wait meanwhile. Only what cannot wait, such as a debugger's
 * stop, interrupts it then, and the loop ends with the first turn that nothing does.
 */
static inline int gpuhier_room_reserve(int file, off_t begin, off_t bytes)
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

#endif /* GPUHIER_ROOM_H */
