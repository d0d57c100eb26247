/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A process works on several GPUs in turns: a communicator's ranks pass memory of the GPU with their number in it, so
 * that one process maps the same peers' memory for one GPU after the other. All calls run on the GPUs, of one rank
 * alone on a GPU as well as of several on one, and no group works through host memory.
 *
 *   several_gpus [one] [apart] [some]
 *
 * one: each process works on one GPU only.
 * apart: each process has a network namespace of its own, so that no descriptors pass (status 77: not permitted).
 * some: where memory is shared by handles of CUDA IPC, which a process opens for one of its GPUs, some groups work
 *   through host memory. All results are right.
 */
#define _GNU_SOURCE
#include "calls.h"

#include <cuda_runtime_api.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NCOMMS 6
#define ROUNDS 2   /* in the second, peers have mapped memory for other GPUs meanwhile */
#define KEPT 70000 /* doubles of the buffers that all communicators use */

static int ngpus, only = -1; /* only: the one GPU of this process; -1: several */
static bool some;
static double **kept; /* [ngpus] on each GPU, so that peers map them for one GPU and then for another one */

/* Communicators over the same processes, in several orders and groups. */
static void comms_make(const suite_t *suite, MPI_Comm *comms)
{
    const int rank = suite->rank, nranks = suite->nranks;
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comms[1]);
    MPI_Comm_split(MPI_COMM_WORLD, rank < nranks / 2, -rank, &comms[2]);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &comms[3]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, (rank + 1) % nranks, &comms[4]);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &comms[5]);
}

/* The GPU on which this process works as that rank of a communicator. */
static int gpu_of(int rank)
{
    return only >= 0 ? only : rank % ngpus;
}

/* Bytes that the GPUs of this machine have read and written of each other's memory, by this process. */
static unsigned long long linked_bytes(void)
{
    unsigned long long all = 0, some = 0;
    for (int from = 0; from < ngpus; ++from) {
        for (int to = 0; to < ngpus; ++to) {
            char name[32];
            snprintf(name, sizeof(name), "link.%d.%d", from, to);
            all += from != to && buffer_emulator_count(name, &some) ? some : 0;
        }
    }
    return all;
}

/* Long messages, which are reduced by slices, and short ones, which are not. */
static void calls_make(suite_t *suite, MPI_Comm comm)
{
    static const size_t counts[] = {1, 1000, 70000, 300000};
    call_t call = {.comm = comm, .type = value_type_find("double"), .op = value_op_find("sum")};
    int rank, nranks;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &nranks);
    CUDA_MUST(cudaSetDevice(gpu_of(rank)));
    call.path = PATH_ACCELERATED;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); ++i) {
        const unsigned long long before = linked_bytes();
        call.count = counts[i];
        for (int k = 0; k < 6; ++k) { /* the last ones on buffers that peers have mapped */
            suite_call(suite, &call);
        }
        if (!some && nranks > 1 && ngpus > 1 && counts[i] >= 70000 && before == linked_bytes()) {
            suite_fail(suite, "%zu elements: no kernel reads or writes another GPU's memory", call.count);
        }
    }
}

/* Calls in the same memory as on the other communicators that work on this GPU. */
static void kept_calls(suite_t *suite, MPI_Comm comm)
{
    static double host[KEPT];
    pvars_t before;
    int rank, nranks;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &nranks);
    double *buffer = kept[gpu_of(rank)];
    pvars_read(&before);
    for (int call = 0; call < 6; ++call) {
        const double salt = (double) ++suite->salt;
        for (int i = 0; i < KEPT; ++i) {
            host[i] = (rank + 1) * salt + i % 1021;
        }
        CUDA_MUST(cudaMemcpy(buffer, host, sizeof(host), cudaMemcpyHostToDevice));
        if (MPI_SUCCESS != MPI_Allreduce(MPI_IN_PLACE, buffer, KEPT, MPI_DOUBLE, MPI_SUM, comm)) {
            suite_fail(suite, "kept buffers: an error");
        }
        ++suite->calls;
        CUDA_MUST(cudaMemcpy(host, buffer, sizeof(host), cudaMemcpyDeviceToHost));
        for (int i = 0; i < KEPT; ++i) {
            if (0.5 * nranks * (nranks + 1) * salt + nranks * (double) (i % 1021) != host[i]) {
                suite_fail(suite, "kept buffers: wrong at element %d", i);
                break;
            }
        }
    }
    suite_check_paths(suite, "kept buffers", &before, 6, 0);
}

int main(int argc, char **argv)
{
    MPI_Comm comms[NCOMMS];
    suite_t suite;

    suite_begin(&suite, "several_gpus", &argc, &argv);
    CUDA_MUST(cudaGetDeviceCount(&ngpus));
    for (int i = 1; i < argc; ++i) {
        some = some || 0 == strcmp(argv[i], "some");
        only = 0 == strcmp(argv[i], "one") ? suite.rank % ngpus : only;
        if (0 == strcmp(argv[i], "apart") && 0 != unshare(CLONE_NEWNET)) {
            MPI_Finalize();
            return 77;
        }
    }
    kept = malloc(sizeof(*kept) * (size_t) ngpus);
    for (int gpu = 0; gpu < ngpus; ++gpu) {
        CUDA_MUST(cudaSetDevice(gpu));
        CUDA_MUST(cudaMalloc((void **) &kept[gpu], KEPT * sizeof(double)));
    }
    comms_make(&suite, comms);
    for (int round = 0; round < ROUNDS; ++round) {
        for (int i = 0; i < NCOMMS; ++i) {
            calls_make(&suite, comms[i]);
            kept_calls(&suite, comms[i]);
        }
    }
    for (int i = 0; i < NCOMMS; ++i) {
        MPI_Comm_free(&comms[i]);
    }
    for (int gpu = 0; gpu < ngpus; ++gpu) {
        CUDA_MUST(cudaFree(kept[gpu]));
    }
    free(kept);
    return suite_end(&suite);
}
