/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * CUDA contexts that end while MPI goes on: cudaDeviceReset and cuCtxDestroy between calls and
 * before MPI_Finalize. What the program makes afterwards, often at the same addresses and under the
 * same handles, must neither be taken for what was there before nor be freed with it.
 *
 *   context_lives [--stock] reset | destroy  all | one | last
 *   context_lives [--stock] destroy beside | bare
 *   context_lives [--stock] reset two | apart | twice
 *
 *   reset    cudaDeviceReset, the program works in the primary context
 *   destroy  cuCtxDestroy, it works in a context of its own
 *   all      on all ranks, between calls: they are accelerated again; one: on rank 0 only
 *   beside   on all ranks, the context of one communicator; another one's, and one made later, go on
 *   two      of two GPUs that each rank uses, the first; the other goes on, and lets go of what it has mapped
 *   apart    on rank 0 only; of two communicators one is set up anew later than the other
 *   bare     on rank 0 only, which goes on with memory of the host and no context at all
 *   twice    on rank 0 only, two times with one call in between
 *   last     on all ranks, before MPI_Finalize, after which the program still has its new memory
 */
#include "calls.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS 3
#define CALLS 12 /* of two sizes in turn */
#define SIZES 2
#define IDLE 300000 /* microseconds: longer than ipc_idle, which these tests set to a moment */
#define IMPORTS 64
#define IMPORT_BYTES ((size_t) 2 << 20) /* what the driver maps at least */
#define KEPT_BYTES ((size_t) 80 << 20)  /* more than the component's scratch, so that it comes to lie where that was */

/* Of the driver; a context is a pointer, a device and a result are numbers. */
typedef int (*create_fn_t)(void **, unsigned, int);
typedef int (*context_fn_t)(void *);

static create_fn_t context_create;
static context_fn_t context_destroy, context_choose;
static void *own; /* the program's own context, with `destroy` */
static bool by_destroy;

/* The driver's functions under the versions that every driver has. */
static void driver_find(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    void *create = NULL == library ? NULL : dlsym(library, "cuCtxCreate_v2");
    void *destroy = NULL == library ? NULL : dlsym(library, "cuCtxDestroy_v2");
    void *choose = NULL == library ? NULL : dlsym(library, "cuCtxSetCurrent");

    if (NULL == create || NULL == destroy || NULL == choose) {
        fprintf(stderr, "context_lives: no driver\n");
        exit(2);
    }
    memcpy(&context_create, &create, sizeof(create));
    memcpy(&context_destroy, &destroy, sizeof(destroy));
    memcpy(&context_choose, &choose, sizeof(choose));
}

static void context_begin(void)
{
    int device;

    if (by_destroy) {
        CUDA_MUST(cudaGetDevice(&device));
        CUDA_MUST(context_create(&own, 0, device));
    } else {
        CUDA_MUST(cudaFree(NULL));
    }
}

static void context_end(void)
{
    if (by_destroy) {
        CUDA_MUST(context_destroy(own));
    } else {
        CUDA_MUST(cudaDeviceReset());
    }
}

/* A few calls on a communicator; how many of them ran on the GPUs. */
static unsigned long calls(suite_t *suite, MPI_Comm comm, int ncalls)
{
    pvars_t before, after;

    pvars_read(&before);
    for (int i = 0; i < ncalls; ++i) {
        call_t call = {.comm = comm,
                       .type = value_type_find("double"),
                       .op = value_op_find("sum"),
                       .count = 1 == i % 3 ? 100000 : 1000,
                       .in_place = 1 == i % 2,
                       .path = PATH_ANY};
        suite_call(suite, &call);
    }
    pvars_read(&after);
    return (unsigned long) (after.accelerated - before.accelerated);
}

/* Memory that lies where the component's was must be the program's alone. */
static unsigned char *keep_new(void)
{
    unsigned char *kept;

    CUDA_MUST(cudaMalloc((void **) &kept, KEPT_BYTES));
    CUDA_MUST(cudaMemset(kept, 0x3c, KEPT_BYTES));
    CUDA_MUST(cudaDeviceSynchronize());
    return kept;
}

static size_t count_changed(const unsigned char *kept)
{
    unsigned char *host = malloc(KEPT_BYTES);
    size_t changed = 0;

    if (NULL == host) {
        return KEPT_BYTES;
    }
    CUDA_MUST(cudaMemcpy(host, kept, KEPT_BYTES, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < KEPT_BYTES; ++i) {
        changed += 0x3c != host[i];
    }
    free(host);
    return changed;
}

/* Memory of others that this process has open, by the emulator's count; 0 where there is none. */
static unsigned long long count_open(void)
{
    unsigned long long open = 0;

    return buffer_emulator_count("ipc_live", &open) ? open : 0;
}

/* Maps memory of the rank before mine in the communicator, for the program itself, and checks that it still is there;
 * `imports` are mapped between the two. */
static void imports_open(MPI_Comm comm, unsigned char *own_memory[IMPORTS], unsigned char *imports[IMPORTS])
{
    static cudaIpcMemHandle_t mine[IMPORTS], theirs[IMPORTS];
    int rank, nranks;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &nranks);
    const int next = (rank + 1) % nranks, before = (rank + nranks - 1) % nranks;

    for (int i = 0; i < IMPORTS; ++i) {
        CUDA_MUST(cudaMalloc((void **) &own_memory[i], IMPORT_BYTES));
        CUDA_MUST(cudaMemset(own_memory[i], i + 1, IMPORT_BYTES));
        CUDA_MUST(cudaIpcGetMemHandle(&mine[i], own_memory[i]));
    }
    CUDA_MUST(cudaDeviceSynchronize());
    MPI_Sendrecv(mine, (int) sizeof(mine), MPI_BYTE, next, 0, theirs, (int) sizeof(theirs), MPI_BYTE, before, 0, comm,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < IMPORTS; ++i) {
        CUDA_MUST(cudaIpcOpenMemHandle((void **) &imports[i], theirs[i], cudaIpcMemLazyEnablePeerAccess));
    }
}

static void imports_close(suite_t *suite, MPI_Comm comm, unsigned char *own_memory[IMPORTS],
                          unsigned char *imports[IMPORTS])
{
    unsigned char there = 0;
    int lost = 0;

    for (int i = 0; i < IMPORTS; ++i) {
        lost += cudaSuccess != cudaMemcpy(&there, imports[i], 1, cudaMemcpyDeviceToHost) || i + 1 != there
                || cudaSuccess != cudaIpcCloseMemHandle(imports[i]);
    }
    if (0 != lost) {
        suite_fail(suite, "%d of %d mappings of the program's own were closed", lost, IMPORTS);
    }
    MPI_Barrier(comm);
    for (int i = 0; i < IMPORTS; ++i) {
        CUDA_MUST(cudaFree(own_memory[i]));
    }
}

/* Each of two communicators finds out by itself; in between, memory of the program lies in the old places. */
static void between(suite_t *suite, MPI_Comm other, bool on_all)
{
    unsigned long long open = 0;
    int grown = 0; /* rounds in a row that left more open than the one before */

    for (int round = 0; round < ROUNDS; ++round) {
        if (on_all || 0 == suite->rank) {
            context_end();
            context_begin();
        }
        unsigned char *kept = keep_new();
        pvars_t before;
        pvars_read(&before);
        calls(suite, MPI_COMM_WORLD, CALLS);
        calls(suite, other, CALLS);
        /* The first call of either size notices and is voted down, the next of that size probes and is accelerated. */
        suite_check_paths(suite, "calls after a context's end", &before, 2 * (CALLS - SIZES), 2 * SIZES);
        if (0 != count_changed(kept)) {
            suite_fail(suite, "round %d: %zu bytes of other memory were written", round, count_changed(kept));
        }
        CUDA_MUST(cudaFree(kept));
        /* What is not used for ipc_idle goes after the next call. */
        usleep(IDLE);
        calls(suite, MPI_COMM_WORLD, 2);
        /* A call that takes longer than that moment lets go of its own: less than usual in one round is no leak in the
         * next. */
        grown = round > 0 && count_open() > open ? grown + 1 : 0;
        open = count_open();
    }
    if (ROUNDS - 1 == grown) {
        suite_fail(suite, "pieces of other ranks' memory are open, more after each of %d rounds: %llu now", ROUNDS,
                   open);
    }
}

/*
 * Of two contexts the first ends, in which what serves both communicators may have been made (UCX's streams, where it
 * takes GPU memory).
 */
static void beside(suite_t *suite, MPI_Comm other)
{
    void *first = own;
    MPI_Comm later;

    context_begin();
    if (CALLS != calls(suite, other, CALLS) && PATH_ANY != suite->default_path) {
        suite_fail(suite, "the first calls in another context were not accelerated");
    }
    CUDA_MUST(context_destroy(first));
    unsigned long accelerated = calls(suite, other, CALLS);
    MPI_Comm_dup(MPI_COMM_WORLD, &later);
    accelerated += calls(suite, later, CALLS);
    if (PATH_ANY != suite->default_path && accelerated < 2 * CALLS - 2) {
        suite_fail(suite, "only %lu of %d calls were accelerated when another context had ended", accelerated,
                   2 * CALLS);
    }
    MPI_Comm_free(&later);
}

/*
 * The first GPU's context is reset, where the component has mapped others' buffers; memory that the program then maps
 * there itself, at the same addresses, must outlive calls on the second GPU, which let go of what is no more used on
 * either.
 */
static void two(suite_t *suite, MPI_Comm other)
{
    unsigned char *own_memory[IMPORTS], *imports[IMPORTS];
    int first, ndevices;

    CUDA_MUST(cudaGetDevice(&first));
    CUDA_MUST(cudaGetDeviceCount(&ndevices));
    calls(suite, MPI_COMM_WORLD, CALLS);
    CUDA_MUST(cudaSetDevice((first + 1) % ndevices));
    calls(suite, other, CALLS);
    MPI_Barrier(MPI_COMM_WORLD); /* a rank's memory stays while others may read it */
    CUDA_MUST(cudaSetDevice(first));
    context_end();
    context_begin();
    MPI_Barrier(MPI_COMM_WORLD);
    imports_open(MPI_COMM_WORLD, own_memory, imports);
    usleep(IDLE); /* nothing was used for longer than ipc_idle */
    CUDA_MUST(cudaSetDevice((first + 1) % ndevices));
    if (CALLS != calls(suite, other, CALLS) && PATH_ANY != suite->default_path) {
        suite_fail(suite, "calls on the other GPU were not accelerated");
    }
    CUDA_MUST(cudaSetDevice(first));
    imports_close(suite, MPI_COMM_WORLD, own_memory, imports);
    if (CALLS - SIZES > calls(suite, MPI_COMM_WORLD, CALLS) && PATH_ANY != suite->default_path) {
        suite_fail(suite, "calls on the GPU that was reset are not accelerated again");
    }
}

/*
 * Two communicators use what the ranks have mapped of each other. Rank 0's GPU is reset. The first communicator is set
 * up anew at once, the second when its mappings were not used for ipc_idle, also those of ranks that lost nothing. By
 * then lower addresses are free, so memory that is mapped again is not where the first communicator has found it.
 */
static void apart(suite_t *suite, MPI_Comm other)
{
    unsigned char *own_memory[IMPORTS], *imports[IMPORTS];
    MPI_Comm rest; /* the ranks that keep their context */
    pvars_t before;

    MPI_Comm_split(MPI_COMM_WORLD, suite->rank > 0, 0, &rest);
    if (suite->rank > 0) {
        imports_open(rest, own_memory, imports);
    }
    calls(suite, MPI_COMM_WORLD, CALLS);
    calls(suite, other, CALLS);
    if (0 == suite->rank) {
        context_end();
        context_begin();
    }
    pvars_read(&before);
    calls(suite, MPI_COMM_WORLD, CALLS);
    if (suite->rank > 0) {
        imports_close(suite, rest, own_memory, imports);
    }
    usleep(IDLE);
    calls(suite, other, CALLS);
    calls(suite, MPI_COMM_WORLD, CALLS);
    suite_check_paths(suite, "calls after the reset", &before, 3 * CALLS - 2 * SIZES, 2 * SIZES);
    MPI_Comm_free(&rest);
}

/* One call of a length that kernels reduce in one shot; rank 0's buffers are of `kind`. */
static void call_short(suite_t *suite, buffer_kind_t kind)
{
    const buffer_kind_t mine = 0 == suite->rank ? kind : BUFFER_DEVICE;
    call_t call = {.comm = MPI_COMM_WORLD,
                   .type = value_type_find("double"),
                   .op = value_op_find("sum"),
                   .count = 5000,
                   .send_kind = mine,
                   .recv_kind = mine,
                   .path = PATH_ANY};
    suite_call(suite, &call);
}

/* All ranks get the right result when rank 0 has no context. */
static void bare(suite_t *suite)
{
    for (int i = 0; i < CALLS; ++i) {
        call_short(suite, BUFFER_DEVICE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (0 == suite->rank) {
        context_end();
        CUDA_MUST(context_choose(NULL));
    }
    for (int i = 0; i < SIZES; ++i) {
        call_short(suite, BUFFER_HOST);
    }
}

/* A call between the two resets must leave nothing that is taken for a mapping of the last context. */
static void twice(suite_t *suite)
{
    for (int i = 0; i < CALLS; ++i) {
        call_short(suite, BUFFER_DEVICE);
    }
    for (int i = 0; i < 2; ++i) {
        if (0 == suite->rank) {
            context_end();
            context_begin();
        }
        call_short(suite, BUFFER_DEVICE);
    }
    if (CALLS - SIZES > calls(suite, MPI_COMM_WORLD, CALLS) && PATH_ANY != suite->default_path) {
        suite_fail(suite, "calls on the GPU that was reset are not accelerated again");
    }
}

int main(int argc, char **argv)
{
    const char *how = argc > 2 ? argv[argc - 2] : "", *when = argv[argc - 1];
    suite_t suite;
    MPI_Comm other;

    by_destroy = 0 == strcmp(how, "destroy");
    if (!by_destroy && 0 != strcmp(how, "reset")) {
        fprintf(
            stderr,
            "usage: context_lives [--stock] reset | destroy  all | one | last | beside | bare | two | apart | twice\n");
        return 2;
    }
    driver_find();
    suite_begin(&suite, "context_lives", &argc, &argv);
    context_begin();
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    if (0 == strcmp(when, "beside")) {
        calls(&suite, MPI_COMM_WORLD, CALLS);
        beside(&suite, other);
        MPI_Comm_free(&other);
        return suite_end(&suite);
    }
    if (0 == strcmp(when, "two")) {
        two(&suite, other);
        MPI_Comm_free(&other);
        return suite_end(&suite);
    }
    if (0 == strcmp(when, "apart")) {
        apart(&suite, other);
        MPI_Comm_free(&other);
        return suite_end(&suite);
    }
    if (0 == strcmp(when, "bare")) {
        bare(&suite);
        MPI_Comm_free(&other);
        return suite_end(&suite);
    }
    if (0 == strcmp(when, "twice")) {
        twice(&suite);
        MPI_Comm_free(&other);
        return suite_end(&suite);
    }
    if (2 * CALLS != calls(&suite, MPI_COMM_WORLD, CALLS) + calls(&suite, other, CALLS)
        && PATH_ANY != suite.default_path) {
        suite_fail(&suite, "the first calls were not accelerated");
    }
    if (0 != strcmp(when, "last")) {
        between(&suite, other, 0 == strcmp(when, "all"));
        MPI_Comm_free(&other);
        return suite_end(&suite);
    }
    context_end();
    context_begin();
    unsigned char *kept = keep_new();
    cudaStream_t stream;
    CUDA_MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    int status = suite_end(&suite);
    CUDA_MUST(cudaStreamSynchronize(stream));
    if (0 != count_changed(kept)) {
        fprintf(stderr, "context_lives: MPI_Finalize changed memory of the program\n");
        status = 1;
    }
    CUDA_MUST(cudaFree(kept));
    return status;
}
