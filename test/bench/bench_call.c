/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * One timed call: blocking; or an all-reduce as --call wants it, nonblocking or persistent, and waited for at once.
 */
#include "bench.h"

#if OMPI_MAJOR_VERSION < 5
#    include <mpi-ext.h>
#endif
#include <stdio.h>

/* Status of MPI_Allreduce_init, or of what Open MPI 4 calls so; MPI_ERR_UNSUPPORTED_OPERATION where it has none. */
static int init(bench_caller_t *c)
{
#if OMPI_MAJOR_VERSION >= 5
    return MPI_Allreduce_init(c->send, c->recv, (int) c->row->count, c->row->type->type, c->row->op->op, c->comm,
                              MPI_INFO_NULL, &c->request);
#elif defined(OMPI_HAVE_MPI_EXT_PCOLLREQ) && OMPI_HAVE_MPI_EXT_PCOLLREQ
    return MPIX_Allreduce_init(c->send, c->recv, (int) c->row->count, c->row->type->type, c->row->op->op, c->comm,
                               MPI_INFO_NULL, &c->request);
#else
    (void) c;
    return MPI_ERR_UNSUPPORTED_OPERATION;
#endif
}

void bench_caller_begin(bench_caller_t *c)
{
    c->request = MPI_REQUEST_NULL;
    if (CALL_PERSISTENT == c->call && MPI_SUCCESS != init(c)) {
        fprintf(stderr, "gpuhier_bench: this Open MPI has no persistent all-reduce\n");
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
}

void bench_caller_call(bench_caller_t *c)
{
    if (CALL_BLOCKING == c->call) {
        bench_collective_call(c->row, c->send, c->recv, c->comm);
        return;
    }
    if (CALL_PERSISTENT == c->call) {
        MPI_Start(&c->request);
    } else {
        MPI_Iallreduce(c->send, c->recv, (int) c->row->count, c->row->type->type, c->row->op->op, c->comm, &c->request);
    }
    MPI_Wait(&c->request, MPI_STATUS_IGNORE);
}

void bench_caller_end(bench_caller_t *c)
{
    if (MPI_REQUEST_NULL != c->request) {
        MPI_Request_free(&c->request);
    }
}
