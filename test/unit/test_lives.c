/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Whether a process lives, where /proc does not tell: a live one is never taken for dead, and a dead one is noticed.
 *
 *   test_lives            /proc as it is: that of another pid namespace when started by "unshare --pid --fork"
 *   test_lives threads    the child's main thread has ended, and another one works
 *   test_lives hidden     /proc hides the processes of other users, as a mount with hidepid=2 does; the child is
 *                         another user's
 */
#include "ompi_config.h"

#include <errno.h>
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "topology/coll_gpuhier_topology.h"
#include "ompi/constants.h"

#define CHILD_USER 65532
#define MY_USER 65533

static int failures;

/* Group 0 sees what is hidden. */
static bool user_become(uid_t user)
{
    return 0 == setgroups(0, NULL) && 0 == setgid(user) && 0 == setuid(user);
}

static void check(bool right, const char *what)
{
    if (!right) {
        fprintf(stderr, "test_lives: %s\n", what);
        ++failures;
    }
}

static void *wait_for_signal(void *unused)
{
    (void) unused;
    for (;;) {
        pause();
    }
    return NULL;
}

/* Describes itself when it has become another user, and waits for a signal; threads: not in its main thread, which
 * ends. */
static void child(int out, bool hidden, bool threads)
{
    gpuhier_record_t record;
    if (hidden && !user_become(CHILD_USER)) {
        _exit(2);
    }
    if (OMPI_SUCCESS != gpuhier_topology_local(NULL, GPUHIER_DEVICES_ALL, NULL, &record, NULL)
        || sizeof(record) != write(out, &record, sizeof(record))) {
        _exit(2);
    }
    pthread_t thread;
    if (threads && 0 == pthread_create(&thread, NULL, wait_for_signal, NULL)) {
        pthread_exit(NULL);
    }
    (void) wait_for_signal(NULL);
}

/* Waits until /proc shows the process as a zombie. */
static bool becomes_zombie(const char *path)
{
    for (int tries = 0; tries < 1000; ++tries) {
        char state = '?';
        FILE *file = fopen(path, "r");
        const bool seen = NULL != file && 1 == fscanf(file, "%*d (%*[^)]) %c", &state);
        if (NULL != file) {
            fclose(file);
        }
        if (seen && 'Z' == state) {
            return true;
        }
        usleep(10000);
    }
    return false;
}

static bool proc_hide(void)
{
    return 0 == mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL)
           && 0 == mount("proc", "/proc", "proc", 0, "hidepid=2");
}

static pid_t child_make(bool hidden, bool threads, gpuhier_record_t *record_p)
{
    int ends[2];
    if (0 != pipe(ends)) {
        return -1;
    }
    const pid_t pid = fork();
    if (0 == pid) {
        child(ends[1], hidden, threads);
    }
    close(ends[1]);
    const bool got = sizeof(*record_p) == read(ends[0], record_p, sizeof(*record_p));
    close(ends[0]);
    return got ? pid : -1;
}

/* A process that may end a child of another user must not be one that sees all: it ends itself when told, or when its
 * parent is gone. */
static pid_t killer_make(pid_t victim, int *tell_p)
{
    int ends[2];
    char byte;
    if (0 != pipe(ends)) {
        return -1;
    }
    const pid_t pid = fork();
    if (0 == pid) {
        close(ends[1]);
        (void) !read(ends[0], &byte, 1);
        _exit(0 == kill(victim, SIGKILL) ? 0 : 1);
    }
    close(ends[0]);
    *tell_p = ends[1];
    return pid;
}

int main(int argc, char **argv)
{
    const bool hidden = argc > 1 && 0 == strcmp(argv[1], "hidden");
    const bool threads = argc > 1 && 0 == strcmp(argv[1], "threads");
    gpuhier_record_t mine, other;
    char path[64];
    int tell;

    if (hidden && !proc_hide()) {
        printf("/proc cannot be mounted here: %s\n", strerror(errno));
        return 77;
    }
    const pid_t pid = child_make(hidden, threads, &other), killer = killer_make(pid, &tell);
    if (pid < 0 || killer < 0 || (hidden && !user_become(MY_USER))
        || OMPI_SUCCESS != gpuhier_topology_local(NULL, GPUHIER_DEVICES_ALL, NULL, &mine, NULL)) {
        fprintf(stderr, "test_lives: could not begin\n");
        return 1;
    }
    snprintf(path, sizeof(path), "/proc/%d/stat", (int) pid);
    if (hidden && 0 == access(path, F_OK)) {
        fprintf(stderr, "test_lives: /proc does not hide the child\n");
        ++failures;
    }
    check(!threads || becomes_zombie(path), "the child's main thread did not end");
    check(gpuhier_record_process_lives(&mine, &mine), "I am taken for dead");
    check(gpuhier_record_process_lives(&mine, &other), "a live process is taken for dead");
    gpuhier_record_t apart = other;
    apart.pid_inode++;
    close(tell);
    check(0 == waitid(P_PID, (id_t) pid, &(siginfo_t){0}, WEXITED | WNOWAIT), "the child did not end");
    check(!gpuhier_record_process_lives(&mine, &other), "a dead process that was not waited for is taken for alive");
    check(pid == waitpid(pid, NULL, 0), "the child cannot be waited for");
    check(!gpuhier_record_process_lives(&mine, &other), "a dead process is taken for alive");
    check(gpuhier_record_process_lives(&mine, &apart), "a process of another pid namespace is taken for dead");
    check(killer == waitpid(killer, NULL, 0), "the one that ends the child is gone");
    if (0 == failures) {
        printf("test_lives: right\n");
    }
    return 0 == failures ? 0 : 1;
}
