/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A call of one communicator that cannot end holds up no call of another one.
 *
 *   fault_beside HARM thread|pending [COUNT]
 *
 * The last rank, the victim, keeps a call of COUNT doubles (default 60000) of all ranks from its end, by HARM:
 *
 *   late      it comes when the others have made all their calls on other communicators, and not before
 *   absent    the same, but coll_gpuhier_timeout is set, and the call of all fails first
 *   stopped   it stops itself between two launches of the call; the others' calls time out, and wait for it to come to
 *             rest. The rank before it, which must be on its node, wakes it when the others have made all their calls
 *   killed    the same, but that rank kills it
 *
 * The others make the call of all in another thread, or post it and leave it pending. Until it ends they make calls,
 * blocking and nonblocking, on communicators that were there before and on new ones. What ends the call of all comes
 * after the last of those calls, so one that waits for it waits for ever. Each rank that lives prints "rank N is
 * content" if all is right.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fault_lib.h"
#include "pvars.h"

#define OTHER_COUNT 20000
#define CALLS 40          /* on each communicator, at least */
#define NEW_EVERY 10      /* calls between two new communicators */
#define TIMEOUT_TIMES 1.5 /* so many times coll_gpuhier_timeout the others go on, to be beside the failure as well */
#define TIMEOUT 3.0       /* coll_gpuhier_timeout of "absent", "stopped" and "killed" */
#define STOP_PLAN "cuLaunchKernel:2:stop"

/* The call of all, as the others make it. */
typedef struct long_call {
    const suite_t *suite;
    MPI_Comm comm;
    size_t count;
    pair_t pair;
    pthread_t thread; /* or */
    MPI_Request request;
    bool in_thread;
    atomic_bool ended;
    outcome_t outcome;
} long_call_t;

static bool has_content = true;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double) time.tv_sec + 1e-9 * (double) time.tv_nsec;
}

static void wrong(suite_t *suite, const char *text, int number)
{
    has_content = false;
    suite_fail(suite, text, number);
}

static void *long_call_run(void *arg)
{
    long_call_t *call = arg;
    suite_choose_gpu(); /* a thread's own choice */
    call->outcome = pair_call(call->suite, call->comm, &call->pair, call->count, 7);
    atomic_store(&call->ended, true);
    return NULL;
}

/* Fills the input as pair_call() does. */
static value_case_t values(MPI_Comm comm, pair_t *pair, size_t count, uint64_t salt)
{
    value_case_t c = {.type = value_type_find("double"), .op = value_op_find("sum"), .salt = salt};
    double *host = malloc((count + 1) * sizeof(*host));
    int rank;
    MPI_Comm_size(comm, &c.nranks);
    MPI_Comm_rank(comm, &rank);
    buffer_poison(&pair->recv);
    value_fill(&c, rank, 0, count, host);
    buffer_write(&pair->send, host, count * sizeof(*host));
    free(host);
    return c;
}

/* How a nonblocking call has ended whose MPI_Wait or MPI_Test returned rc. */
static outcome_t outcome_of(const value_case_t *c, const pair_t *pair, size_t count, int rc)
{
    size_t first_wrong = 0;
    if (MPI_SUCCESS != rc) {
        return OUTCOME_ERROR;
    }
    double *host = malloc((count + 1) * sizeof(*host));
    buffer_read(&pair->recv, host, count * sizeof(*host));
    const outcome_t outcome = 0 == value_check(c, 0, count, host, &first_wrong) ? OUTCOME_RIGHT : OUTCOME_WRONG;
    free(host);
    return outcome;
}

static value_case_t long_case;

static void long_call_begin(long_call_t *call)
{
    if (call->in_thread) {
        pthread_create(&call->thread, NULL, long_call_run, call);
        return;
    }
    long_case = values(call->comm, &call->pair, call->count, 7);
    MPI_Iallreduce(call->pair.send.message, call->pair.recv.message, (int) call->count, MPI_DOUBLE, MPI_SUM, call->comm,
                   &call->request);
}

static bool long_call_ended(long_call_t *call)
{
    int flag = 0;
    if (!call->in_thread && !atomic_load(&call->ended)) {
        int rc = MPI_Test(&call->request, &flag, MPI_STATUS_IGNORE);
        if (0 != flag || MPI_SUCCESS != rc) {
            call->outcome = outcome_of(&long_case, &call->pair, call->count, rc);
            atomic_store(&call->ended, true);
        }
    }
    return atomic_load(&call->ended);
}

static outcome_t long_call_end(long_call_t *call)
{
    if (call->in_thread) {
        pthread_join(call->thread, NULL);
    } else if (!atomic_load(&call->ended)) {
        int rc = MPI_Wait(&call->request, MPI_STATUS_IGNORE);
        call->outcome = outcome_of(&long_case, &call->pair, call->count, rc);
    }
    return call->outcome;
}

/* The victim's call of all: blocking where the others make it in a thread, else nonblocking, as MPI demands. */
static void victim_call(long_call_t *call)
{
    if (call->in_thread) {
        call->outcome = pair_call(call->suite, call->comm, &call->pair, call->count, 7);
    } else {
        long_call_begin(call);
        long_call_end(call);
    }
}

/* A blocking and a nonblocking call on a communicator. */
static void two_calls(suite_t *suite, MPI_Comm comm, pair_t *pair, pair_t *pending)
{
    MPI_Request request;
    const value_case_t c = values(comm, pending, OTHER_COUNT, ++suite->salt);
    MPI_Iallreduce(pending->send.message, pending->recv.message, OTHER_COUNT, MPI_DOUBLE, MPI_SUM, comm, &request);
    const outcome_t blocking = pair_call(suite, comm, pair, OTHER_COUNT, ++suite->salt);
    const int rc = MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (OUTCOME_RIGHT != blocking) {
        wrong(suite, "a blocking call beside the call of all ended with '%c'", outcome_letter(blocking));
    }
    if (OUTCOME_RIGHT != outcome_of(&c, pending, OTHER_COUNT, rc)) {
        wrong(suite, "a nonblocking call beside the call of all ended with code %d, or a wrong result", rc);
    }
    suite->calls += 2;
}

/* Calls on a communicator until all its ranks have made enough; for some time at least, as its rank 0 sees it. */
static void calls_beside(suite_t *suite, MPI_Comm comm, double seconds)
{
    pair_t pair, pending;
    pvars_t begin, end;
    const double begun = now();
    int go_on = 1, calls = 0;

    pair_alloc(&pair, OTHER_COUNT);
    pair_alloc(&pending, OTHER_COUNT);
    MPI_Bcast(&suite->salt, 1, MPI_UINT64_T, 0, comm);
    pvars_read(&begin);
    for (; go_on; ++calls) {
        two_calls(suite, comm, &pair, &pending);
        if (0 == calls % NEW_EVERY) {
            MPI_Comm fresh;
            MPI_Comm_dup(comm, &fresh);
            two_calls(suite, fresh, &pair, &pending);
            two_calls(suite, fresh, &pair, &pending);
            MPI_Comm_free(&fresh);
        }
        go_on = calls + 1 < CALLS || now() - begun < seconds;
        MPI_Bcast(&go_on, 1, MPI_INT, 0, comm);
    }
    pvars_read(&end);
    if (end.accelerated - begin.accelerated < (uint64_t) calls) {
        wrong(suite, "only %d calls beside the call of all were accelerated",
              (int) (end.accelerated - begin.accelerated));
    }
    pair_free(&pair);
    pair_free(&pending);
}

/* Waits in the call of all until the process is stopped. */
static void stopped_wait(suite_t *suite, long_call_t *call, pid_t pid)
{
    char path[64], state = 0;
    snprintf(path, sizeof(path), "/proc/%d/stat", (int) pid);
    while ('T' != state) {
        FILE *file = fopen(path, "r");
        if (NULL == file || 1 != fscanf(file, "%*d (%*[^)]) %c", &state)) {
            fprintf(stderr, "fault_beside: the last rank is not on the node of the rank before it\n");
            _exit(1);
        }
        fclose(file);
        if (long_call_ended(call)) {
            wrong(suite, "the call of all ended before rank %d stopped", suite->nranks - 1);
            return;
        }
        usleep(1000);
    }
}

int main(int argc, char **argv)
{
    suite_t suite;
    saboteur_t saboteur;
    MPI_Comm others;
    int provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    suite_begin(&suite, "fault_beside", &argc, &argv);
    if (argc < 3 || MPI_THREAD_MULTIPLE != provided) {
        fprintf(stderr, "fault_beside HARM thread|pending [COUNT]; needs MPI_THREAD_MULTIPLE\n");
        _exit(2);
    }
    const bool late = 0 == strcmp(argv[1], "late"), stays = late || 0 == strcmp(argv[1], "absent"),
               killed = 0 == strcmp(argv[1], "killed");
    const int victim = suite.nranks - 1, waker = suite.nranks - 2;
    long_call_t all = {.suite = &suite,
                       .count = argc > 3 ? (size_t) atol(argv[3]) : 60000,
                       .in_thread = 0 == strcmp(argv[2], "thread")};
    int pid = (int) getpid();

    saboteur_find(&saboteur);
    MPI_Comm_dup(MPI_COMM_WORLD, &all.comm);
    MPI_Comm_split(MPI_COMM_WORLD, victim == suite.rank, suite.rank, &others);
    MPI_Bcast(&pid, 1, MPI_INT, victim, MPI_COMM_WORLD);
    pair_alloc(&all.pair, all.count);
    for (int i = 0; i < 3; ++i) {
        if (OUTCOME_RIGHT != pair_call(&suite, all.comm, &all.pair, all.count, ++suite.salt)) {
            wrong(&suite, "call %d before any harm failed", i);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    deadline(60, "in the call of all, or beside it");
    if (victim != suite.rank) {
        long_call_begin(&all);
    } else if (!stays) {
        saboteur.arm(STOP_PLAN);
        victim_call(&all);
        saboteur.arm("");
    }
    if (waker == suite.rank && !stays) {
        stopped_wait(&suite, &all, (pid_t) pid);
    }
    if (victim != suite.rank) {
        calls_beside(&suite, others, late ? 0 : TIMEOUT_TIMES * TIMEOUT);
        MPI_Barrier(others);
        if ((late || (waker == suite.rank && !stays)) && long_call_ended(&all)) {
            wrong(&suite, "the call of all has ended before rank %d let it", victim);
        }
        MPI_Barrier(others);
        if (waker == suite.rank && !stays) {
            kill((pid_t) pid, killed ? SIGKILL : SIGCONT);
        }
    }
    if (stays) {
        calls_beside(&suite, MPI_COMM_WORLD, 0); /* with the victim, which comes to the call of all afterwards */
        if (late && victim != suite.rank && long_call_ended(&all)) {
            wrong(&suite, "the call of all has ended before rank %d came", victim);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (victim == suite.rank) {
            victim_call(&all);
        }
    }
    if (victim != suite.rank) {
        long_call_end(&all);
        if ((late ? OUTCOME_RIGHT : OUTCOME_ERROR) != all.outcome) {
            wrong(&suite, "the call of all ended with '%c'", outcome_letter(all.outcome));
        }
        calls_beside(&suite, others, 0);
    } else if (OUTCOME_WRONG == all.outcome || (late && OUTCOME_RIGHT != all.outcome)) {
        wrong(&suite, "the victim's call of all ended with '%c'", outcome_letter(all.outcome));
    }
    printf("rank %d is %s\n", suite.rank, has_content ? "content" : "not content");
    fflush(stdout);
    deadline(0, "");
    if (killed) {
        sleep(120); /* the others say their word first, and then the script ends all */
        MPI_Abort(MPI_COMM_WORLD, 5);
    }
    MPI_Comm_free(&others);
    MPI_Comm_free(&all.comm);
    pair_free(&all.pair);
    ++suite.calls;
    return suite_end(&suite);
}
