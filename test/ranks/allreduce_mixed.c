/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Any subset of the ranks passes host memory, as one buffer or both, while the others pass device memory; small and
 * large, in place on all ranks or on none. The path is known: a call with host memory on a communicator whose
 * calls are accelerated is too, that once; from the next on it is left to the saved collective; and
 * device memory on all ranks brings the acceleration back.
 *
 *   allreduce_mixed [--stock]
 */
#include "calls.h"

/* Another key of the table of modes each; less than a slice of the tests', and many slices. */
static const size_t counts[] = {5, 3001, 100003};
#define NCOUNTS ((int) (sizeof(counts) / sizeof(counts[0])))
#define MOST_SUBSETS 16

/* The buffers of a rank that passes host memory, one way or another. */
static void host_buffers(call_t *call, unsigned turn)
{
    static const buffer_kind_t hosts[] = {BUFFER_HOST, BUFFER_PINNED, BUFFER_REGISTERED};
    const buffer_kind_t host = hosts[turn % 3];
    call->send_kind = 1 == turn / 3 % 3 ? BUFFER_DEVICE : host;
    call->recv_kind = 2 == turn / 3 % 3 && !call->in_place ? BUFFER_DEVICE : host;
}

/* One subset, one count, on a communicator that has not seen it. */
static void run_one(suite_t *suite, MPI_Comm comm, unsigned subset, size_t count, unsigned turn)
{
    const bool host = 0 != (subset >> suite->rank & 1);
    call_t call = {.comm = comm,
                   .type = value_type_find("double"),
                   .op = value_op_find("sum"),
                   .count = count,
                   .path = PATH_ACCELERATED};
    suite_call(suite, &call); /* all device: the key is accelerated */
    for (int i = 0; i < 2; ++i) {
        call.in_place = 0 == (turn + (unsigned) i) % 3;
        call.send_kind = call.recv_kind = BUFFER_DEVICE;
        if (host) {
            host_buffers(&call, turn + (unsigned) i);
        }
        call.path = 0 == i || 0 == subset ? PATH_ACCELERATED : PATH_SAVED;
        suite_call(suite, &call);
    }
    call.send_kind = call.recv_kind = BUFFER_DEVICE;
    call.path = PATH_ACCELERATED;
    suite_call(suite, &call); /* a flip or two do not keep it from being asked again */
}

int main(int argc, char **argv)
{
    suite_t suite;
    unsigned turn = 0;

    suite_begin(&suite, "allreduce_mixed", &argc, &argv);
    const unsigned all = 1u << suite.nranks, step = suite.full || all <= MOST_SUBSETS ? 1 : all / MOST_SUBSETS | 1;
    for (unsigned subset = 0; subset < all; subset += step) {
        MPI_Comm comm;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
        for (int i = 0; i < NCOUNTS; ++i, ++turn) {
            run_one(&suite, comm, subset, counts[i], turn);
        }
        MPI_Comm_free(&comm);
    }
    return suite_end(&suite);
}
