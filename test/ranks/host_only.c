/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A program without any CUDA, on a machine without libcuda: with the component loaded it must do
 * what it always did, and the component must stay out of its way (no probes, no libcuda looked for
 * in vain more than once, other collectives unharmed).
 *
 *   host_only [absent | loaded | alone | driver]
 *     absent: the component must not be there; loaded: it must; alone: the same, as the only coll
 *     component that the user named; driver: there is a libcuda, which may be loaded and asked whether
 *     buffers are its own (probes, too), but must not be initialised
 */
#include "calls.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool libcuda_is_mapped(void)
{
    char line[512];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");

    while (NULL != maps && NULL != fgets(line, sizeof(line), maps)) {
        found = found || NULL != strstr(line, "libcuda.so");
    }
    if (NULL != maps) {
        fclose(maps);
    }
    return found;
}

/* Was cuInit called? cuCtxGetDevice answers CUDA_ERROR_NOT_INITIALIZED (3) until then. */
static bool cuda_is_initialised(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    int (*get_device)(int *) = NULL == library ? NULL : (int (*)(int *)) dlsym(library, "cuCtxGetDevice");
    int device;
    return NULL != get_device && 3 != get_device(&device);
}

static void host_allreduce(suite_t *suite, const value_type_t *type, const value_op_t *op, size_t count, bool in_place)
{
    value_case_t c = {type, op, suite->nranks, ++suite->salt, true, false};
    size_t bytes = count * type->extent, first_wrong = 0;
    unsigned char *send = calloc(1, bytes), *recv = calloc(1, bytes);

    value_fill(&c, suite->rank, 0, count, in_place ? recv : send);
    MPI_Allreduce(in_place ? MPI_IN_PLACE : send, recv, (int) count, type->type, op->op, MPI_COMM_WORLD);
    ++suite->calls;
    size_t wrong = value_check(&c, 0, count, recv, &first_wrong);
    if (wrong > 0) {
        suite_fail(suite, "%s %s: %zu of %zu elements are wrong", type->name, op->name, wrong, count);
    }
    free(send);
    free(recv);
}

static void expect(suite_t *suite, bool right, const char *what)
{
    ++suite->calls;
    if (!right) {
        suite_fail(suite, "%s gave a wrong result", what);
    }
}

/* One call of each kind that fills Open MPI's table of collectives. */
static void other_collectives(suite_t *suite)
{
    int n = suite->nranks, rank = suite->rank, sum = n * (n - 1) / 2;
    int one = 0 == rank ? 41 : -1, reduced = -1, scanned = -1, scattered = -1;
    int *all = calloc((size_t) n, sizeof(int)), *other = calloc((size_t) n, sizeof(int));
    MPI_Request request;

    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Bcast(&one, 1, MPI_INT, 0, MPI_COMM_WORLD);
    expect(suite, 41 == one, "MPI_Bcast");
    MPI_Allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
    expect(suite, n - 1 == all[n - 1], "MPI_Allgather");
    MPI_Alltoall(all, 1, MPI_INT, other, 1, MPI_INT, MPI_COMM_WORLD);
    expect(suite, rank == other[0] && rank == other[n - 1], "MPI_Alltoall");
    MPI_Gather(&rank, 1, MPI_INT, all, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Scatter(all, 1, MPI_INT, &scattered, 1, MPI_INT, 0, MPI_COMM_WORLD);
    expect(suite, rank == scattered, "MPI_Gather or MPI_Scatter");
    MPI_Reduce(&rank, &reduced, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    expect(suite, 0 != rank || sum == reduced, "MPI_Reduce");
    MPI_Scan(&rank, &scanned, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect(suite, rank * (rank + 1) / 2 == scanned, "MPI_Scan");
    MPI_Iallreduce(&rank, &reduced, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(suite, sum == reduced, "MPI_Iallreduce");
    for (int i = 0; i < n; ++i) {
        all[i] = i;
    }
    MPI_Reduce_scatter_block(all, &scattered, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    expect(suite, rank * n == scattered, "MPI_Reduce_scatter_block");
    free(all);
    free(other);
}

int main(int argc, char **argv)
{
    static const size_t counts[] = {1, 1000, 100003};
    suite_t suite;
    pvars_t before, counters;

    const char *mode = argc > 1 ? argv[1] : "loaded";
    suite_begin_host(&suite, "host_only", &argc, &argv);
    bool driver = 0 == strcmp(mode, "driver");
    pvars_read(&before);
    if (driver != libcuda_is_mapped()) {
        suite_fail(&suite, driver ? "no libcuda was found: this test is about machines that have one"
                                  : "libcuda is mapped after MPI_Init: something loaded it unasked");
    }
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); ++i) {
        for (int round = 0; round < 20; ++round) {
            host_allreduce(&suite, value_type_find("double"), value_op_find("sum"), counts[i], 1 == round % 2);
        }
        host_allreduce(&suite, value_type_find("float_int"), value_op_find("maxloc"), counts[i], false);
        host_allreduce(&suite, value_type_find("long_double"), value_op_find("prod"), counts[i], false);
    }
    for (int t = 0; t < value_ntypes; ++t) {
        for (int o = 0; o < value_nops; ++o) {
            if (value_is_defined(&value_types[t], &value_ops[o])) {
                host_allreduce(&suite, &value_types[t], &value_ops[o], 61, 1 == o % 2);
            }
        }
    }
    other_collectives(&suite);

    pvars_read(&counters);
    if (0 == strcmp(mode, "absent")) {
        if (counters.present) {
            suite_fail(&suite, "the component is loaded, but was switched off");
        }
    } else if (!counters.present) {
        suite_fail(&suite, "the component's counters are missing: is it loaded?");
    } else if (cuda_is_initialised()) {
        suite_fail(&suite, "cuInit was called, but this program has no CUDA");
    } else if (0 != counters.accelerated || (!driver && 0 != counters.probes) || 0 != counters.staged) {
        suite_fail(&suite, "accelerated %llu, probes %llu, staged %llu, but this program has no CUDA",
                   (unsigned long long) counters.accelerated, (unsigned long long) counters.probes,
                   (unsigned long long) counters.staged);
    } else if (counters.saved - before.saved < 300) {
        suite_fail(&suite, "only %llu calls passed the component",
                   (unsigned long long) (counters.saved - before.saved));
    }
    return suite_end(&suite);
}
