/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A rank does its part of a call and dies just when the other one, which has not seen that yet, asks whether it lives.
 * The call is complete even so, and must end right. Two ranks of one node.
 *
 *   fault_left [COUNT]     doubles (default 60000)
 *
 * This program's syscall() stands before the C library's: when rank 0 asks for rank 1 while it waits in the call, the
 * answer is held back until rank 1 has made its call and is dead. After that rank 0 must get an error from the next
 * call. Rank 0 prints "rank 0 is content" if all is right.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fault_lib.h"

static atomic_bool armed; /* the next question about the other process is answered late */
static int other;

static bool is_over(int pid)
{
    char path[64], state = 0;
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (NULL == file) {
        return true;
    }
    const bool read = 1 == fscanf(file, "%*d (%*[^)]) %c", &state);
    fclose(file);
    return !read || 'Z' == state || 'X' == state;
}

typedef long (*syscall_fn_t)(long, ...);

long syscall(long number, ...)
{
    static _Atomic(syscall_fn_t) real;
    syscall_fn_t function = atomic_load(&real);
    long arg[6];
    va_list args;
    if (NULL == function) {
        void *place = dlsym(RTLD_NEXT, "syscall");
        memcpy(&function, &place, sizeof(function));
        atomic_store(&real, function);
    }
    va_start(args, number);
    for (int i = 0; i < 6; ++i) {
        arg[i] = va_arg(args, long);
    }
    va_end(args);
    if (SYS_pidfd_open == number && other == (int) arg[0] && atomic_exchange(&armed, false)) {
        kill((pid_t) other, SIGUSR1);
        while (!is_over(other)) {
            usleep(1000);
        }
    }
    return function(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}

int main(int argc, char **argv)
{
    suite_t suite;
    pair_t pair;
    sigset_t go;
    int pids[2], mine = (int) getpid(), signal_number;

    suite_begin(&suite, "fault_left", &argc, &argv);
    const size_t count = argc > 1 ? (size_t) atol(argv[1]) : 60000;
    sigemptyset(&go);
    sigaddset(&go, SIGUSR1);
    sigprocmask(SIG_BLOCK, &go, NULL);
    MPI_Allgather(&mine, 1, MPI_INT, pids, 1, MPI_INT, MPI_COMM_WORLD);
    other = pids[1 - suite.rank];
    pair_alloc(&pair, count);
    deadline(60, "in the call that one rank leaves");
    for (int i = 0; i < 5; ++i) {
        if (OUTCOME_RIGHT != pair_call(&suite, MPI_COMM_WORLD, &pair, count, ++suite.salt)) {
            fprintf(stderr, "fault_left: rank %d: a call before any harm failed\n", suite.rank);
            _exit(1);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (1 == suite.rank) {
        sigwait(&go, &signal_number);
    } else {
        atomic_store(&armed, true);
    }
    const outcome_t outcome = pair_call(&suite, MPI_COMM_WORLD, &pair, count, ++suite.salt);
    if (1 == suite.rank) {
        raise(SIGKILL);
    }
    const bool asked = !atomic_load(&armed);
    const outcome_t next = pair_call(&suite, MPI_COMM_WORLD, &pair, count, ++suite.salt);
    const bool content = asked && OUTCOME_RIGHT == outcome && OUTCOME_ERROR == next;
    printf("rank 0 is %s: %c then %c%s\n", content ? "content" : "not content", outcome_letter(outcome),
           outcome_letter(next), asked ? "" : ", and it never asked");
    fflush(stdout);
    deadline(0, "");
    sleep(120); /* until the script ends all */
    MPI_Abort(MPI_COMM_WORLD, 5);
    return 1;
}
