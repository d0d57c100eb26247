/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Communicators that are not made and freed as usual.
 *
 *   comm_lives [--stock] many [N]   N (default 200) alive at once, of all ranks or of pairs, all accelerated
 *   comm_lives [--stock] inter      an inter-communicator, and what it is merged to
 *   comm_lives [--stock] spawn      MPI_Comm_spawn of as many ranks again, and the merged communicator
 *   comm_lives [--stock] rounds [N] N (default 4) times spawn, each time of other ranks: nothing of them stays mapped
 *   comm_lives [--stock] pending    the first call on a communicator while another one is being made
 *   comm_lives [--stock] unfreed    MPI_Finalize with communicators alive that were used
 */
#include "calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void sum(suite_t *suite, MPI_Comm comm, size_t count, call_path_t path)
{
    call_t call = {.comm = comm,
                   .type = value_type_find("double"),
                   .op = value_op_find("sum"),
                   .count = count,
                   .in_place = 1 == count % 2,
                   .path = path};
    suite_call(suite, &call);
}

/* By the emulator, of this process; 0 on a real GPU. */
static unsigned long long counted(const char *name)
{
    unsigned long long value = 0;

    return buffer_emulator_count(name, &value) ? value : 0;
}

/* One after the other, with none of the ranks' communicators alive between them: peers' scratch is mapped once. */
static void one_by_one(suite_t *suite, int ncomms)
{
    unsigned long long opened = 0;

    for (int i = 0; i < ncomms; ++i) {
        MPI_Comm comm;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        sum(suite, comm, 1000, PATH_ACCELERATED);
        MPI_Comm_free(&comm);
        opened = 0 == i ? counted("ipc_opens") : opened;
    }
    if (counted("ipc_opens") != opened) {
        suite_fail(suite, "%llu mappings for one communicator, %llu for %d", opened, counted("ipc_opens"), ncomms);
    }
}

/* Pairs of neighbours; with an odd number of ranks the last stays alone. */
static call_path_t pair_make(const suite_t *suite, MPI_Comm *comm_p)
{
    int size;

    MPI_Comm_split(MPI_COMM_WORLD, suite->rank / 2, -suite->rank, comm_p);
    MPI_Comm_size(*comm_p, &size);
    return size > 1 ? PATH_ACCELERATED : PATH_SAVED;
}

static void many(suite_t *suite, int ncomms)
{
    MPI_Comm *comms = malloc(sizeof(*comms) * (size_t) ncomms);
    call_path_t *paths = malloc(sizeof(*paths) * (size_t) ncomms);

    if (NULL == comms || NULL == paths) {
        exit(3);
    }
    one_by_one(suite, 10);
    for (int i = 0; i < ncomms; ++i) {
        paths[i] = PATH_ACCELERATED;
        if (0 == i % 2) {
            MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        } else {
            paths[i] = pair_make(suite, &comms[i]);
        }
        sum(suite, comms[i], 1000, paths[i]);
    }
    for (int i = ncomms - 1; i >= 0; --i) {
        sum(suite, comms[i], 1001, paths[i]);
    }
    for (int i = 0; i < ncomms; ++i) {
        MPI_Comm_free(&comms[(i * 7) % ncomms]); /* 7 does not divide their number: each once */
    }
    sum(suite, MPI_COMM_WORLD, 1000, PATH_ACCELERATED);
    free(comms);
    free(paths);
}

/*
 * Rank 0 begins to make a communicator that the others make after their call. Open MPI makes one communicator at a time
 * in a process, those of the lowest parent first, so a call that made one inside would wait for ever.
 */
static void pending(suite_t *suite)
{
    MPI_Comm used, made;
    MPI_Request request;

    MPI_Comm_dup(MPI_COMM_WORLD, &used);
    if (0 == suite->rank) {
        MPI_Comm_idup(MPI_COMM_WORLD, &made, &request);
        sum(suite, used, 1000, PATH_ACCELERATED);
    } else {
        sum(suite, used, 1000, PATH_ACCELERATED);
        MPI_Comm_idup(MPI_COMM_WORLD, &made, &request);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    sum(suite, made, 1000, PATH_ACCELERATED);
    MPI_Comm_free(&made);
    MPI_Comm_free(&used);
}

/* The sum of one group is the other's result. */
static void inter_sum(suite_t *suite, MPI_Comm inter, int mine, int others)
{
    const int count = 1000;
    int remote;
    double host[1000];
    buffer_t send, recv;

    MPI_Comm_remote_size(inter, &remote);
    buffer_alloc(&send, BUFFER_DEVICE, sizeof(host), 0);
    buffer_alloc(&recv, BUFFER_DEVICE, sizeof(host), 0);
    for (int i = 0; i < count; ++i) {
        host[i] = mine + i;
    }
    buffer_write(&send, host, sizeof(host));
    pvars_t before;
    pvars_read(&before);
    if (MPI_SUCCESS != MPI_Allreduce(send.message, recv.message, count, MPI_DOUBLE, MPI_SUM, inter)) {
        suite_fail(suite, "MPI_Allreduce on an inter-communicator failed");
    }
    ++suite->calls;
    suite_check_paths(suite, "inter-communicator", &before, 0, 1);
    buffer_read(&recv, host, sizeof(host));
    for (int i = 0; i < count; ++i) {
        if ((double) remote * (others + i) != host[i]) {
            suite_fail(suite, "inter-communicator: element %d is %g, not %g", i, host[i],
                       (double) remote * (others + i));
            break;
        }
    }
    buffer_free(&send);
    buffer_free(&recv);
}

static void inter(suite_t *suite)
{
    const int side = suite->rank < suite->nranks / 2 ? 0 : 1;
    MPI_Comm half, between, merged;

    MPI_Comm_split(MPI_COMM_WORLD, side, suite->rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 0 == side ? suite->nranks / 2 : 0, 3, &between);
    for (int i = 0; i < 3; ++i) {
        inter_sum(suite, between, 10 * (side + 1), 10 * (2 - side));
    }
    MPI_Intercomm_merge(between, side, &merged);
    sum(suite, merged, 1000, PATH_ACCELERATED);
    sum(suite, merged, 1001, PATH_ACCELERATED);
    inter_sum(suite, between, 1 + side, 2 - side);
    MPI_Comm_free(&merged);
    MPI_Comm_free(&between);
    MPI_Comm_free(&half);
}

/* As many ranks again. Says before and after that it does, for the script `again`. */
static MPI_Comm spawn_more(const suite_t *suite, const char *program, char **arguments)
{
    MPI_Comm children;
    if (0 == suite->rank) {
        puts("comm_lives: spawning");
        fflush(stdout);
    }
    MPI_Comm_spawn(program, arguments, suite->nranks, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
    if (0 == suite->rank) {
        puts("comm_lives: spawned");
        fflush(stdout);
    }
    return children;
}

static void spawn(suite_t *suite, const char *program)
{
    MPI_Comm parent, children, merged;
    char *arguments[] = {"spawn", NULL}, *stock_arguments[] = {"--stock", "spawn", NULL};
    int size;

    MPI_Comm_get_parent(&parent);
    sum(suite, MPI_COMM_WORLD, 1000,
        PATH_ACCELERATED); /* parents and children make the same calls: values depend on their number */
    if (MPI_COMM_NULL == parent) {
        children = spawn_more(suite, program, PATH_ANY == suite->default_path ? stock_arguments : arguments);
    } else {
        children = parent;
    }
    inter_sum(suite, children, MPI_COMM_NULL == parent ? 5 : 50, MPI_COMM_NULL == parent ? 50 : 5);
    MPI_Intercomm_merge(children, MPI_COMM_NULL != parent, &merged);
    MPI_Comm_size(merged, &size);
    if (2 * suite->nranks != size) {
        suite_fail(suite, "%d ranks in the merged communicator", size);
    }
    for (size_t count = 1000; count < 1004; ++count) {
        sum(suite, merged, count, PATH_ACCELERATED);
    }
    sum(suite, MPI_COMM_WORLD, 1000, PATH_ACCELERATED);
    MPI_Comm_free(&merged);
    MPI_Comm_disconnect(&children);
}

/* A server and its workers. Returns what the server has mapped of others in the end. */
static unsigned long long round_of(suite_t *suite, const char *program, MPI_Comm parent)
{
    MPI_Comm between = parent, merged;
    char *arguments[] = {"rounds", NULL}, *stock_arguments[] = {"--stock", "rounds", NULL};

    if (MPI_COMM_NULL == parent) {
        between = spawn_more(suite, program, PATH_ANY == suite->default_path ? stock_arguments : arguments);
    }
    MPI_Intercomm_merge(between, MPI_COMM_NULL != parent, &merged);
    MPI_Bcast(&suite->salt, 1, MPI_UINT64_T, 0, merged); /* values depend on it */
    sum(suite, merged, 1000, PATH_ACCELERATED);
    sum(suite, merged, 100000, PATH_ACCELERATED);
    const unsigned long long mapped = counted("ipc_live");
    MPI_Comm_free(&merged);
    MPI_Comm_disconnect(&between);
    return mapped;
}

static void rounds(suite_t *suite, const char *program, int nrounds)
{
    unsigned long long first = 0, mapped = 0;
    MPI_Comm parent;

    MPI_Comm_get_parent(&parent);
    if (MPI_COMM_NULL != parent) {
        round_of(suite, program, parent);
        return;
    }
    sum(suite, MPI_COMM_WORLD, 1000, PATH_ACCELERATED);
    for (int i = 0; i < nrounds; ++i) {
        usleep(200000); /* more than ipc_idle, which this test sets: the workers before count as gone by then */
        mapped = round_of(suite, program, MPI_COMM_NULL);
        first = 0 == i ? mapped : first;
    }
    if (mapped > first) {
        suite_fail(suite, "%llu mappings with the first workers, %llu with the last of %d", first, mapped, nrounds);
    }
    sum(suite, MPI_COMM_WORLD, 1000, PATH_ACCELERATED);
}

static void unfreed(suite_t *suite)
{
    for (int i = 0; i < 20; ++i) {
        MPI_Comm comm;
        call_path_t path = PATH_ACCELERATED;
        if (0 == i % 2) {
            MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        } else {
            path = pair_make(suite, &comm);
        }
        sum(suite, comm, 1000, path);
    }
}

int main(int argc, char **argv)
{
    suite_t suite;
    const char *program = argv[0];

    suite_begin(&suite, "comm_lives", &argc, &argv);
    const char *what = argc > 1 ? argv[1] : "";
    if (0 == strcmp(what, "many")) {
        many(&suite, argc > 2 ? atoi(argv[2]) : 200);
    } else if (0 == strcmp(what, "inter")) {
        inter(&suite);
    } else if (0 == strcmp(what, "spawn")) {
        spawn(&suite, program);
    } else if (0 == strcmp(what, "rounds")) {
        rounds(&suite, program, argc > 2 ? atoi(argv[2]) : 4);
    } else if (0 == strcmp(what, "pending")) {
        pending(&suite);
    } else if (0 == strcmp(what, "unfreed")) {
        unfreed(&suite);
    } else {
        fprintf(stderr, "usage: comm_lives [--stock] many [N] | inter | spawn | rounds [N] | pending | unfreed\n");
        return 2;
    }
    return suite_end(&suite);
}
