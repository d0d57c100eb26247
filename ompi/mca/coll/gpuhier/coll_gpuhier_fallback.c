/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns host staging around the saved collective. Does not decide when it is
 * used: that is allreduce's.
 *
 * The saved collective sees the whole message in one call, since the other
 * ranks may pass host memory and cut nothing. So a staged buffer is as long as
 * the user's. Copies are synchronous on the legacy default stream: ordered after
 * the program's earlier work there, as on a CUDA-aware Open MPI.
 */
#include "ompi_config.h"

#include <stdlib.h>

#include "coll_gpuhier_cuda.h"
#include "coll_gpuhier_fallback.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/runtime/mpiruntime.h"
#include "opal/util/show_help.h"

/* One buffer of the call and, when it is device memory, its host copy. */
typedef struct staged {
    gpuhier_buffer_t place;
    char *device; /* first byte that the type touches */
    char *host;   /* malloc'ed copy of [device, device + bytes); NULL: not staged */
    size_t bytes;
} staged_t;

/*
 * Tried twice: the first error may be that of some earlier asynchronous work of the program, which any call may report.
 * A context that cannot be pushed is most often the current one already.
 */
static int copy(staged_t *buffer, bool to_host)
{
    gpuhier_cuda_scope_t scope;
    /* Memory of a stream-ordered pool has no context of its own: the current one does. */
    bool entered = NULL != buffer->place.context && OMPI_SUCCESS == gpuhier_cuda_enter(buffer->place.context, &scope);
    CUdeviceptr device = (CUdeviceptr) (uintptr_t) buffer->device;
    int rc = OMPI_ERROR;
    for (int tries = 0; tries < 2 && OMPI_SUCCESS != rc; ++tries) {
        rc = to_host ? gpuhier_cuda_error(gpuhier_cu.cuMemcpyDtoH(buffer->host, device, buffer->bytes), "cuMemcpyDtoH")
                     : gpuhier_cuda_error(gpuhier_cu.cuMemcpyHtoD(device, buffer->host, buffer->bytes), "cuMemcpyHtoD");
    }
    if (entered) {
        gpuhier_cuda_leave(&scope);
    }
    return rc;
}

/* Gives the buffer a host copy when it is device memory; fills it when the collective will read it. */
static int stage(staged_t *buffer, const void *user, size_t bytes, ptrdiff_t gap, bool read)
{
    buffer->host = NULL;
    if (MPI_IN_PLACE == user || 0 == bytes) {
        return OMPI_SUCCESS;
    }
    gpuhier_buffer_inspect((const char *) user + gap, &buffer->place);
    if (!gpuhier_buffer_on_device(&buffer->place)) {
        return OMPI_SUCCESS;
    }
    buffer->device = (char *) (uintptr_t) user + gap;
    buffer->bytes = bytes;
    buffer->host = malloc(bytes);
    if (NULL == buffer->host) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    return read ? copy(buffer, true) : OMPI_SUCCESS;
}

int gpuhier_fallback_allreduce(const void *sbuf, void *rbuf, gpuhier_count_t count, struct ompi_datatype_t *dtype,
                               struct ompi_op_t *op, struct ompi_communicator_t *comm, gpuhier_module_t *module)
{
    gpuhier_count(&gpuhier_counters.calls_saved, 1);
    if (gpuhier_ompi_is_cuda_aware() || !gpuhier_cuda_present()) {
        return module->saved_allreduce(sbuf, rbuf, count, dtype, op, comm, module->saved_allreduce_module);
    }
    ptrdiff_t gap = 0;
    size_t bytes = (size_t) opal_datatype_span(&dtype->super, count, &gap);
    size_t size = 0;
    ompi_datatype_type_size(dtype, &size);
    bool in_place = MPI_IN_PLACE == sbuf;
    bool has_gaps = size * (size_t) count != bytes;

    staged_t send = {0}, recv = {0};
    int rc = stage(&send, sbuf, bytes, gap, true);
    rc = OMPI_SUCCESS != rc ? rc : stage(&recv, rbuf, bytes, gap, in_place || has_gaps);
    if (OMPI_SUCCESS != rc) {
        /* The others are in the collective already, or will be, and would wait for this rank for ever: no error code helps them. */
        opal_show_help("help-coll-gpuhier.txt", "staging failed", true, ompi_process_info.nodename, ompi_comm_rank(comm), bytes,
                       OMPI_ERR_OUT_OF_RESOURCE == rc ? "out of memory" : "the CUDA driver refused the copy");
        ompi_mpi_abort(comm, MPI_ERR_OTHER);
    } else {
        gpuhier_count(&gpuhier_counters.calls_staged, NULL != send.host || NULL != recv.host);
        rc = module->saved_allreduce(NULL != send.host ? send.host - gap : sbuf, NULL != recv.host ? recv.host - gap : rbuf, count,
                                     dtype, op, comm, module->saved_allreduce_module);
    }
    if (OMPI_SUCCESS == rc && NULL != recv.host) {
        rc = copy(&recv, false);
    }
    free(send.host);
    free(recv.host);
    return rc;
}
