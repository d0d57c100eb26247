/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A sched_yield() that sleeps for some microseconds. Open MPI yields while it waits, and on Linux 6.18 with two cores
 * those that yield can starve what they wait for, for many seconds. The tests are about the component and not about
 * the kernel's yield, so programs in which much waits at a time are linked with this. Libraries find it before the C
 * library's.
 */
#include <sched.h>
#include <time.h>

int sched_yield(void)
{
    static const struct timespec pause = {.tv_nsec = 5000};
    return nanosleep(&pause, NULL);
}
