/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Who is where: nodes, GPUs, and the communicators that are measured or used for measuring.
 */
#include "bench.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void find_nodes(bench_place_t *p)
{
    int leader = 0 == p->local_rank;
    int before = 0;

    /* A node's index: the number of leaders before its own. */
    MPI_Exscan(&leader, &before, 1, MPI_INT, MPI_SUM, p->control);
    p->node = 0 == p->rank ? 0 : before;
    MPI_Bcast(&p->node, 1, MPI_INT, 0, p->on_node);
    MPI_Allreduce(&leader, &p->nnodes, 1, MPI_INT, MPI_SUM, p->control);
    if (leader && p->node < 64) {
        p->group_ranks[p->node] = p->local_size;
    }
    MPI_Allreduce(MPI_IN_PLACE, p->group_ranks, 64, MPI_INT, MPI_MAX, p->control);
}

static void choose_gpu(bench_place_t *p)
{
    int shared;

    CUDA_MUST(cudaGetDeviceCount(&p->ngpus));
    p->gpu = p->local_rank % p->ngpus;
    CUDA_MUST(cudaSetDevice(p->gpu));
    CUDA_MUST(cudaFree(NULL));
    shared = p->local_size > p->ngpus;
    MPI_Allreduce(MPI_IN_PLACE, &shared, 1, MPI_INT, MPI_MAX, p->control);
    p->shared_gpu = 0 != shared;
    /* Only the emulated driver has counters of its own. */
    p->is_emulated = NULL != dlsym(RTLD_DEFAULT, "cudasim_counter");
    if (!p->is_emulated) {
        void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
        p->is_emulated = NULL != driver && NULL != dlsym(driver, "cudasim_counter");
    }
}

/* Collective. One rank that has no GPU says so. */
static bool all_have_gpus(bench_place_t *p)
{
    const cudaError_t error = cudaGetDeviceCount(&p->ngpus);
    int first = cudaSuccess == error && p->ngpus > 0 ? p->nranks : p->rank;
    char host[MPI_MAX_PROCESSOR_NAME] = "";
    int length;

    MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (first == p->rank) {
        MPI_Get_processor_name(host, &length);
        fprintf(stderr, "gpuhier_bench: rank %d on %s has no GPU: ", p->rank, host);
        if (cudaErrorInsufficientDriver == error) {
            fprintf(stderr, "there is no driver (libcuda.so.1) of CUDA %d.%d or newer\n", CUDART_VERSION / 1000,
                    CUDART_VERSION % 1000 / 10);
        } else {
            fprintf(stderr, "%s\n", cudaSuccess == error ? "the driver shows none" : cudaGetErrorString(error));
        }
    }
    return first == p->nranks;
}

bool bench_place_init(bench_place_t *p)
{
    const char *local = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
    pvars_t counters;
    int present;

    memset(p, 0, sizeof(*p));
    MPI_Comm_rank(MPI_COMM_WORLD, &p->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &p->nranks);
    if (!all_have_gpus(p)) {
        return false;
    }
    /* Open MPI 5's CUDA support fails MPI_Comm_split_type before the first CUDA call. */
    CUDA_MUST(cudaSetDevice((NULL == local ? p->rank : atoi(local)) % p->ngpus));

    pvars_read(&counters);
    MPI_Comm_dup(MPI_COMM_WORLD, &p->gpuhier);
    if (!pvars_enable(false) && counters.present) {
        fprintf(stderr, "gpuhier_bench: the component cannot be switched off: coll_gpuhier_enable cannot be written\n");
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &p->stock);
    MPI_Comm_dup(MPI_COMM_WORLD, &p->control);
    MPI_Comm_split_type(p->control, MPI_COMM_TYPE_SHARED, p->rank, MPI_INFO_NULL, &p->on_node);
    pvars_enable(true);
    MPI_Comm_rank(p->on_node, &p->local_rank);
    MPI_Comm_size(p->on_node, &p->local_size);
    find_nodes(p);
    choose_gpu(p);

    present = counters.present;
    MPI_Allreduce(MPI_IN_PLACE, &present, 1, MPI_INT, MPI_MIN, p->control);
    p->has_component = 0 != present;
    return true;
}

void bench_place_free(bench_place_t *p)
{
    MPI_Comm_free(&p->on_node);
    MPI_Comm_free(&p->control);
    MPI_Comm_free(&p->stock);
    MPI_Comm_free(&p->gpuhier);
}
