/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Each driver call that the component makes fails once, on one rank: at set-up and in the calls that
 * follow, the first time, the last time and between. What must hold:
 *
 *   - every call ends, within the deadline;
 *   - MPI_SUCCESS comes with the right result;
 *   - after the first call that failed anywhere, the ranks agree again: each later call is right on all
 *     ranks, or an error on all;
 *   - another communicator is served as if nothing had happened.
 *
 * How: one case is one function and one count. It has a CUDA context and a communicator of its own, so the
 * component sets everything up anew. A first case, in which nothing fails, counts the calls. Ranks do
 * not wait for each other between the calls of a case; they compare their outcomes at its end.
 *
 *   fault_calls [linked] [function...]     (with libsaboteur.so preloaded; default: all functions)
 *
 * linked: partners exchange over links in the case without a fault.
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault_lib.h"
#include "pvars.h"

#define NCALLS 9
#define CASE_SECONDS 60
#define MOST_CASES 4       /* of one function, each at another of its calls */
#define MOST_CASES_FULL 12 /* with GPUHIER_CHECK_FULL */

/* Elements: one slice in part; one slice; several (the tests set 64 KiB). Each kind comes often enough to be mapped. */
static const size_t counts[NCALLS] = {5, 3000, 30000, 5, 3000, 30000, 30001, 7, 30000};

typedef CUresult (*ctx_create_fn_t)(CUcontext *, unsigned, CUdevice);
typedef CUresult (*ctx_destroy_fn_t)(CUcontext);

typedef struct world {
    suite_t suite;
    saboteur_t saboteur;
    ctx_create_fn_t ctx_create;
    ctx_destroy_fn_t ctx_destroy;
    pair_t world_pair; /* in the primary context, for MPI_COMM_WORLD */
    unsigned long ncases, nright, nerror, nmixed, nstruck;
} world_t;

/*
 * Functions that leave a device pointer unreadable if they fail each time: no collective can serve such a pointer. A
 * single failure of them must be survived.
 */
static bool is_vital(const char *function)
{
    static const char *const vital[] = {"cuMemcpyDtoH", "cuMemcpyHtoD"};
    for (size_t i = 0; i < sizeof(vital) / sizeof(vital[0]); ++i) {
        if (0 == strcmp(function, vital[i])) {
            return true;
        }
    }
    return false;
}

static void driver_find(world_t *w)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    void *create = NULL == library ? NULL : dlsym(library, "cuCtxCreate_v2");
    void *destroy = NULL == library ? NULL : dlsym(library, "cuCtxDestroy_v2");

    if (NULL == create || NULL == destroy) {
        fprintf(stderr, "fault_calls: no driver that can create contexts\n");
        exit(1);
    }
    memcpy(&w->ctx_create, &create, sizeof(create));
    memcpy(&w->ctx_destroy, &destroy, sizeof(destroy));
}

/* Compares the outcomes of a case, which all ranks know. Returns false for what must not be. */
static bool judge(world_t *w, const char *what, const char *all)
{
    int nranks = w->suite.nranks;
    bool failed_before = false, good = true, mixed = false;

    for (int call = 0; call < NCALLS; ++call) {
        int errors = 0;
        for (int rank = 0; rank < nranks; ++rank) {
            char letter = all[rank * (NCALLS + 1) + call];
            errors += 'E' == letter;
            good = good && 'W' != letter;
        }
        mixed = mixed || (errors > 0 && errors < nranks);
        good = good && !(failed_before && errors > 0 && errors < nranks);
        failed_before = failed_before || errors > 0;
    }
    w->nright += !failed_before;
    w->nerror += failed_before;
    w->nmixed += mixed;
    if (!good && 0 == w->suite.rank) {
        fprintf(stderr, "fault_calls: %s: outcomes by rank (r: right, E: error, W: wrong):", what);
        for (int rank = 0; rank < nranks; ++rank) {
            fprintf(stderr, " %s", all + rank * (NCALLS + 1));
        }
        fprintf(stderr, "\n");
    }
    return good;
}

/* One case: a context and a communicator of its own; plan is carried out on rank `victim` only. */
static void run_case(world_t *w, const char *plan, int victim)
{
    suite_t *suite = &w->suite;
    char what[160], mine[NCALLS + 1] = "", *all = malloc((size_t) suite->nranks * sizeof(mine));
    const char *local = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
    MPI_Comm comm;
    CUcontext context;
    pair_t pair;
    int ngpus, device;

    snprintf(what, sizeof(what), "%s on rank %d", plan, victim);
    deadline(CASE_SECONDS, what);
    CUDA_MUST(cudaGetDeviceCount(&ngpus));
    device = (NULL == local ? 0 : atoi(local)) % ngpus;
    CUDA_MUST(w->ctx_create(&context, 0, device));
    pair_alloc(&pair, 30001);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    w->saboteur.arm(victim == suite->rank ? plan : "");
    for (int call = 0; call < NCALLS; ++call) {
        mine[call] = outcome_letter(pair_call(suite, comm, &pair, counts[call], ++suite->salt));
        ++suite->calls;
    }
    long struck = w->saboteur.strikes();
    if (victim >= 0) {
        w->saboteur.arm("");
    }
    w->nstruck += victim == suite->rank && struck > 0;
    MPI_Allgather(mine, sizeof(mine), MPI_CHAR, all, sizeof(mine), MPI_CHAR, MPI_COMM_WORLD);
    if (!judge(w, what, all)) {
        ++suite->failures;
    }
    MPI_Comm_free(&comm);
    pair_free(&pair);
    CUDA_MUST(w->ctx_destroy(context));
    if (OUTCOME_RIGHT != pair_call(suite, MPI_COMM_WORLD, &w->world_pair, 1000, ++suite->salt)) {
        suite_fail(suite, "%s: another communicator suffered", what);
    }
    deadline(0, "");
    ++w->ncases;
    free(all);
}

/* The cases of one function, which the component calls ncalls times in a run without faults. */
static void run_function(world_t *w, const char *function, long ncalls)
{
    const long most = w->suite.full ? MOST_CASES_FULL : MOST_CASES;
    char plan[96];

    for (long i = 0; i < most && i < ncalls; ++i) {
        long count = ncalls <= most ? i + 1 : 1 + i * (ncalls - 1) / (most - 1);
        snprintf(plan, sizeof(plan), "%s:%ld:%d", function, count,
                 0 == i % 2 ? CUDA_ERROR_UNKNOWN : CUDA_ERROR_OUT_OF_MEMORY);
        run_case(w, plan, (int) (w->ncases % (unsigned) w->suite.nranks));
    }
    if (!is_vital(function)) {
        snprintf(plan, sizeof(plan), "%s:*:%d", function, CUDA_ERROR_UNKNOWN);
        run_case(w, plan, (int) (w->ncases % (unsigned) w->suite.nranks));
    }
}

static bool is_chosen(const char *function, int argc, char **argv)
{
    for (int i = 1; i < argc; ++i) {
        if (0 == strcmp(function, argv[i])) {
            return true;
        }
    }
    return argc < 2;
}

int main(int argc, char **argv)
{
    world_t w = {0};
    long ncalls[256] = {0};
    const char *function;

    /* Before MPI_Init: Open MPI 5 keeps a stream of the first context that it finds, which must not be a case's. */
    suite_choose_gpu();
    suite_begin(&w.suite, "fault_calls", &argc, &argv);
    saboteur_find(&w.saboteur);
    driver_find(&w);
    pair_alloc(&w.world_pair, 1000);
    uint64_t linked = 0;
    (void) pvars_counter("coll_gpuhier_link_bytes", &linked); /* it counts from its first reading on */
    pvars_t before, after;
    pvars_read(&before);
    run_case(&w, "", -1);
    pvars_read(&after);
    if (0 != w.nerror || NCALLS + 1 != after.accelerated - before.accelerated) {
        suite_fail(&w.suite, "a case without a fault went wrong, or not all of its calls were accelerated");
    }
    if (argc > 1 && 0 == strcmp("linked", argv[1])) {
        if (!pvars_counter("coll_gpuhier_link_bytes", &linked) || 0 == linked) {
            suite_fail(&w.suite, "no bytes went over links");
        }
        --argc;
        ++argv;
    }
    run_case(&w, "", -1); /* counts what each new context and communicator takes */
    for (int i = 0; i < 256 && NULL != (function = w.saboteur.function(i)); ++i) {
        ncalls[i] = w.saboteur.calls(function);
    }
    MPI_Bcast(ncalls, 256, MPI_LONG, 0, MPI_COMM_WORLD);
    for (int i = 0; i < 256 && NULL != (function = w.saboteur.function(i)); ++i) {
        /* A context that was not popped is the program's current one from then on: nothing can be asked of it after
         * that. */
        if (ncalls[i] > 0 && 0 != strcmp("cuCtxPopCurrent", function) && is_chosen(function, argc, argv)) {
            run_function(&w, function, ncalls[i]);
        }
    }
    MPI_Allreduce(MPI_IN_PLACE, &w.nstruck, 1, MPI_UNSIGNED_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (0 == w.nstruck) {
        suite_fail(&w.suite, "no call was made to fail: has the component been loaded?");
    }
    if (0 == w.suite.rank) {
        printf("fault_calls: %lu cases, %lu struck: "
               "%lu right throughout, %lu with errors (%lu of them began on some ranks only)\n",
               w.ncases, w.nstruck, w.nright, w.nerror, w.nmixed);
    }
    pair_free(&w.world_pair);
    return suite_end(&w.suite);
}
