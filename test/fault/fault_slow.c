/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A rank that is late between two of its messages, for longer than another waits for a first word: legal, and no error
 * on any rank.
 *
 *   fault_slow hello S     the last rank sleeps S seconds in set-up, before its first message: set-up begins anew,
 *                          without UCX, on all ranks
 *   fault_slow last S      it sleeps in its last call, when all have what they need of it and are in MPI_Finalize
 *
 * How it works: the component finds this program's ucp_tag_send_nbx() before UCX's.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault_lib.h"

#define COUNT 8000 /* doubles: UCX sends so much over tcp, whether it is waited for or not */
#define LATER 5

static unsigned before_next, after_payload; /* seconds to sleep, once */

typedef void *(*send_fn_t)(void *endpoint, const void *buffer, size_t count, uint64_t tag, const void *param);

void *ucp_tag_send_nbx(void *endpoint, const void *buffer, size_t count, uint64_t tag, const void *param);

void *ucp_tag_send_nbx(void *endpoint, const void *buffer, size_t count, uint64_t tag, const void *param)
{
    static send_fn_t real;
    if (NULL == real) {
        void *library = dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD);
        void *place = NULL != library ? dlsym(library, "ucp_tag_send_nbx") : NULL;
        memcpy(&real, &place, sizeof(real));
    }
    if (NULL == real) {
        fprintf(stderr, "fault_slow: UCX is not where it is expected\n");
        exit(2);
    }
    if (0 != before_next) {
        sleep(before_next);
        before_next = 0;
    }
    void *request = real(endpoint, buffer, count, tag, param);
    if (0 != after_payload && count >= COUNT * sizeof(double) / 4) {
        sleep(after_payload);
        after_payload = 0;
    }
    return request;
}

static void calls(suite_t *suite, MPI_Comm comm, pair_t *pair, int ncalls, bool accelerated)
{
    pvars_t before, after;
    for (int i = 0; i < ncalls; ++i) {
        pvars_read(&before);
        const outcome_t outcome = pair_call(suite, comm, pair, COUNT, ++suite->salt);
        pvars_read(&after);
        ++suite->calls;
        if (OUTCOME_RIGHT != outcome) {
            suite_fail(suite, "call %d ended with %c", i, outcome_letter(outcome));
        }
        if (accelerated != (1 == after.accelerated - before.accelerated)) {
            suite_fail(suite, "call %d was %saccelerated", i, accelerated ? "not " : "");
        }
    }
}

int main(int argc, char **argv)
{
    suite_t suite;
    pair_t pair;
    MPI_Comm first, second;

    suite_begin(&suite, "fault_slow", &argc, &argv);
    if (argc != 3) {
        fprintf(stderr, "fault_slow hello | last SECONDS\n");
        return 2;
    }
    const bool in_hello = 0 == strcmp(argv[1], "hello"), is_slow = suite.rank + 1 == suite.nranks;
    const unsigned seconds = is_slow ? (unsigned) atoi(argv[2]) : 0;
    unsigned *slept = in_hello ? &before_next : &after_payload;
    deadline(100, "in a call with a rank that is late");
    pair_alloc(&pair, COUNT);
    MPI_Comm_dup(MPI_COMM_WORLD, &first);
    MPI_Comm_dup(MPI_COMM_WORLD, &second);
    MPI_Comm_set_errhandler(first, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(second, MPI_ERRORS_RETURN);
    if (in_hello) {
        *slept = seconds;
        calls(&suite, first, &pair, LATER, true);
        calls(&suite, second, &pair, LATER, true);
    } else {
        calls(&suite, first, &pair, LATER, true);
        calls(&suite, second, &pair, LATER, true);
        MPI_Barrier(MPI_COMM_WORLD);
        *slept = seconds;
        calls(&suite, second, &pair, 1, true);
    }
    if (0 != *slept) {
        suite_fail(&suite, "this rank was never late");
    }
    pair_free(&pair);
    return suite_end(&suite);
}
