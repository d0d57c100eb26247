/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the set-up of one communicator costs each rank: anonymous memory and sockets
 * (UCX's tcp has some for each connection) before the first accelerated call and
 * after it. Emulated GPU memory is shared memory and does not count.
 *
 *   footprint [MOST_SOCKETS [RAILS]]   fails if any rank has opened more sockets than that, or if any rank has opened
 *                                      more rails than that, or all ranks fewer
 */
#include "calls.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static long anonymous_kib(void)
{
    char line[256];
    long kib = -1;
    FILE *status = fopen("/proc/self/status", "r");

    while (NULL != status && NULL != fgets(line, sizeof(line), status)) {
        (void) sscanf(line, "RssAnon: %ld", &kib);
    }
    if (NULL != status) {
        fclose(status);
    }
    return kib;
}

/* The process's sockets. *listening_p: of these, where connections can come; UCX's tcp has one for each rail. */
static long sockets(long *listening_p)
{
    char path[300], target[64];
    long n = 0, listening = 0;
    DIR *folder = opendir("/proc/self/fd");

    for (struct dirent *entry; NULL != folder && NULL != (entry = readdir(folder));) {
        snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
        ssize_t length = readlink(path, target, sizeof(target) - 1);
        n += length > 7 && 0 == memcmp(target, "socket:", 7);
        int listens = 0;
        socklen_t bytes = sizeof(listens);
        listening += 0 == getsockopt(atoi(entry->d_name), SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) && 0 != listens;
    }
    if (NULL != folder) {
        closedir(folder);
    }
    *listening_p = listening;
    return n;
}

int main(int argc, char **argv)
{
    suite_t suite;
    MPI_Comm node;
    int leader, per_node;
    suite_begin(&suite, "footprint", &argc, &argv);
    const long most = argc > 1 ? atol(argv[1]) : 1 << 20;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &leader);
    MPI_Comm_size(node, &per_node);
    const call_t call = {.comm = MPI_COMM_WORLD,
                         .type = value_type_find("double"),
                         .op = value_op_find("sum"),
                         .count = 1 << 14,
                         .send_kind = BUFFER_DEVICE,
                         .recv_kind = BUFFER_DEVICE,
                         .path = suite.default_path};
    /* Open MPI's own connections are there already, all of them. */
    int nodes = 0, first = 0 == leader;
    MPI_Allreduce(&first, &nodes, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    char *to_all = calloc((size_t) suite.nranks, 1024), *from_all = calloc((size_t) suite.nranks, 1024);
    MPI_Alltoall(to_all, 1024, MPI_BYTE, from_all, 1024, MPI_BYTE, MPI_COMM_WORLD);
    free(to_all);
    free(from_all);

    long listening[2];
    long before[2] = {anonymous_kib(), sockets(&listening[0])}, grown[3], largest[3];
    suite_call(&suite, &call);
    grown[0] = anonymous_kib() - before[0];
    grown[1] = sockets(&listening[1]) - before[1];
    grown[2] = listening[1] - listening[0];
    if (grown[1] > most) {
        suite_fail(&suite, "%ld sockets, at most %ld are expected", grown[1], most);
    }
    MPI_Reduce(grown, largest, 3, MPI_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
    if (0 == suite.rank) {
        printf("%d nodes of %d ranks: at most %ld KiB, %ld sockets and %ld rails a rank\n", nodes, per_node, largest[0],
               largest[1], largest[2]);
        if (argc > 2 && largest[2] != atol(argv[2])) {
            suite_fail(&suite, "%ld rails are open, expected %s", largest[2], argv[2]);
        }
    }
    MPI_Comm_free(&node);
    return suite_end(&suite);
}
