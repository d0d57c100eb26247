/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * /dev/shm is small, then full, then has room again: communicators that are made meanwhile are accelerated, left to
 * Open MPI and accelerated, those that live already stay as they are, all results are right, and no name of the
 * component is left in /dev/shm.
 *
 *   fault_shm [BYTES]     on one node whose /dev/shm is its own; so many bytes of it stay free
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault_lib.h"

#define NCOMMS 4 /* of each kind */
#define FILLER "/dev/shm/filler"

static int names_of_component(void)
{
    DIR *folder = opendir("/dev/shm");
    int n = NULL == folder ? -1 : 0;
    for (struct dirent *entry; NULL != folder && NULL != (entry = readdir(folder));) {
        n += 0 == strncmp(entry->d_name, "gpuhier", strlen("gpuhier"));
    }
    if (NULL != folder) {
        closedir(folder);
    }
    return n;
}

/* Takes all the room that is left, to the last byte, and gives so many bytes back. */
static void fill(suite_t *suite, off_t spare)
{
    static char zeros[1 << 16];
    int file = open(FILLER, O_WRONLY | O_CREAT | O_EXCL, 0600);
    for (size_t bytes = sizeof(zeros); file >= 0 && bytes > 0;) {
        if (write(file, zeros, bytes) < 0) {
            bytes /= 2;
        }
    }
    if (file < 0 || ENOSPC != errno || 0 != ftruncate(file, lseek(file, 0, SEEK_CUR) - spare)) {
        suite_fail(suite, "could not fill /dev/shm: %s", strerror(errno));
    }
    if (file >= 0) {
        close(file);
    }
}

static void sums(suite_t *suite, MPI_Comm comm, call_path_t path)
{
    static const size_t counts[] = {10, 1000, 100000, 524288};
    for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); ++k) {
        call_t call = {.comm = comm,
                       .type = value_type_find("double"),
                       .op = value_op_find("sum"),
                       .count = counts[k],
                       .path = path};
        suite_call(suite, &call);
    }
}

static void make(suite_t *suite, MPI_Comm *comms, call_path_t path)
{
    for (int i = 0; i < NCOMMS; ++i) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        sums(suite, comms[i], path);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const int left = names_of_component();
    if (0 != left) {
        suite_fail(suite, "%d files of the component are left in /dev/shm", left);
    }
}

int main(int argc, char **argv)
{
    suite_t suite;
    MPI_Comm before[NCOMMS], full[NCOMMS], after[NCOMMS];

    deadline(150, "fault_shm");
    suite_begin(&suite, "fault_shm", &argc, &argv);
    make(&suite, before, PATH_ACCELERATED);
    MPI_Barrier(MPI_COMM_WORLD);
    if (0 == suite.rank) {
        fill(&suite, argc > 1 ? (off_t) strtoll(argv[1], NULL, 10) : 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    make(&suite, full, PATH_SAVED);
    sums(&suite, before[0], PATH_ACCELERATED);
    MPI_Barrier(MPI_COMM_WORLD);
    if (0 == suite.rank) {
        unlink(FILLER);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    make(&suite, after, PATH_ACCELERATED);
    for (int i = 0; i < NCOMMS; ++i) {
        MPI_Comm_free(&before[i]);
        MPI_Comm_free(&full[i]);
        MPI_Comm_free(&after[i]);
    }
    return suite_end(&suite);
}
