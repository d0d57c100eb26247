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

outcome_t pair_call(const suite_t *suite, MPI_Comm comm, pair_t *pair, size_t count, uint64_t salt)
{
    value_case_t c = {.type = value_type_find("double"), .op = value_op_find("sum"), .salt = salt};
    double *host = malloc((count + 1) * sizeof(*host));
    outcome_t outcome = OUTCOME_RIGHT;
    size_t first_wrong = 0, wrong;
    int rank;

    MPI_Comm_size(comm, &c.nranks);
    MPI_Comm_rank(comm, &rank);
    if (NULL == host) {
        fprintf(stderr, "%s: no memory\n", suite->name);
        exit(1);
    }
    buffer_poison(&pair->recv);
    value_fill(&c, rank, 0, count, host);
    buffer_write(&pair->send, host, count * sizeof(*host));
    if (MPI_SUCCESS != MPI_Allreduce(pair->send.message, pair->recv.message, (int) count, MPI_DOUBLE, MPI_SUM, comm)) {
        outcome = OUTCOME_ERROR;
    } else {
        buffer_read(&pair->recv, host, count * sizeof(*host));
        wrong = value_check(&c, 0, count, host, &first_wrong);
        if (wrong > 0) {
            char line[256];
            value_describe(&c, first_wrong, host + first_wrong, line, sizeof(line));
            fprintf(stderr, "%s: rank %d: %zu of %zu elements are wrong; %s\n", suite->name, suite->rank, wrong, count,
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
