/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The locks by which ranks in different pid namespaces show that they live: a rank is dead when its process has died,
 * though a child of it lives, and not when it has left in peace, or never had a lock. Signals that come all the time
 * keep no segment from being made.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ompi_config.h"

#include "base/coll_gpuhier_compat.h"
#include "team/coll_gpuhier_segment.h"

static int failures;

static void check(bool right, const char *what)
{
    if (!right) {
        fprintf(stderr, "test_segment: %s\n", what);
        ++failures;
    }
}

/* Two ranks of one segment: this process with place 0, and a child with place 1, which hears and answers. */
typedef struct pair {
    gpuhier_segment_t mine;
    pid_t child;
    int to_child, from_child;
} pair_t;

/* Attaches, makes a child of its own that outlives it, and detaches when told. */
static void child(const gpuhier_segment_args_t *args, int from, int to)
{
    gpuhier_segment_t segment;
    char byte = 0;
    if (OMPI_SUCCESS != gpuhier_segment_attach(args, 1, &segment)) {
        _exit(2);
    }
    const pid_t orphan = fork();
    if (0 == orphan) {
        sleep(60);
        _exit(0);
    }
    bool told = sizeof(orphan) == write(to, &orphan, sizeof(orphan)) && 1 == read(from, &byte, 1);
    gpuhier_segment_detach(&segment);
    told = told && 1 == write(to, &byte, 1);
    pause();
    _exit(told ? 0 : 2);
}

static pid_t pair_begin(pair_t *pair, bool locks)
{
    gpuhier_segment_args_t args = {.nranks = 2, .slot_bytes = 128, .area_bytes = 80, .locks = locks};
    int down[2], up[2];
    pid_t orphan = -1;
    if (sizeof(args.word) != getrandom(&args.word, sizeof(args.word), 0) || 0 != pipe(down) || 0 != pipe(up)
        || OMPI_SUCCESS != gpuhier_segment_create(&args, &pair->mine)) {
        fprintf(stderr, "test_segment: could not begin\n");
        exit(1);
    }
    pair->child = fork();
    if (0 == pair->child) {
        child(&args, down[0], up[1]);
    }
    pair->to_child = down[1];
    pair->from_child = up[0];
    check(sizeof(orphan) == read(up[0], &orphan, sizeof(orphan)), "the child did not begin");
    gpuhier_segment_unlink(args.word);
    check(gpuhier_segment_lives(&pair->mine, 0) && gpuhier_segment_lives(&pair->mine, 1),
          "a live rank is taken for dead");
    return orphan;
}

static void pair_end(pair_t *pair, pid_t orphan)
{
    kill(pair->child, SIGKILL);
    waitpid(pair->child, NULL, 0);
    if (orphan > 0) {
        kill(orphan, SIGKILL);
    }
    gpuhier_segment_detach(&pair->mine);
}

static int interruptions; /* reservations of memory that a signal ended */
static bool ticks;        /* a profiler's timer is faster than any reservation, and the kernel's tmpfs heeds that */

/* In place of the C library's. One interruption comes in any case, as by a debugger. */
int posix_fallocate(int file, off_t begin, off_t bytes)
{
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    if (ticks && (0 == interruptions || !sigismember(&blocked, SIGPROF))) {
        ++interruptions;
        return EINTR;
    }
    return 0 == ftruncate(file, begin + bytes) ? 0 : errno;
}

static void check_ticks(void)
{
    gpuhier_segment_args_t args = {.nranks = 2, .slot_bytes = 128, .area_bytes = 80};
    gpuhier_segment_t segment;
    sigset_t blocked;
    check(sizeof(args.word) == getrandom(&args.word, sizeof(args.word), 0), "could not begin");
    ticks = true;
    const int rc = gpuhier_segment_create(&args, &segment);
    ticks = false;
    check(OMPI_SUCCESS == rc && 1 == interruptions, "signals keep a segment from being made");
    check(0 == pthread_sigmask(SIG_SETMASK, NULL, &blocked) && !sigismember(&blocked, SIGPROF), "signals stay blocked");
    if (OMPI_SUCCESS == rc) {
        gpuhier_segment_unlink(args.word);
        gpuhier_segment_detach(&segment);
    }
}

int main(void)
{
    pair_t pair;
    char byte = 0;

    pid_t orphan = pair_begin(&pair, true);
    kill(pair.child, SIGKILL);
    waitpid(pair.child, NULL, 0);
    check(0 == kill(orphan, 0), "the child's child has ended");
    check(!gpuhier_segment_lives(&pair.mine, 1), "a dead rank whose child lives is taken for alive");
    check(gpuhier_segment_lives(&pair.mine, 0), "I am taken for dead");
    kill(orphan, SIGKILL);
    gpuhier_segment_detach(&pair.mine);

    orphan = pair_begin(&pair, true);
    check(1 == write(pair.to_child, &byte, 1) && 1 == read(pair.from_child, &byte, 1), "the child did not detach");
    check(gpuhier_segment_lives(&pair.mine, 1), "a rank that has left in peace is taken for dead");
    pair_end(&pair, orphan);

    orphan = pair_begin(&pair, false);
    kill(pair.child, SIGKILL);
    waitpid(pair.child, NULL, 0);
    check(gpuhier_segment_lives(&pair.mine, 1), "without locks something is known");
    pair_end(&pair, orphan);

    check_ticks();
    if (0 == failures) {
        printf("test_segment: right\n");
    }
    return 0 != failures;
}
