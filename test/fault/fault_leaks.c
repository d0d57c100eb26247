/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Communicators are made, used once and freed, many times: descriptors, mappings and files in
 * /dev/shm must not grow at all, resident memory hardly. The second half is compared with the first.
 *
 *   fault_leaks [communicators]     (default 300; 10000 in the whole matrix)
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault_lib.h"

#define GROWTH_KIB_EACH 8 /* resident memory per communicator that malloc and Open MPI may keep */

static long entries(const char *path)
{
    DIR *folder = opendir(path);
    long count = 0;
    while (NULL != folder && NULL != readdir(folder)) {
        ++count;
    }
    if (NULL != folder) {
        closedir(folder);
    }
    return count;
}

static long resident_kib(void)
{
    long size, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (NULL == file || 2 != fscanf(file, "%ld %ld", &size, &pages)) {
        pages = 0;
    }
    if (NULL != file) {
        fclose(file);
    }
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void use(suite_t *suite, pair_t *pair, int times)
{
    for (int i = 0; i < times; ++i) {
        MPI_Comm comm;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        if (OUTCOME_RIGHT != pair_call(suite, comm, pair, 1000, ++suite->salt)) {
            suite_fail(suite, "communicator %d: a call failed", i);
        }
        ++suite->calls;
        MPI_Comm_free(&comm);
    }
}

int main(int argc, char **argv)
{
    suite_t suite;
    pair_t pair;

    suite_begin(&suite, "fault_leaks", &argc, &argv);
    int times = argc > 1 ? atoi(argv[1]) : suite.full ? 10000 : 300;
    pair_alloc(&pair, 1000);
    pvars_t begin;
    pvars_read(&begin); /* counters count from their first reading */
    use(&suite, &pair, times / 2);
    MPI_Barrier(MPI_COMM_WORLD);
    long fds = entries("/proc/self/fd"), files = entries("/dev/shm"), kib = resident_kib();
    MPI_Barrier(MPI_COMM_WORLD);
    use(&suite, &pair, times / 2);
    MPI_Barrier(MPI_COMM_WORLD);
    pvars_t counters;
    pvars_read(&counters);
    if (counters.accelerated < (uint64_t) times / 2) {
        suite_fail(&suite, "only %llu calls ran on the GPUs", (unsigned long long) counters.accelerated);
    }
    long fds_grown = entries("/proc/self/fd") - fds, files_grown = entries("/dev/shm") - files, kib_grown = resident_kib() - kib;
    if (fds_grown > 0 || files_grown > 0 || kib_grown > (long) GROWTH_KIB_EACH * (times / 2)) {
        suite_fail(&suite, "%d communicators left %ld descriptors, %ld files in /dev/shm, %ld KiB", times / 2, fds_grown, files_grown, kib_grown);
    }
    if (0 == suite.rank) {
        printf("fault_leaks: %ld KiB more after %d communicators\n", kib_grown, times / 2);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    pair_free(&pair);
    return suite_end(&suite);
}
