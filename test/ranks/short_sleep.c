/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A sched_yield() that sleeps once a thread has yielded some times in a row. Open MPI yields while it waits. Where
 * ranks share two cores with each other and with other tests, a rank that only yields gives its turn to whatever
 * computes for milliseconds, and on Linux 6.18 those that yield can starve what they wait for, for many seconds. The
 * tests are about the component and not about the kernel's yield, so all test programs but the benchmark are linked
 * with this. Libraries find it before the C library's.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define YIELDS_IN_A_ROW 16
/* A thread that has not yielded for so long has worked, or has been off its processor. */
#define ROW_ENDS_NS 1000000
/* A long wait sleeps longer: each look at the sockets of sixteen ranks takes time from those that work. */
#define SLEEP_NS_MIN 20000
#define SLEEP_NS_MAX 160000
#define SLEEPS_BEFORE_DOUBLING 8
#define SLEEP_SLACK_NS 1000ul

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

int sched_yield(void)
{
    static _Thread_local int yields;
    static _Thread_local int64_t last;
    const int64_t now = now_ns();
    yields = now - last < ROW_ENDS_NS ? yields + 1 : 1;
    last = now;
    if (yields <= YIELDS_IN_A_ROW) {
        return (int) syscall(SYS_sched_yield);
    }
    if (YIELDS_IN_A_ROW + 1 == yields) {
        (void) prctl(PR_SET_TIMERSLACK, SLEEP_SLACK_NS);
    }
    struct timespec pause = {.tv_nsec = SLEEP_NS_MIN};
    for (int sleeps = yields - YIELDS_IN_A_ROW; sleeps > SLEEPS_BEFORE_DOUBLING && pause.tv_nsec < SLEEP_NS_MAX;
         sleeps -= SLEEPS_BEFORE_DOUBLING) {
        pause.tv_nsec *= 2;
    }
    (void) nanosleep(&pause, NULL);
    last = now_ns();
    return 0;
}
