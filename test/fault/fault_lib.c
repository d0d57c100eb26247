/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Calls that may fail; see fault_lib.h.
 */
#define _GNU_SOURCE
#include "ompi_config.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault_lib.h"
#include "ompi/mca/bml/bml.h"

char outcome_letter(outcome_t outcome)
{
    return "rEW"[outcome];
}

void pair_alloc(pair_t *pair, size_t most)
{
    pair->most = most;
    buffer_alloc(&pair->send, BUFFER_DEVICE, most * sizeof(double), 0);
    buffer_alloc(&pair->recv, BUFFER_DEVICE, most * sizeof(double), 0);
}

void pair_free(pair_t *pair)
{
    buffer_free(&pair->send);
    buffer_free(&pair->recv);
}

/* What pair_call() calls; count is of the whole message, which those with blocks share out. */
typedef enum collective {
    ALLREDUCE,
    REDUCE,
    BCAST,
    ALLGATHER,
    REDUCE_SCATTER_BLOCK,
    ALLGATHERV,
    REDUCE_SCATTER,
    ALLTOALL,
    ALLTOALLV,
    IALLTOALLV, /* blocking up to the fourth call, since nonblocking calls ask nobody */
    COLLECTIVES
} collective_t;

static collective_t collective(void)
{
    static const char *const names[] = {"allreduce",  "reduce",         "bcast",    "allgather", "reduce_scatter_block",
                                        "allgatherv", "reduce_scatter", "alltoall", "alltoallv", "ialltoallv"};
    const char *name = getenv("FAULT_COLLECTIVE");
    for (int i = 0; i < COLLECTIVES; ++i) {
        if (0 == strcmp(names[i], NULL == name ? names[ALLREDUCE] : name)) {
            return (collective_t) i;
        }
    }
    fprintf(stderr, "FAULT_COLLECTIVE=%s is none of the collectives of fault_lib.c\n", name);
    exit(2);
}

/* One call, as this rank makes it. */
typedef struct plan {
    collective_t kind;
    value_case_t values;
    int rank, root;
    size_t in, out; /* elements that this rank gives, and takes */
} plan_t;

/* Of so many elements a block on average: where a rank's begins. Those with lists have longer and shorter ones. */
static size_t begin_of(const plan_t *p, size_t block, int rank)
{
    const bool is_later = (ALLGATHERV == p->kind || REDUCE_SCATTER == p->kind) && rank % 2 && rank < p->values.nranks;
    return (size_t) rank * block + (is_later ? block / 2 : 0);
}

static plan_t plan_make(MPI_Comm comm, size_t count, uint64_t salt)
{
    plan_t p = {.kind = collective(),
                .values = {.type = value_type_find("double"), .op = value_op_find("sum"), .salt = salt},
                .in = count,
                .out = count};

    MPI_Comm_size(comm, &p.values.nranks);
    MPI_Comm_rank(comm, &p.rank);
    p.root = (int) (salt % (uint64_t) p.values.nranks);
    const size_t nranks = (size_t) p.values.nranks, block = count < nranks ? 1 : count / nranks;
    const size_t mine = begin_of(&p, block, p.rank + 1) - begin_of(&p, block, p.rank);
    if (ALLGATHER == p.kind || ALLGATHERV == p.kind) {
        p.in = mine;
        p.out = block * nranks;
    } else if (REDUCE_SCATTER_BLOCK == p.kind || REDUCE_SCATTER == p.kind) {
        p.in = block * nranks;
        p.out = mine;
    } else if (p.kind >= ALLTOALL) {
        p.in = p.out = block * nranks;
    } else if (REDUCE == p.kind) {
        p.out = p.rank == p.root ? count : 0;
    } else if (BCAST == p.kind) {
        p.in = p.rank == p.root ? count : 0;
    }
    return p;
}

static int plan_call(const plan_t *p, MPI_Comm comm, pair_t *pair, size_t count)
{
    const void *in = pair->send.message;
    void *out = pair->recv.message;
    const int nranks = p->values.nranks, block = (int) (p->in > p->out ? p->in : p->out) / nranks;
    int counts[nranks], places[nranks];

    for (int i = 0; i < nranks; ++i) {
        places[i] = (int) begin_of(p, (size_t) block, i);
        counts[i] = (int) begin_of(p, (size_t) block, i + 1) - places[i];
    }
    switch (p->kind) {
    case REDUCE:
        return MPI_Reduce(in, out, (int) count, MPI_DOUBLE, MPI_SUM, p->root, comm);
    case BCAST:
        return MPI_Bcast(out, (int) count, MPI_DOUBLE, p->root, comm);
    case ALLGATHER:
        return MPI_Allgather(in, (int) p->in, MPI_DOUBLE, out, (int) p->in, MPI_DOUBLE, comm);
    case REDUCE_SCATTER_BLOCK:
        return MPI_Reduce_scatter_block(in, out, (int) p->out, MPI_DOUBLE, MPI_SUM, comm);
    case ALLGATHERV:
        return MPI_Allgatherv(in, (int) p->in, MPI_DOUBLE, out, counts, places, MPI_DOUBLE, comm);
    case REDUCE_SCATTER:
        return MPI_Reduce_scatter(in, out, counts, MPI_DOUBLE, MPI_SUM, comm);
    case ALLTOALL:
        return MPI_Alltoall(in, block, MPI_DOUBLE, out, block, MPI_DOUBLE, comm);
    case IALLTOALLV:
        if (p->values.salt > 4) {
            MPI_Request request;
            const int error =
                MPI_Ialltoallv(in, counts, places, MPI_DOUBLE, out, counts, places, MPI_DOUBLE, comm, &request);
            return MPI_SUCCESS != error ? error : MPI_Wait(&request, MPI_STATUS_IGNORE);
        } /* fall through */
    case ALLTOALLV:
        return MPI_Alltoallv(in, counts, places, MPI_DOUBLE, out, counts, places, MPI_DOUBLE, comm);
    default:
        return MPI_Allreduce(in, out, (int) count, MPI_DOUBLE, MPI_SUM, comm);
    }
}

/* Wrong elements of what this rank has taken; the first is described. */
static size_t plan_check(const plan_t *p, const double *got, char *line, size_t room)
{
    const size_t nranks = (size_t) p->values.nranks;
    const bool scatters = REDUCE_SCATTER_BLOCK == p->kind || REDUCE_SCATTER == p->kind;
    const size_t first = scatters ? begin_of(p, p->in / nranks, p->rank) : 0;
    size_t first_wrong = 0, wrong = 0;

    const bool pairs = p->kind >= ALLTOALL;
    const size_t block = p->out / nranks;

    if (BCAST != p->kind && ALLGATHER != p->kind && ALLGATHERV != p->kind && !pairs) {
        wrong = value_check(&p->values, first, p->out, got, &first_wrong);
        if (wrong > 0) {
            value_describe(&p->values, first_wrong, got + (first_wrong - first), line, room);
        }
        return wrong;
    }
    int from = BCAST == p->kind ? p->root : 0;
    for (size_t i = 0; i < p->out; ++i) {
        from += BCAST != p->kind && begin_of(p, block, from + 1) == i ? 1 : 0;
        const size_t at = BCAST == p->kind ? i : i - begin_of(p, block, from) + (pairs ? (size_t) p->rank * block : 0);
        double want;
        value_fill(&p->values, from, at, 1, &want);
        if (0 != memcmp(&want, &got[i], sizeof(want)) && 0 == wrong++) {
            snprintf(line, room, "element %zu is %g, not rank %d's %g", i, got[i], from, want);
        }
    }
    return wrong;
}

outcome_t pair_call(const suite_t *suite, MPI_Comm comm, pair_t *pair, size_t count, uint64_t salt)
{
    const plan_t p = plan_make(comm, count, salt);
    double *host = malloc(((p.in > p.out ? p.in : p.out) + 1) * sizeof(*host));
    outcome_t outcome = OUTCOME_RIGHT;
    char line[256];

    if (NULL == host) {
        fprintf(stderr, "%s: no memory\n", suite->name);
        exit(1);
    }
    buffer_poison(&pair->recv);
    value_fill(&p.values, p.rank, 0, p.in, host);
    buffer_write(BCAST == p.kind ? &pair->recv : &pair->send, host, p.in * sizeof(*host));
    if (MPI_SUCCESS != plan_call(&p, comm, pair, count)) {
        outcome = OUTCOME_ERROR;
    } else {
        buffer_read(&pair->recv, host, p.out * sizeof(*host));
        const size_t wrong = plan_check(&p, host, line, sizeof(line));
        if (wrong > 0) {
            fprintf(stderr, "%s: rank %d: %zu of %zu elements are wrong; %s\n", suite->name, suite->rank, wrong, p.out,
                    line);
            outcome = OUTCOME_WRONG;
        }
    }
    if (0 != buffer_check_guards(&pair->recv) || 0 != buffer_check_guards(&pair->send)) {
        fprintf(stderr, "%s: rank %d: bytes around a buffer of %zu elements were overwritten\n", suite->name,
                suite->rank, count);
        outcome = OUTCOME_WRONG;
    }
    free(host);
    return outcome;
}

/* A busy machine may take so many times as long: only a hang is to meet a deadline. */
#define PATIENCE 5

static char doing[256];

static void deadline_passed(int signal_number)
{
    (void) signal_number;
    (void) !write(STDERR_FILENO, doing, strlen(doing));
    _exit(9);
}

void deadline(unsigned seconds, const char *what)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");

    signal(SIGALRM, deadline_passed);
    snprintf(doing, sizeof(doing), "rank %s hung: %s\n", NULL == rank ? "?" : rank, what);
    alarm(PATIENCE * seconds);
}

static void ignore_error(struct mca_btl_base_module_t *btl, int32_t flags, struct opal_proc_t *proc, char *text)
{
    (void) btl;
    (void) flags;
    (void) proc;
    (void) text;
}

void deaths_tolerate(void)
{
    signal(SIGPIPE, SIG_IGN);
    const mca_bml_base_module_t *bml = dlsym(RTLD_DEFAULT, "mca_bml");
    if (NULL != bml && NULL != bml->bml_register_error) {
        (void) bml->bml_register_error(ignore_error);
    }
}

static void *need(const char *name)
{
    void *place = dlsym(RTLD_DEFAULT, name);
    if (NULL == place) {
        printf("libsaboteur.so is not preloaded\n");
        exit(77);
    }
    return place;
}

void saboteur_find(saboteur_t *saboteur_p)
{
    void *arm = need("saboteur_arm"), *calls = need("saboteur_calls"), *strikes = need("saboteur_strikes"),
         *function = need("saboteur_function");

    memcpy(&saboteur_p->arm, &arm, sizeof(arm));
    memcpy(&saboteur_p->calls, &calls, sizeof(calls));
    memcpy(&saboteur_p->strikes, &strikes, sizeof(strikes));
    memcpy(&saboteur_p->function, &function, sizeof(function));
}
