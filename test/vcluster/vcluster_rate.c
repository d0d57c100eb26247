/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Measures what the rails between two nodes carry: every rank of node0 sends
 * BYTES to the rank with its local number on node1, ROUNDS times, and the best
 * round counts. Prints one line for test_rate.sh:
 *
 *     mbit_per_s payload_bytes counted_bytes
 *
 * payload_bytes is what all ranks of node0 sent in all rounds, counted_bytes
 * what the interface counters of node0 say went out meanwhile. Host memory
 * only; needs vcluster's variables VCLUSTER_NODE and VCLUSTER_RAILS.
 */
#include <errno.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARMUP_BYTES = 65536 };

static void fail(const char *what)
{
    fprintf(stderr, "vcluster_rate: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static long environment_number(const char *name)
{
    const char *text = getenv(name);

    if (NULL == text || '\0' == *text) {
        fprintf(stderr, "vcluster_rate: %s is not set; start it with test/vcluster/run\n", name);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return strtol(text, NULL, 10);
}

/* Bytes that left this node over all rails since it was made. */
static unsigned long long sent_bytes(long rails)
{
    unsigned long long sum = 0;

    for (long rail = 0; rail < rails; rail++) {
        unsigned long long bytes = 0;
        char path[96];
        FILE *file;

        snprintf(path, sizeof(path), "/sys/class/net/rail%ld/statistics/tx_bytes", rail);
        file = fopen(path, "r");
        if (NULL == file || 1 != fscanf(file, "%llu", &bytes)) {
            fprintf(stderr, "vcluster_rate: cannot read %s: %s\n", path, strerror(errno));
            fail("the node lacks its own /sys");
        }
        fclose(file);
        sum += bytes;
    }
    return sum;
}

/* Seconds that one round takes until all receivers have everything. */
static double one_round(char *buffer, int bytes, int peer, int is_sender)
{
    double start;

    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    if (is_sender) {
        MPI_Send(buffer, bytes, MPI_CHAR, peer, 0, MPI_COMM_WORLD);
    } else {
        MPI_Recv(buffer, bytes, MPI_CHAR, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Wtime() - start;
}

int main(int argc, char **argv)
{
    int rank, size, peer, bytes, rounds, is_sender;
    unsigned long long before, counted;
    double best = 1e30;
    char *buffer;
    long rails;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (3 != argc || 0 != size % 2) {
        fail("usage: vcluster_rate BYTES ROUNDS, on two nodes of as many ranks each");
    }
    bytes = atoi(argv[1]);
    rounds = atoi(argv[2]);
    rails = environment_number("VCLUSTER_RAILS");
    is_sender = rank < size / 2;
    if (is_sender != (0 == environment_number("VCLUSTER_NODE"))) {
        fail("ranks do not fill node0 first");
    }
    peer = (rank + size / 2) % size;
    buffer = malloc((size_t) bytes + WARMUP_BYTES);
    if (NULL == buffer || bytes < 1 || rounds < 1) {
        fail("no memory, or no number of bytes and rounds");
    }
    memset(buffer, rank, (size_t) bytes + WARMUP_BYTES);
    one_round(buffer, WARMUP_BYTES, peer, is_sender);
    before = sent_bytes(rails);
    for (int i = 0; i < rounds; i++) {
        double seconds = one_round(buffer, bytes, peer, is_sender);

        best = seconds < best ? seconds : best;
    }
    counted = sent_bytes(rails) - before;
    if (0 == rank) {
        unsigned long long payload = (unsigned long long) (size / 2) * (unsigned) bytes;

        printf("%.1f %llu %llu\n", (double) payload * 8e-6 / best, payload * (unsigned) rounds, counted);
    }
    free(buffer);
    MPI_Finalize();
    return 0;
}
