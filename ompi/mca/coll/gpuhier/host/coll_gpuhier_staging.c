/*
 * Copyright (c) 2026 the gpuhier authors. All rights reserved.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Owns the copies between device buffers and the host memory that stands for them.
 * Called by fallback, and by nonblocking calls that end in host memory.
 *
 *   up to coll_gpuhier_stage_bytes   one page-locked block holds the message, and stays for later calls: a copy is one
 *                                    transfer, at the full rate of the bus
 *   longer                           pageable memory, which the driver copies by page-locked memory of its own
 *   a type with gaps                 a transfer for each stretch, or for equally spaced ones; gaps are not written, and
 *                                    a packed copy has none
 *
 * All transfers are queued on the legacy default stream, behind the program's earlier work there.
 */
#include "ompi_config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "host/coll_gpuhier_locked.h"
#include "host/coll_gpuhier_staging.h"
#include "ompi/datatype/ompi_datatype.h"
#include "opal/datatype/opal_convertor.h"

/* -- transfers ---------------------------------------------------------------------- */

static CUdeviceptr device_at(const gpuhier_staging_t *s, size_t offset)
{
    return (CUdeviceptr) (uintptr_t) (s->user + s->gap) + offset;
}

/* Copies at once. The copy is complete on return, except for the last part of a copy to the device from pageable
 * memory. */
static int transfer_plain(bool to_host, char *host, CUdeviceptr device, size_t bytes)
{
    return to_host ? GPUHIER_CU(cuMemcpyDtoH, host, device, bytes) : GPUHIER_CU(cuMemcpyHtoD, device, host, bytes);
}

/* Queues a transfer of one stretch, `host` being where it lies in host memory. */
static int transfer(bool to_host, char *host, CUdeviceptr device, size_t bytes)
{
    const CUdeviceptr other = (CUdeviceptr) (uintptr_t) host;
    int rc = GPUHIER_CU(cuMemcpyAsync, to_host ? other : device, to_host ? device : other, bytes, CU_STREAM_LEGACY);
    return OMPI_SUCCESS == rc ? rc : transfer_plain(to_host, host, device, bytes);
}

static int queue_wait(void)
{
    return GPUHIER_CU(cuStreamSynchronize, CU_STREAM_LEGACY);
}

/* Copies the whole buffer at once. The program may read the result on a stream that waits for no other, so this
 * function waits for the last part. */
static int copy_dense(const gpuhier_staging_t *s, bool to_host)
{
    int rc = transfer_plain(to_host, s->host, device_at(s, 0), s->bytes);
    return OMPI_SUCCESS == rc && !to_host && NULL == s->locked ? queue_wait() : rc;
}

/* -- types with gaps ---------------------------------------------------------------- */

/* Stretches of equal length at equal distances. */
typedef struct stretches {
    size_t offset; /* of the first, from the first byte of the type */
    size_t length, distance, count;
    size_t host_offset, host_distance; /* in the host copy */
} stretches_t;

static int stretches_transfer(const gpuhier_staging_t *s, bool to_host, const stretches_t *p)
{
    char *host = s->host + p->host_offset;
    if (p->count < 2) {
        return 0 == p->count ? OMPI_SUCCESS : transfer(to_host, host, device_at(s, p->offset), p->length);
    }
    const CUDA_MEMCPY2D shape = {
        .srcMemoryType = to_host ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST,
        .srcDevice = to_host ? device_at(s, p->offset) : 0,
        .srcHost = to_host ? NULL : host,
        .srcPitch = to_host ? p->distance : p->host_distance,
        .dstMemoryType = to_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
        .dstDevice = to_host ? 0 : device_at(s, p->offset),
        .dstHost = to_host ? host : NULL,
        .dstPitch = to_host ? p->host_distance : p->distance,
        .WidthInBytes = p->length,
        .Height = p->count,
    };
    int rc = GPUHIER_CU(cuMemcpy2DAsync, &shape, CU_STREAM_LEGACY);
    if (OMPI_SUCCESS != rc) {
        rc = OMPI_SUCCESS; /* the stretches may lie in several allocations */
        for (size_t i = 0; i < p->count && OMPI_SUCCESS == rc; ++i) {
            rc = transfer(to_host, host + i * p->host_distance, device_at(s, p->offset + i * p->distance), p->length);
        }
    }
    return rc;
}

#define PITCH_MAX ((size_t) INT32_MAX) /* of cuMemcpy2D, CU_DEVICE_ATTRIBUTE_MAX_PITCH on all GPUs so far */

/* Adds a stretch to those of *p if it continues their pattern. Returns false if it does not. */
static bool stretches_add(stretches_t *p, size_t offset, size_t length)
{
    if (1 == p->count && offset >= p->offset + p->length && offset - p->offset <= PITCH_MAX && length == p->length) {
        p->distance = offset - p->offset;
    }
    if (0 == p->count || length != p->length || 0 == p->distance || offset != p->offset + p->count * p->distance) {
        return false;
    }
    ++p->count;
    return true;
}

/*
 * Open MPI lists the stretches of an element's type. There are two ways to transfer the stretches of `count` elements:
 * run by run, where neighbours at equal distances form a run; or column by column, where a column is one stretch of all
 * elements.
 */
typedef enum walk_mode { WALK_COUNT, WALK_RUNS, WALK_COLUMNS } walk_mode_t;

typedef struct walk {
    const gpuhier_staging_t *staging;
    bool to_host;
    walk_mode_t mode;
    size_t extent;
    stretches_t run;
    size_t nstretches, nruns;
    size_t passed; /* bytes of the stretches so far */
} walk_t;

static int walk_run_end(walk_t *w)
{
    ++w->nruns;
    w->run.host_distance = w->staging->is_packed ? w->run.length : w->run.distance;
    return WALK_RUNS == w->mode ? stretches_transfer(w->staging, w->to_host, &w->run) : OMPI_SUCCESS;
}

static int walk_stretch(walk_t *w, size_t offset, size_t length)
{
    const gpuhier_staging_t *s = w->staging;
    const size_t host_offset = s->is_packed ? w->passed : offset;
    int rc = OMPI_SUCCESS;
    ++w->nstretches;
    w->passed += length;
    if (WALK_COLUMNS == w->mode) {
        const stretches_t column = {offset,   length,      w->extent,
                                    s->count, host_offset, s->is_packed ? s->dtype->super.size : w->extent};
        return stretches_transfer(s, w->to_host, &column);
    }
    if (!stretches_add(&w->run, offset, length)) {
        rc = 0 == w->run.count ? OMPI_SUCCESS : walk_run_end(w);
        w->run = (stretches_t){.offset = offset, .length = length, .count = 1, .host_offset = host_offset};
    }
    return rc;
}

/* Visits the stretches of so many elements. */
static int walk(walk_t *w, size_t elements)
{
    const gpuhier_staging_t *s = w->staging;
    opal_convertor_t convertor;
    int all = 0;
    w->run.count = w->nstretches = w->nruns = w->passed = 0;
    OBJ_CONSTRUCT(&convertor, opal_convertor_t);
    int rc = opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &s->dtype->super, elements, s->user, 0,
                                                      &convertor);
    while (OPAL_SUCCESS == rc && 0 == all) {
        struct iovec iov[64];
        uint32_t n = sizeof(iov) / sizeof(iov[0]);
        size_t length = 0;
        all = opal_convertor_raw(&convertor, iov, &n, &length);
        for (uint32_t i = 0; i < n && OMPI_SUCCESS == rc; ++i) {
            rc = walk_stretch(w, (size_t) ((const char *) iov[i].iov_base - (s->user + s->gap)), iov[i].iov_len);
        }
    }
    OBJ_DESTRUCT(&convertor);
    return OMPI_SUCCESS == rc && w->run.count > 0 ? walk_run_end(w) : rc;
}

static int copy_stretches(const gpuhier_staging_t *s, bool to_host)
{
    walk_t w = {.staging = s, .to_host = to_host, .mode = WALK_COUNT};
    ptrdiff_t lb, extent;
    ompi_datatype_get_extent(s->dtype, &lb, &extent);
    int rc = walk(&w, 1);
    const bool columns =
        s->count > 1 && extent > 0 && (size_t) extent <= PITCH_MAX && (size_t) extent * (s->count - 1) < s->bytes
        && s->bytes - (size_t) extent * (s->count - 1) <= (size_t) extent && w.nstretches <= w.nruns * s->count;
    w.extent = (size_t) extent;
    w.mode = columns ? WALK_COLUMNS : WALK_RUNS;
    rc = OMPI_SUCCESS != rc ? rc : walk(&w, columns ? 1 : s->count);
    int waited = queue_wait();
    return OMPI_SUCCESS != rc ? rc : waited;
}

/* Packs host memory, or unpacks it. */
static int copy_on_host(const gpuhier_staging_t *s, bool to_host)
{
    opal_convertor_t convertor;
    size_t done = 0, length;
    OBJ_CONSTRUCT(&convertor, opal_convertor_t);
    int rc = (to_host ? opal_convertor_copy_and_prepare_for_send : opal_convertor_copy_and_prepare_for_recv)(
        ompi_mpi_local_convertor, &s->dtype->super, s->count, s->user, 0, &convertor);
    for (int all = 0; OPAL_SUCCESS == rc && 0 == all; done += length) {
        uint32_t n = 1;
        struct iovec iov = {s->host + done, s->dtype->super.size * s->count - done};
        length = iov.iov_len;
        all = (to_host ? opal_convertor_pack : opal_convertor_unpack)(&convertor, &iov, &n, &length);
        rc = all < 0 ? OMPI_ERROR : OMPI_SUCCESS;
    }
    OBJ_DESTRUCT(&convertor);
    return rc;
}

/* -- a buffer ----------------------------------------------------------------------- */

void gpuhier_staging_shape(gpuhier_staging_t *s, const void *user, size_t count, struct ompi_datatype_t *dtype)
{
    size_t size = 0;
    memset(s, 0, sizeof(*s));
    s->user = user;
    s->count = count;
    s->dtype = dtype;
    s->bytes = (size_t) opal_datatype_span(&dtype->super, count, &s->gap);
    ompi_datatype_type_size(dtype, &size);
    s->dense =
        ompi_datatype_is_contiguous_memory_layout(dtype, (int32_t) (count < 2 ? count : 2)) && size * count == s->bytes;
}

int gpuhier_staging_open(gpuhier_staging_t *s)
{
    gpuhier_cuda_scope_t scope;
    if (NULL != s->place.context && OMPI_SUCCESS == gpuhier_cuda_enter(s->place.context, &scope)) {
        gpuhier_locked_t *block = gpuhier_locked_take(s->bytes, s->place.context);
        if (NULL != block) {
            s->locked = block;
            s->host = block->memory;
        }
        gpuhier_cuda_leave(&scope);
    }
    if (NULL == s->host) {
        s->host = s->own = malloc(s->bytes);
    }
    return NULL != s->host ? OMPI_SUCCESS : OMPI_ERR_OUT_OF_RESOURCE;
}

int gpuhier_staging_copy(const gpuhier_staging_t *s, bool to_host)
{
    gpuhier_cuda_scope_t scope;
    if (!gpuhier_buffer_on_device(&s->place)) {
        return copy_on_host(s, to_host);
    }
    /* A context that cannot be pushed is most often the current one already. */
    const bool entered = NULL != s->place.context && OMPI_SUCCESS == gpuhier_cuda_enter(s->place.context, &scope);
    int rc = OMPI_ERROR;
    const bool captures = !gpuhier_cuda_is_usable(CU_STREAM_LEGACY)
                          && CUDA_ERROR_STREAM_CAPTURE_IMPLICIT == gpuhier_cuda_last_error(); /* any copy spoils that */
    for (int tries = 0; tries < 2 && OMPI_SUCCESS != rc && !captures; ++tries) {
        rc = s->dense ? copy_dense(s, to_host) : copy_stretches(s, to_host);
    }
    if (entered) {
        gpuhier_cuda_leave(&scope);
    }
    return rc;
}

void gpuhier_staging_close(gpuhier_staging_t *s)
{
    if (NULL != s->locked) {
        gpuhier_locked_give(s->locked);
    }
    free(s->own);
    s->host = NULL;
    s->locked = s->own = NULL;
}
