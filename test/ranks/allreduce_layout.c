/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A few calls, short ones and of many slices, for layouts of ranks on nodes and GPUs that are out of the ordinary.
 * A rank that finds no GPU passes host memory.
 *
 *   allreduce_layout [--stock] [gpus | some | same-name | in-turn]
 *
 *   gpus       all ranks have one: everything is accelerated, and moves over the network if there are several nodes
 *   some       some ranks have none: nothing is
 *   same-name  as gpus, and all nodes have the same host name
 *   in-turn    as gpus, and rank 1 is on another node than rank 0
 */
#include "calls.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool has_gpu(void)
{
    int ngpus = 0;
    if (cudaSuccess != cudaGetDeviceCount(&ngpus)) {
        (void) cudaGetLastError();
        return false;
    }
    return ngpus > 0;
}

/* Whether what the test is about is there at all; else it shows nothing. */
static void check_layout(suite_t *suite, bool mine, const char *mode)
{
    const bool some = 0 == strcmp(mode, "some");
    const char *node = getenv("VCLUSTER_NODE");
    int have = mine, least = 0, most = 0, here = NULL == node ? 0 : atoi(node), there = here;
    char name[64] = "", first[64];

    MPI_Allreduce(&have, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(&have, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if ((some && (0 != least || 0 == most)) || (!some && 0 == least)) {
        suite_fail(suite, "GPUs: %s", least ? "all ranks have one" : most ? "some ranks have none" : "no rank has one");
    }
    gethostname(name, sizeof(name) - 1);
    memcpy(first, name, sizeof(first));
    MPI_Bcast(first, sizeof(first), MPI_CHAR, 0, MPI_COMM_WORLD);
    if (0 == strcmp(mode, "same-name") && 0 != strcmp(name, first)) {
        suite_fail(suite, "this host is %s and rank 0's is %s", name, first);
    }
    MPI_Bcast(&there, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (0 == strcmp(mode, "in-turn") && 1 == suite->rank && here == there) {
        suite_fail(suite, "ranks 0 and 1 are on one node");
    }
}

/* With several nodes something must have gone over the network; with one nothing. */
static void check_network(suite_t *suite)
{
    const char *nodes = getenv("VCLUSTER_NODES");
    pvars_t now;
    pvars_t zero = {0};
    unsigned long long bytes, sum = 0;

    pvars_read(&now);
    bytes = pvars_net_bytes(&zero, &now);
    MPI_Allreduce(&bytes, &sum, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (NULL != nodes && PATH_ACCELERATED == suite->default_path && (atoi(nodes) > 1) != (sum > 0)) {
        suite_fail(suite, "%s nodes exchanged %llu bytes", nodes, sum);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *type, *op;
        size_t count;
    } calls[] = {{"double", "sum", 1},      {"int", "band", 37},      {"float", "sum", 4099},
                 {"double", "sum", 100003}, {"short", "max", 300001}, {"double_int", "minloc", 30011}};
    suite_t suite;

    const bool mine = has_gpu();
    suite_begin_host(&suite, "allreduce_layout", &argc, &argv);
    const char *mode = argc > 1 ? argv[1] : "gpus";
    const bool some = 0 == strcmp(mode, "some");
    if (mine) {
        suite_choose_gpu();
    }
    check_layout(&suite, mine, mode);
    for (int round = 0; round < 2; ++round) {
        for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); ++i) {
            const buffer_kind_t kind = mine ? BUFFER_DEVICE : BUFFER_HOST;
            call_t call = {.comm = MPI_COMM_NULL,
                           .type = value_type_find(calls[i].type),
                           .op = value_op_find(calls[i].op),
                           .count = calls[i].count,
                           .send_kind = kind,
                           .recv_kind = kind,
                           .in_place = 1 == round % 2,
                           .path = some ? PATH_SAVED : PATH_ACCELERATED};
            suite_call(&suite, &call);
        }
    }
    if (!some) {
        check_network(&suite);
    }
    return suite_end(&suite);
}
